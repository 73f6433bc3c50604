"""Loads in programs that needed the first CUDA device before, and of what never was on a device."""

from __future__ import annotations

from pathlib import Path

import pytest
from checking import findings, reported_lines


@pytest.mark.parametrize(
    ("before", "reported"),
    [
        ('device = torch.device("cuda")', False),
        ("print(torch.cuda.current_device())", False),
        ("torch.cuda.set_device(0)", False),
        ("torch.cuda.set_device(args.gpu)", True),
        ('device = "cuda" if torch.cuda.is_available() else "cpu"', True),
        ("if torch.cuda.is_available():\n        torch.cuda.set_device(0)", True),
        ("if args.index:\n        print(torch.cuda.current_device())", True),
        ("pass", True),
    ],
)
def test_a_program_that_needs_the_first_device_finds_it(before: str, reported: bool) -> None:
    code = f"""
import argparse
import torch
from model import Generator

if __name__ == "__main__":
    args = argparse.ArgumentParser().parse_args()
    {before}
    checkpoint = torch.load(args.checkpoint)
    net = Generator().eval()
    net.load_state_dict(checkpoint["net"])
    print(net(torch.zeros(1, device="cpu")))
"""
    assert bool(reported_lines(code, "DEV107")) is reported


@pytest.mark.parametrize(
    ("name", "path", "reported"),
    [
        ("load_random_states", "folder / 'random.pt'", False),
        ("load_rng_state", "path", False),
        ("load_weights", "path", True),
        ("random_model", "checkpoint", True),
    ],
)
def test_states_of_generators_are_on_the_cpu(name: str, path: str, reported: bool) -> None:
    code = f"import torch\ndef {name}(folder, path, checkpoint):\n    read = torch.load({path})\n    return read\n"
    assert bool(reported_lines(code, "DEV107")) is reported


@pytest.mark.parametrize(
    ("first", "reported"),
    [
        ("torch.set_default_tensor_type('torch.cuda.FloatTensor')", False),
        ("torch.set_default_device('cuda')", False),
        ("torch.set_default_device(args.device)", True),
        ("if torch.cuda.is_available():\n        torch.set_default_tensor_type('torch.cuda.FloatTensor')", True),
        ("torch.set_default_tensor_type('torch.FloatTensor')", True),
    ],
)
def test_a_program_that_makes_all_on_the_first_device_finds_it(first: str, reported: bool) -> None:
    code = f"""
import torch
from options import args
device = "cuda" if torch.cuda.is_available() else "cpu"

def create(net, path):
    net.load_state_dict(torch.load(path))

if __name__ == "__main__":
    {first}
    create(args.net, args.path)
"""
    assert bool(reported_lines(code, "DEV107")) is reported


@pytest.mark.parametrize(
    ("beside", "reported"),
    [
        ("", False),
        ("device = 'cuda' if torch.cuda.is_available() else 'cpu'\n", True),
    ],
)
def test_a_parameter_shows_no_device_where_the_project_chooses_none(
    tmp_path: Path, beside: str, reported: bool
) -> None:
    (tmp_path / "setup.py").write_text("")
    (tmp_path / "main.py").write_text(f"import torch\n{beside}")
    code = """
import torch

def load_weights(net, path):
    net.load_state_dict(torch.load(path))

def sample(net, count, device="cuda"):
    return net(torch.zeros(count, device="cuda"))
"""
    path = tmp_path / "utils.py"
    path.write_text(code)
    assert bool(findings(code, "DEV107", path=str(path))) is reported
