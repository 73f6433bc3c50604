"""Jupyter notebooks: their code cells as one program, and edits that leave the rest of the file alone."""

from __future__ import annotations

import ast
import json
import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from json.decoder import scanstring  # type: ignore[attr-defined]
from typing import TYPE_CHECKING, Any

from torchlint.findings import Edit, Position, Range
from torchlint.source import Lines, Unreadable, decode, parse
from torchlint.splice import rewrite

if TYPE_CHECKING:
    import libcst as cst

_START = Range(Position(1, 1), Position(1, 1))

# Cell magics whose cell is Python that runs in the notebook's own namespace.
_TRANSPARENT = frozenset(
    ("capture", "lprun", "memit", "mprun", "prun", "pyinstrument", "scalene", "snakeviz", "time", "timeit")
)


@dataclass(frozen=True)
class Cell:
    """A code cell: its number in the file, its text there, and the same as Python.

    python: as long as the text, magics made into a name that means nothing. start: its offset in the program.
    """

    index: int
    text: str
    python: str
    start: int


@dataclass(frozen=True)
class Notebook:
    """A notebook as a program: its code cells, each of them on lines of its own."""

    data: bytes
    cells: tuple[Cell, ...]
    text: str

    @cached_property
    def lines(self) -> Lines:
        return Lines(self.text)

    def parse(self) -> tuple[cst.Module, list[Unreadable]]:
        try:
            return parse(self.text), []
        except Unreadable as refusal:
            problems = {cell.index: problem for cell in self.cells if (problem := _problem(cell)) is not None}
            if not problems:
                start = self.lines.offset(refusal.range.start)
                index, range = self.locate(start, max(start, self.lines.offset(refusal.range.end)))
                raise Unreadable(refusal.message, range, fault=refusal.fault, cell=index) from None
        return parse(self.without(problems.values()).text), list(problems.values())

    def without(self, problems: Iterable[Unreadable]) -> Notebook:
        indices = {problem.cell for problem in problems}
        text = list(self.text)
        cells = []
        for cell in self.cells:
            if cell.index in indices:
                start, end = cell.start - len(_heading(cell.python)), cell.start + len(cell.text)
                text[start:end] = _blank(self.text[start:end])
                cell = replace(cell, python=_blank(cell.python))
            cells.append(cell)
        return Notebook(self.data, tuple(cells), "".join(text))

    def locate(self, start: int, end: int) -> tuple[int | None, Range]:
        cell = self._cell(start)
        length = len(cell.text)
        lines = Lines(cell.text)
        return cell.index, lines.range(min(start - cell.start, length), min(end - cell.start, length))

    def bounds(self, offset: int) -> tuple[int, int]:
        cell = self._cell(offset)
        return cell.start, cell.start + len(cell.text)

    def is_on_show(self, start: int, end: int) -> bool:
        """Whether a span is the expression that its cell displays, or the notebook shows what fails and goes on."""
        cell = self._cell(start)
        if cell.index in self._failures or self._shows_mixed_devices:
            return True
        start, end = start - cell.start, end - cell.start
        before, code, after = cell.python[:start], cell.python[start:end], cell.python[end:]
        return before[-1:] in ("", "\n") and (_is_silent(after) or _asks_where(after, code))

    @cached_property
    def _failures(self) -> Mapping[int, str]:
        """What cells failed with when they were run last, by cell; only where the author then ran later ones."""
        cells = json.loads(decode(self.data).text)["cells"]
        failures = {i: text for i, cell in enumerate(cells) if (text := _failure_of(cell)) is not None}
        return {
            i: text
            for i, text in failures.items()
            if any(j not in failures and _count_of(cells[j]) > _count_of(cells[i]) for j in range(i + 1, len(cells)))
        }

    @cached_property
    def _shows_mixed_devices(self) -> bool:
        return any(_OF_DEVICES.search(text) for text in self._failures.values())

    def edit(self, start: int, end: int, text: str) -> Edit | None:
        cell = self._cell(start)
        begin, stop = start - cell.start, end - cell.start
        # Not between cells, and not where a magic stands.
        if begin < 0 or stop > len(cell.text) or cell.text[begin:stop] != cell.python[begin:stop]:
            return None
        return Edit(begin, stop, text, cell.index)

    def rewritten(self, edits: Iterable[Edit]) -> bytes:
        """The file with edits applied; all but the lines that they touch stays as it is written."""
        source = decode(self.data)
        changed: dict[int | None, list[Edit]] = {}
        for edit in edits:
            changed.setdefault(edit.cell, []).append(edit)
        spans = _sources(source.text)
        literals = []
        for cell in self.cells:
            span = spans[cell.index]
            if cell.index in changed and span is not None:
                new = rewrite(cell.text, changed[cell.index])
                literals.append(Edit(*span, _literal(source.text[slice(*span)], new, source.text)))
        return source.rewritten(literals)

    def _cell(self, offset: int) -> Cell:
        return self.cells[max(bisect_right([cell.start for cell in self.cells], offset) - 1, 0)]


