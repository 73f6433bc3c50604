"""DEV102: what a loader puts its batches together with runs on the host, whatever it is called."""

from __future__ import annotations

import pytest
from checking import expect

CODE = """
    import torch
    from torch import nn
    from torch.utils.data import DataLoader
    class Walks(nn.Module):
        def __init__(self, steps):
            super().__init__()
            self.offsets = nn.Parameter(torch.zeros(3))
        def batches(self):
            return DataLoader(range(10), {given})
        def sample(self, nodes):
            nodes = torch.arange(3){mark}
            return nodes + self.offsets
        def forward(self, x: torch.Tensor):
            return x
    """


@pytest.mark.parametrize(("given", "mark"), [("collate_fn=self.sample", ""), ("drop_last=True", "  # <-")])
def test_a_function_that_makes_batches_runs_on_the_host(given: str, mark: str) -> None:
    expect(CODE.format(given=given, mark=mark), "DEV102")
