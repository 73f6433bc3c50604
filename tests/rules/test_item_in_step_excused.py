"""DEV301: programs that run on the host, and loops that need the number at once."""

from __future__ import annotations

import pytest
from checking import expect
from steps import PROGRAM, step, texts

from torchlint.findings import Confidence


@pytest.mark.parametrize(
    "test", ["abs(value - before) < tolerance", "value < 1e-3", "value <= best and step > 3"]
)
def test_a_number_that_ends_the_loop_is_needed_at_once(test: str) -> None:
    body = f"value = loss.item()\nif {test}:\n    break\nbefore = value"
    assert texts(step(body, before="before, tolerance, best = 1e10, 1e-4, 0"), "DEV301") == []


def test_a_loss_that_is_no_number_is_no_such_end() -> None:
    body = "value = loss.item()\nif not math.isfinite(value):\n    break"
    assert texts("import math\n" + step(body), "DEV301") == ["value = loss.item()"]


def test_a_program_that_moves_nothing_waits_for_nothing() -> None:
    expect(PROGRAM.format(""), "DEV301")
    expect(PROGRAM.format("  # <-"), "DEV301", confidence=Confidence.POSSIBLE)


@pytest.mark.parametrize(
    "line",
    [
        "model = model.cuda()",
        "model.to(place)",
        "model = Accelerator().prepare(model)",
        "torch.set_default_device('cuda')",
    ],
)
def test_a_program_that_moves_its_model_waits(line: str) -> None:
    code = PROGRAM.format("  # <-").replace("optimizer = ", f"{line}\noptimizer = ", 1)
    expect(code.replace("from torch import nn", "from torch import nn\nfrom accelerate import Accelerator"), "DEV301")


def test_functions_that_others_call_may_run_anywhere() -> None:
    expect(
        """
        def fit(model, loader, optimizer):
            for x, y in loader:
                loss = (model(x) - y).pow(2).mean()
                loss.backward()
                optimizer.step()
                print(loss.item())  # <-
        """,
        "DEV301",
    )


def test_a_program_that_changes_types_alone_runs_on_the_host() -> None:
    code = PROGRAM.format("").replace("optimizer = ", "loader = [v.to(torch.float32) for v in loader]\noptimizer = ", 1)
    expect(code, "DEV301")


SETTING = """
    import torch
    from torch import nn
    class Crop(nn.Module):
        def __init__(self, ratio):
            super().__init__()
            self.ratio = ratio
        def forward(self, x: torch.Tensor, scale):
            {line}
            return x * low
    """


@pytest.mark.parametrize(
    "line",
    [
        "low = float(self.ratio.min()) if isinstance(self.ratio, torch.Tensor) else self.ratio",
        "low = self.ratio.item() if torch.is_tensor(self.ratio) else self.ratio",
    ],
)
def test_a_setting_that_may_be_a_tensor_is_rather_on_the_host(line: str) -> None:
    expect(SETTING.format(line=line), "DEV301")


@pytest.mark.parametrize(
    "line",
    [
        "low = x * scale.item() if isinstance(scale, torch.Tensor) else scale  # <-",
        "low = x * x.max().item() if isinstance(self.ratio, torch.Tensor) else self.ratio  # <-",
    ],
)
def test_an_argument_that_may_be_a_tensor_is_reported(line: str) -> None:
    expect(SETTING.format(line=line), "DEV301")


ASKED = """
{test}
{between}
writer.add_scalar("loss", loss.item(), step)
"""


@pytest.mark.parametrize("test", ["if torch.isnan(loss):\n    raise ValueError", "if loss > 100:\n    device = 'odd'"])
def test_a_number_that_a_test_has_just_read_costs_no_further_wait(test: str) -> None:
    line = ['writer.add_scalar("loss", loss.item(), step)']
    assert texts(step(ASKED.format(test=test, between="")), "DEV301") == []
    assert texts(step(ASKED.format(test=test, between="optimizer.step()")), "DEV301") == line
    assert texts(step(ASKED.format(test=test.replace("loss", "output.mean()"), between="")), "DEV301") == line
    hidden = f"if every:\n    {test.splitlines()[0]}\n        raise ValueError"
    assert texts(step(ASKED.format(test=hidden, between="")), "DEV301") == line


FLAGGED = """
import torch
class Trainer:
    def __init__(self, model, optimizer, device):
        self.model, self.optimizer = model.to(device), optimizer
        self.device = device
        self.tell = True

    def train_step(self, x, y):
        loss = (self.model(x.to(self.device)) - y.to(self.device)).pow(2).mean()
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        if {test}:
            {first}
            print(loss.item())
"""


@pytest.mark.parametrize("test", ["self.tell", "self.tell and self.device"])
def test_what_clears_the_flag_that_it_asks_runs_now_and_then(test: str) -> None:
    assert texts(FLAGGED.format(test=test, first="self.tell = False"), "DEV301") == []
    assert texts(FLAGGED.format(test=test, first="self.told = False"), "DEV301") == ["print(loss.item())"]


ADAM = """
import torch
class SharedAdam(torch.optim.Adam):
    def __init__(self, params):
        super().__init__(params)
        for group in self.param_groups:
            for p in group["params"]:
                state = self.state[p]
                state["step"] = torch.zeros(1{place})

    def step(self, closure=None):
        for group in self.param_groups:
            for p in group["params"]:
                state = self.state[p]
                state["step"] += 1
                count = state["step"].item()
                p.data.add_(p.grad, alpha=-1 / count)
"""


def test_what_the_class_keeps_on_the_host_waits_for_nothing() -> None:
    assert texts(ADAM.format(place=""), "DEV301") == []
    assert texts(ADAM.format(place=", device=p.device"), "DEV301") == ['count = state["step"].item()']
