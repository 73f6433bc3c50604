"""DEV113: a generator of one device, numbers drawn on another."""

from __future__ import annotations

import pytest
from checking import expect

DEFAULT = """import torch
from torch.utils.data import DataLoader, RandomSampler, random_split
{default}
def make(data, flag):
    own = torch.Generator(device="cuda")
    host = torch.Generator().manual_seed(0)
    return {call}{mark}
"""
ACCELERATOR = 'torch.set_default_device("cuda")'


@pytest.mark.parametrize(
    "default",
    [
        ACCELERATOR,
        'torch.set_default_device("cuda" if torch.cuda.is_available() else "cpu")',
        'torch.set_default_tensor_type("torch.cuda.FloatTensor")',
        "torch.set_default_tensor_type(torch.cuda.FloatTensor)",
    ],
)
def test_a_loader_that_shuffles_on_a_default_device_is_reported(default: str) -> None:
    expect(DEFAULT.format(default=default, call="DataLoader(data, shuffle=True)", mark="  # <-"), "DEV113")


@pytest.mark.parametrize(
    "call",
    [
        "random_split(data, [3, 4])",
        "random_split(data, [3, 4], generator=host)",
        "RandomSampler(data)",
        "DataLoader(data, 4, True)",
    ],
)
def test_other_permutations_on_a_default_device_are_reported(call: str) -> None:
    expect(DEFAULT.format(default=ACCELERATOR, call=call, mark="  # <-"), "DEV113")


@pytest.mark.parametrize(
    "call",
    [
        "DataLoader(data)",
        "DataLoader(data, shuffle=False)",
        "DataLoader(data, shuffle=flag)",
        "DataLoader(data, shuffle=True, generator=own)",
        "DataLoader(data, shuffle=True, **flag)",
        "random_split(data, [3, 4], generator=own)",
        "random_split(data, [3, 4], generator=flag)",
    ],
)
def test_what_draws_nothing_or_has_a_generator_is_silent(call: str) -> None:
    expect(DEFAULT.format(default=ACCELERATOR, call=call, mark=""), "DEV113")


@pytest.mark.parametrize(
    "default", ["", 'torch.set_default_device("cpu")', "torch.set_default_tensor_type(torch.DoubleTensor)"]
)
def test_a_loader_on_the_host_may_shuffle(default: str) -> None:
    expect(DEFAULT.format(default=default, call="DataLoader(data, shuffle=True)", mark=""), "DEV113")


@pytest.mark.parametrize(
    "call",
    [
        "torch.randn(3, generator=torch.Generator().manual_seed(0), device=device)",
        "torch.randperm(9, generator=torch.Generator(device='cuda'))",
        "torch.rand(3, device='cuda', generator=torch.Generator())",
    ],
)
def test_a_factory_whose_generator_is_elsewhere_is_reported(call: str) -> None:
    expect(f"import torch\ndef noise(device: torch.device):\n    return {call}  # <-\n", "DEV113")


@pytest.mark.parametrize(
    "call",
    [
        "torch.randn(3, generator=torch.Generator().manual_seed(0)).to(device)",
        "torch.randn(3, generator=torch.Generator(device), device=device)",
        "torch.randn(3, generator=generator, device=device)",
        "torch.randperm(9, generator=torch.Generator('cuda'), device='cuda')",
    ],
)
def test_a_factory_with_a_generator_of_its_device_is_silent(call: str) -> None:
    code = f"import torch\ndef noise(device: torch.device, generator: torch.Generator):\n    return {call}\n"
    expect(code, "DEV113")


def test_a_loader_before_the_default_device_is_set_is_silent() -> None:
    expect(
        """
        import torch
        from torch.utils.data import DataLoader
        loader = DataLoader(range(9), shuffle=True)
        print(list(loader))
        torch.set_default_device("cuda")
        later = DataLoader(range(9), shuffle=True)  # <-
        """,
        "DEV113",
    )
