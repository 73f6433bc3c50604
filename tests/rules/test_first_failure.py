"""A line is not accused where an earlier one fails already, be it on the CPU."""

from __future__ import annotations

import pytest
from checking import expect, reported_lines


def test_what_was_made_by_a_mix_is_not_accused_once_more() -> None:
    code = """
        import torch
        def look(model, images, device):
            model = model.to(device)
            found = model(images.to(device)).to(device)
            empty = torch.zeros(3, 4)
            rows = found if len(images) else empty
            table = torch.cat([torch.ones(3, 1), rows, found], dim=1)
            return table[0].numpy()
        """
    assert 8 in reported_lines(code, "DEV102")
    assert reported_lines(code, "DEV106") == []


def test_numpy_of_what_another_line_made_is_accused_beside_a_mix() -> None:
    expect(
        """
        import torch
        def look(model, images, device):
            model = model.to(device)
            found = model(images.to(device)).to(device)
            torch.cat([torch.ones(3, 1), found], dim=1)
            return found[0].numpy()  # <-
        """,
        "DEV106",
    )


LOSS = """
    import torch
    from torch import nn
    class Loss(nn.Module):
        def forward(self, x: torch.Tensor, y: torch.Tensor, stop=None):
            {start}
            extra = torch.mean(x) if stop is not None else torch.zeros(1){mark}
            loss += extra
            return loss + (x - y).abs()
    """


@pytest.mark.parametrize("start", ["loss = self.first(x, y)", "loss = 2 * self.first(x, y) + self.second(x)"])
def test_what_is_added_in_place_leaves_a_sum_of_unknown_kind_where_it_is(start: str) -> None:
    expect(LOSS.format(start=start, mark=""), "DEV201")


def test_what_is_added_to_a_number_becomes_the_sum() -> None:
    expect(LOSS.format(start="loss = 0", mark="  # <-"), "DEV201")
