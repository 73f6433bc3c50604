"""DEV102: a helper makes a mask on the CPU, of what a forward hands to it."""

from __future__ import annotations

import pytest
from checking import reported_lines

LAYER = """
    import torch
    from torch import nn

    def sequence_mask(lengths, longest):
        ids = torch.arange(0, longest{})
        return ids[None, :] < lengths[:, None]

    class Layer(nn.Module):
        def forward(self, x, sizes):
            mask = sequence_mask(sizes, x.size(1)){}
            return x.masked_fill(~mask.unsqueeze(-1), 0.0)
    """


def test_wherever_the_lengths_are_the_mask_is_in_the_wrong_place() -> None:
    assert reported_lines(LAYER.format("", ""), "DEV102") == [6]


@pytest.mark.parametrize(("made", "sent"), [(", device=lengths.device", ""), ("", ".to(x.device)")])
def test_a_mask_that_is_made_there_or_sent_there_is_fine(made: str, sent: str) -> None:
    assert reported_lines(LAYER.format(made, sent), "DEV102") == []
