"""DEV303: a masked assignment has to know how many elements it writes."""

from __future__ import annotations

import pytest
from checking import expect, reported_lines

from torchlint.findings import Confidence

CODE = "DEV303"


def test_operators_on_what_the_same_mask_selects_could_be_torch_where() -> None:
    expect(
        """
        import torch
        from torch import nn

        class Overlap(nn.Module):
            def forward(self, low, high, width):
                hit = (high > low) & (width > 0)
                area = torch.zeros_like(width)
                area[hit] = (high[hit] - low[hit]) * width[hit]  # <-
                return area
        """,
        CODE,
    )


@pytest.mark.parametrize("value", ["0.0", "self.expert(x[hit])"], ids=["a number", "what a layer makes of the selection"])
def test_what_torch_where_can_not_say_is_left_to_the_author(value: str) -> None:
    code = f"""
        import torch
        from torch import nn

        class Mixture(nn.Module):
            def __init__(self):
                super().__init__()
                self.expert = nn.Linear(4, 4)

            def forward(self, x):
                hit = x[:, 0] > 0
                out = torch.zeros_like(x)
                out[hit] = {value}
                return out
        """
    assert reported_lines(code, CODE) == []


def test_a_mask_of_the_host_waits_for_nothing() -> None:
    code = """
        import torch

        def train(model, loader, optimizer):
            for x, y in loader:
                kept = torch.zeros(8)
                late = torch.arange(8) > 3
                kept[late] = torch.ones(8)[late]
                loss = model(x).mean()
                loss.backward()
                optimizer.step()
        """
    assert reported_lines(code, CODE) == []


def test_masks_joined_by_operators_are_masks() -> None:
    code = """
        from torch import nn

        class Head(nn.Module):
            def forward(self, x):
                scores = x.sigmoid()
                sure = (scores > 0.5) & ~(scores > 0.9) | (scores < 0.1)
                return scores[sure]
        """
    assert reported_lines(code, CODE, confidence=Confidence.POSSIBLE) == [8]