def read_notebook(data: bytes) -> Notebook:
    """The program in a notebook; an empty one if its kernel is not Python. Raises Unreadable."""
    text = decode(data).text
    try:
        document = json.loads(text)
    except json.JSONDecodeError as error:
        place = Position(error.lineno, error.colno)
        raise Unreadable(f"not a notebook: {error.msg}", Range(place, place)) from None
    except RecursionError:
        raise Unreadable("not a notebook: nested too deeply", _START) from None
    if not isinstance(document, dict) or not isinstance(document.get("cells"), list):
        old = isinstance(document, dict) and "worksheets" in document
        hint = "a notebook in a format older than 4; `jupyter nbconvert --to notebook` converts it"
        raise Unreadable(hint if old else "not a notebook: it has no list of cells", _START)
    if not _is_python(document):
        return Notebook(data, (), "")
    return _assemble(data, document["cells"])


def _is_python(document: Mapping[str, Any]) -> bool:
    """Whether the kernel's language is Python, as it is if the notebook does not say."""
    metadata = document.get("metadata")
    for section, key in (("kernelspec", "language"), ("language_info", "name")):
        part = metadata.get(section) if isinstance(metadata, dict) else None
        language = part.get(key) if isinstance(part, dict) else None
        if isinstance(language, str) and language:
            return "python" in language.lower()
    return True


def _assemble(data: bytes, cells: Sequence[Any]) -> Notebook:
    """Put the Python cells one after the other."""
    parts: list[str] = []
    length = 0
    found = []
    for index, cell in enumerate(cells):
        text = _source_of(cell)
        python = None if text is None else _as_python(text)
        if text is None or python is None:
            continue
        heading = _heading(python)
        found.append(Cell(index, text, python, length + len(heading)))
        parts += [heading, python, "\n"]
        length += len(heading) + len(python) + 1
    return Notebook(data, tuple(found), "".join(parts))


def _source_of(cell: Any) -> str | None:
    """The text of a code cell in Python; None for any other."""
    if not isinstance(cell, dict) or cell.get("cell_type") != "code":
        return None
    metadata = cell.get("metadata")
    vscode = metadata.get("vscode") if isinstance(metadata, dict) else None
    if isinstance(vscode, dict) and vscode.get("languageId", "python") != "python":
        return None
    source = cell.get("source")
    if isinstance(source, list) and all(isinstance(line, str) for line in source):
        return "".join(source)
    return source if isinstance(source, str) else None


#: What torch says where tensors are on different devices, or NumPy can't have one.
_OF_DEVICES = re.compile(r"same device|device type tensor to numpy|expected device|on device cuda", re.IGNORECASE)


def _failure_of(cell: Any) -> str | None:
    """The error that the saved output of a cell ends in; None where it shows none."""
    outputs = cell.get("outputs") if isinstance(cell, dict) else None
    for output in outputs if isinstance(outputs, list) else ():
        if isinstance(output, dict) and output.get("output_type") == "error":
            return f"{output.get('ename')}: {output.get('evalue')}"
    return None


def _count_of(cell: Any) -> int:
    """The number that a cell had when it was run last; 0 if it was not."""
    count = cell.get("execution_count") if isinstance(cell, dict) else None
    return count if isinstance(count, int) else 0


def _is_silent(python: str) -> bool:
    """Whether nothing but comments and blank lines follow."""
    return all(not line.strip() or line.lstrip().startswith("#") for line in python.split("\n"))


