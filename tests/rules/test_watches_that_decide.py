"""DEV303: a watch for bad numbers that decides whether the step is done has to know them at once."""

from __future__ import annotations

import pytest
from checking import expect

BEFORE = """
        import math
        import torch
        def train(loader, model, optimizer):
            model = model.cuda()
            for x, y in loader:
                loss = (model(x.cuda()) - y.cuda()).square().mean()
                optimizer.zero_grad()
"""


@pytest.mark.parametrize("wrong", ["math.isnan(loss)", "torch.isnan(loss)", "not torch.isfinite(loss)"])
def test_a_watch_around_the_backward_is_needed_at_once(wrong: str) -> None:
    expect(
        BEFORE
        + f"""
                if {wrong}:
                    print("left out")
                else:
                    loss.backward()
                    optimizer.step()
        """,
        "DEV303",
    )


def test_a_watch_around_the_update_is_needed_at_once() -> None:
    expect(
        BEFORE
        + """
                loss.backward()
                norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                if math.isfinite(norm):
                    optimizer.step()
        """,
        "DEV303",
    )


def test_a_watch_behind_the_update_may_look_later() -> None:
    expect(
        BEFORE
        + """
                loss.backward()
                optimizer.step()
                if math.isnan(loss):  # <-
                    print("bad")
        """,
        "DEV303",
    )
