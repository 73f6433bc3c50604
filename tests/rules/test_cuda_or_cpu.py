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


@pytest.mark.parametrize(
    ("choice", "reported"),
    [
        ('"cpu" if args.mode == "cpu" else "cuda"', False),
        ('"cpu" if args.device == "cpu" else "cuda"', True),
        ('"cpu" if str(x.device) == "cpu" else "cuda"', True),
        ('"cpu" if x.device.type == "cpu" else "cuda"', True),
    ],
)
def test_a_mode_of_the_program_is_no_device(choice: str, reported: bool) -> None:
    code = f"import torch\ndef work(args, x: torch.Tensor):\n    return {choice}\n"
    assert bool(findings(code, "DEV503")) is reported


BOUND = """
import torch
def main(args, device):
    {}
    return torch.autocast("cpu" if device == "cpu" else "cuda")
"""


@pytest.mark.parametrize(
    ("line", "reported"),
    [
        ("pass", True),
        ("device = args.device", True),
        ('device = "cuda" if torch.cuda.is_available() else "cpu"', False),
        ('if not torch.cuda.is_available(): device = "cpu"', False),
        ('if torch.backends.mps.is_available(): device = "mps"', True),
    ],
)
def test_where_the_file_leaves_but_cuda_and_the_cpu_there_are_no_others(line: str, reported: bool) -> None:
    assert bool(findings(BOUND.format(line), "DEV503")) is reported