def _asks_where(after: str, code: str) -> bool:
    """Whether what follows is an expression alone that asks where the tensor is now that a call was made on."""
    asking = re.match(r"\s*(?:#.*\s*)*([\w.]+)\.(?:is_cuda|device)[ \t]*(?:#.*)?(?:\n|\Z)", after)
    return asking is not None and code.startswith(f"{asking[1]}.")


def _heading(python: str) -> str:
    """What has to stand before a cell: IPython dedents one whose first line is indented."""
    first = next((line for line in python.split("\n") if line.strip() and line.lstrip()[0] != "#"), "")
    return "if 1:\n" if first[:1] in (" ", "\t") else ""


def _problem(cell: Cell) -> Unreadable | None:
    """Why a cell is no Python by itself, at its place in the cell."""
    heading = _heading(cell.python)
    try:
        parse(f"{heading}{cell.python}\n")
    except Unreadable as refusal:
        start, end = (Position(max(at.line - bool(heading), 1), at.column) for at in _ends(refusal.range))
        return Unreadable(refusal.message, Range(start, end), fault=refusal.fault, cell=cell.index)
    return None


def _ends(range: Range) -> tuple[Position, Position]:
    return range.start, range.end


# ---- magics ---------------------------------------------------------------------------------------------

# No statement of Python begins like this, ...
_MAGIC = re.compile(r"[ \t]*[%!?]")
# ... or ends like this, ...
_HELP = re.compile(r"[ \t]*[\w.*\[\]]+\?\??[ \t]*$")
# ... or assigns this.
_ASSIGNED = re.compile(r"[ \t]*[\w.,\[\] \t]+=[ \t]*(?=[%!])")
# Magics that are mostly written without their percent sign; two words in a row are no Python.
_AUTOMATIC = re.compile(
    r"(?:pip3?|conda|mamba|uv|cd|ls|mkdir|rmdir|rm|cp|mv|cat|man|env|run|load_ext|matplotlib|alias)"
    r"[ \t]+(?!(?:and|or|in|is|not|if|else)\b)[\w./~$]"
)
_TIMED = re.compile(r"%time[ \t]+")
_TOKEN = re.compile(
    r"""
    (?P<skipped> \#[^\r\n]* | \\(?:\r\n?|\n)
      | \"{3}(?:\\.|[^\\])*?(?:\"{3}|\Z) | '{3}(?:\\.|[^\\])*?(?:'{3}|\Z)
      | "(?:\\.|[^"\\\r\n])*"? | '(?:\\.|[^'\\\r\n])*'? )
    | (?P<opened> [(\[{] ) | (?P<closed> [)\]}] ) | (?P<newline> \r\n?|\n )
    """,
    re.VERBOSE | re.DOTALL,
)


def _as_python(text: str) -> str | None:
    """A cell's text with its magics blanked out, every character in its place; None if it is not Python."""
    text = _without_surrogates(text)
    pieces: list[str] = []
    lines = Lines(text)
    number = 1
    opening = True
    while number <= len(lines):
        line = lines.line(number)
        if opening and line.lstrip().startswith("%%"):
            name = line.strip()[2:].split(maxsplit=1)[:1]
            if name != [] and name[0] not in _TRANSPARENT:
                return None
        opening = opening and (not line.strip() or line.lstrip().startswith("%%"))
        neutral = _neutral(line)
        if neutral is None:
            last = _end_of_statement(lines, number)
            pieces += [lines.with_end(each) for each in range(number, last + 1)]
            number = last + 1
            continue
        pieces.append(neutral + lines.with_end(number)[len(line) :])
        while line.endswith("\\") and number < len(lines):  # a magic that goes on in the next line
            number += 1
            line = lines.line(number)
            pieces.append(" " * len(line) + lines.with_end(number)[len(line) :])
        number += 1
    return "".join(pieces)


