"""Fixes in terms of nodes → edits of the text, demoted where they would lose a comment or can't be made."""

from __future__ import annotations

import io
import re
import tokenize
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import libcst as cst

from torchlint.findings import Fix, Safety
from torchlint.positions import CLAUSES, Places
from torchlint.rule import NodeEdit, NodeFix
from torchlint.source import Program
from torchlint.splice import without_line

_Change = tuple[int, int, str]  # from, up to, the new text

# A suppression comment on a line of its own.
_DIRECTIVE = re.compile(r"\s*#\s*(?:torchlint|noqa)\s*:", re.IGNORECASE)


class Impossible(Exception):
    """There is no place in the text where an edit could be made."""


def nodes_of(fix: NodeFix) -> list[cst.CSTNode]:
    """The nodes whose places `resolve` has to know."""
    nodes: list[cst.CSTNode] = []
    for edit in fix.edits:
        if edit.how != "import":
            nodes.append(edit.node)
        if edit.how in ("before", "after"):
            nodes += [*getattr(edit.node, "lpar", ())[:1], *getattr(edit.node, "rpar", ())[-1:]]
        if edit.how == "argument" and isinstance(edit.node, cst.Call) and edit.node.args:
            last = edit.node.args[-1]
            nodes += [last, last.value]
            if isinstance(last.comma, cst.Comma):
                nodes.append(last.comma)
    return nodes


def needs_statements(fix: NodeFix) -> bool:
    """Whether `resolve` has to know the places of statements."""
    return any(edit.how in ("line-before", "line-after", "delete-statement", "import") for edit in fix.edits)


def resolve(fix: NodeFix, program: Program, module: cst.Module, found: Places) -> Fix:
    """The fix as text edits, in the order of the text; for display where it can't or mustn't be applied."""
    shown = Fix(fix.message, Safety.DISPLAY, ())
    if not found.faithful:
        return shown
    resolver = _Resolver(program, module, found)
    try:
        changes = list(dict.fromkeys(change for edit in fix.edits for change in resolver.changes(edit)))
        changes.sort(key=lambda change: change[:2])
    except (Impossible, KeyError):
        return shown
    if any(start < end for (_, end, _), (start, _, _) in pairwise(changes)):
        return shown
    edits = [program.edit(*change) for change in changes]
    if not edits or None in edits:
        return shown
    safety = Safety.DISPLAY if _drops_comment(changes, program.text) else fix.safety
    return Fix(fix.message, safety, tuple(edit for edit in edits if edit is not None))


def _drops_comment(changes: Sequence[_Change], text: str) -> bool:
    """Whether a comment is gone after the changes; one that they write elsewhere is not."""
    gone: Counter[str] = Counter()
    written = " ".join(new for _, _, new in changes)
    for start, end, _ in changes:
        gone.update(_comments(text[start:end]))
    return any(written.count(comment) < number for comment, number in gone.items())


def _comments(piece: str) -> list[str]:
    """The comments in a piece of code; a piece that can't be told into tokens counts as one."""
    if "#" not in piece:
        return []
    # In parentheses, so that neither line ends nor indentation matter.
    readline = io.StringIO(f"({piece}\n)").readline
    try:
        return [
            token.string for token in tokenize.generate_tokens(readline) if token.type == tokenize.COMMENT
        ]
    except (tokenize.TokenError, SyntaxError):
        return [piece]


