"""Where paths part and meet: conditions become guards, and tests of devices choose a world."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import libcst as cst

from torchlint.placement.interpreter import Env, Interpreter, join_env
from torchlint.placement.syntax import (
    condition,
    conjuncts,
    descendants,
    words,
)
from torchlint.placement.values import Kind, Value, guarded

Condition = tuple[str, bool]

_WORD = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*")
#: Conditions before a branch that are noted on what it changes; chains of elif may be long.
_MOST_CONDITIONS = 3


class Branch(NamedTuple):
    """One way through a statement.

    conditions: what holds on it. world: `accelerator` where its test found one, `host` where it found none, `flag`
    where a flag of the program decides, empty where nothing is said of devices.
    """

    env: Env
    conditions: tuple[Condition, ...] = ()
    world: str = ""


def condition_of(run: Interpreter, test: cst.BaseExpression) -> Condition | None:
    """A test as (text, truth), told apart from the same words once what they speak of was bound anew."""
    key = condition(test)
    return None if key is None else (_versioned(run, key[0]), key[1])


def _versioned(run: Interpreter, text: str) -> str:
    versions = run.frame.versions
    if not versions:
        return text

    def versioned(match: re.Match[str]) -> str:
        word = match[0]
        while word:
            if versions.get(word):
                return f"{match[0]}'{versions[word]}"
            word = word.rpartition(".")[0]
        return match[0]

    return _WORD.sub(versioned, text)


def choice_of(run: Interpreter, test: cst.BaseExpression, tests: frozenset[str]) -> Condition | None:
    """A test of several that chooses a device, taken as one: `torch.cuda.is_available() and not args.cpu`."""
    if type(test) is not cst.BooleanOperation or not world_of(tests, taken=True):
        return None
    return _versioned(run, words(test)), True


def conditions_of(run: Interpreter, test: cst.BaseExpression) -> Iterator[Condition]:
    """The tests that all hold where `test`, a chain of `and`, does; none where it is no chain."""
    parts = list(conjuncts(test))
    for part in parts if len(parts) > 1 else ():
        key = condition_of(run, part)
        if key is not None:
            yield key


def opposite(key: Condition | None) -> Condition | None:
    """The same test found the other way."""
    return None if key is None else (key[0], not key[1])


def world_of(tests: frozenset[str], *, taken: bool) -> str:
    """The world in which a branch runs, by what its test says."""
    if "accelerator" in tests and "no-accelerator" not in tests:
        return "accelerator" if taken else "host"
    if "no-accelerator" in tests and "accelerator" not in tests:
        return "host" if taken else "accelerator"
    return "flag" if tests & {"flag", "accelerator"} else ""


def drop_placeholders(node: cst.If, taken: Env, skipped: Env) -> None:
    """In a loop, what one branch sets and the other one adds to held a mere stand-in before: it is never added to.

    `if first: total = x` … `else: total = torch.cat([total, x])`, or the other way round, with an `elif`
    """
    assert node.orelse is not None
    sides = [(node.orelse.body, node.body, taken)]
    if type(node.orelse) is cst.Else:
        sides.append((node.body, node.orelse.body, skipped))
    for setting, reading, other in sides:
        names = _set_anew(setting)
        if not names:
            continue
        read = {n.value for n in descendants(reading) if type(n) is cst.Name}
        for name in names & read:
            value = other.get(name)
            if value is not None and value.may_be_on_host:
                other[name] = value.at(tuple(p for p in value.places if not p.place.is_host))


def _set_anew(suite: cst.BaseSuite) -> set[str]:
    """The names that a suite binds to something that does not hang on them."""
    names: set[str] = set()
    for line in suite.body:
        for small in line.body if type(line) is cst.SimpleStatementLine else ():
            if type(small) is cst.Assign and len(small.targets) == 1:
                target = small.targets[0].target
                if type(target) is cst.Name:
                    used = {n.value for n in descendants(small.value) if type(n) is cst.Name}
                    names |= {target.value} - used
    return names


def meet(before: Env, branches: Sequence[Branch]) -> Env:
    """What is known after the branches, each of which started from `before` and got to its end."""
    changed = {
        name for branch in branches for name, value in branch.env.items() if value is not before.get(name)
    }
    worlds = [b.world for b in branches]
    for name in changed:
        values = [branch.env.get(name) for branch in branches]
        fresh = [value is not before.get(name) for value in values]
        for branch, value in zip(branches, _chosen(values, fresh, worlds)):
            if value is None:
                continue
            for key in branch.conditions[-_MOST_CONDITIONS:]:
                value = guarded(value, *key)
            branch.env[name] = value
    merged = branches[0].env
    for branch in branches[1:]:
        merged = join_env(merged, branch.env)
    return merged


def _chosen(
    values: Sequence[Value | None], fresh: Sequence[bool], worlds: Sequence[str]
) -> Sequence[Value | None]:
    """The values as they are where there is an accelerator: without one, nothing is elsewhere.

    fresh: which of the branches bound the name. Where a mere flag decides, the branch that does moves the value.
    """
    if "accelerator" in worlds:
        deciding = [world == "accelerator" for world in worlds]
    elif sum(fresh) == 1 and worlds[fresh.index(True)] == "flag":
        deciding = list(fresh)
    elif all(fresh) and set(worlds) == {"flag"}:
        deciding = [v is not None and bool(v.places) and not v.may_be_on_host for v in values]
    else:
        return values
    wanted = [v for v, decides in zip(values, deciding) if decides and v is not None and v.places]
    if not wanted:
        return values
    on_host = all(v.on_host for v in wanted)
    away = not any(v.may_be_on_host for v in wanted)
    if not on_host and not away:
        return values
    # What was moved where there is an accelerator is nowhere else then.
    moved = "accelerator" in worlds and all(p.place.is_named for v in wanted for p in v.places)
    return [
        v
        if v is None or decides
        else v.at(tuple(p for p in v.places if p.place.is_host is on_host and not (moved and not on_host)))
        for v, decides in zip(values, deciding)
    ]


def choose(yes: Value, no: Value, tests: frozenset[str], key: Condition | None) -> tuple[Value, Value]:
    """The sides of a conditional expression, guarded by its test."""
    worlds = [world_of(tests, taken=True), world_of(tests, taken=False)]
    fresh = [yes.may_be_on_host != no.may_be_on_host and yes.kind is Kind.TENSOR and not yes.on_host, False]
    first, second = _chosen([yes, no], fresh, worlds)
    assert first is not None
    assert second is not None
    if key is not None:
        return guarded(first, *key), guarded(second, key[0], not key[1])
    return first, second
