"""DEV303: waits that no word speaks of."""

from __future__ import annotations

import pytest
from checking import expect, reported_lines
from steps import IMPORTS, step, texts

from torchlint.findings import Confidence

CODE = "DEV303"


@pytest.mark.parametrize(
    "line",
    [
        "if loss > 10: raise ValueError",
        "if torch.isnan(loss): raise ValueError",
        "if not torch.isfinite(loss).all(): raise ValueError",
        "if loss.isnan().any() and step > 0: raise ValueError",
        "assert torch.isfinite(loss), 'no number'",
        "print(f'loss {loss:.4f}')",
        "print('loss', loss)",
        "print('loss %.3f' % loss)",
        "print('step %d loss %.3f' % (step, loss))",
        "print('loss {:.3f}'.format(loss))",
        "bar.set_postfix(loss=loss)",
        "writer.add_scalar('loss', loss, step)",
        "hits = F.relu(output)[F.relu(output) > 0]",
        "where = torch.nonzero(y)",
        "spread = output.repeat_interleave(F.relu(y))",
        "scale = scaler.get_scale()",
        "best = max(best, loss)",
    ],
)
def test_a_hidden_wait_in_every_step_is_reported(line: str) -> None:
    assert texts(step(line), CODE) == [line]


@pytest.mark.parametrize(
    "line",
    [
        "if mask is not None: x = x * mask",
        "if y.size(0) > 3 or len(x) == 2: x = x[1:]",
        "if x.dim() == 3: x = x[0]",
        "if x.requires_grad: x = x.detach()",
        "spread = output.repeat_interleave(3, dim=0)",
        "spread = torch.repeat_interleave(output, y, output_size=12)",
        "part = output.narrow(0, 1, 2)",
        "parts = output.tensor_split(4)",
        "print(f'shape {output.shape} {output.device} {step}')",
        "if step % 10 == 0: print(f'loss {loss}')",
        "rows = output[torch.arange(3)]",
        "hits = torch.where(y > 0, output, 0.0)",
        "if torch.rand(1) < 0.5: x = x.flip(0)",
        "print(losses)",
    ],
)
def test_no_wait_is_silent(line: str) -> None:
    assert texts(step(line), CODE) == []


def test_the_truth_of_a_mask_in_forward_is_reported() -> None:
    code = IMPORTS + (
        "class M(nn.Module):\n"
        "    def forward(self, x, mask):\n"
        "        if mask.any():\n"
        "            x = x.masked_fill(mask, 0.0)\n"
        "        return x\n"
    )
    assert texts(code, CODE) == ["if mask.any():"]


def test_what_runs_in_inference_alone_is_silent() -> None:
    code = IMPORTS + (
        "class M(nn.Module):\n"
        "    def forward(self, x, mask):\n"
        "        if not self.training:\n"
        "            if mask.any():\n"
        "                x = x.masked_fill(mask, 0.0)\n"
        "        return x\n"
    )
    assert texts(code, CODE) == []


def test_a_size_that_depends_on_values_is_only_possible_in_forward() -> None:
    code = IMPORTS + (
        "class M(nn.Module):\n    def forward(self, x: torch.Tensor):\n        return torch.nonzero(x)\n"
    )
    assert texts(code, CODE) == []
    assert texts(code, CODE, sure=Confidence.POSSIBLE) == ["return torch.nonzero(x)"]


def test_an_optimizer_step_that_gives_a_tensor_for_a_number_is_reported() -> None:
    code = IMPORTS + (
        "class Sgd(torch.optim.Optimizer):\n"
        "    @torch.no_grad()\n"
        "    def step(self):\n"
        "        for group in self.param_groups:\n"
        "            for p in group['params']:\n"
        "                share = torch.dot(p.view(-1), p.grad.view(-1))\n"
        "                p.add_(p.grad, alpha=share)\n"
    )
    assert texts(code, CODE) == ["p.add_(p.grad, alpha=share)"]


def test_a_slice_of_a_host_tensor_that_gets_device_values_is_reported() -> None:
    assert texts(step("kept[step] = loss", before="kept = torch.zeros(9)"), CODE) == ["kept[step] = loss"]


def test_a_number_that_was_read_does_not_wait_again() -> None:
    assert texts(step("value = loss.item()\nif value > 3:\n    print(f'{value}')"), CODE) == []


@pytest.mark.parametrize(
    "line",
    [
        "if output != None: pass",
        "if torch.rand(1) > args.dropout: output = output * 0",
        "if isinstance(p, float) and p != 1: output = output ** p",
        "if not isinstance(p, (int, float)) or p != 1: output = output ** 2",
        "inverse = torch.linalg.inv(output)",
    ],
)
def test_what_is_not_known_to_be_read_off_a_device_is_silent(line: str) -> None:
    before = "p = torch.ones(3, device=device) if args.power else 2"
    assert texts(step(line, before=before), CODE) == []


def test_where_training_is_false_it_is_inference() -> None:
    code = IMPORTS + (
        "class M(nn.Module):\n"
        "    def forward(self, x: torch.Tensor):\n"
        "        if self.training is False and x.sum() > 1:\n"
        "            return x * 2\n"
        "        return x\n"
    )
    assert texts(code, CODE) == []


