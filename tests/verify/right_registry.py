"""Where the programs that are right on one device are collected, and what they share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import nn

RIGHT: dict[str, Callable[[str], Any]] = {}


def right(program: Callable[[str], Any]) -> Callable[[str], Any]:
    RIGHT[program.__name__] = program
    return program


def fit(
    model: nn.Module, optimizer: Any, inputs: Any, loss_of: Any, steps: int = 3, **options: Any
) -> list[float]:
    """Losses of a few steps."""
    stepper = optimizer(model.parameters(), lr=0.05, **options)
    losses = []
    for _ in range(steps):
        stepper.zero_grad()
        loss = loss_of(model(inputs))
        loss.backward()
        stepper.step()
        losses.append(loss.item())
    return losses
