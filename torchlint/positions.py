"""Where nodes stand in the text: offsets, lines and ancestors of chosen nodes, from the code of what holds them.

`libcst.metadata.PositionProvider` finds the same, of every node, in eight times the time. What is used here
instead, `CodegenState`, is private to LibCST; should it change, PositionProvider takes over.
"""

from __future__ import annotations

import threading
from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from itertools import accumulate
from types import TracebackType
from typing import Any

import libcst as cst
from libcst._nodes.internal import CodegenState

from torchlint.deep import deeply
from torchlint.findings import Position, Range
from torchlint.placement.syntax import children, descendants
from torchlint.source import Lines

_Spans = dict[int, tuple[int, int]]
_Holders = dict[int, tuple[cst.CSTNode, ...]]

# Statements, and the clauses that hold others: `else:`, `case …:`, a decorator.
CLAUSES = (cst.Else, cst.ExceptHandler, cst.ExceptStarHandler, cst.Finally, cst.MatchCase, cst.Decorator)
_STATEMENTS = (cst.BaseStatement, cst.BaseSmallStatement, cst.BaseSuite, *CLAUSES)


@dataclass(frozen=True)
class Places:
    """Where nodes stand in `text`: offsets in characters, by the `id` of a node.

    spans: from the first character up to behind the last one, without the white space, comments and
    parentheses around the node (as PositionProvider has it). holders: the statements, clauses and suites
    around a node, the outermost first; known only if statements were asked for, as are their spans.
    faithful: whether the tree gives back the text to the letter, so that offsets may be edited by.
    """

    text: str
    spans: Mapping[int, tuple[int, int]]
    holders: Mapping[int, tuple[cst.CSTNode, ...]]
    faithful: bool = True

    def __contains__(self, node: cst.CSTNode) -> bool:
        return id(node) in self.spans

    def span(self, node: cst.CSTNode) -> tuple[int, int]:
        return self.spans[id(node)]


def ranges(module: cst.Module, nodes: Iterable[cst.CSTNode]) -> dict[int, Range]:
    """The ranges of nodes of a module in its own code, by `id(node)`; nodes from elsewhere are left out."""
    nodes = list(nodes)
    found = places(module, nodes)
    lines = Lines(found.text)
    return {id(node): lines.range(*found.span(node)) for node in nodes if node in found}


def places(
    module: cst.Module, nodes: Iterable[cst.CSTNode], text: str | None = None, *, statements: bool = False
) -> Places:
    """Find nodes of a module in `text`, which the module was parsed from (by default, in its own code).

    Nodes that are not in the module are left out. statements: find statements as well: those around the nodes, and
    with them all of the same statement of the module's; and the first ones of the module.
    """
    nodes = list(nodes)
    wanted = {id(node) for node in nodes}
    if text is not None:
        near = deeply(lambda: _find_in_parts(module, nodes, wanted, statements, text))
        if near is not None:
            return Places(text, *near)
    code, spans, holders = deeply(lambda: _find(module, wanted, statements))
    if text is None or text == code:
        return Places(code, spans, holders)
    realign = _alignment(code, text)
    if realign is None:
        return Places(text, _by_lines(code, text, spans), holders, faithful=False)
    return Places(text, {key: realign(*span) for key, span in spans.items()}, holders)


def _find(module: cst.Module, wanted: set[int], statements: bool) -> tuple[str, _Spans, _Holders]:
    try:
        return by_codegen(module, wanted, statements)
    except (AttributeError, TypeError, KeyError):  # LibCST has changed inside
        return by_provider(module, wanted, statements)


def _find_in_parts(
    module: cst.Module, nodes: Iterable[cst.CSTNode], wanted: set[int], statements: bool, text: str
) -> tuple[_Spans, _Holders] | None:
    """The same from the code of those of the module's statements alone that hold the nodes, which the text has once.

    To write out all of a module takes a third of the time of parsing it. None where only that will do.
    """
    spans: _Spans = {}
    holders: _Holders = {}
    parts, strangers = _holding(module, nodes)
    first = _opening(module) if statements else 0
    # The last statement's code has a line end even where the text has none.
    open_end = () if module.has_trailing_newline or module.footer else module.body[-1:]
    try:
        if first:
            recorder = _Recorder(module, wanted, statements)
            for line in module.header:
                line._codegen(recorder)
            opening = module.body[:first]
            if not _record(recorder, opening, text, 0, spans, holders, open_end=opening[-1:] == open_end):
                return None
        opened = {id(statement) for statement in module.body[:first]}
        for part in parts:
            known = id(part) in opened or (not statements and _record_lines(module, part, wanted, text, spans, holders))
            recorder = _Recorder(module, wanted, statements)
            if not known and not _record(recorder, [part], text, None, spans, holders, open_end=[part] == [*open_end]):
                return None
    except (AttributeError, TypeError, KeyError):  # LibCST has changed inside, or nodes are of the other sort
        return None
    return (spans, holders) if wanted - strangers <= spans.keys() else None