def test_another_library_has_items_too() -> None:
    code = (
        "from mxnet import autograd\n"
        "def train(net, loader, trainer, loss):\n"
        "    for x in loader:\n"
        "        with autograd.record():\n"
        "            value = loss(net(x)).mean()\n"
        "        value.backward()\n"
        "        trainer.step(1)\n"
        "        print(float(value.sum()), value.item())\n"
    )
    assert texts(code, CODE, "DEV301") == []


def test_a_number_either_way_is_read_once() -> None:
    body = "norm = norm.detach().item() if isinstance(norm, torch.Tensor) else norm\nprint(f'{norm}')"
    assert texts(step("norm = clip(model)\n" + body), CODE) == []


def test_a_wait_that_the_same_statement_asks_for_is_not_told_twice() -> None:
    body = "first = (F.relu(output) > 0).nonzero()[0].item()"
    assert texts(step(body), "DEV301", CODE) == [body]
    assert texts(step("first = (F.relu(output) > 0).nonzero()"), "DEV301", CODE) == [
        "first = (F.relu(output) > 0).nonzero()"
    ]


@pytest.mark.parametrize(
    "use",
    [
        "math.exp(loss)",
        "[0 for _ in range(y.max())]",
        "torch.arange(y.max(), device=x.device)",
        "torch.zeros(y.max() + 1, device=x.device)",
    ],
)
def test_a_tensor_where_a_number_is_taken_waits_in_a_step(use: str) -> None:
    expect(
        f"""
        import math
        import torch
        def train(model, loader, criterion, optimizer, device):
            for x, y in loader:
                x, y = x.to(device), y.to(device)
                loss = criterion(model(x), y)
                loss.backward()
                optimizer.step()
                seen = {use}  # <-
        """,
        CODE,
    )


def test_a_while_of_a_tensor_waits_in_every_step() -> None:
    expect(
        """
        import torch
        def train(model, loader, optimizer, device):
            for x in loader:
                loss = model(x.to(device)).mean()
                loss.backward()
                optimizer.step()
                while loss > 5:  # <-
                    loss = loss / 2
        """,
        CODE,
    )


@pytest.mark.parametrize(("decorator", "reported"), [("@torch.no_grad()", False), ("@torch.inference_mode()", False), ("", True)])
def test_a_forward_without_gradients_is_no_part_of_a_training_step(decorator: str, reported: bool) -> None:
    code = f"""
import torch
from torch import nn

class Net(nn.Module):
    {decorator}
    def forward(self, x: torch.Tensor):
        if x.isnan().any():
            x = x.nan_to_num()
        return x
"""
    assert bool(texts(code, CODE)) is reported


def test_the_dtype_of_anything_is_no_tensor() -> None:
    code = """
import torch
from torch import nn
from layers import Conv

class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = Conv(3, 3)

    def forward(self, x):
        dtype = torch.float32
        x = self.conv(x.to(dtype=dtype))
        assert x.dtype == dtype
        return x
"""
    assert texts(code, CODE) == []


def test_a_script_that_converts_checkpoints_trains_nothing() -> None:
    code = """
        import torch
        from torch import nn
        class Decoder(nn.Module):
            def forward(self, x: torch.Tensor):
                print(x.abs().sum())
                return x
        """
    assert reported_lines(code, "DEV303", path="decoder.py")
    assert not reported_lines(code, "DEV303", path="scripts/convert_decoder.py")


_PENALTY = """
class Penalty(nn.Module):
    def __init__(self):
        super().__init__()
        self.steps = nn.Parameter(torch.tensor(0.0), requires_grad=False)

    def forward(self, w):
        norm = w.norm()
        if self.steps > 0:
            norm = norm * 2
        return norm


def train(model, loader, optimizer, device):
    penalty = Penalty().to(device)
    for i, x in enumerate(loader):
        loss = model(x.to(device)).mean()
        {call}
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
"""


def test_a_forward_that_the_file_calls_now_and_then_is_no_part_of_every_step() -> None:
    often = IMPORTS + _PENALTY.format(call="loss = loss + penalty(x)")
    assert texts(often, CODE) == ["if self.steps > 0:"]
    seldom = IMPORTS + _PENALTY.format(call="if (i + 1) % 16 == 0:\n            loss = loss + penalty(x)")
    assert texts(seldom, CODE) == []


def test_how_often_a_forward_runs_is_for_who_calls_it() -> None:
    often = IMPORTS + _PENALTY.format(call="loss = loss + penalty(x)")
    assert texts(often, CODE, sure=Confidence.CERTAIN) == []


@pytest.mark.parametrize(
    ("default", "test", "reported"),
    [
        ("=None", "valid is None", False),
        ("=None", "valid is None and x is not None", False),
        ("=None", "valid is not None", True),
        ("", "valid is None", True),
        ("=None", "self.valid is None", True),
    ],
)
def test_what_stands_in_for_an_argument_runs_only_where_it_is_left_out(
    default: str, test: str, reported: bool
) -> None:
    code = IMPORTS + (
        "class Pool(nn.Module):\n"
        f"    def training_step(self, x: torch.Tensor, valid{default}):\n"
        f"        if {test}:\n"
        "            bad = (x == -1).all(dim=-1)\n"
        "            if bad.any():\n"
        "                x = x.masked_fill(bad, 0)\n"
        "        return x\n"
    )
    assert texts(code, CODE) == (["if bad.any():"] if reported else [])
    assert texts(code, CODE, sure=Confidence.POSSIBLE) == ["if bad.any():"]
