"""DEV103, DEV104: what a Module keeps may be registered by what it hands it to."""

from __future__ import annotations

import pytest
from checking import findings

from torchlint.findings import Confidence

CODE = """
    import torch
    from torch import nn
    from elsewhere import Select
    class Net({base}):
        def __init__(self, names):
            super().__init__()
            {init}

        def forward(self, x):
            return [layer(x) for layer in self.layers]
    """
GROWS = "self.layers = []\n            for n in names: conv = nn.Conv2d(n, n, 3); self.layers.append(conv); {}"
LOOP = (
    "layers = [nn.Linear(n, n) for n in names]\n            seq = []\n"
    "            for layer, name in zip(layers, names): {}\n            self.layers = layers"
)


@pytest.mark.parametrize(
    ("init", "reported"),
    [
        ("self.layers = [nn.Linear(n, n) for n in names]", True),
        ("self.layers = [nn.Linear(n, n) for n in names]; print(len(self.layers))", True),
        ("self.layers = [nn.Linear(n, n) for n in names]; self.select = Select(layers=self.layers)", False),
        ("self.layers = [nn.Linear(n, n) for n in names]; self.select = Select(*self.layers)", False),
        ("self.layers = [nn.Linear(n, n) for n in names]; self.select = Select([m for m in self.layers])", False),
        ("self.layers = [nn.Linear(n, n) for n in names]; super().__init__(self.layers)", False),
        ("a = nn.Linear(2, 2); b = nn.Linear(2, 2); self.layers = [a, b]; self.select = Select(a)", False),
        ("a = nn.Linear(2, 2); b = nn.Linear(2, 2); self.layers = [a, b]; print(a.weight)", True),
        (GROWS.format("seq = nn.Sequential(conv)"), False),
        (GROWS.format("print(n)"), True),
        (LOOP.format("seq.append(layer)"), False),
        (LOOP.format("seq.append(name)"), True),
    ],
)
def test_who_gets_the_list_or_a_module_of_it_may_register_it(init: str, reported: bool) -> None:
    code = CODE.format(init=init, base="nn.Module")
    assert bool(findings(code, "DEV104")) == reported
    assert findings(code, "DEV104", confidence=Confidence.POSSIBLE)


def test_who_asks_for_the_list_may_register_it() -> None:
    code = CODE.format(init="self.layers = [nn.Linear(n, n) for n in names]", base="nn.Module")
    assert findings(code, "DEV104")
    assert not findings(code + "\n        def parts(self):\n            return self.layers\n", "DEV104")


@pytest.mark.parametrize(
    ("made", "reported"),
    [("nn.Linear(3, 3).weight", False), ("torch.zeros(3, 3)", True)],
)
def test_the_weight_of_a_module_is_a_parameter(made: str, reported: bool) -> None:
    code = f"""
        import torch
        from torch import nn
        class Head(nn.Module):
            def __init__(self, weight=None):
                super().__init__()
                if weight is None:
                    weight = {made}
                self.weight = weight
            def forward(self, x):
                return x @ self.weight
        """
    assert bool(findings(code, "DEV102", "DEV103", "DEV201")) == reported


@pytest.mark.parametrize(
    ("then", "reported"),
    [("self.scale = nn.Parameter(self.table)", False), ("self.register_buffer('other', self.table)", False),
     ("self.size = len(self.table)", True)],
)
def test_a_tensor_that_is_registered_too_is_part_of_the_module(then: str, reported: bool) -> None:
    code = f"""
        import torch
        from torch import nn
        class Head(nn.Module):
            def __init__(self):
                super().__init__()
                self.table = torch.zeros(3, 3)
                {then}
            def forward(self, x):
                return x @ self.table
        """
    assert bool(findings(code, "DEV103")) == reported


@pytest.mark.parametrize(
    ("given", "reported"), [("agent.config.steps", False), ("torch.ones(3).to(device)", True)]
)
def test_numpy_is_handed_a_tensor_only_where_it_is_seen_to_be_one(given: str, reported: bool) -> None:
    code = f"""
        import numpy as np
        from elsewhere import build
        import torch
        def draw(count):
            return np.linspace(0, 1, count)
        def run(device):
            agent = build().to(device)
            draw({given})
        """
    assert bool(findings(code, "DEV106")) == reported


@pytest.mark.parametrize(
    ("then", "reported"), [("self.blocks = nn.ModuleList(self.layers)", False), ("self.size = len(self.layers)", True)]
)
def test_a_list_that_is_handed_on_is_left_behind_by_nothing(then: str, reported: bool) -> None:
    code = f"""
        import torch
        from torch import nn
        class Stack(nn.Module):
            def __init__(self, n):
                super().__init__()
                self.layers = [nn.Linear(3, 3) for _ in range(n)]
                {then}
            def forward(self, x):
                total = torch.zeros(3, device=x.device)
                for layer in self.layers:
                    total = total + layer(x)
                return total
        """
    assert bool(findings(code, "DEV102", "DEV103", "DEV104", "DEV201")) == reported
