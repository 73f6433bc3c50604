"""Where a wait stands in its function: behind which tests, and whether these read the same tensor before."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

import libcst as cst

from torchlint.placement.syntax import (
    assigned_names,
    children,
    conjuncts,
    descendants,
    dotted,
    words,
)

if TYPE_CHECKING:
    from torchlint.placement.events import Sync

#: What asks for the text of a tensor.
_TEXTS = frozenset(["f-string", "print()", "str()", "repr()", "format()", "format"])
#: Tests that a training passes, or that ask what the code runs on.
_TRAINS = re.compile(
    r"\b(?:training|is_train|is_available|is_cuda|is_initialized)\b|\bdevice\b|\bcuda\b|\bgpus?\b"
)
#: Settings of a program, however they are kept.
_OPTION = re.compile(r"(?:\b|_)(?:args?|opts?|options?|cfg|config|conf|flags|hparams)[.\[]", re.IGNORECASE)
#: What counts steps, which is larger after a while, and what tells the processes of a training apart.
_ON_THE_WAY = re.compile(
    r"(?:^|_)(?:steps?|iters?|iterations?|itr|epochs?|batch(?:es)?|idx|index|count(?:er)?|rank|main|master|process"
    r"|world|distributed|train\w*|infer\w*|eval\w*)(?:_|$)",
    re.IGNORECASE,
)
_BUILT_IN = frozenset("hasattr getattr isinstance len bool int float str type callable any all".split())


class Test(NamedTuple):
    """A test before what stands behind it; block: the branch, or what an `and`, an `or` or a ternary leads to.

    other: what runs instead where the test comes out the other way, if anything does.
    """

    asked: cst.BaseExpression
    block: cst.CSTNode
    other: cst.CSTNode | None = None


def tests_before(wait: Sync) -> list[Test]:
    """The tests in the function that have to come out one way before the host waits, outermost first."""
    function = wait.scene.function
    return [] if function is None else _path(function.body, wait.node) or []


def tests_in_step(wait: Sync, module: cst.Module) -> list[Test]:
    """Those of the tests that each step asks anew: within the loop over the batches, if it stands in one."""
    scene = wait.scene
    loop = scene.step_loop
    around: cst.CSTNode | None = loop.body if scene.hot and isinstance(loop, cst.For | cst.While) else None
    if around is None or (scene.function is not None and _path(around, wait.node) is None):
        around = module if scene.function is None else scene.function.body
    return _path(around, wait.node) or []


def _path(node: cst.CSTNode, sought: cst.CSTNode) -> list[Test] | None:
    """The tests between a node and one below it; None where that is not below."""
    if node is sought:
        return []
    for child in children(node):
        below = _path(child, sought)
        if below is not None:
            asked = _asked(node, child)
            return below if asked is None else [Test(asked, child, _other(node, child)), *below]
    return None


def _other(node: cst.CSTNode, child: cst.CSTNode) -> cst.CSTNode | None:
    """What a statement or an expression runs instead of a part of it."""
    if isinstance(node, cst.If | cst.IfExp):
        return node.orelse if child is node.body else node.body
    return None


def _asked(node: cst.CSTNode, child: cst.CSTNode) -> cst.BaseExpression | None:
    """What was asked before a part of a statement or an expression is reached."""
    if isinstance(node, cst.If | cst.IfExp):
        return None if child is node.test else node.test
    if isinstance(node, cst.BooleanOperation):
        return node.left if child is node.right else None
    return None


def is_unconditional(tests: Sequence[Test], holding: frozenset[str]) -> bool:
    """Whether only tests of the training and of the machine stand before, or such as are known to hold."""
    return all(_TRAINS.search(words(t.asked)) or words(t.asked) in holding for t in tests)


def is_chosen(
    tests: Sequence[Test], holding: frozenset[str], bound: Collection[str], waits: Sequence[Sync]
) -> bool:
    """Whether a setting decides that nothing shows: what the function finds as it is, or was given.

    holding: the tests that are known to hold. bound: the names that the function binds. A test is no choice where the
    host waits either way.
    """
    nodes = {id(w.node) for w in waits}
    return any(
        (t.other is None or all(id(n) not in nodes for n in descendants(t.other)))
        and any(words(asked) not in holding and _is_setting(asked, bound) for asked in conjuncts(t.asked))
        for t in tests
    )


def is_of_machine(text: str) -> bool:
    """Whether a test asks what the code runs on, or whether it trains."""
    return _TRAINS.search(text) is not None


def _is_setting(asked: cst.BaseExpression, bound: Collection[str]) -> bool:
    """Whether all that a test reads is there before the step, and neither the machine nor the training says it."""
    text = words(asked)
    if is_of_machine(text):
        return False
    names = [name for name in _read(asked) if name not in _BUILT_IN]
    if not names or any(_ON_THE_WAY.search(name.rpartition(".")[2]) for name in names):
        return False
    return all(
        name.partition(".")[0] not in bound or _OPTION.search(f"{name}.") is not None for name in names
    )


def _read(node: cst.CSTNode) -> Iterator[str]:
    """The names that an expression reads, each with all its attributes."""
    name = dotted(node)
    if name is not None:
        if name not in ("None", "True", "False"):
            yield name
        return
    for child in children(node):
        yield from _read(child)


def has_just_been_read(wait: Sync, tests: Sequence[Test], waits: Sequence[Sync]) -> bool:
    """Whether the text is asked for of what the test of the branch has read: that waited, and nothing waits now."""
    if wait.api not in _TEXTS or not wait.subject:
        return False
    for test in tests:
        parts = set(map(id, descendants(test.asked)))
        if all(dotted(node) != wait.subject for node in descendants(test.asked)):
            continue
        if wait.subject not in _bound(test.block) and any(
            id(w.node) in parts for w in waits if w is not wait
        ):
            return True
    return False


def _bound(block: cst.CSTNode) -> Iterator[str]:
    for node in descendants(block):
        if isinstance(node, cst.Assign):
            for target in node.targets:
                yield from assigned_names(target.target)
                yield dotted(target.target) or ""
        elif isinstance(node, cst.AugAssign):
            yield dotted(node.target) or ""