def _opening(module: cst.Module) -> int:
    """How many statements a module opens with that imports may be added to."""
    count = 0
    while count < len(module.body) and type(module.body[count]) is cst.SimpleStatementLine:
        count += 1
    return min(max(count, 1), len(module.body))


def _holding(module: cst.Module, nodes: Iterable[cst.CSTNode]) -> tuple[list[cst.CSTNode], set[int]]:
    """The statements of a module that hold the nodes, and which of these none of them holds.

    Punctuation is not looked for, it stands with the rest.
    """
    left = {id(node) for node in nodes if type(node) not in _PUNCTUATION}
    found: list[cst.CSTNode] = []
    for statement in module.body:
        if not left:
            break
        before = len(left)
        stack: list[cst.CSTNode] = [statement]
        while stack and left:
            node = stack.pop()
            left.discard(id(node))
            stack += children(node)
        if len(left) < before:
            found.append(statement)
    return found, left


_PUNCTUATION = (cst.Comma, cst.LeftParen, cst.RightParen)


def _record_lines(
    module: cst.Module, part: cst.CSTNode, wanted: set[int], text: str, spans: _Spans, holders: _Holders
) -> bool:
    """The same as `_record` from the lines of a statement alone that hold the nodes; False where they will not do."""
    lines = _lines_holding(part, wanted)
    if not lines or lines[0][0] is part:
        return False
    for line, indents in lines:
        recorder = _Recorder(module, wanted, False)
        for indent in indents:
            recorder.increase_indent(module.default_indent if indent is None else indent)
        if not _record(recorder, [line], text, None, spans, holders, open_end=False):
            return False
    return True


def _lines_holding(part: cst.CSTNode, wanted: set[int]) -> list[tuple[cst.CSTNode, tuple[str | None, ...]]]:
    """The lines within a statement that hold the nodes, each with the indents around it; none if a header holds one."""
    found: list[tuple[cst.CSTNode, tuple[str | None, ...]]] = []
    stack: list[tuple[cst.CSTNode, tuple[str | None, ...]]] = [(part, ())]
    while stack:
        node, indents = stack.pop()
        if type(node) is cst.SimpleStatementLine:
            if not wanted.isdisjoint(map(id, descendants(node))):
                found.append((node, indents))
            continue
        if id(node) in wanted:
            return []
        if type(node) is cst.IndentedBlock:
            indents = (*indents, node.indent)
        stack += [(child, indents) for child in children(node)]
    return found


def _record(
    recorder: _Recorder,
    part: Iterable[cst.CSTNode],
    text: str,
    start: int | None,
    spans: _Spans,
    holders: _Holders,
    *,
    open_end: bool,
) -> bool:
    """Note where things stand in a part of a module; False where the text has its code not once, or not at `start`."""
    for statement in part:
        statement._codegen(recorder)
    if open_end:
        recorder.pop_trailing_newline()
    code = "".join(recorder.tokens)
    if start is None:
        start = text.find(code)
        while start > 0 and text[start - 1] not in "\r\n":
            start = text.find(code, start + 1)
        if text.find(code, start + 1) >= 0:
            return False
    if start < 0 or not text.startswith(code, start):
        return False
    offsets = [*accumulate(map(len, recorder.tokens), initial=start)]
    end = len(offsets) - 1
    spans.update(
        (key, (offsets[min(first, end)], offsets[min(last, end)])) for key, (first, last) in recorder.marks.items()
    )
    holders.update(recorder.holders)
    return True


class _Recorder(CodegenState):
    """Generates code and notes at which token the wanted nodes begin and end."""

    def __init__(self, module: cst.Module, wanted: set[int], statements: bool) -> None:
        super().__init__(default_indent=module.default_indent, default_newline=module.default_newline)
        self.wanted = set(wanted)
        self.marks: _Spans = {}
        self.holders: _Holders = {}
        self.around: list[cst.CSTNode] = []
        self._statements = statements
        self._kinds: dict[type, bool] = {}

    def record_syntactic_position(  # type: ignore[override]  # any context manager does
        self, node: cst.CSTNode, *, start_node: cst.CSTNode | None = None, end_node: cst.CSTNode | None = None
    ) -> AbstractContextManager[Any]:
        if self._statements and self._is_statement(type(node)):
            return _StatementMark(self, node, start_node, end_node)
        if id(node) in self.wanted:
            return _Mark(self, node, start_node, end_node)
        return _NOTHING

    def _is_statement(self, kind: type) -> bool:
        known = self._kinds.get(kind)  # `issubclass` takes its time with abstract classes
        if known is None:
            known = self._kinds[kind] = issubclass(kind, _STATEMENTS)
        return known


# A context manager that costs next to nothing; `nullcontext` is written in Python.
_NOTHING = threading.RLock()


