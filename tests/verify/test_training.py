"""Whole training loops: under the simulator they give the losses of the CPU, bit for bit."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from torchlint.verify.simdevice import SimDevice


class Vision(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2), nn.Dropout(0.1)
        )
        self.head = nn.Linear(36, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.body(x).flatten(1))


class Language(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(20, 8, padding_idx=0)
        self.rnn = nn.LSTM(8, 8, batch_first=True)
        self.attention = nn.MultiheadAttention(8, 2, batch_first=True)
        self.norm = nn.LayerNorm(8)
        self.head = nn.Linear(8, 3)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.rnn(self.embed(tokens))[0]
        x = self.norm(x + self.attention(x, x, x, need_weights=False)[0])
        return self.head(x.mean(1))


def batches(model: nn.Module) -> Iterator[Any]:
    if isinstance(model, Vision):
        inputs = torch.randn(12, 1, 8, 8)
    else:
        inputs = torch.randint(0, 20, (12, 6))
    data = torch.utils.data.TensorDataset(inputs, torch.randint(0, 3, (12,)))
    yield from torch.utils.data.DataLoader(data, batch_size=4, shuffle=True, num_workers=0)


def train(kind: type[nn.Module], device: str, optimizer: str, scaled: bool, **options: Any) -> list[float]:
    torch.manual_seed(3)
    model = kind().to(device)
    stepper = getattr(torch.optim, optimizer)(model.parameters(), lr=0.02, **options)
    scaler = torch.amp.GradScaler(device, enabled=scaled, init_scale=1024.0)
    schedule = torch.optim.lr_scheduler.StepLR(stepper, 2, gamma=0.5)
    losses = []
    for _ in range(2):
        for x, y in batches(model):
            x, y = x.to(device, non_blocking=True), y.to(device)
            stepper.zero_grad()
            loss = F.cross_entropy(model(x), y)
            scaler.scale(loss).backward()
            scaler.unscale_(stepper)
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            scaler.step(stepper)
            scaler.update()
            losses.append(loss.item())
        schedule.step()
    assert {p.device.type for p in model.parameters()} == {device}
    assert {p.grad.device.type for p in model.parameters() if p.grad is not None} == {device}
    return losses


@pytest.mark.parametrize("device", ["cuda", "xpu", "mps"])
@pytest.mark.parametrize("kind", [Vision, Language])
def test_losses_are_the_cpus(kind: type[nn.Module], device: str) -> None:
    scaled = device == "cuda"
    expected = train(kind, "cpu", "Adam", scaled)
    with SimDevice(device):
        found = train(kind, device, "Adam", scaled)
    assert found == expected
    assert len(set(found)) > 4


@pytest.mark.parametrize("optimizer, options", [("SGD", {"momentum": 0.9}), ("AdamW", {}), ("RMSprop", {})])
def test_with_other_optimizers(optimizer: str, options: dict[str, Any]) -> None:
    expected = train(Vision, "cpu", optimizer, True, **options)
    with SimDevice("cuda"):
        assert train(Vision, "cuda", optimizer, True, **options) == expected


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_autocast_trains_and_casts_as_on_cuda(dtype: torch.dtype) -> None:
    with SimDevice("cuda"), warnings.catch_warnings():
        warnings.simplefilter("error")
        torch.manual_seed(0)
        model = nn.Sequential(nn.Conv1d(1, 2, 1), nn.Flatten(), nn.Linear(8, 4)).to("cuda")
        rnn = nn.LSTM(4, 3).to("cuda")
        optimizer = torch.optim.Adam([*model.parameters(), *rnn.parameters()], lr=0.01)
        scaler = torch.amp.GradScaler("cuda", init_scale=256.0)
        losses = []
        for _ in range(8):
            with torch.autocast("cuda", dtype=dtype):
                hidden = model(torch.ones(5, 1, 4, device="cuda"))
                out = rnn(hidden[None])[0]
                loss = out.pow(2).mean()
                assert (hidden.dtype, out.dtype, loss.dtype) == (dtype, dtype, torch.float32)
                assert out.softmax(-1).dtype == torch.float32
                assert (hidden @ hidden.T).dtype == dtype
                assert hidden.device.type == loss.device.type == "cuda"
            optimizer.zero_grad()
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
            losses.append(loss.item())
        assert losses[-1] < losses[0]
        assert all(p.grad.dtype == torch.float32 for p in model.parameters())
