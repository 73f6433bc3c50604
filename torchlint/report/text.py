"""The lines that findings point at: decoded, counted as findings count them, and laid out for a terminal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from torchlint.source import Lines, Unreadable, decode

#: Tab stops in a report.
_TAB = 4


class Texts:
    """The lines of the files of a run; a file that a related place points to is read when it is asked for."""

    def __init__(self, texts: Mapping[str, bytes]) -> None:
        self._texts = texts
        self._lines: dict[tuple[str, int | None], Lines] = {}

    def lines(self, path: str, cell: int | None = None) -> Lines:
        """The lines of a file, or of a cell of a notebook; of an empty text if it can't be read."""
        key = path, cell
        if key not in self._lines:
            self._lines[key] = Lines(self._text(path, cell))
        return self._lines[key]

    def _text(self, path: str, cell: int | None) -> str:
        data = self._texts.get(path)
        if data is None:
            try:
                with open(path, "rb") as file:
                    data = file.read()
            except OSError:
                return ""
        if cell is not None:
            return _cell_text(data, cell)
        try:
            return decode(data).text
        except Unreadable:
            return data.decode("utf-8", "replace")


def _cell_text(data: bytes, cell: int) -> str:
    """The source of a notebook's cell; the format lets it be one string or a list of lines."""
    import json

    try:
        source = json.loads(data)["cells"][cell]["source"]
    except (ValueError, KeyError, IndexError, TypeError):
        return ""
    return source if isinstance(source, str) else "".join(source)


class Line(NamedTuple):
    """A line laid out: the text to print, and for each character (and the end) the cell where it begins."""

    text: str
    cells: list[int]

    def width(self) -> int:
        return self.cells[-1]


def lay_out(line: str) -> Line:
    """A line as a terminal shows it: tabs widened, wide characters counted twice, control characters gone."""
    if line.isascii() and line.isprintable():
        return Line(line, list(range(len(line) + 1)))
    import unicodedata

    parts: list[str] = []
    cells: list[int] = [0]
    at = 0
    for char in line:
        if char == "\t":
            width = _TAB - at % _TAB
            char = " " * width
        elif char.isascii():
            width = 1
            char = char if char.isprintable() else "\N{REPLACEMENT CHARACTER}"
        elif (
            unicodedata.category(char) in ("Mn", "Me") or char == "\N{ZERO WIDTH JOINER}"
        ):  # drawn over its neighbour
            width = 0
        elif not char.isprintable():  # such as the marks that turn the direction of writing
            width = 1
            char = "\N{REPLACEMENT CHARACTER}"
        else:
            width = 2 if unicodedata.east_asian_width(char) in "WF" else 1
        parts.append(char)
        at += width
        cells.append(at)
    return Line("".join(parts), cells)


def clip(line: str, column: int, most: int = 120) -> tuple[str, int]:
    """A window of a line too long to show, around a column (from 1), and how many characters its left lost.

    Where something was cut, `...` stands in its place.
    """
    if len(line) <= most:
        return line, 0
    start = max(0, min(column - 1 - most // 3, len(line) - most))
    end = start + most
    left = "..." if start else ""
    right = "..." if end < len(line) else ""
    return left + line[start + len(left) : end - len(right)] + right, start
