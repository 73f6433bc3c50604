"""A wait in a layer is reported where it stands unconditionally; behind a test it is no more than possible."""

from __future__ import annotations

import pytest
from steps import IMPORTS, step, texts

from torchlint.findings import Confidence

CODE = "DEV303"
LAYER = IMPORTS + (
    "class Layer(nn.Module):\n"
    "    def forward(self, x, ids, cache=None):\n"
    "        h = x.relu()\n"
    "{body}"
    "        return h\n"
)


def read(body: str, sure: Confidence = Confidence.LIKELY) -> list[str]:
    indented = "".join(f"        {line}\n" for line in body.splitlines())
    return texts(LAYER.replace("{body}", indented), CODE, sure=sure)


@pytest.mark.parametrize(
    "test",
    [
        "if h.any():",
        "if self.training and h.any():",
        "if torch.cuda.is_available() and h.any():",
        "if h.any() and cache is not None:",
    ],
)
def test_a_test_of_each_step_is_reported(test: str) -> None:
    assert read(f"{test}\n    h = h * 2") == [test]


@pytest.mark.parametrize(
    "test",
    [
        "if h.dtype == torch.float16 and h.any():",
        "if cache is not None and h.any():",
        "if self.fast or h.any():",
    ],
)
def test_an_operand_that_may_not_be_reached_is_possible(test: str) -> None:
    assert read(f"{test}\n    h = h * 2") == []
    assert read(f"{test}\n    h = h * 2", Confidence.POSSIBLE) == [test]


@pytest.mark.parametrize("around", ["if cache is not None:", "if 'key' not in cache:", "if self.careful:"])
def test_a_branch_of_a_layer_is_possible(around: str) -> None:
    body = f"{around}\n    if h.any():\n        h = h * 2"
    assert read(body) == []
    assert read(body, Confidence.POSSIBLE) == ["if h.any():"]


def test_a_branch_of_training_is_reported() -> None:
    assert read("if self.training:\n    if h.any():\n        h = h * 2") == ["if h.any():"]


def test_the_text_of_what_the_test_has_read_waits_for_nothing() -> None:
    told = "age = loss.detach() - 1\nif age > args.most:\n    print(f'{age}')"
    assert texts(step(told), CODE, sure=Confidence.POSSIBLE) == ["if age > args.most:"]


def test_the_text_of_another_tensor_waits() -> None:
    told = "age = loss.detach() - 1\nif args.most > 2:\n    print(f'{age}')"
    assert texts(step(told), CODE) == ["print(f'{age}')"]


def test_a_wait_in_a_branch_hides_none_behind_it() -> None:
    body = "if self.careful:\n    if h.any():\n        h = h * 2\nif h.all():\n    h = h * 3"
    assert read(body) == ["if h.all():"]
