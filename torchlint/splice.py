"""Cutting and inserting text."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from torchlint.findings import Edit

if TYPE_CHECKING:
    from torchlint.source import Lines


def rewrite(text: str, edits: Iterable[Edit]) -> str:
    """The text with edits applied that do not overlap; of those at one place, an insertion comes first."""
    pieces: list[str] = []
    done = 0
    for edit in sorted(edits, key=lambda edit: (edit.start, edit.end)):
        pieces += [text[done : edit.start], edit.text]
        done = edit.end
    return "".join([*pieces, text[done:]])


def overlap(one: Edit, other: Edit) -> bool:
    """Whether two edits replace the same characters, or one inserts where the other replaces."""
    if one.cell != other.cell:
        return False
    first, second = sorted((one, other), key=lambda edit: (edit.start, edit.end))
    return second.start < first.end


def touch(one: Edit, other: Edit) -> bool:
    """Whether edits of two fixes are in each other's way: an insertion, even at the rim of the other."""
    if one.cell != other.cell:
        return False
    if one.start == one.end or other.start == other.end:
        return one.start <= other.end and other.start <= one.end
    return one.start < other.end and other.start < one.end


def without_line(
    lines: Lines, number: int, bounds: tuple[int, int], last: int | None = None
) -> tuple[int, int]:
    """The span to take away so that a line, or those up to the line `last`, is gone, within bounds.

    It holds the line's own line end or, where there is none within the bounds, the one before it.
    """
    last = number if last is None else last
    start, end = lines.start(number), lines.start(last) + len(lines.with_end(last))
    if end <= bounds[1] and lines.with_end(last)[-1:] in ("\n", "\r"):
        return start, end
    end = min(lines.end(last), bounds[1])
    if number > 1 and lines.end(number - 1) >= bounds[0]:
        return lines.end(number - 1), end
    return start, end
