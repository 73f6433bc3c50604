"""DEV201: which creations in forwards, losses and training steps are reported, which are not, and what the fix does."""

from __future__ import annotations

import pytest
from checking import expect, findings, fixed, safeties

from torchlint.findings import Safety

CODE = "DEV201"

FORWARD = """
import torch
{imports}
from torch import nn


class Layer(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.gate = nn.Linear(width, width)

    def forward(self, x, mask=None):
        {body}
"""


def forward(body: str, imports: str = "") -> str:
    """A Module whose forward has this body, each line at the same depth."""
    return FORWARD.format(imports=imports, body=body.strip("\n").replace("\n", "\n        "))


@pytest.mark.parametrize(
    "imports, made",
    [
        ("", "torch.ones(x.shape[1])"),
        ("import torch as th", "th.ones(x.shape[1])"),
        ("from torch import ones", "ones(x.shape[1])"),
        ("import torch", "torch.ones(size=(x.shape[1],), dtype=torch.float32)"),
        ("", "torch.arange(x.size(1)).float().unsqueeze(0)"),
        ("", "torch.tensor([1.0, 2.0])"),
        ("import numpy as np", "torch.from_numpy(np.ones(3))"),
        ("", "torch.FloatTensor(3).fill_(1)"),
        ("", "-torch.eye(3) * 2 + 1"),
        ("", "torch.stack([torch.zeros(3), torch.ones(3)])"),
        ("from torch.autograd import Variable", "Variable(torch.zeros(3))"),
    ],
)
def test_a_tensor_that_meets_the_input_is_reported(imports: str, made: str) -> None:
    assert findings(forward(f"keep = {made}\nreturn self.gate(x) + x * keep", imports), CODE)


@pytest.mark.parametrize(
    "meeting",
    [
        "return torch.cat([x.float(), keep], dim=1)",
        "return torch.cat((keep, x.float()), 1)",
        "return torch.where(x > 0, x, keep)",
        "return x.float().masked_fill(keep > 0, 0.0)",
        "return nn.functional.conv1d(x.float(), keep)",
        "return self.gate(keep)",
        "x = x.float()\nx += keep\nreturn x",
        "return x.float().index_select(0, keep)",
        "return keep[x.long()] if x.dim() else torch.gather(x.float(), 0, keep)",
        "y = x.float()\nreturn y @ keep",
        "return nn.functional.embedding(x.long(), keep)",
        "return torch.einsum('bi,i->b', x.float(), keep)",
        "return torch.add(x.float(), other=keep)",
        "return [x.float() * k for k in [keep]][0]",
        "return (y := x.float()) * keep",
        "def inner(a):\n    return a.float() * keep\nreturn inner(x)",
    ],
)
def test_whatever_joins_them(meeting: str) -> None:
    assert findings(forward(f"keep = torch.ones(3)\n{meeting}"), CODE)


def test_only_the_branch_for_a_missing_argument_makes_it() -> None:
    expect(
        forward(
            """
if mask is None:
    mask = torch.ones(x.shape[1])  # <-
return self.gate(x) + x * mask"""
        ),
        CODE,
    )
    expect(
        forward(
            """
if mask is not None:
    pass
else:
    mask = torch.ones(x.shape[1])  # <-
return self.gate(x) + x * mask"""
        ),
        CODE,
    )
    expect(
        forward(
            """
mask = torch.ones(x.shape[1]) if mask is None else mask  # <-
return self.gate(x) + x * mask"""
        ),
        CODE,
    )


def test_each_of_several_creations_is_reported() -> None:
    expect(
        """
        import torch
        from torch import nn
        class Rnn(nn.Module):
            def __init__(self):
                super().__init__()
                self.lstm = nn.LSTM(3, 3)
            def forward(self, x):
                h = torch.zeros(1, x.size(0), 3)  # <-
                c = torch.zeros(1, x.size(0), 3)  # <-
                out, (h, c) = self.lstm(x, (h.detach(), c.detach()))
                return out
        """,
        CODE,
    )


