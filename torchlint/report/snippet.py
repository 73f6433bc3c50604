"""A piece of code with its marked places underlined, as the *full* format shows it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from torchlint.findings import Range
from torchlint.report.paint import Paint
from torchlint.report.text import clip, lay_out
from torchlint.source import Lines

#: A range over more lines than this is shown by its first lines and its last.
_MOST_LINES = 6
_FIRST_LINES = 4


class Mark(NamedTuple):
    """A range to underline, the words for it, and whether it is the finding's own."""

    range: Range
    words: str
    own: bool


class _Stroke(NamedTuple):
    """One line's part of a mark: columns from 1, `end` exclusive."""

    start: int
    end: int
    words: str
    own: bool


def render(lines: Lines, marks: Sequence[Mark], gutter: int, paint: Paint, style: str) -> list[str]:
    """The marked lines, a line of context around the finding's own, and strokes below.

    gutter: the width of line numbers. style: the colour of the finding's own mark.
    """
    strokes = _strokes(lines, marks)
    shown = sorted(_with_context(lines, strokes, marks))
    bar = paint("blue", "|")
    output = [f"{' ' * gutter} {bar}"]
    previous = None
    for number in shown:
        if previous is not None and number > previous + 1:
            output.append(paint("blue", "..."))
        previous = number
        own = sorted(strokes.get(number, ()), key=lambda s: (not s.own, s.start))
        text, cut = clip(lines.line(number), own[0].start if own else 1)
        laid = lay_out(text.rstrip())
        output.append(f"{paint('blue', str(number).rjust(gutter))} {bar} {laid.text}".rstrip())
        for stroke in own:
            first = min(max(stroke.start - 1 - cut, 0), len(laid.cells) - 1)
            last = min(max(stroke.end - 1 - cut, first), len(laid.cells) - 1)
            width = max(1, laid.cells[last] - laid.cells[first])
            drawn = ("^" if stroke.own else "-") * width + (f" {stroke.words}" if stroke.words else "")
            colour = style if stroke.own else "blue"
            output.append(f"{' ' * gutter} {bar} {' ' * laid.cells[first]}{paint(colour, drawn)}")
    output.append(f"{' ' * gutter} {bar}")
    return output


def _strokes(lines: Lines, marks: Sequence[Mark]) -> dict[int, list[_Stroke]]:
    """What to underline on which line; the words stand at a mark's last line."""
    strokes: dict[int, list[_Stroke]] = {}
    for mark in marks:
        start, end = mark.range.start, mark.range.end
        numbers = [n for n in _lines_of(mark.range) if 1 <= n <= len(lines)]
        for number in numbers:
            line = lines.line(number)
            indent = len(line) - len(line.lstrip())
            first = start.column if number == start.line else indent + 1
            last = end.column if number == end.line else len(line.rstrip()) + 1
            words = mark.words if number == numbers[-1] else ""
            if last > first or len(numbers) == 1:
                strokes.setdefault(number, []).append(_Stroke(first, max(last, first + 1), words, mark.own))
    return strokes


def _lines_of(place: Range) -> list[int]:
    """The lines of a range that are shown; one that ends at a line's very start leaves that line out."""
    last = place.end.line
    if place.end.column <= 1 and last > place.start.line:
        last -= 1
    numbers = list(range(place.start.line, last + 1))
    return numbers if len(numbers) <= _MOST_LINES else [*numbers[:_FIRST_LINES], last]


def _with_context(lines: Lines, strokes: dict[int, list[_Stroke]], marks: Sequence[Mark]) -> set[int]:
    """The lines to show: those with strokes, one more around the finding's own, and gaps of a single line."""
    shown = set(strokes)
    for mark in marks:
        if mark.own:
            covered = _lines_of(mark.range)
            near = (covered[0] - 1, covered[-1] + 1)
            shown.update(n for n in near if 1 <= n <= len(lines) and lines.line(n).strip())
    shown.update(n + 1 for n in list(shown) if n + 1 not in shown and n + 2 in shown)
    return shown
