"""DEV101: loops and helpers that bind their own variable alone."""

from __future__ import annotations

import pytest
from checking import expect

CODE = "DEV101"


def test_a_loop_that_binds_its_own_variable_alone_is_reported() -> None:
    expect(
        """
        import torch
        def stack(tensors: list[torch.Tensor], device):
            for t in tensors:
                t = t.to(device)  # <-
            return torch.stack(tensors)
        def move(batch: dict[str, torch.Tensor], device):
            for name, value in batch.items():
                if name != "skip":
                    value = value.to(device)  # <-
            return batch
        """,
        CODE,
    )


@pytest.mark.parametrize(
    "last",
    [
        "t = t.to(device)\n                moved.append(t)",
        "t = t.to(device).sum()",
        "moved = t.to(device)",
        "u = t = t.to(device)",
    ],
)
def test_a_loop_that_uses_the_moved_variable_is_silent(last: str) -> None:
    expect(
        f"""
        import torch
        def stack(tensors: list[torch.Tensor], device, moved):
            for t in tensors:
                {last}
            return moved
        """,
        CODE,
    )


def test_a_loop_whose_variable_is_read_afterwards_is_silent() -> None:
    expect(
        """
        import torch
        def last(tensors: list[torch.Tensor], device):
            for t in tensors:
                t = t.to(device)
            return t
        """,
        CODE,
    )


def test_a_loop_over_modules_is_silent() -> None:
    expect(
        """
        from torch import nn
        def move(models: list[nn.Module], device):
            for m in models:
                m = m.to(device)
            return models
        """,
        CODE,
    )


def test_moved_elements_that_nothing_keeps_are_reported() -> None:
    expect(
        """
        import torch
        def work(tensors: list[torch.Tensor], named: dict[str, torch.Tensor], models, device):
            [t.to(device) for t in tensors]  # <-
            {k: v.to(device) for k, v in named.items()}  # <-
            [m.to(device) for m in models]
            return tensors, named
        """,
        CODE,
    )


def test_a_helper_that_binds_its_own_name_alone_is_reported() -> None:
    expect(
        """
        import torch
        def send(x: torch.Tensor, y: torch.Tensor, device):
            x = x.to(device)
            y = y.to(device)  # <-
            return x
        def place(x: torch.Tensor, y: torch.Tensor, device):
            x, y = x.to(device), y.to(device)  # <-
            return y
        def module(m: torch.nn.Module, device):
            m = m.to(device)
        """,
        CODE,
    )
