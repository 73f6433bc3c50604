"""DEV001: a file that is no Python, or no text."""

from __future__ import annotations

from torchlint.findings import Severity
from torchlint.rule import Rule


class UnreadableFile(Rule):
    """A file cannot be read as Python, so nothing in it was checked.

    What it does
        Reports, once, a file that does not parse, is not in the encoding that it declares (UTF-8 if it
        declares none) or is binary; in a notebook, each cell that does not parse. All other files and cells
        are checked all the same.

    Why it matters
        A file that is left out in silence looks as if it had been found clean.

    Example
        import torch

        x = torch.zeros(3  # <-

    Use instead
        import torch

        x = torch.zeros(3)

    Fix
        None.

    References
        https://docs.python.org/3/reference/lexical_analysis.html#encoding-declarations
    """

    code = "DEV001"
    name = "unreadable-file"
    severity = Severity.ERROR
