"""What has a backward, a clock or a sum is not yet a training step, device work or a graph."""

from __future__ import annotations

import pytest
from steps import IMPORTS, texts

from torchlint.findings import Confidence

EXPLAINING = IMPORTS + (
    "def gradcam_batch(model, x, device):\n"
    "    x = x.to(device)\n"
    "    out = model(x)\n"
    "    loss = out[:, 1].sum()\n"
    "    loss.backward()\n"
    "    return out.mean(1).cpu()\n"
)


def test_a_backward_in_a_file_without_an_optimizer_explains() -> None:
    line = ["return out.mean(1).cpu()"]
    assert texts(EXPLAINING, "DEV302") == []
    assert texts(EXPLAINING, "DEV302", sure=Confidence.POSSIBLE) == line
    trains = EXPLAINING + "def train(model, optimizer):\n    optimizer.step()\n"
    assert texts(trains, "DEV302") == line
    assert texts(EXPLAINING.replace("gradcam_batch", "train_batch"), "DEV302") == line


TIMED = IMPORTS + (
    "def train(model, loader, optimizer, device):\n"
    "    for x in loader:\n"
    "        x = x.to(device)\n"
    "        def train_step():\n"
    "            optimizer.zero_grad()\n"
    "            loss = model(x).mean()\n"
    "            loss.backward()\n"
    "            optimizer.step()\n"
    "            return float(loss)\n"
    "        value = {call}\n"
)


@pytest.mark.parametrize(
    ("call", "found"), [("gpu_timer(train_step)", []), ("attempt(train_step)", ["return float(loss)"])]
)
def test_a_step_that_is_given_to_a_timer_is_waited_for(call: str, found: list[str]) -> None:
    assert texts(TIMED.replace("{call}", call), "DEV301") == found


STATE = IMPORTS + (
    "{import}"
    "class Mean({base}):\n"
    "    def forward(self, x: torch.Tensor, lengths: torch.Tensor):\n"
    "{body}"
    "        return x\n"
)


def kept(body: str, base: str = "nn.Module") -> list[str]:
    code = STATE.replace("{base}", base).replace("{import}", "import torchmetrics\n")
    return texts(code.replace("{body}", "".join(f"        {line}\n" for line in body.splitlines())), "DEV304")


def test_state_without_a_graph_is_not_kept_alive() -> None:
    assert kept("self.total = self.total + x.mean()") == ["self.total = self.total + x.mean()"]
    assert kept("self.total = self.total + x.mean()", "torchmetrics.Metric") == []
    assert kept("self.total = self.total + lengths.sum()") == []
    assert kept("n = x.long()\nself.total = self.total + n.sum()") == []


def test_state_of_what_was_computed_under_no_grad_is_not_kept_alive() -> None:
    last = "self.total = self.total + m"
    assert kept(f"with torch.no_grad():\n    m = x.mean()\nm = m * 2\n{last}") == []
    assert kept(f"m = x.mean()\nm = m * 2\n{last}") == [last]
    assert kept(f"with torch.no_grad():\n    m = x.mean()\nm = x * 2\n{last}") == [last]


LOADING = """
import time

def build(config, state, device):
    model = Model(config).to(device)
    start = time.time()
    {call}(model, state)
    print(time.time() - start)
"""


def test_loading_is_no_device_work() -> None:
    assert texts(LOADING.replace("{call}", "run_model"), "DEV305") == ["print(time.time() - start)"]
    assert texts(LOADING.replace("{call}", "load_state_into_model"), "DEV305") == []


GENERATING = IMPORTS + (
    "class Head(nn.Module):\n"
    "    def forward(self, x: torch.Tensor):\n"
    "        if x.any():\n"
    "            x = x * 2\n"
    "        return x\n"
    "class Model(nn.Module):\n"
    "    def __init__(self):\n"
    "        super().__init__()\n"
    "        self.head = Head()\n"
    "    def {name}(self, x: torch.Tensor):\n"
    "        return self.head(x)\n"
)


def test_a_layer_that_only_what_generates_calls_runs_in_no_step() -> None:
    assert texts(GENERATING.replace("{name}", "forward"), "DEV303") == ["if x.any():"]
    assert texts(GENERATING.replace("{name}", "generate"), "DEV303", sure=Confidence.POSSIBLE) == []
