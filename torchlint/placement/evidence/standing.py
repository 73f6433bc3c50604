"""Where a wait stands in its function: behind which tests, and whether these read the same tensor before."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

import libcst as cst

from torchlint.placement.syntax import assigned_names, children, descendants, dotted, words

if TYPE_CHECKING:
    from torchlint.placement.events import Sync

#: What asks for the text of a tensor.
_TEXTS = frozenset(["f-string", "print()", "str()", "repr()", "format()", "format"])
#: Tests that a training passes, or that ask what the code runs on.
_TRAINS = re.compile(r"\b(?:training|is_train|is_available|is_cuda|is_initialized)\b|\bdevice\b|\bcuda\b|\bgpus?\b")
#: Settings of a program, however they are kept.
_OPTION = re.compile(r"(?:\b|_)(?:args?|opts?|options?|cfg|config|conf|flags|hparams)[.\[]", re.IGNORECASE)


class Test(NamedTuple):
    """A test before what stands behind it; block: the branch, or what an `and`, an `or` or a ternary leads to."""

    asked: cst.BaseExpression
    block: cst.CSTNode


def tests_before(wait: Sync) -> list[Test]:
    """The tests in the function that have to come out one way before the host waits, outermost first."""
    function = wait.scene.function
    return [] if function is None else _path(function.body, wait.node) or []


def _path(node: cst.CSTNode, sought: cst.CSTNode) -> list[Test] | None:
    """The tests between a node and one below it; None where that is not below."""
    if node is sought:
        return []
    for child in children(node):
        below = _path(child, sought)
        if below is not None:
            asked = _asked(node, child)
            return below if asked is None else [Test(asked, child), *below]
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


def is_option(tests: Sequence[Test]) -> bool:
    """Whether a setting of the program decides."""
    texts = (words(t.asked) for t in tests)
    return any(_OPTION.search(text) and not _TRAINS.search(text) for text in texts)


def has_just_been_read(wait: Sync, tests: Sequence[Test], waits: Sequence[Sync]) -> bool:
    """Whether the text is asked for of what the test of the branch has read: that waited, and nothing waits now."""
    if wait.api not in _TEXTS or not wait.subject:
        return False
    for test in tests:
        parts = set(map(id, descendants(test.asked)))
        if all(dotted(node) != wait.subject for node in descendants(test.asked)):
            continue
        if wait.subject not in _bound(test.block) and any(id(w.node) in parts for w in waits if w is not wait):
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