def test_a_helper_that_knows_the_device_is_the_place_to_mend() -> None:
    expect(
        """
        import torch
        from torch import nn
        class Net(nn.Module):
            def grid(self, size, device=None):
                return torch.arange(size)  # <-
            def forward(self, x):
                return x.float() + self.grid(3, x.device)
        """,
        CODE,
    )


def test_a_training_loop_is_hot() -> None:
    expect(
        """
        import torch
        def train(model, loader, optimizer, device):
            model.to(device)
            for x, y in loader:
                x, y = x.to(device), y.to(device)
                noise = torch.zeros(8, 3)  # <-
                loss = (model(x + noise) - y).pow(2).mean()
                loss.backward()
                optimizer.step()
        """,
        CODE,
    )


def test_a_hook_of_lightning_is_hot() -> None:
    expect(
        """
        import torch
        import lightning as L
        from torch import nn
        class Model(L.LightningModule):
            def __init__(self):
                super().__init__()
                self.net = nn.Linear(3, 3)
            def training_step(self, batch, index):
                x, y = batch
                weight = torch.tensor([1.0, 2.0, 3.0])  # <-
                return nn.functional.cross_entropy(self.net(x), y, weight=weight)
        """,
        CODE,
    )


def test_a_base_class_that_is_not_seen_is_a_module_by_its_forward() -> None:
    expect(
        """
        import torch
        from .kernels import Kernel
        class Rbf(Kernel):
            def forward(self, x1, x2):
                scale = torch.ones(3)  # <-
                return x1.unsqueeze(-1) * scale - x2.unsqueeze(-1)
        """,
        CODE,
    )


@pytest.mark.parametrize(
    "body",
    [
        "keep = torch.ones(3, device=x.device)\nreturn self.gate(x) * keep",
        "keep = torch.ones(3).to(x.device)\nreturn self.gate(x) * keep",
        "keep = torch.ones(3).type_as(x)\nreturn self.gate(x) * keep",
        "keep = x.new_ones(3)\nreturn self.gate(x) * keep",
        "keep = torch.ones_like(x)\nreturn self.gate(x) * keep",
        "kwargs = {'device': x.device}\nkeep = torch.ones(3, **kwargs)\nreturn self.gate(x) * keep",
        "keep = torch.tensor([1.0], device=self.gate.weight.device)\nreturn self.gate(x) * keep",
        "with torch.device(x.device):\n    keep = torch.ones(3)\nreturn self.gate(x) * keep",
    ],
)
def test_a_tensor_that_is_put_beside_the_input_is_silent(body: str) -> None:
    expect(forward(body), CODE)


@pytest.mark.parametrize(
    "body",
    [
        "return self.gate(x) * torch.tensor(2.0)",
        "gamma = torch.tensor(2.0)\nreturn (1 - self.gate(x)) ** gamma",
        "return torch.where(x > 0, self.gate(x), torch.tensor(0.0))",
        "table = torch.linspace(0, 1, 10)\nreturn self.gate(x) * table[3]",
        "return self.gate(x) * torch.ones(3).mean()",
    ],
)
def test_a_scalar_on_the_cpu_joins_any_other(body: str) -> None:
    expect(forward(body), CODE)


@pytest.mark.parametrize(
    "body",
    [
        "order = torch.randperm(x.shape[0])\nreturn self.gate(x)[order]",
        "sizes = torch.tensor([1, 2])\nreturn self.gate(x).view(sizes.tolist())",
        "steps = torch.arange(3)\nfor i in steps:\n    x = self.gate(x) * int(i)\nreturn x",
    ],
)
def test_what_the_host_reads_itself_is_silent(body: str) -> None:
    expect(forward(body), CODE)


def test_an_index_from_the_host_is_allowed_and_one_into_the_host_is_not() -> None:
    expect(forward("rows = torch.arange(3)\nreturn self.gate(x)[rows]"), CODE)
    assert findings(forward("table = torch.arange(3)\nreturn self.gate(x), table[x.long()]"), CODE)


def test_in_place_into_a_scalar_on_the_cpu_is_reported() -> None:
    expect(
        forward(
            """
total = torch.tensor(0.0)  # <-
for _ in range(3):
    total += self.gate(x).mean()
return total"""
        ),
        CODE,
    )


