"""What rounds of loops hand on."""

from __future__ import annotations

from textwrap import dedent
from typing import Any

import libcst as cst
import pytest

from torchlint.placement.events import Mix
from torchlint.placement.language.rounds import carried
from torchlint.placement.observer import observe


def loop(code: str) -> Any:
    return cst.parse_module(dedent(code)).body[0]


@pytest.mark.parametrize(
    ("code", "reads"),
    [
        ("for x in xs:\n    y = x\n    z = y\n", set()),
        ("for x in xs:\n    z = y\n    y = x\n", {"y"}),
        ("for x in xs:\n    if a:\n        y = x\n    z = y\n", {"a", "y"}),
        ("for x in xs:\n    if a:\n        y = x\n    else:\n        y = 1\n    z = y\n", {"a"}),
        ("for x in xs:\n    with f() as g:\n        y = x\n    z = y\n", {"f"}),
        ("for x in xs:\n    for i in x:\n        y = i\n    z = y\n", {"y"}),
        ("for x in xs:\n    z = self.h.w\n", {"self", "self.h", "self.h.w"}),
        ("for x in xs:\n    self.h = x\n    z = self.h.w\n", set()),
        ("for x in xs:\n    d[k] = x\n", {"d", "k"}),
        ("for x in xs:\n    a, b = x\n    a.f(b)\n", set()),
        ("for x in xs:\n    def f():\n        return y\n    y = x\n", {"y"}),
        ("while more():\n    more = f\n", {"more", "f"}),
    ],
)
def test_names_that_a_body_reads_before_it_binds_them(code: str, reads: set[str]) -> None:
    assert carried(loop(code)).reads == reads


def test_a_sum_is_no_news_while_it_is_a_number() -> None:
    found = carried(loop("for x in xs:\n    total += x\n"))
    assert (found.reads, found.counted) == (set(), {"total"})


def mixes(code: str) -> int:
    observation = observe(cst.parse_module(dedent(code)), "a.py")
    return sum(isinstance(event, Mix) for event in observation.events)


def test_what_the_round_before_left_is_met() -> None:
    code = """
    import torch
    state = torch.zeros(3, device="cuda")
    for i in range(9):
        out = state + 1
        new = torch.ones(3, device="cuda") + state
        state = torch.zeros(3)
    """
    assert mixes(code) == 1


def test_what_is_bound_anew_in_each_round_meets_nothing() -> None:
    code = """
    import torch
    for i in range(9):
        state = torch.zeros(3, device="cuda")
        new = torch.ones(3, device="cuda") + state
        state = torch.zeros(3)
    """
    assert mixes(code) == 0
