"""DEV102: a function that a library offers builds a model, and runs it on tensors of whoever calls."""

from __future__ import annotations

import pytest
from checking import reported_lines

METRIC = """
    import torch
    from torch import Tensor, nn

    class _Features(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = nn.Conv2d(3, 8, 3)

        def forward(self, x: Tensor) -> Tensor:
            return self.conv(x)

    def _distance(a: Tensor, b: Tensor, net: nn.Module) -> Tensor:
        if a.shape != b.shape:
            raise ValueError("shapes differ")
        return (net(a) - net(b)).abs().mean()

    def perceptual_distance(a: Tensor, b: Tensor) -> Tensor:
        net = _Features(){}
        return _distance(a, b, net)
    """


def test_a_model_that_is_not_sent_to_the_tensors_is_reported() -> None:
    assert reported_lines(METRIC.format(""), "DEV102", path="metrics/functional.py") == [20]


@pytest.mark.parametrize("path", ["metrics/functional.py", "examples/show.py"])
def test_a_model_that_is_sent_to_the_tensors_is_fine(path: str) -> None:
    assert reported_lines(METRIC.format(".to(a.device)"), "DEV102", path=path) == []


def test_a_script_may_run_it_all_on_the_cpu() -> None:
    assert reported_lines(METRIC.format(""), "DEV102", path="examples/show.py") == []
