"""DEV107: what is read into a name goes into a model from there."""

from __future__ import annotations

import pytest
from checking import expect


@pytest.mark.parametrize("use", ['self.net.load_state_dict(read["model"])', "self.net.load_state_dict(read)"])
def test_what_a_module_loads_by_its_name_is_its_state(use: str) -> None:
    expect(
        f"""
        import torch
        class Trainer:
            def __init__(self, net, device):
                self.net = net.to(device)
            def load(self, path):
                read = torch.load(str(path))  # <-
                {use}
        """,
        "DEV107",
    )


def test_what_nobody_loads_says_nothing() -> None:
    expect(
        """
        import torch
        class Trainer:
            def __init__(self, net, device):
                self.net = net.to(device)
            def load(self, path):
                read = torch.load(str(path))
                return read["lines"]
        """,
        "DEV107",
    )
