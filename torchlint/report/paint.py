"""Colour on a terminal: when it is wanted, and the escape sequences."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import IO

_CODES = {
    "bold": "1",
    "dim": "2",
    "red": "1;31",
    "green": "32",
    "yellow": "1;33",
    "blue": "1;34",
    "cyan": "1;36",
}

#: The colour of each severity, by its value.
SEVERITY = {"error": "red", "warning": "yellow", "info": "cyan"}


class Paint:
    """Puts text into colour, or leaves it as it is."""

    def __init__(self, color: bool) -> None:
        self.color = color

    def __call__(self, style: str, text: str) -> str:
        return f"\x1b[{_CODES[style]}m{text}\x1b[0m" if self.color and text else text


def wants_color(choice: str, stream: IO[str] | None, environ: Mapping[str, str] = os.environ) -> bool:
    """Whether `stream` (None: a file) gets colour. choice: `auto`, `always` or `never`.

    With `auto`, NO_COLOR (https://no-color.org) forbids it, then FORCE_COLOR asks for it, each if it is set
    to anything; else a terminal gets it that doesn't call itself dumb.
    """
    if choice != "auto" or stream is None:
        return choice == "always"
    if environ.get("NO_COLOR"):
        return False
    if environ.get("FORCE_COLOR"):
        return True
    return stream.isatty() and environ.get("TERM") != "dumb"
