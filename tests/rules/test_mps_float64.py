"""DEV504: float64 where MPS may be the device, and the tests that keep it away."""

from __future__ import annotations

import pytest
from checking import expect, findings, reported_lines

from torchlint.findings import Confidence


@pytest.mark.parametrize(
    "line, reported",
    [
        ("torch.arange(3, dtype=torch.float64, device=device)", True),
        ("x.to(device).double()", True),
        ("x.to(device, torch.float64)", True),
        ("torch.arange(3, dtype=torch.float64)", False),
        ("torch.arange(3, dtype=torch.float32, device=device)", False),
        ("torch.arange(3, dtype=torch.float64, device='cuda')", False),
    ],
)
def test_float64_where_the_file_speaks_of_mps(line: str, reported: bool) -> None:
    code = f"import torch\ndef work(x: torch.Tensor, device):\n    ready = torch.backends.mps.is_available()\n    return ready, {line}\n"
    assert bool(findings(code, "DEV504")) is reported


def test_float64_behind_a_test_of_mps_is_silent() -> None:
    expect(
        """
        import torch
        def work(n, device):
            if device.type == "mps":
                return torch.arange(n, dtype=torch.float32, device=device)
            return torch.arange(n, dtype=torch.float64, device=device)
        """,
        "DEV504",
    )


@pytest.mark.parametrize(
    "test",
    [
        'x.device.type in {"mps", "npu"}',
        'x.device.type == "mps"',
        'device in ("mps", "cpu")',
        'x.device.type != "cuda"',
        "x.is_mps",
    ],
)
def test_float64_where_a_test_of_the_device_fails_is_silent(test: str) -> None:
    code = f"""
import torch
def work(x: torch.Tensor, device):
    x = x.to(device)
    if {test}:
        y = x.cpu().double()
    else:
        y = x.double()
    return y
"""
    assert findings(code, "DEV504") == ()


def test_float64_elsewhere_is_possible_only() -> None:
    code = "import torch\ndef work(x: torch.Tensor):\n    return x.double()\n"
    assert findings(code, "DEV504") == ()
    assert reported_lines(code, "DEV504", confidence=Confidence.POSSIBLE) == [3]


def test_a_set_of_device_types_that_was_asked_for_is_no_mps() -> None:
    expect(
        """
        import torch
        device = "mps" if torch.backends.mps.is_available() else "cpu"
        def project(x: torch.Tensor, y: torch.Tensor):
            if x.device.type in {"mps", "npu"}:
                a, b = x.cpu().double(), y.cpu().double()
            else:
                a, b = x.double(), y.double()
            return a * b
        """,
        "DEV504",
    )
