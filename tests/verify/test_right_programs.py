"""Programs that are right on one device raise nothing on a simulated one, and compute what the CPU computes."""

from __future__ import annotations

import copy
import warnings
from typing import Any

import pytest
import torch
from right_programs import RIGHT

from torchlint.verify.simdevice import SimDevice

#: Use what a backend of that kind does not have.
_NOT_ON_MPS = {"adamw_fused", "sparse", "fourier", "linear_algebra"}


def run(name: str, device: str) -> Any:
    torch.manual_seed(1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return copy.deepcopy(RIGHT[name](device))


def leaves(value: Any) -> list[Any]:
    """The numbers in nested lists; the CPU has fused kernels that it does not use under a mode."""
    return [x for item in value for x in leaves(item)] if isinstance(value, (list, tuple)) else [value]


def test_there_are_enough_of_them() -> None:
    assert len(RIGHT) >= 55


@pytest.mark.parametrize("name", sorted(RIGHT))
def test_simulated_cuda_agrees_with_the_cpu(name: str) -> None:
    expected = run(name, "cpu")
    with SimDevice("cuda") as sim:
        found = run(name, "cuda")
    assert leaves(found) == pytest.approx(leaves(expected), rel=1e-5, abs=1e-5)
    assert sim.recorder.of("mix") == []


@pytest.mark.parametrize("kind", ["mps", "xpu"])
def test_other_kinds_agree_with_the_cpu(kind: str) -> None:
    names = [n for n in sorted(RIGHT) if kind != "mps" or n not in _NOT_ON_MPS][::3]
    expected = {name: run(name, "cpu") for name in names}
    for name in names:
        with SimDevice(kind):
            found = run(name, kind)
        assert leaves(found) == pytest.approx(leaves(expected[name]), rel=1e-5, abs=1e-5), name
