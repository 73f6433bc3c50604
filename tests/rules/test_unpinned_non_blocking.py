"""DEV601: copies that can't help blocking."""

from __future__ import annotations

import pytest
from checking import expect

CODE = "DEV601"
HEAD = "import torch\ndef make(values, device, x: torch.Tensor):\n"


@pytest.mark.parametrize(
    "line",
    [
        "w = torch.tensor(values).to(device, non_blocking=True)  # <-",
        "w = torch.zeros(3).cuda(non_blocking=True)  # <-",
        "w = torch.zeros(3, pin_memory=True).to(device, non_blocking=True)",
        "w = torch.zeros(3).pin_memory().to(device, non_blocking=True)",
        "w = torch.zeros(3).to(device)",
        "w = torch.zeros(3).to('cpu', non_blocking=True)",
        "w = x.to(device, non_blocking=True)",
    ],
)
def test_memory_made_here_that_is_not_pinned(line: str) -> None:
    expect(HEAD + f"    {line}\n", CODE)
