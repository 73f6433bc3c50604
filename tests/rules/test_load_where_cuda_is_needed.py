"""Loads in programs that needed the first CUDA device before, and of what never was on a device."""

from __future__ import annotations

import pytest
from checking import reported_lines


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
