"""DEV102: a constant of the CPU takes the place of what is returned on other paths."""

from __future__ import annotations

import pytest
from checking import reported_lines

LOSS = """
    import torch
    from torch import nn
    from metrics import Similarity

    class SimilarityLoss(nn.Module):
        def __init__(self):
            super().__init__()
            self.similarity = Similarity()

        def forward(self, x, y):
            loss = self.similarity(x, y)
            if loss.item() > 1.0:
                loss = {}
            return loss
    """


def test_a_list_of_numbers_in_place_of_a_loss_is_reported() -> None:
    assert reported_lines(LOSS.format("torch.tensor([1.0])"), "DEV102") == [14]


@pytest.mark.parametrize(
    "constant", ["torch.tensor([1.0], device=loss.device)", "torch.ones_like(loss)", "torch.tensor(1.0)", "loss.new_ones(1)"]
)
def test_what_follows_the_loss_or_joins_anything_is_fine(constant: str) -> None:
    assert reported_lines(LOSS.format(constant), "DEV102") == []
