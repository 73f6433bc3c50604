"""How much of other files one file may have read."""

from __future__ import annotations

#: Lines of all definitions that one file may ask for.
MOST_IMPORTED_LINES = 1500
#: Lines of all definitions of further files that the summary of an imported function may ask for.
MOST_NESTED_LINES = 300


class Allowance:
    """What a file may have read of others, so that a short script does not cost what its libraries do.

    What it grants depends on that file alone, not on what other files had read before. The summary of an imported
    function, which serves all files, has one of its own.
    """

    def __init__(self, lines: int = MOST_IMPORTED_LINES) -> None:
        self._left = lines
        self._granted: dict[tuple[str, str], bool] = {}

    def grants(self, file: str, name: str, lines: int) -> bool:
        """Whether a definition of so many lines may be read."""
        granted = self._granted.get((file, name))
        if granted is None:
            granted = self._granted[file, name] = lines <= self._left
            if granted:
                self._left -= lines
        return granted
