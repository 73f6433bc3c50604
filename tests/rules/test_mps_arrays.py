"""DEV504: arrays that NumPy makes as float64, on MPS."""

from __future__ import annotations

import pytest
from checking import expect

HEAD = """import numpy as np
import torch
device = "mps" if torch.backends.mps.is_available() else "cpu"
def work(path, n, given):
    table = np.loadtxt(path, usecols=(n,))
"""


@pytest.mark.parametrize(
    "line",
    [
        'torch.from_numpy(table[: n // 2]).to("mps")',
        'torch.tensor(np.random.rand(n), device="mps")',
        "torch.as_tensor(np.zeros(n)).to(device)",
        'torch.rand(2, dtype=torch.float64).to("mps")',
        "torch.from_numpy(np.asarray(table).reshape(-1, 1)).to(device)",
    ],
)
def test_float64_of_numpy_that_goes_to_mps_is_reported(line: str) -> None:
    expect(f"{HEAD}    return {line}  # <-\n", "DEV504")


@pytest.mark.parametrize(
    "line",
    [
        "torch.from_numpy(table).float().to(device)",
        "torch.from_numpy(table).to(device, torch.float32)",
        "torch.from_numpy(table.astype('float32')).to(device)",
        "torch.as_tensor(np.zeros(n, dtype=np.float32)).to(device)",
        "torch.as_tensor(np.zeros(n, np.float32)).to(device)",
        "torch.tensor(np.arange(n)).to(device)",
        "torch.tensor(np.random.randint(0, 3, n)).to(device)",
        "torch.tensor(table, dtype=torch.float32, device=device)",
        "torch.tensor(given, device=device)",
        "torch.from_numpy(table).to('cuda')",
    ],
)
def test_what_is_no_float64_or_goes_elsewhere_is_silent(line: str) -> None:
    expect(f"{HEAD}    return {line}\n", "DEV504")


MODULE = """
import torch
from torch import nn
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(3, 3){cast}
    def forward(self, x):
        return self.body(x)
def work():
    return Net(){more}.to("mps"){mark}
"""


@pytest.mark.parametrize(
    "cast, more, marked", [(".double()", "", True), ("", "", False), (".double()", ".float()", False)]
)
def test_a_module_that_holds_float64_is_reported_where_it_goes_to_mps(cast: str, more: str, marked: bool) -> None:
    expect(MODULE.format(cast=cast, more=more, mark="  # <-" if marked else ""), "DEV504")
