"""The patterns of .gitignore, matched entry by entry as git does on its way down a tree.

A pattern is asked about one entry, never about what lies beneath it: whoever walks the tree does not enter an
excluded folder. Matching whole paths against all their parents, as general libraries do, answers differently
from git where a later `!pattern` takes back the parent but not the entry (`?` then `!a` over `a/b`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

#: The names of character classes that git knows inside brackets (git's wildmatch.c), for ASCII as there.
_CLASSES = {
    "alnum": "0-9A-Za-z",
    "alpha": "A-Za-z",
    "blank": r" \t",
    "digit": "0-9",
    "lower": "a-z",
    "upper": "A-Z",
    "space": r"\s",
    "xdigit": "0-9A-Fa-f",
    "punct": r"!-/:-@\[-`{-~",
    "cntrl": r"\x00-\x1f\x7f",
    "graph": r"!-~",
    "print": r" -~",
}


class _Pattern(NamedTuple):
    regex: re.Pattern[str]
    #: `!pattern`: takes back what an earlier pattern excluded.
    negated: bool
    #: `pattern/`: speaks of folders only.
    folders_only: bool
    #: No slash but at its end: it is matched against the entry's own name, at any depth.
    by_name: bool


class Patterns:
    """Lines of a .gitignore, or patterns of the same form, relative to one folder.

    A line that git would not understand (an unclosed bracket, a lone backslash at the end) matches nothing.
    """

    def __init__(self, lines: Iterable[str]) -> None:
        self._patterns = [p for p in map(_parse, lines) if p is not None]
        self._patterns.reverse()

    def __bool__(self) -> bool:
        return bool(self._patterns)

    def excludes(self, relative: str, folder: bool) -> bool | None:
        """What the last pattern that matches says of an entry: excluded, taken back, or (None) nothing.

        relative: the path from the folder of the patterns, with `/`, without one at its ends.
        """
        name = relative.rpartition("/")[2]
        for pattern in self._patterns:
            if pattern.folders_only and not folder:
                continue
            if pattern.regex.fullmatch(name if pattern.by_name else relative):
                return not pattern.negated
        return None


def _parse(line: str) -> _Pattern | None:
    line = _without_trailing_spaces(line.rstrip("\r\n"))
    if line.startswith("#"):
        return None
    negated = line.startswith("!")
    if negated:
        line = line[1:]
    folders_only = line.endswith("/")
    if folders_only:
        line = line[:-1]
    by_name = "/" not in line
    if line.startswith("/"):
        line = line[1:]
    if not line:
        return None
    translated = _translate(line, by_name)
    if translated is None:
        return None
    try:
        regex = re.compile(translated, re.DOTALL)
    except re.error:  # such as a range that runs backwards
        return None
    return _Pattern(regex, negated, folders_only, by_name)


def _without_trailing_spaces(line: str) -> str:
    """Trailing spaces don't count, unless a backslash stands before the last one."""
    end = len(line)
    while end and line[end - 1] == " ":
        end -= 1
    backslashes = end - len(line[:end].rstrip("\\"))
    if end < len(line) and backslashes % 2:
        end += 1
    return line[:end]


def _translate(glob: str, by_name: bool) -> str | None:
    """The regular expression of a glob, or None where git lets it match nothing."""
    parts: list[str] = []
    i = 0
    while i < len(glob):
        char = glob[i]
        if char == "*":
            start = i
            while i < len(glob) and glob[i] == "*":
                i += 1
            whole_part = (start == 0 or glob[start - 1] == "/") and (i == len(glob) or glob[i] == "/")
            if by_name or i - start < 2 or not whole_part:
                parts.append("[^/]*")
            elif i == len(glob):
                parts.append(".*" if start == 0 else ".+")
            else:  # `**/`: any number of folders, none too
                parts.append("(?:.*/)?")
                i += 1
            continue
        if char == "[":
            bracket, i = _bracket(glob, i)
            if bracket is None:
                return None
            parts.append(bracket)
            continue
        if char == "\\":
            i += 1
            if i == len(glob):
                return None
            char = glob[i]
            parts.append(re.escape(char))
        else:
            parts.append("[^/]" if char == "?" else re.escape(char))
        i += 1
    return "".join(parts)


def _bracket(glob: str, start: int) -> tuple[str | None, int]:
    """The regular expression of a bracket that opens at `start`, and where the glob goes on."""
    i = start + 1
    negated = glob[i : i + 1] in ("!", "^")
    if negated:
        i += 1
    items: list[str] = []
    first = True
    while first or glob[i : i + 1] != "]":
        first = False
        if i >= len(glob):
            return None, i
        if glob.startswith("[:", i) and (end := glob.find(":]", i)) > 0:
            name = glob[i + 2 : end]
            if name not in _CLASSES:
                return None, i
            items.append(_CLASSES[name])
            i = end + 2
            continue
        char, i = _bracket_char(glob, i)
        if glob[i : i + 1] == "-" and glob[i + 1 : i + 2] not in ("", "]"):
            last, i = _bracket_char(glob, i + 1)
            if char <= last:  # git lets a range that runs backwards hold nothing
                items.append(f"{re.escape(char)}-{re.escape(last)}")
        else:
            items.append(re.escape(char))
    inside = "".join(items)
    if negated:
        return f"[^/{inside}]", i + 1
    return (f"(?!/)[{inside}]" if inside else "(?!)"), i + 1


def _bracket_char(glob: str, i: int) -> tuple[str, int]:
    if glob[i] == "\\" and i + 1 < len(glob):
        return glob[i + 1], i + 2
    return glob[i], i + 1
