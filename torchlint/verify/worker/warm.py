"""Brings into memory what ordinary training imports late, so that replays need not and guard rails need not let."""

from __future__ import annotations

import contextlib
import importlib
import io
import warnings
from typing import Any

import torch

_LATE = (
    "torch.distributions torch.func torch.utils.checkpoint torch.utils.data torch.optim.lr_scheduler "
    "torch.optim.swa_utils torch.nn.utils.parametrizations torch.nn.utils.rnn torch.amp torch.cuda.amp "
    "torch.profiler "
    "torch.serialization torch.jit argparse logging collections copy csv dataclasses datetime enum "
    "fractions functools "
    "glob gzip inspect itertools json linecache math operator os pathlib pickle random re shutil string "
    "tempfile time "
    "traceback typing unittest zipfile"
)


def load() -> None:
    """Import torch and what training code reaches for; touches no device."""
    torch.set_num_threads(1)
    for name in (*_LATE.split(), "numpy"):
        with contextlib.suppress(ImportError):
            importlib.import_module(name)


def backward() -> bool:
    """Run the autograd engine once. True, unless this process was forked from one that ran it beside a device."""
    try:
        loss: Any = torch.ones(1, requires_grad=True) * 2
        loss.backward()
    except RuntimeError:
        return False
    return True


def train(with_backward: bool = True) -> None:
    """Run a few steps: the first step of an optimizer alone imports hundreds of modules.

    with_backward: False in a process that is to be forked and can't be once it has run the autograd engine.
    """
    from torch import nn

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = nn.Sequential(nn.Conv1d(1, 2, 1), nn.Flatten(), nn.Linear(4, 2))
        optimizer = torch.optim.AdamW(model.parameters())
        schedule = torch.optim.lr_scheduler.StepLR(optimizer, 1)
        for x in torch.utils.data.DataLoader([torch.ones(1, 2)]):  # type: ignore[arg-type]
            with torch.autocast("cpu", dtype=torch.bfloat16):
                loss: Any = nn.functional.cross_entropy(model(x), torch.zeros(1, dtype=torch.long))
            if with_backward:
                loss.backward()
            for parameter in model.parameters():
                parameter.grad = torch.ones_like(parameter)
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            schedule.step()
        nn.LSTM(2, 2)(torch.ones(1, 1, 2))
        torch.linalg.svd(torch.eye(2))
        saved = io.BytesIO()
        torch.save(model.state_dict(), saved)
        saved.seek(0)
        torch.load(saved)
        str(torch.ones(1))


def rehearse(with_backward: bool = True) -> None:
    """Run a replay without guard rails: what is looked up once and for all is looked up before the forks."""
    from .replay import Replay

    # Without gradients, what steps through the scaler would complain.
    source = _REHEARSAL if with_backward else _REHEARSAL.replace("scaler.scale(loss).backward()", "break")
    for kind in ("cuda", "none"):
        Replay({"source": source, "device": {"kind": kind}, "precision": True}).run()


_REHEARSAL = """
import torch
from torch import nn
device = "cuda" if torch.cuda.is_available() else "cpu"

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.seen = nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.ReLU(), nn.MaxPool2d(2), nn.Dropout(0.1))
        self.embed, self.rnn = nn.Embedding(4, 4), nn.LSTM(4, 4)
        self.attention, self.norm = nn.MultiheadAttention(4, 2), nn.LayerNorm(4)
        self.head = nn.Sequential(nn.Linear(4, 4), nn.GELU(), nn.Linear(4, 3))

    def forward(self, x):
        seen = self.seen(x).flatten(1).mean(1)
        read = self.rnn(self.embed(x[:, 0, 0].long().clamp(0, 3)))[0]
        read = self.norm(self.attention(read, read, read)[0] + read)
        return self.head(read.mean(1)) + seen[:, None]

model = Net().to(device)
data = torch.utils.data.TensorDataset(torch.rand(8, 1, 6, 6), torch.randint(0, 3, (8,)))
loader = torch.utils.data.DataLoader(data, batch_size=4, shuffle=True, pin_memory=device == "cuda")
scaler = torch.amp.GradScaler(device)
for kind in (torch.optim.SGD, torch.optim.Adam):
    optimizer = kind(model.parameters(), lr=0.1)
    for x, y in loader:
        x, y = x.to(device), y.to(device, non_blocking=True)
        optimizer.zero_grad()
        with torch.autocast(device, dtype=torch.bfloat16, enabled=kind is torch.optim.Adam):
            loss = nn.functional.cross_entropy(model(x), y)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        print(loss.item(), (model(x).argmax(1) == y).float().mean())
"""
