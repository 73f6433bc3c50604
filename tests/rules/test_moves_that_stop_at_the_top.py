"""DEV111: helpers that move the tensors of a container, and leave the containers in it alone."""

from __future__ import annotations

import pytest
from checking import expect

CODE = """
import torch
def move(batch, device):
    return {made}{mark}
def run(model, batch, device):
    return model(move({given}, device))
"""
OF_DICT = "{k: v.to(device) if torch.is_tensor(v) else v for k, v in batch.items()}"
OF_LIST = "[v.to(device) if isinstance(v, torch.Tensor) else v for v in batch]"


@pytest.mark.parametrize(
    "made, given",
    [
        (OF_DICT, '{"x": (batch[0], batch[1]), "y": batch[2]}'),
        (OF_DICT, '{"x": {"a": batch[0]}, "y": batch[2]}'),
        (OF_LIST, "[(batch[0], batch[1]), batch[2]]"),
    ],
)
def test_a_container_in_what_is_moved_is_reported(made: str, given: str) -> None:
    expect(CODE.format(made=made, given=given, mark="  # <-"), "DEV111")


@pytest.mark.parametrize(
    "made, given",
    [
        (OF_DICT, '{"x": batch[0], "y": batch[2]}'),
        (OF_DICT, '{"x": batch[0], "names": ("a", "b")}'),
        (OF_DICT, "batch"),
        ("{k: v.to(device) if torch.is_tensor(v) else move(v, device) for k, v in batch.items()}", '{"x": (batch[0],)}'),
    ],
)
def test_what_holds_tensors_alone_or_is_followed_is_silent(made: str, given: str) -> None:
    expect(CODE.format(made=made, given=given, mark=""), "DEV111")
