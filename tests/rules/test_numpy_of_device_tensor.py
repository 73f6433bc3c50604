"""DEV106: which tensors NumPy can't have, and how they get there."""

from __future__ import annotations

import pytest
from checking import expect, findings, fixed

CODE = "DEV106"


@pytest.mark.parametrize(
    "asking", ["y.numpy()", "np.array(y)", "np.mean(y)", "y[0].numpy()", "y.float().numpy()", "y.detach().numpy()"]
)
def test_a_tensor_that_was_moved_is_reported(asking: str) -> None:
    expect(
        f"""
        import numpy as np, torch
        def show(y: torch.Tensor, device):
            y = y.to(device)
            return {asking}  # <-
        """,
        CODE,
    )


@pytest.mark.parametrize(
    "asking",
    ["y.cpu().numpy()", "np.array(y.cpu())", "y.numpy(force=True)", "y.to('cpu').numpy()", "np.array(y.tolist())", "np.array(y.shape)"],
)
def test_what_comes_back_first_is_silent(asking: str) -> None:
    expect(
        f"""
        import numpy as np, torch
        def show(y: torch.Tensor, device):
            y = y.to(device)
            return {asking}
        """,
        CODE,
    )


def test_own_parameters_are_wherever_the_module_is() -> None:
    expect(
        """
        import torch
        from torch import nn
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.w = nn.Parameter(torch.zeros(3))
            def vector(self):
                return self.w.detach().numpy()  # <-
            def parameters_to_vector(self):
                return nn.utils.parameters_to_vector(self.parameters()).detach().numpy()  # <-
        """,
        CODE,
    )


@pytest.mark.parametrize("guard", ["y.is_cuda", "use_cuda", "torch.cuda.is_available()", "y.device.type != 'cpu'"])
def test_a_copy_under_a_device_test_is_silent(guard: str) -> None:
    expect(
        f"""
        import torch
        def show(y: torch.Tensor, use_cuda):
            if use_cuda:
                y = y.cuda()
            if {guard}:
                y = y.cpu()
            return y.numpy()
        """,
        CODE,
    )


def test_what_the_caller_has_is_only_possible() -> None:
    assert not findings("import torch\ndef f(x: torch.Tensor):\n    return x.numpy()\n", CODE)


def test_the_fix_copies_first() -> None:
    code = "import torch\ndef f(x: torch.Tensor, device):\n    x = x.to(device)\n    return x.mean(0).numpy()\n"
    assert "x.mean(0).cpu().numpy()" in fixed(code, CODE)


@pytest.mark.parametrize(
    "computing",
    [
        "y = nn.Tanh()(x)",
        "y = nn.MaxPool1d(2)(x)",
        "with torch.no_grad():\n    y = net(x)",
        "with torch.no_grad():\n    y = shown(net, x)",
        "y = []\nwith torch.no_grad():\n    y.append(net(x))\ny = torch.stack(y).mean(0)",
    ],
)
def test_what_hangs_on_no_graph_is_silent(computing: str) -> None:
    expect(
        f"""
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(3, 3)

    def forward(self, x):
        return self.fc(x)

def shown(net, x):
    return net(x)

net, x = Net(), torch.ones(3)
{computing}
print(y.numpy())
""",
        CODE,
    )


@pytest.mark.parametrize("computing", ["nn.Linear(3, 3)(x)", "nn.Tanh()(nn.Linear(3, 3)(x))"])
def test_what_a_module_with_parameters_computes_hangs_on_one(computing: str) -> None:
    expect(
        f"""
import torch
from torch import nn

x = torch.ones(3)
y = {computing}
print(y.numpy())  # <-
""",
        CODE,
    )


def test_where_a_constructor_was_told_to_put_something_others_do_not_know() -> None:
    expect(
        """
        import torch
        class Table:
            def __init__(self, n, device=None):
                self.colors = torch.ones(n, device=device)
            def shown(self):
                return self.colors.numpy()  # <-
        def show(x: torch.Tensor):
            return (x.cpu() + Table(3).colors).numpy()
        """,
        CODE,
    )


def test_numpy_squeezes_a_tensor_by_its_own_method() -> None:
    code = """
        import numpy as np
        import torch
        def count(scores: torch.Tensor, target):
            scores = scores.cuda()
            return np.sum(np.squeeze(scores.eq(1)).cpu().numpy())
        """
    assert not findings(code, CODE)


@pytest.mark.parametrize("other, expected", [("torch.ones(3)", []), ("torch.ones(3, device=device)", [CODE])])
def test_what_comes_of_an_operation_that_raises_is_nowhere(other: str, expected: list[str]) -> None:
    code = f"""
        import torch
        def gather(rows, device):
            kept = []
            for row in rows:
                kept.append(torch.cat([{other}, torch.zeros(3, device=device)]))
            return torch.stack(kept).numpy()
        """
    assert [f.code for f in findings(code, CODE)] == expected
    assert bool(findings(code, "DEV102")) is not bool(expected)
