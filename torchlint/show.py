"""`--show-placement`: one file read, interpreted and shown with where its values live."""

from __future__ import annotations

import os
import re
from pathlib import Path

_WITH_LINE = re.compile(r"(?P<path>.+):(?P<line>[1-9][0-9]*)")


class CannotShow(Exception):
    """A file that can't be shown, with the reason in words."""


def split_line(target: str) -> tuple[str, int | None]:
    """`FILE[:LINE]` as a path and a line; a file whose name has that form is taken as it is."""
    match = _WITH_LINE.fullmatch(target)
    if match is None or os.path.exists(target):
        return target, None
    return match["path"], int(match["line"])


def show_placement(target: str, *, html: bool = False, color: bool = False) -> str:
    """The file `FILE[:LINE]` with the device of each value bound there, as text or as a page.

    Raises CannotShow for a file that is missing or can't be read as Python, a notebook, or a line it doesn't have.
    """
    path, line = split_line(target)
    if path.endswith(".ipynb"):
        raise CannotShow(f"{path}: placement is shown for Python files, not yet for notebooks")
    try:
        data = Path(path).read_bytes()
    except OSError as error:
        raise CannotShow(f"{path}: {error.strerror or error}") from error
    from torchlint.placement.observer import observe
    from torchlint.placement.project import Project
    from torchlint.placement.trace import trace
    from torchlint.report import placement
    from torchlint.source import Unreadable, decode

    try:
        source = decode(data)
        module, problems = source.parse()
    except Unreadable as problem:
        raise CannotShow(f"{path}: {problem}") from problem
    if problems:
        raise CannotShow(f"{path}: {problems[0]}")
    lines = source.text.splitlines()
    if line is not None and line > len(lines):
        raise CannotShow(f"{path} has {len(lines)} lines, so there is no line {line}")
    spots = trace(module, observe(module, path, Project()))
    if html:
        return placement.as_html(path, lines, spots)
    return placement.as_text(path, lines, spots, line, color)
