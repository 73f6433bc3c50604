"""DEV306: synchronize and empty_cache in every step."""

from __future__ import annotations

import pytest
from steps import step, texts

from torchlint.findings import Confidence

CODE = "DEV306"


@pytest.mark.parametrize(
    "line",
    [
        "torch.cuda.synchronize()",
        "torch.cuda.synchronize(device)",
        "torch.cuda.empty_cache()",
        "torch.mps.empty_cache()",
        "torch.accelerator.synchronize()",
        "if device.type == 'cuda': torch.cuda.empty_cache()",
    ],
)
def test_a_full_wait_in_every_step_is_reported(line: str) -> None:
    assert texts(step(line), CODE) == [line]


@pytest.mark.parametrize(
    "body",
    [
        "if step % 100 == 0:\n    torch.cuda.empty_cache()",
        "try:\n    risky(x)\nexcept RuntimeError:\n    torch.cuda.empty_cache()",
    ],
)
def test_now_and_then_is_silent(body: str) -> None:
    assert texts(step(body), CODE) == []


def test_after_the_loop_is_silent() -> None:
    assert texts(step("pass", after="torch.cuda.empty_cache()"), CODE) == []


def test_to_take_times_one_has_to_wait() -> None:
    code = "import time\n" + step(
        "torch.cuda.synchronize()\nprint(time.time() - began)", before="began = time.time()"
    )
    assert texts(code, CODE) == []


def test_to_take_times_by_events_one_has_to_wait() -> None:
    code = step("end.record()\ntorch.cuda.synchronize()", before="end = torch.cuda.Event(enable_timing=True)")
    assert texts(code, CODE) == []


@pytest.mark.parametrize(
    ("beside", "call", "reported"),
    [
        ("side.wait_stream(torch.cuda.current_stream())", "torch.cuda.synchronize()", False),
        ("grad.record_stream(side)", "torch.cuda.synchronize()", False),
        ("side = torch.cuda.Stream()", "torch.cuda.synchronize()", False),
        ("side.wait_stream(other)", "torch.cuda.empty_cache()", True),
        ("print(side.stream)", "torch.cuda.synchronize()", True),
    ],
)
def test_a_wait_may_join_the_streams_that_the_file_works_with(beside: str, call: str, reported: bool) -> None:
    code = step(call) + f"\n\ndef offload(grad, side, other):\n    {beside}\n"
    assert texts(code, CODE) == ([call] if reported else [])
    assert texts(code, CODE, sure=Confidence.POSSIBLE) == [call]


def test_the_first_steps_are_not_every_step() -> None:
    assert texts(step("if step < 10:\n    torch.cuda.empty_cache()"), "DEV306") == []
    assert texts(step("if epoch < 10:\n    torch.cuda.empty_cache()", before="epoch = 3"), "DEV306") != []
