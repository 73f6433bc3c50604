"""One Python file as text: bytes ↔ text with its encoding and line ends, offsets ↔ lines and columns."""

from __future__ import annotations

import ast
import codecs
import io
import re
import tokenize
import warnings
from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Protocol

from torchlint.deep import too_deep
from torchlint.findings import Edit, Position, Range
from torchlint.splice import rewrite

if TYPE_CHECKING:
    import libcst as cst

# What ends a line of Python. `str.splitlines` knows eight characters more, a form feed among them.
_NEWLINE = re.compile(r"\r\n?|\n")


class Unreadable(Exception):
    """A file that is no Python text, or no Python.

    range: where, in the cell `cell` of a notebook. fault: the file is good as far as one can tell, and the
    parser cannot cope with it.
    """

    def __init__(self, message: str, range: Range, *, fault: bool = False, cell: int | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.range = range
        self.fault = fault
        self.cell = cell


class Program(Protocol):
    """What is checked as one module: a file, or the cells of a notebook one after the other."""

    @property
    def text(self) -> str:
        """The module's text, which offsets count in."""

    @property
    def lines(self) -> Lines:
        """The lines of that text."""

    def parse(self) -> tuple[cst.Module, list[Unreadable]]:
        """The tree, and what is wrong with the parts that are left out of it.

        Raises Unreadable where nothing can be read.
        """

    def without(self, problems: Iterable[Unreadable]) -> Program:
        """The program that the tree is of: what cannot be read is blank, and all else keeps its place."""

    def locate(self, start: int, end: int) -> tuple[int | None, Range]:
        """The cell and the range, as people see them, of a span of the text."""

    def bounds(self, offset: int) -> tuple[int, int]:
        """The part of the text around an offset in which an edit may delete lines: the file or the cell."""

    def is_on_show(self, start: int, end: int) -> bool:
        """Whether a span of the text is there to be looked at, with what goes wrong in it."""

    def edit(self, start: int, end: int, text: str) -> Edit | None:
        """The edit for a span of the text, or None where it is not one piece of the file."""

    def rewritten(self, edits: Iterable[Edit]) -> bytes:
        """The file with edits applied. Raises UnicodeEncodeError where its encoding can't hold the result."""


class Lines:
    """The lines of a text. Lines and columns count from 1, columns and offsets in characters."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._starts = [0, *(match.end() for match in _NEWLINE.finditer(text))]

    def __len__(self) -> int:
        return len(self._starts)

    def position(self, offset: int) -> Position:
        """The place of an offset; one in the middle of a line end counts to the line that it ends."""
        line = bisect_right(self._starts, offset)
        return Position(line, offset - self._starts[line - 1] + 1)

    def range(self, start: int, end: int) -> Range:
        return Range(self.position(start), self.position(end))

    def offset(self, position: Position) -> int:
        """The offset of a place; one behind the end of the text is taken for the end."""
        if position.line > len(self._starts):
            return len(self.text)
        return min(self._starts[position.line - 1] + position.column - 1, len(self.text))

    def start(self, line: int) -> int:
        """The offset of the first character of a line."""
        return self._starts[line - 1]

    def end(self, line: int) -> int:
        """The offset behind the last character of a line, before its line end."""
        return self.start(line) + len(self.line(line))

    def line(self, number: int) -> str:
        """A line without its line end."""
        return self.with_end(number).rstrip("\r\n")

    def with_end(self, number: int) -> str:
        """A line with its line end, if it has one."""
        stop = self._starts[number] if number < len(self._starts) else len(self.text)
        return self.text[self._starts[number - 1] : stop]

    def newline(self, number: int) -> str:
        """The line end that text inserted beside this line should have: its own, else the one before it."""
        for candidate in range(min(number, len(self)), 0, -1):
            text = self.with_end(candidate)
            if ending := text[len(text.rstrip("\r\n")) :]:
                return ending
        return "\n"


@dataclass(frozen=True)
class Source:
    """The text of a file and how it is stored.

    text: without byte order mark, line ends as they are. encoding: a codec; `utf-8-sig` writes the mark.
    """

    text: str
    encoding: str = "utf-8"

    @cached_property
    def lines(self) -> Lines:
        return Lines(self.text)

    def parse(self) -> tuple[cst.Module, list[Unreadable]]:
        return parse(self.text), []

    def without(self, problems: Iterable[Unreadable]) -> Source:
        return self

    def locate(self, start: int, end: int) -> tuple[int | None, Range]:
        return None, self.lines.range(start, end)

    def bounds(self, offset: int) -> tuple[int, int]:
        return 0, len(self.text)

    def is_on_show(self, start: int, end: int) -> bool:
        return False

    def edit(self, start: int, end: int, text: str) -> Edit | None:
        return Edit(start, end, text)

    def rewritten(self, edits: Iterable[Edit]) -> bytes:
        return rewrite(self.text, edits).encode(self.encoding)


def decode(data: bytes) -> Source:
    """The text of a Python file, by its byte order mark, its encoding declaration, or UTF-8.

    Raises Unreadable for binary files, an unknown encoding and bytes that are none in that encoding.
    """
    if (null := data.find(b"\0")) >= 0:
        if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
            raise Unreadable("UTF-16 is no encoding for Python source; save the file as UTF-8", _FIRST)
        raise Unreadable("a null byte: this is a binary file, not Python source", _place_of_byte(data, null))
    encoding = _declared(data)
    try:
        text = data.decode(encoding)
    except UnicodeDecodeError as error:
        at = _place_of_byte(error.object, error.start)  # not `data`, of which the mark is taken away
        byte = f"byte 0x{error.object[error.start]:02x}"
        raise Unreadable(
            f"{byte} is no {encoding.removesuffix('-sig').upper()}, and no other encoding is declared"
            if encoding.startswith("utf-8")
            else f"{byte} is no {encoding}, the encoding that the file declares",
            at,
        ) from None
    return Source(text, encoding)


_FIRST = Range(Position(1, 1), Position(1, 1))


def _declared(data: bytes) -> str:
    """The encoding that the byte order mark or a comment in the first two lines declares."""
    if not data.startswith(codecs.BOM_UTF8) and b"coding" not in data[:2000]:
        return "utf-8"
    head = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    try:
        encoding, _ = tokenize.detect_encoding(io.BytesIO(head).readline)
        "".encode(encoding)  # refuses codecs that are not between text and bytes, such as `hex`
    except SyntaxError as error:
        if str(error.msg).startswith("invalid or missing encoding declaration"):
            return "utf-8-sig" if data.startswith(codecs.BOM_UTF8) else "utf-8"  # decoding will say where
        raise Unreadable(str(error.msg), _FIRST) from None
    except LookupError as error:
        raise Unreadable(str(error), _FIRST) from None
    return encoding


def _place_of_byte(data: bytes, offset: int) -> Range:
    lines = Lines(data[:offset].decode("utf-8", "replace"))
    start = lines.position(len(lines.text))
    return Range(start, Position(start.line, start.column + 1))


def parse(text: str) -> cst.Module:
    """Parse the text of a file.

    Raises Unreadable where it is no Python, or LibCST cannot cope with it, whichever way it fails.
    """
    import libcst as cst

    if "\0" in text:
        raise Unreadable(
            "a null character: this is not Python source", Lines(text).range(*[text.index("\0")] * 2)
        )
    if (why := too_deep(text)) is not None:
        raise Unreadable(f"too deep for the parser: {why}", _FIRST, fault=True)
    try:
        return cst.parse_module(text)
    except (KeyboardInterrupt, SystemExit, GeneratorExit):
        raise
    except cst.ParserSyntaxError as error:
        problem, place = _message_of(error)
    except BaseException as error:  # a panic of the native parser is no Exception
        problem, place = f"{type(error).__name__}: {str(error)[:200]}", _FIRST
    raise _refusal(text, problem, place)


def _message_of(error: cst.ParserSyntaxError) -> tuple[str, Range]:
    """LibCST says the place of a parser error only in its words; of a tokenizer error it says none."""
    found = re.match(r"parser error: error at (\d+):(\d+): (.*)", error.message, re.DOTALL)
    if found is None:
        return error.message.removeprefix("tokenizer error: "), _FIRST
    line, column = max(int(found[1]), 1), int(found[2]) + 1
    return found[3], Range(Position(line, column), Position(line, column))


def _refusal(text: str, problem: str, place: Range) -> Unreadable:
    """Python's own words for a syntax error, which people know; LibCST's where Python takes the file."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ast.parse(text)
    except SyntaxError as error:
        return Unreadable(f"syntax error: {error.msg}", _range_of(error, text, place))
    except (ValueError, RecursionError, MemoryError) as error:
        return Unreadable(f"cannot be parsed: {error}", place)
    return Unreadable(f"valid Python that LibCST cannot parse: {problem}", place, fault=True)


def _range_of(error: SyntaxError, text: str, default: Range) -> Range:
    """Where Python sees a syntax error, kept inside of the text."""
    if not error.lineno:
        return default
    lines = Lines(text)
    line = min(error.lineno, len(lines))
    width = len(lines.line(line))
    column = min(max(error.offset or 1, 1), width + 1)
    end = error.end_offset if error.end_lineno == error.lineno else width + 1
    return Range(Position(line, column), Position(line, min(max(end or 0, column + 1), width + 1)))
