"""Long lists of names, written as text."""

from __future__ import annotations


def words(text: str) -> tuple[str, ...]:
    """The names in a text, in order."""
    return tuple(text.split())
