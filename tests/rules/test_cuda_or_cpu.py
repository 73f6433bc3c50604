"""DEV503: choices that take all but the CPU for CUDA."""

from __future__ import annotations

import pytest
from checking import findings, reported_lines

from torchlint.findings import Confidence


@pytest.mark.parametrize(
    "choice, reported",
    [
        ('"cpu" if device == "cpu" else "cuda"', True),
        ('"cuda" if device != "cpu" else "cpu"', True),
        ('"cuda" if torch.cuda.is_available() else "cpu"', False),
        ('"cuda" if args.cuda else "cpu"', False),
        ('"cuda" if device.type == "cuda" else "cpu"', False),
        ('"mps" if torch.backends.mps.is_available() else "cpu"', False),
    ],
)
def test_taking_all_but_the_cpu_for_cuda_is_reported(choice: str, reported: bool) -> None:
    code = f"import torch\ndef work(device, args):\n    return {choice}\n"
    assert bool(findings(code, "DEV503")) is reported
    possible = reported_lines(code, "DEV503", confidence=Confidence.POSSIBLE)
    assert possible == ([] if "mps" in choice else [3])
