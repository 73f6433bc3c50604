"""What a test of the device says of the tensors behind it: on the CPU nothing is elsewhere."""

from __future__ import annotations

import pytest
from checking import expect


@pytest.mark.parametrize("test", ['str(device) == "cpu"', 'device.type == "cpu"', "device == HERE"])
def test_numpy_takes_what_was_moved_to_a_device_that_is_the_cpu(test: str) -> None:
    expect(
        f"""
        import torch
        HERE = torch.device("cpu")
        def fit(features, device):
            features = features.to(device)
            if {test}:
                features = features.numpy()
            return features
        """,
        "DEV106",
    )


def test_numpy_refuses_what_was_moved_to_a_device_that_is_not_the_cpu() -> None:
    expect(
        """
        import torch
        def fit(features, device):
            features = features.to(device)
            if device.type != "cpu":
                features = features.numpy()  # <-
            return features
        """,
        "DEV106",
    )


def test_a_helper_that_copies_what_is_on_cuda_gives_what_numpy_takes() -> None:
    expect(
        """
        import torch
        def as_host(m):
            if m.is_cuda:
                return torch.FloatTensor(m.size()).copy_(m)
            else:
                return m
        class Net(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.norm = torch.nn.BatchNorm2d(3)
            def save(self, file):
                as_host(self.norm.bias.data).numpy().tofile(file)
        """,
        "DEV106",
    )


def test_a_helper_that_copies_only_at_times_gives_what_numpy_may_refuse() -> None:
    expect(
        """
        import torch
        def as_host(m, copied):
            if copied:
                return m.cpu()
            else:
                return m
        def save(model: torch.nn.Module, file, copied):
            model.cuda()
            as_host(model.weight.data, copied).numpy().tofile(file)  # <-
        """,
        "DEV106",
    )


def test_a_type_that_a_caller_gives_may_have_a_device_in_it() -> None:
    expect(
        """
        import torch
        class Head(torch.nn.Module):
            def forward(self, x):
                return self.decode(x, dtype=x.type())
            def decode(self, outputs, dtype):
                strides = torch.full((2, 1), 3.0).type(dtype)
                return torch.exp(outputs[..., 2:4]) * strides
        """,
        "DEV102",
    )


def test_a_dtype_that_a_caller_gives_moves_nothing() -> None:
    expect(
        """
        import torch
        class Head(torch.nn.Module):
            def forward(self, x):
                return self.decode(x, dtype=x.dtype)
            def decode(self, outputs, dtype: torch.dtype):
                strides = torch.full((2, 1), 3.0).type(dtype)  # <-
                return torch.exp(outputs[..., 2:4]) * strides
        """,
        "DEV102",
    )


def test_a_device_that_a_function_chooses_where_the_caller_gives_none_is_no_cpu() -> None:
    expect(
        """
        import torch
        def batch(n, device=None):
            if device is None: device = "cuda" if torch.cuda.is_available() else "cpu"
            return torch.tensor([n], device=device)
        model = torch.nn.Linear(2, 2).to("cuda")
        model(batch(3))
        """,
        "DEV102",
    )


def test_a_device_that_a_function_leaves_as_none_is_the_default_one() -> None:
    expect(
        """
        import torch
        def batch(n, device=None):
            return torch.tensor([[n]], device=device)
        model = torch.nn.Linear(2, 2).to("cuda")
        model(batch(3))  # <-
        """,
        "DEV102",
    )


def test_a_list_that_one_way_of_calling_gives_has_nothing_of_what_the_other_gives() -> None:
    expect(
        """
        import torch
        from torch.nn.utils.rnn import pad_sequence
        def waves(device, padded=False):
            made, lengths = [], []
            for _ in range(2):
                made.append(torch.randn(3, 4).to(device))
                lengths.append(3)
            if not padded:
                return made
            else:
                return pad_sequence(made), torch.LongTensor(lengths)
        def run(network, device):
            model = network.get().to(device)
            return model(waves(device))
        """,
        "DEV102",
    )


@pytest.mark.parametrize("base", ["torch.jit.ScriptModule", "Alias"])
def test_parameters_of_a_script_module_move_with_it(base: str) -> None:
    expect(
        f"""
        import torch
        from torch import nn
        Alias = torch.jit.ScriptModule
        class Mix({base}):
            def __init__(self, width):
                super().__init__()
                self.w = nn.Parameter(torch.zeros(width, 8))
                self.shift = nn.ZeroPad2d((0, 0, 1, -1))
            def forward(self, x):
                shifted = self.shift(x) - x
                return torch.tanh((x + shifted * 2) @ self.w)
        device = "cuda"
        model = torch.nn.Sequential(Mix(8)).to(device)
        """,
        "DEV102",
    )
