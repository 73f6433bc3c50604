"""DEV402: one of two losses is not scaled."""

from __future__ import annotations

import pytest
from checking import expect

STEP = """
import torch
def train(net, other, loader, opt, opt2):
    scaler = torch.amp.GradScaler("cuda")
    for x in loader:
        with torch.autocast("cuda"):
            first, second = net(x).mean(), other(x).mean()
        opt.zero_grad()
        scaler.scale(first).backward()
        scaler.step(opt)
        opt2.zero_grad()
        {second}
        scaler.update()
"""


def test_the_loss_that_is_not_scaled_is_reported() -> None:
    expect(STEP.format(second="second.backward()  # <-\n        scaler.step(opt2)"), "DEV402")


@pytest.mark.parametrize(
    "second",
    [
        "scaler.scale(second).backward()\n        scaler.step(opt2)",
        "second.backward()\n        opt2.step()",
    ],
)
def test_two_losses_that_are_each_stepped_as_they_went_backward_are_silent(second: str) -> None:
    expect(STEP.format(second=second), "DEV402")


def test_a_backward_that_a_test_tells_apart_is_silent() -> None:
    expect(
        """
        import torch
        def train(net, loader, opt, scaler: torch.amp.GradScaler, mixed):
            for x in loader:
                loss = net(x).mean()
                if mixed:
                    scaler.scale(loss).backward()
                else:
                    loss.backward()
                scaler.step(opt)
                scaler.update()
        """,
        "DEV402",
    )