class _Mark(AbstractContextManager[None]):
    """Notes the span of one node; of some, it begins or ends with a child's."""

    def __init__(
        self,
        recorder: _Recorder,
        node: cst.CSTNode,
        start_node: cst.CSTNode | None,
        end_node: cst.CSTNode | None,
    ) -> None:
        self._recorder = recorder
        self._node = node
        self._first = id(start_node) if start_node is not None else None
        self._last = id(end_node) if end_node is not None else None

    def __enter__(self) -> None:
        recorder = self._recorder
        recorder.holders[id(self._node)] = tuple(recorder.around)
        recorder.wanted.update(key for key in (self._first, self._last) if key is not None)
        self._start = len(recorder.tokens)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        marks = self._recorder.marks
        start = self._start if self._first is None else marks[self._first][0]
        end = len(self._recorder.tokens) if self._last is None else marks[self._last][1]
        marks[id(self._node)] = (start, end)


class _StatementMark(_Mark):
    """Notes the span of a statement, and that it holds what comes before its end."""

    def __enter__(self) -> None:
        super().__enter__()
        self._recorder.around.append(self._node)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._recorder.around.pop()
        super().__exit__(kind, error, trace)


class _ThoroughRecorder(_Recorder):
    """Finds the nodes, too, of which LibCST records no syntactic position: parentheses, white space, …"""

    def before_codegen(self, node: cst.CSTNode) -> None:
        if id(node) in self.wanted:
            self.holders.setdefault(id(node), tuple(self.around))
            self.marks.setdefault(id(node), (len(self.tokens), -1))

    def after_codegen(self, node: cst.CSTNode) -> None:
        start, end = self.marks.get(id(node), (0, 0))
        if end < 0:
            self.marks[id(node)] = (start, len(self.tokens))


def by_codegen(module: cst.Module, wanted: set[int], statements: bool) -> tuple[str, _Spans, _Holders]:
    """The module's code, the spans of the nodes wanted (and of all statements), and what holds them.

    Raises AttributeError, TypeError or KeyError where LibCST is not built as expected.
    """
    for kind in (_Recorder, _ThoroughRecorder):
        recorder = kind(module, wanted, statements)
        try:
            module._codegen(recorder)
        except KeyError:  # the span of a node begins or ends with a child of the other sort
            if kind is _ThoroughRecorder:
                raise
            continue
        if wanted <= recorder.marks.keys():
            break
    offsets = [0, *accumulate(map(len, recorder.tokens))]
    last = len(offsets) - 1  # a file without a final newline loses its last token
    spans = {
        key: (offsets[min(start, last)], offsets[min(end, last)])
        for key, (start, end) in recorder.marks.items()
    }
    return "".join(recorder.tokens), spans, recorder.holders


def by_provider(module: cst.Module, wanted: set[int], statements: bool) -> tuple[str, _Spans, _Holders]:
    """The same from LibCST's public metadata."""
    from libcst.metadata import MetadataWrapper, ParentNodeProvider, PositionProvider

    wrapper = MetadataWrapper(module, unsafe_skip_copy=True)
    parents = wrapper.resolve(ParentNodeProvider)
    lines = Lines(module.code)
    kinds = _STATEMENTS if statements else ()
    spans: _Spans = {}
    holders: _Holders = {}
    for node, place in wrapper.resolve(PositionProvider).items():
        if id(node) not in wanted and not isinstance(node, kinds):
            continue
        start, end = (lines.offset(Position(at.line, at.column + 1)) for at in (place.start, place.end))
        spans[id(node)] = (start, end)
        chain: list[cst.CSTNode] = []
        above: Any = node
        while (above := parents.get(above)) is not None:
            chain.append(above)
        holders[id(node)] = tuple(held for held in reversed(chain) if isinstance(held, kinds))
    return lines.text, spans, holders


def _alignment(code: str, text: str) -> Callable[[int, int], tuple[int, int]] | None:
    """How spans in `code` are to be shifted for `text`, or None if `text` has not just more white space.

    LibCST drops form feeds, and backslashes, where a line begins.
    """
    positions: list[int] = []  # where in the code something is missing,
    shifts: list[int] = [0]  # and by how much what follows is off
    here = there = 0
    while here < len(code) or there < len(text):
        if code[here : here + 1] == text[there : there + 1]:
            here, there = here + 1, there + 1
        elif there < len(text) and text[there] in " \t\f\\\r\n":
            there += 1
            if positions and positions[-1] == here:
                shifts[-1] += 1
            else:
                positions.append(here)
                shifts.append(shifts[-1] + 1)
        else:
            return None

    def realign(start: int, end: int) -> tuple[int, int]:
        # What is missing goes in front of the node that begins there, and behind the node that ends there.
        first = start + shifts[bisect_right(positions, start)]
        last = end + shifts[bisect_right(positions, end - 1)]
        return first, max(first, last)

    return realign


def _by_lines(code: str, text: str, spans: _Spans) -> _Spans:
    """Spans in `code` as spans in `text`, on the same lines and columns."""
    ours, theirs = Lines(code), Lines(text)
    return {
        key: (theirs.offset(ours.position(start)), theirs.offset(ours.position(end)))
        for key, (start, end) in spans.items()
    }