def _neutral(line: str) -> str | None:
    """The line of a magic as Python of the same length, which says nothing; None if it is no magic."""
    assigned = _ASSIGNED.match(line)
    start = assigned.end() if assigned else len(line) - len(line.lstrip(" \t"))
    if not (assigned or _MAGIC.match(line) or _HELP.match(line) or _AUTOMATIC.match(line, start)):
        return None
    timed = _TIMED.match(line, start)
    if timed and _is_simple(line[timed.end() :]):
        width = timed.end() - start
        return line[:start] + ("" if assigned else "_;").ljust(width) + line[timed.end() :]
    return line[:start] + "_".ljust(len(line) - start)


def _is_simple(code: str) -> bool:
    """Whether code is one statement that holds no others."""
    try:
        body = ast.parse(code).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return len(body) == 1 and not hasattr(body[0], "body")


def _end_of_statement(lines: Lines, number: int) -> int:
    """The last line of the statement (or the header of one) that begins on a line."""
    depth = 0
    for token in _TOKEN.finditer(lines.text, lines.start(number)):
        if token["opened"]:
            depth += 1
        elif token["closed"]:
            depth = max(depth - 1, 0)
        elif token["newline"] and not depth:
            return lines.position(token.start()).line
    return len(lines)


def _without_surrogates(text: str) -> str:
    """JSON can hold halves of characters, which no file of Python can."""
    return re.sub("[\ud800-\udfff]", "?", text)


def _blank(python: str) -> str:
    return re.sub(r"[^\r\n]", " ", python)


# ---- the file -------------------------------------------------------------------------------------------

_SPACE = re.compile(r"[ \t\r\n]*")
_Span = tuple[int, int]


def _sources(text: str) -> list[_Span | None]:
    """Where the source of each cell stands in a notebook's JSON; None where a cell has none."""
    cells, _ = dict(_members(text, _skip(text, 0)))["cells"]
    return [dict(_members(text, start)).get("source") for start, _ in _elements(text, cells)]


def _members(text: str, start: int) -> Iterator[tuple[str, _Span]]:
    """The keys of the JSON object that begins at `start`, each with the span of its value."""
    at = _skip(text, start + 1)
    while text[at] != "}":
        key, at = scanstring(text, at + 1)
        begin = _skip(text, _skip(text, at) + 1)
        end = _end_of_value(text, begin)
        yield key, (begin, end)
        at = _skip(text, end)
        at = _skip(text, at + 1) if text[at] == "," else at


def _elements(text: str, start: int) -> Iterator[_Span]:
    """The spans of the values in the JSON array that begins at `start`."""
    at = _skip(text, start + 1)
    while text[at] != "]":
        end = _end_of_value(text, at)
        yield at, end
        at = _skip(text, end)
        at = _skip(text, at + 1) if text[at] == "," else at


def _skip(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    return found.end() if found else at


def _end_of_value(text: str, start: int) -> int:
    return json.JSONDecoder().raw_decode(text, start)[1]


def _literal(old: str, new: str, document: str) -> str:
    """A cell's new source as JSON, written as the old one and the rest of the document are.

    Lines that were there before are written as they were.
    """
    # Jupyter writes characters as they are; it has not written a document that has escapes and nothing else.
    escaped = document.isascii() and "\\u" in document

    def dump(line: str) -> str:
        return json.dumps(line, ensure_ascii=escaped)

    if not old.startswith("["):
        return dump(new)
    spans = list(_elements(old, 0))
    literals = [old[start:end] for start, end in spans]
    before: list[str] = []
    after: list[str] = []
    lines = [json.loads(literal) for literal in literals]
    while lines and new.startswith(lines[0]) and (lines[0].endswith("\n") or new == lines[0]):
        new = new[len(lines.pop(0)) :]
        before.append(literals.pop(0))
    while lines and new.endswith(lines[-1]) and new[: len(new) - len(lines[-1])][-1:] in ("", "\n"):
        new = new[: len(new) - len(lines.pop())]
        after.insert(0, literals.pop())
    known = dict(zip(lines, literals, strict=True))
    changed = [known.get(line) or dump(line) for line in re.findall(r"[^\n]*\n|[^\n]+", new)]
    opening = old[1 : spans[0][0]] if spans else ""
    closing = old[spans[-1][1] : -1] if spans else ""
    between = old[spans[0][1] : spans[1][0]] if len(spans) > 1 else f",{opening or ' '}"
    written = between.join([*before, *changed, *after])
    return f"[{opening}{written}{closing}]" if written else "[]"
