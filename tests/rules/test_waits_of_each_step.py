"""A wait is `likely` where it is shown to come in each step of a training, and no more than `possible` elsewhere."""

from __future__ import annotations

import pytest
from steps import IMPORTS, step, texts

from torchlint.findings import Confidence

READ = "total += loss.item()"
OPTIONS = """
import argparse
parser = argparse.ArgumentParser()
parser.add_argument("--record", action="store_true")
parser.add_argument("--weight", type=float, default=0.0)
parser.add_argument("--mode", default="fast")
parser.add_argument("--keep", type=int, default=1)
args = parser.parse_args()
"""


def is_likely(code: str, *codes: str) -> bool:
    """Whether the one wait that is told of is likely, rather than possible."""
    assert len(texts(code, *codes, sure=Confidence.POSSIBLE)) == 1
    return bool(texts(code, *codes))


def behind(test: str) -> str:
    return step(f"if {test}:\n    {READ}", before="total = 0.0") + OPTIONS


@pytest.mark.parametrize(
    "test", ["args.record", "args.weight > 0", "args.mode == 'slow'", "args.record and step"]
)
def test_what_an_option_leaves_out_by_default_is_possible(test: str) -> None:
    assert not is_likely(behind(test), "DEV301")


@pytest.mark.parametrize("test", ["args.keep > 0", "args.mode == 'fast'", "not args.record", "args.unknown"])
def test_what_an_option_does_by_default_is_reported(test: str) -> None:
    assert is_likely(behind(test), "DEV301")


def test_a_loop_that_an_option_chooses_waits_in_each_of_its_steps() -> None:
    loop = step(READ, before="total = 0.0").replace("    for step", "    if args.record:\n     for step")
    assert is_likely(loop.replace("\n        ", "\n          ") + OPTIONS, "DEV301")


LOOP = """
class Loop:
    clip: float = {default}

    def run(self, model, loader, optimizer, device):
        for x in loader:
            loss = model(x.to(device)).mean()
            loss.backward()
            if self.clip > 0:
                print(loss)
            optimizer.step()
"""


@pytest.mark.parametrize(("default", "likely"), [("0.0", False), ("1.0", True)])
def test_the_body_of_a_class_says_what_holds_by_default(default: str, likely: bool) -> None:
    assert is_likely(IMPORTS + LOOP.format(default=default), "DEV303") is likely


@pytest.mark.parametrize(("default", "likely"), [("False", False), ("True", True)])
def test_a_function_around_says_what_holds_by_default(default: str, likely: bool) -> None:
    inner = step("if shown:\n    print(loss)").removeprefix(IMPORTS).replace("\n", "\n    ")
    outer = IMPORTS + f"def make(shown={default}):\n    {inner}\n    return train\n"
    assert is_likely(outer, "DEV303") is likely


def test_a_test_that_leaves_out_the_backward_is_needed_at_once() -> None:
    backward = "        loss.backward()"
    code = step("pass").replace(
        backward, f"        if not torch.isfinite(loss):\n            {{}}\n{backward}"
    )
    assert not is_likely(code.replace("{}", "continue"), "DEV303")
    assert is_likely(code.replace("{}", "raise ValueError"), "DEV303")
    assert is_likely(step("if not torch.isfinite(loss):\n    continue\nscheduler.step()"), "DEV303")


LOSSES = """
def {name}(loader, optimize_step, state, device):
    losses = []
    for x in loader:
        loss = optimize_step(state, x.to(device))
        losses.append(loss.item())
    return losses
"""


@pytest.mark.parametrize("name", ["evaluate", "validate_losses", "_run_evaluation"])
def test_a_function_for_evaluation_is_no_training(name: str) -> None:
    assert texts(IMPORTS + LOSSES.format(name="collect"), "DEV301") == ["losses.append(loss.item())"]
    assert texts(IMPORTS + LOSSES.format(name=name), "DEV301") == []


@pytest.mark.parametrize(
    "around", ["profiler.tick('forward')", "dist.barrier()", "torch.cuda.memory_allocated()"]
)
def test_what_measures_needs_the_device_to_be_done(around: str) -> None:
    assert is_likely(step("torch.cuda.synchronize()"), "DEV306")
    assert not is_likely(step(f"torch.cuda.synchronize()\n{around}"), "DEV306")


def test_a_helper_waits_for_what_its_callers_measure() -> None:
    helper = "def wait(device):\n    torch.cuda.synchronize(device)\n"
    assert is_likely(step("wait(device)") + helper, "DEV306")
    assert not is_likely(step("wait(device)\nprofiler.tick('step')") + helper, "DEV306")


SPAN = """
import time
def train(model, loader, optimizer, device):
    for x in loader:
        taken = time.time()
        loss = model(x.to(device)).mean()
        loss.backward()
        optimizer.step()
        taken = time.time() - taken
"""


def test_a_span_that_nobody_reads_says_nothing_wrong() -> None:
    assert texts(IMPORTS + SPAN, "DEV305", sure=Confidence.POSSIBLE) == []
    assert texts(IMPORTS + SPAN + "        print(taken)\n", "DEV305") == ["taken = time.time() - taken"]


def test_how_much_a_mask_of_the_host_selects_is_known_there() -> None:
    use = "rest = {}\nloss = F.mse_loss(output.float()[rest], y.float()[rest])"
    assert len(texts(step(use.format("y == y")), "DEV303")) == 1
    assert texts(step(use.format("torch.arange(len(x)) > 3")), "DEV303", sure=Confidence.POSSIBLE) == []
