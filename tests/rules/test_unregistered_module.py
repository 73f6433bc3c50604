"""DEV104: which containers hide Modules, and which do not."""

from __future__ import annotations

import pytest
from checking import expect, findings, fixed

from torchlint.findings import Confidence

CODE = "DEV104"

NET = """
import torch
from torch import nn


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(3, 3)

    def forward(self, x):
        return self.a(x)


class Net(nn.Module):
    def __init__(self, depth):
        super().__init__()
        {init}

    def forward(self, x):
        return [layer(x) for layer in self.layers]
"""


def net(init: str) -> str:
    return NET.format(init=init.replace("\n", "\n        "))


@pytest.mark.parametrize(
    "init",
    [
        "self.layers = [nn.Linear(3, 3) for _ in range(depth)]",
        "self.layers = [nn.Linear(3, 3), nn.Linear(3, 3)]",
        "self.layers = (nn.Conv2d(3, 3, 1), nn.Linear(3, 3))",
        "self.layers = [Block() for _ in range(depth)]",
        "self.layers = []\nfor _ in range(depth):\n    self.layers.append(Block())",
        "layers = []\nfor _ in range(depth):\n    layers.append(nn.Linear(3, 3))\nself.layers = layers",
        "self.layers = {'a': nn.Linear(3, 3)}",
        "self.layers = {str(i): Block() for i in range(depth)}",
        "self.layers = list(nn.Linear(3, 3) for _ in range(depth))",
    ],
)
def test_a_plain_container_of_modules_is_reported(init: str) -> None:
    assert len(findings(net(init), CODE)) == 1


@pytest.mark.parametrize(
    "init",
    [
        "self.layers = nn.ModuleList([nn.Linear(3, 3) for _ in range(depth)])",
        "self.layers = [nn.ReLU(), nn.Dropout(0.1)]",
        "layers = [nn.Linear(3, 3) for _ in range(depth)]\nself.layers = nn.Sequential(*layers)",
        "self.layers = [nn.Linear(3, 3)]\nself.layers = nn.ModuleList(self.layers)",
        "self.layers = [nn.Linear(3, 3)]\nself.kept = nn.ModuleList(self.layers)",
        "self.layers = [nn.Linear(3, 3)]\nfor i, l in enumerate(self.layers):\n    self.add_module(f'l{i}', l)",
        "self.layers = [nn.Linear(3, 3)]\nfor i, l in enumerate(self.layers):\n    setattr(self, f'l{i}', l)",
        "self.a = nn.Linear(3, 3)\nself.layers = [self.a]",
        "self.layers = [nn.Linear(3, 3).to('cuda')]",
        "self.layers = [lambda x: x]",
    ],
)
def test_what_is_registered_stateless_or_moved_is_silent(init: str) -> None:
    expect(net(init), CODE)


def test_what_goes_past_setattr_under_a_computed_name() -> None:
    expect(
        """
        from torch import nn
        class Net(nn.Module):
            def __init__(self, metrics, teacher):
                super().__init__()
                self.__dict__["teacher"] = teacher
                for name, metric in metrics.items():
                    self.__dict__[f"train_{name}"] = metric  # <-
        class Config:
            def __init__(self, **values):
                for name, value in values.items():
                    self.__dict__[name] = value
        """,
        CODE,
    )


def test_the_fix_wraps_the_list() -> None:
    code = fixed(net("self.layers = [nn.Linear(3, 3) for _ in range(depth)]"), CODE)
    assert "self.layers = nn.ModuleList([nn.Linear(3, 3) for _ in range(depth)])" in code


def test_a_module_alone_in_a_list_is_hidden_on_purpose() -> None:
    code = net("self.layers = [nn.Linear(3, 3)]")
    assert not findings(code, CODE)
    expect(code.replace("3)]", "3)]  # <-"), CODE, confidence=Confidence.POSSIBLE)


def test_a_list_that_grows_later_is_not() -> None:
    expect(net("self.layers = [nn.Linear(3, 3)]  # <-\nfor _ in range(depth):\n    self.layers.append(nn.Linear(3, 3))"), CODE)


def test_a_list_that_nothing_reads_shows_something_else() -> None:
    assert not findings(net("self.shown = [nn.Linear(3, 3), nn.ReLU()]"), CODE)


@pytest.mark.parametrize(
    "given", ["[other] if other else []", "[] if other is None else [other]", "[other] if other else None"]
)
def test_a_module_alone_in_a_list_under_a_condition_is_hidden_as_well(given: str) -> None:
    code = """
        from torch import nn
        class Tied(nn.Module):
            def __init__(self, other: "Tied | None" = None):
                super().__init__()
                self.layer = nn.Linear(3, 3)
                self.kept = GIVEN
            def forward(self, x):
                return self.kept[0](x) if self.kept else x
        """
    assert not findings(code.replace("GIVEN", given), CODE)
    assert findings(code.replace("GIVEN", given.replace("[other]", "[other, other]")), CODE)


def test_a_module_that_the_constructor_is_given_is_not_said_to_be_built_there() -> None:
    code = """
        from torch import nn
        class Part(nn.Module):
            def __init__(self):
                super().__init__()
                self.layer = nn.Linear(3, 3)
        class Parts(nn.Module):
            def __init__(self, parts: list[Part]):
                super().__init__()
                self.parts = parts
            def forward(self, x):
                return [part(x) for part in self.parts]
        """
    (finding,) = findings(code, CODE)
    assert [r.message for r in finding.related] == ["the Module is given here"]


@pytest.mark.parametrize("kept", ["list(parts)", "parts", "[p for p in parts]"])
@pytest.mark.parametrize("promise", ["list[nn.Module]", "Iterable[Part]"])
def test_a_list_of_modules_that_a_constructor_is_promised(kept: str, promise: str) -> None:
    code = f"""
        from collections.abc import Iterable
        import torch
        from torch import nn
        class Part(nn.Module):
            def __init__(self):
                super().__init__()
                self.lin = nn.Linear(2, 2)
        class Whole(nn.Module):
            def __init__(self, parts: {promise}):
                super().__init__()
                self.parts = {{kept}}  # <-
            def forward(self, x):
                return sum(p(x) for p in self.parts)
        """
    expect(code.format(kept=kept), "DEV104")
    assert not findings(code.format(kept=f"nn.ModuleList({kept})"), "DEV104")