@dataclass(frozen=True)
class _Resolver:
    program: Program
    module: cst.Module
    found: Places

    def changes(self, edit: NodeEdit) -> Iterator[_Change]:
        """The changes of the text that an edit asks for. Raises Impossible, or KeyError for unknown nodes."""
        ways = {
            "replace": self._replace,
            "before": self._before,
            "after": self._after,
            "argument": self._argument,
            "line-before": self._line_before,
            "line-after": self._line_after,
            "delete-statement": self._delete_statement,
            "import": self._import,
        }
        if edit.how not in ways:
            raise ValueError(f"{edit.how!r} is no way to edit")
        lines = self.program.lines
        for start, end, text in ways[edit.how](edit.node, edit.text):
            ending = lines.newline(lines.position(start).line)
            yield start, end, text.replace("\n", ending)

    # ---- expressions

    def _replace(self, node: cst.CSTNode, text: str) -> Iterator[_Change]:
        yield (*self.found.span(node), text)

    def _before(self, node: cst.CSTNode, text: str) -> Iterator[_Change]:
        parentheses = getattr(node, "lpar", ())
        at = self.found.span(parentheses[0] if parentheses else node)[0]
        yield at, at, text

    def _after(self, node: cst.CSTNode, text: str) -> Iterator[_Change]:
        parentheses = getattr(node, "rpar", ())
        at = self.found.span(parentheses[-1] if parentheses else node)[1]
        yield at, at, text

    def _argument(self, node: cst.CSTNode, text: str) -> Iterator[_Change]:
        if not isinstance(node, cst.Call):
            raise Impossible
        end = self.found.span(node)[1]
        if not node.args:
            yield end - 1, end - 1, text
            return
        last = node.args[-1]
        if isinstance(last.comma, cst.Comma):
            yield self._behind_comma(last.comma, self.found.span(last)[0], text)
            return
        at = self.found.span(last)[1]
        if len(node.args) == 1 and isinstance(last.value, cst.GeneratorExp) and not last.value.lpar:
            start = self.found.span(last.value)[0]
            yield start, start, "("
            yield at, at, f"), {text}"
        else:
            yield at, at, f", {text}"

    def _behind_comma(self, comma: cst.Comma, argument: int, text: str) -> _Change:
        """An argument behind a trailing comma: on a line of its own if the last one has its own."""
        lines = self.program.lines
        at = self.found.span(comma)[1]
        number = lines.position(at).line
        rest = self.program.text[at : lines.end(number)].strip()
        if rest and not rest.startswith("#"):
            return at, at, f" {text}"
        first = lines.position(argument).line
        indent = self.program.text[lines.start(first) : argument]
        if indent.strip() or number == len(lines):
            return at, at, f" {text},"
        return lines.end(number), lines.end(number), f"\n{indent}{text},"

    # ---- statements

    def _line_before(self, node: cst.CSTNode, text: str) -> Iterator[_Change]:
        statement = self._statement(node)
        start = self._start(statement)
        lines = self.program.lines
        number = lines.position(start).line
        indent = self.program.text[lines.start(number) : start]
        if not indent.strip():
            while number > 1 and _DIRECTIVE.match(lines.line(number - 1)):  # stays right above its statement
                number -= 1
            at = lines.start(number)
            yield at, at, "".join(f"{indent}{line}\n" for line in text.split("\n"))
        elif isinstance(statement, cst.BaseSmallStatement) and "\n" not in text:
            yield start, start, f"{text}; "  # on a line with others, or with the `if` that it belongs to
        else:
            raise Impossible

    def _line_after(self, node: cst.CSTNode, text: str) -> Iterator[_Change]:
        statement = self._statement(node)
        lines = self.program.lines
        start, end = self._start(statement), self.found.span(statement)[1]
        first, last = lines.position(start).line, lines.position(end).line
        indent = self.program.text[lines.start(first) : start]
        rest = self.program.text[end : lines.end(last)].strip()
        if indent.strip() or (rest and not rest.startswith("#")):
            raise Impossible  # one of several on a line
        at = lines.end(last)
        yield at, at, "".join(f"\n{indent}{line}" for line in text.split("\n"))

    def _delete_statement(self, node: cst.CSTNode, text: str) -> Iterator[_Change]:
        statement = self._statement(node)
        start, end = self._start(statement), self.found.span(statement)[1]
        container = self._holder(statement, cst.SimpleStatementLine, cst.SimpleStatementSuite)
        block = self._holder(statement, cst.BaseSuite) or self.module
        if container is not None and len(container.body) > 1:
            yield (*self._with_semicolon(statement, container.body), "")
        elif block is not self.module and len(block.body) == 1:
            yield start, end, "pass"
        else:
            lines = self.program.lines
            first, last = lines.position(start).line, lines.position(end).line
            yield (*without_line(lines, first, self.program.bounds(start), last), "")

    def _with_semicolon(self, statement: cst.CSTNode, siblings: Sequence[cst.CSTNode]) -> tuple[int, int]:
        index = next(i for i, sibling in enumerate(siblings) if sibling is statement)
        if index + 1 < len(siblings):
            return self.found.span(statement)[0], self.found.span(siblings[index + 1])[0]
        return self.found.span(siblings[index - 1])[1], self.found.span(statement)[1]

    def _holders(self, node: cst.CSTNode) -> Sequence[cst.CSTNode]:
        return self.found.holders[id(node)]

    def _holder(self, statement: cst.CSTNode, *kinds: type) -> Any:
        """The nearest holder of a statement, if it is of one of these kinds."""
        return next((held for held in reversed(self._holders(statement)) if isinstance(held, kinds)), None)

    def _statement(self, node: cst.CSTNode) -> cst.CSTNode:
        """The statement that a node belongs to. Raises Impossible where no other could stand before it."""
        chain = [*self._holders(node), node]
        if isinstance(node, cst.SimpleStatementLine):
            return node.body[0]
        for index in range(len(chain) - 1, -1, -1):
            found = chain[index]
            if isinstance(found, cst.BaseSmallStatement):
                return found
            if isinstance(found, cst.BaseCompoundStatement):
                above = chain[index - 1] if index else None
                if isinstance(above, cst.If) and above.orelse is found:
                    raise Impossible  # an `elif`
                return found
            if isinstance(found, (cst.BaseSuite, *CLAUSES)):
                break
        raise Impossible

    def _start(self, statement: cst.CSTNode) -> int:
        """Where a statement begins, its decorators included."""
        decorators = getattr(statement, "decorators", ())
        return self.found.span(decorators[0] if decorators else statement)[0]

    # ---- imports

    def _import(self, node: cst.CSTNode, text: str) -> Iterator[_Change]:
        body = self.module.body
        if _is_imported(text, body):
            return
        lines = self.program.lines
        index = _preamble(body)
        if index:
            end = self.found.span(body[index - 1])[1]
            at = lines.end(lines.position(end).line)
            gap = "\n\n" if _is_docstring(body[index - 1]) else "\n"
            yield at, at, f"{gap}{text}"
            return
        first = number = lines.position(self._start(body[0])).line
        while number > 1 and lines.line(number - 1).lstrip().startswith("#"):
            number -= 1
        # Comments right above the first statement are about it, unless the file begins with them.
        at = lines.start(number if number > 1 else first)
        yield at, at, f"{text}\n\n"


