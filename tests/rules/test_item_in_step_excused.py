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