def test_a_branch_that_moves_both_is_silent() -> None:
    expect(
        forward(
            """
if mask is None:
    x = self.gate(x).cpu()
    mask = torch.ones(3)
return x * mask"""
        ),
        CODE,
    )


def test_a_flag_that_moves_it_is_silent() -> None:
    expect(
        """
        import torch
        from torch import nn
        class Net(nn.Module):
            def __init__(self, use_cuda):
                super().__init__()
                self.use_cuda = use_cuda
            def forward(self, x):
                h = torch.zeros(3, 3)
                if self.use_cuda:
                    h = h.cuda()
                return x.float() @ h
        """,
        CODE,
    )


def test_data_code_and_tests_are_silent() -> None:
    body = """
        import torch
        from torch.utils.data import Dataset
        class Pairs(Dataset):
            def __getitem__(self, index):
                x = self.rows[index].float().unsqueeze(0)
                return x * torch.ones(3)
        def collate(batch):
            x = torch.stack([b[0] for b in batch])
            return x * torch.ones(3)
        """
    expect(body, CODE)
    assert not findings(forward("return x.float() * torch.ones(3)"), CODE, path="tests/test_layer.py")


def test_a_program_that_never_speaks_of_devices_is_silent() -> None:
    expect(
        """
        import torch
        from torch import nn
        class Net(nn.Module):
            def forward(self, x):
                return x.float() * torch.ones(3)
        net = Net()
        for x in range(3):
            loss = net(torch.randn(3)).sum()
            loss.backward()
        """,
        CODE,
    )


def test_the_constructor_is_on_the_host() -> None:
    expect(
        """
        import torch
        from torch import nn
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.net = nn.Linear(3, 3)
                self.width = self.probe()
            def probe(self):
                return self.net(torch.zeros(1, 3)).shape[1]
            def forward(self, x):
                return self.net(x)
        """,
        CODE,
    )


def test_the_fix_follows_what_the_tensor_meets() -> None:
    code = forward("keep = torch.ones(3)\nreturn self.gate(x) + x * keep")
    assert "torch.ones(3, device=x.device)" in fixed(code, CODE)
    assert safeties(code, CODE) == [Safety.SAFE]
    random = forward("keep = torch.randn(3)\nreturn self.gate(x) + x * keep")
    assert safeties(random, CODE) == [Safety.UNSAFE]


def test_a_finding_names_where_the_tensors_meet() -> None:
    (finding,) = findings(forward("keep = torch.ones(3)\nreturn x.float() * keep"), CODE)
    assert {r.role for r in finding.related} >= {"context", "origin"}
    assert "`x.float()`" in finding.message


def test_a_parameter_registered_over_a_flag_of_the_same_name() -> None:
    code = """
        import torch
        from torch import nn
        from torch.nn import functional as F

        class Lora(nn.Module):
            def __init__(self, weight: nn.Parameter, bias):
                super().__init__()
                self.weight = weight
                self.bias = bias
                if bias is True:
                    self.bias = nn.Parameter(torch.zeros(weight.shape[0]))

            def forward(self, x: torch.Tensor):
                return F.linear(x, self.weight, bias=self.bias)
    """
    assert not findings(code, CODE)


def test_lengths_that_are_packed_elsewhere_are_on_the_cpu() -> None:
    code = """
        import torch
        from torch import nn
        from torch.nn.utils.rnn import pack_padded_sequence

        class Encoder(nn.Module):
            def forward(self, x: torch.Tensor, lengths: torch.Tensor):
                return pack_padded_sequence(x, {packed}, batch_first=True)

        class Pool(nn.Module):
            def forward(self, x: torch.Tensor, lengths: torch.Tensor):
                mask = torch.arange(x.shape[1])[None, :] < lengths[:, None]
                return x.masked_fill(~mask, 0.0)
    """
    assert not findings(code.format(packed="lengths"), CODE)
    assert not findings(code.format(packed="lengths=lengths"), CODE)
    assert findings(code.format(packed="lengths.cpu()"), CODE)
