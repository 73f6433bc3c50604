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


def test_an_attribute_is_where_its_method_leaves_it() -> None:
    code = """
        import numpy as np
        import torch
        class Schedule:
            def __init__(self):
                self.sigmas = torch.zeros(10)
            def coefficient(self, step):
                return np.asarray(self.sigmas[step]){0}
            def set_timesteps(self, count, device):
                self.sigmas = torch.linspace(0, 1, count).to(device){1}
        """
    expect(code.format("", "\n                self.sigmas = self.sigmas.to('cpu')"), "DEV106")
    expect(code.format("  # <-", ""), "DEV106")


def test_scipy_integrates_over_any_number() -> None:
    expect(
        """
        import torch
        from scipy import integrate
        def area(function, device):
            bounds = torch.linspace(0, 1, 3).to(device)
            return integrate.quad(function, bounds[0], bounds[1])[0]
        """,
        "DEV106",
    )


def test_a_buffer_that_a_method_sets_from_its_argument_is_where_that_is() -> None:
    expect(
        """
        import torch
        from torch import nn
        class Packed(nn.Module):
            def __init__(self):
                super().__init__()
                self.register_buffer("scales", torch.zeros(2, 2))
            def pack(self, weight: torch.Tensor, scales: torch.Tensor):
                self.scales = scales.t().contiguous()
                return (weight / self.scales).to(torch.int).numpy()
        """,
        "DEV106",
    )


def test_prediction_lists_are_not_for_numpy() -> None:
    code = """
        import numpy as np
        import torch
        def predict(model, loader, device):
            model.eval()
            kept = []
            for x, _ in loader:
                kept.append(model(x.to(device)){copied})
            return np.concatenate(kept)  # <-
        """
    expect(code.format(copied=""), "DEV106")
    assert not findings(code.format(copied=".cpu().numpy()"), "DEV106")
    assert not findings(code.format(copied=".cpu()"), "DEV106")


def test_a_list_of_tensors_has_no_fix_for_numpy() -> None:
    code = """
        import numpy as np
        def join(model, x, device):
            model.to(device).eval()
            return np.array([model(x.to(device))])
        """
    assert [f.fix for f in findings(code, "DEV106")] == [None]


def test_a_gradient_s_norm_is_where_the_training_is() -> None:
    expect(
        """
        import numpy as np
        import torch
        def check(model, limit):
            norm = torch.nn.utils.clip_grad_norm_(model.parameters(), limit)
            return np.isinf(norm)  # <-
        """,
        "DEV106",
    )


def test_what_is_called_on_text_gives_no_tensor() -> None:
    code = """
        import numpy as np
        def compare(pipe, device):
            pipe.to(device)
            return np.array(pipe({argument})[0])
        """
    assert not findings(code.format(argument='"dog", steps=12'), "DEV106")
    assert findings(code.format(argument="x.to(device)").replace("pipe, device", "pipe, x, device"), "DEV106")


@pytest.mark.parametrize("function", ["squeeze", "nonzero", "shape"])
def test_functions_of_numpy_that_ask_their_argument_are_silent(function: str) -> None:
    code = f"""
        import numpy as np
        def peek(model, x, device):
            model.to(device).eval()
            return np.{function}(model(x.to(device)))
        """
    assert not findings(code, "DEV106")