def _imports(statement: cst.CSTNode) -> bool:
    """Whether a statement does nothing but import."""
    return isinstance(statement, cst.SimpleStatementLine) and all(
        isinstance(small, (cst.Import, cst.ImportFrom)) for small in statement.body
    )


def _preamble(body: Sequence[cst.CSTNode]) -> int:
    """How many statements a module opens with that are its docstring, imports or (in a notebook) magics."""
    count = 0
    while count < len(body):
        statement = body[count]
        docstring = count == 0 and _is_docstring(statement)
        if not (docstring or _imports(statement) or _is_expression(statement, cst.Name, "_")):
            break
        count += 1
    return count


def _is_docstring(statement: cst.CSTNode) -> bool:
    return _is_expression(statement, cst.SimpleString) or _is_expression(statement, cst.ConcatenatedString)


def _is_expression(statement: cst.CSTNode, kind: type, value: str | None = None) -> bool:
    """Whether a statement is an expression of a kind and nothing else, with this value if one is given."""
    small = statement.body[0] if isinstance(statement, cst.SimpleStatementLine) else None
    if not isinstance(small, cst.Expr) or not isinstance(small.value, kind):
        return False
    return value is None or getattr(small.value, "value", None) == value


_Binding = tuple[str, str, str]  # the module imported from (or none), the name, the name it gets (or none)


def _is_imported(line: str, body: Sequence[cst.CSTNode]) -> bool:
    """Whether what an import line imports is imported at the top level of a module."""
    there: set[_Binding] = set()
    for statement in body:
        there |= _bindings(statement)
    return all(
        binding in there
        # `import a.b` makes the name `a` known as `import a` does.
        or (
            not binding[0]
            and not binding[2]
            and any(b[1].startswith(f"{binding[1]}.") and not b[2] for b in there)
        )
        for binding in _bindings(cst.parse_statement(line))
    )


def _bindings(statement: cst.CSTNode) -> set[_Binding]:
    """What a statement imports."""
    found: set[_Binding] = set()
    for small in statement.body if isinstance(statement, cst.SimpleStatementLine) else ():
        if not isinstance(small, (cst.Import, cst.ImportFrom)) or isinstance(small.names, cst.ImportStar):
            continue
        origin = ""
        if isinstance(small, cst.ImportFrom):
            origin = "." * len(small.relative) + (_dotted(small.module) if small.module is not None else "")
        for alias in small.names:
            name = alias.asname.name if alias.asname is not None else None
            found.add((origin, _dotted(alias.name), name.value if isinstance(name, cst.Name) else ""))
    return found


def _dotted(node: cst.CSTNode) -> str:
    return cst.Module([]).code_for_node(node).replace(" ", "")
