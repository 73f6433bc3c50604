"""Functions that torch calls with what it is given: `checkpoint(f, x)`, `vmap(f)(x)`."""

from __future__ import annotations

import pytest
from checking import expect, reported_lines

BLOCK = """
    import torch
    from torch import nn
    from torch.utils.checkpoint import checkpoint

    class Block(nn.Module):
        def __init__(self, size):
            super().__init__()
            self.fc = nn.Linear(size, size)

        def body(self, x, bias):
            return self.fc(x) + bias

        def forward(self, x):
            bias = torch.zeros(x.size(0), 1{})
            return checkpoint(self.body, x, bias, use_reentrant=False)
    """


def test_a_checkpointed_method_gets_what_is_on_the_cpu() -> None:
    assert reported_lines(BLOCK.format(""), "DEV201") == [15]


def test_a_checkpointed_method_gets_what_follows_the_input() -> None:
    assert reported_lines(BLOCK.format(", device=x.device"), "DEV201") == []


@pytest.mark.parametrize("maker", ["torch.vmap", "torch.func.vmap"])
def test_a_vectorised_function_gets_slices_of_its_arguments(maker: str) -> None:
    expect(
        f"""
        import torch

        def scaled(x: torch.Tensor):
            def one(row):
                return row.softmax(-1)

            table = torch.rand(4)  # <-
            return {maker}(one)(x) * table
        """,
        "DEV102",
    )


def test_a_mask_from_lengths_is_judged_where_it_is_called() -> None:
    expect(
        """
        import torch

        def make_mask(lengths, longest):
            grid = torch.arange(longest)  # <-
            return grid[None, :] < lengths[:, None]

        def train(model, loader, optimizer, device):
            model.to(device)
            for x, n in loader:
                x, n = x.to(device), n.to(device)
                loss = (model(x) * make_mask(n, x.size(1))).sum()
                loss.backward()
                optimizer.step()
        """,
        "DEV102",
    )
