"""DEV110: the accelerator at hand is returned before the caller is asked."""

from __future__ import annotations

import pytest
from checking import expect


@pytest.mark.parametrize(
    "first, marked",
    [
        ('if torch.backends.mps.is_available():\n        return torch.device("mps")', True),
        ('if torch.cuda.is_available():\n        return "cuda"', True),
        ('if name == "cpu":\n        return torch.device("cpu")', False),
        ('if torch.cuda.is_available() and not name:\n        return "cuda"', False),
        ("if torch.cuda.is_available():\n        torch.manual_seed(0)", False),
    ],
)
def test_a_device_that_is_returned_before_the_caller_is_asked_is_reported(first: str, marked: bool) -> None:
    first += "  # <-" if marked else ""
    expect(
        f"""
import torch
def select(name=""):
    {first}
    if name == "cpu" or not torch.cuda.is_available():
        return torch.device("cpu")
    return torch.device(name)
""",
        "DEV110",
    )
