"""What is known of code that other code of the file completes: base classes, and functions within functions."""

from __future__ import annotations

from textwrap import dedent

import libcst as cst

from torchlint.placement.events import Event, Move, Sync
from torchlint.placement.observer import observe
from torchlint.placement.values import Kind


def events(code: str, kind: type[Event]) -> list[Event]:
    return [e for e in observe(cst.parse_module(dedent(code)), "train.py").events if type(e) is kind]


def moved_kinds(code: str) -> list[Kind]:
    return [e.value.kind for e in events(code, Move) if isinstance(e, Move)]


BASE = """
    import torch
    class Base:
        def send(self, device):
            self.table.to(device)
    class One(Base):
        def __init__(self):
            self.table = torch.zeros(3)
    """


def test_an_attribute_that_the_only_heir_sets_is_known_in_the_base() -> None:
    assert moved_kinds(BASE) == [Kind.TENSOR]


def test_an_attribute_that_two_heirs_set_is_not_known_in_the_base() -> None:
    other = "class Two(Base):\n    def __init__(self):\n        self.table = torch.nn.Linear(1, 1)\n"
    assert moved_kinds(dedent(BASE) + other) == [Kind.UNKNOWN]


INNER = """
    import torch
    def train(net, loader, optimizer, device):
        history = []
        def note(loss, piece):
            history.append(loss.item())
            piece.to(device)
        for x in loader:
            loss = net(x.to(device)).mean()
            loss.backward()
            optimizer.step()
            note(loss, torch.zeros(1))
        {more}
    """


def waits_when_hot(code: str) -> list[bool]:
    return [e.scene.hot for e in events(code, Sync) if isinstance(e, Sync) and e.api == "item"]


def test_a_function_within_a_function_runs_where_it_is_called() -> None:
    assert waits_when_hot(INNER.format(more="return history")) == [True]


def test_its_parameters_are_what_its_only_call_passes() -> None:
    assert moved_kinds(INNER.format(more="return history"))[-1] is Kind.TENSOR


def test_one_that_is_called_twice_stands_for_itself() -> None:
    code = INNER.format(more="note(loss, history)")
    assert waits_when_hot(code) == [False]
    assert Kind.UNKNOWN in moved_kinds(code)
