"""DEV002: a suppression comment that suppresses nothing."""

from __future__ import annotations

from torchlint.rule import Rule


class UnusedSuppression(Rule):
    """A comment suppresses a finding that is not there.

    What it does
        Reports `# torchlint: ignore[...]`, `# torchlint: ignore-file[...]` and `# noqa: DEV...` where no
        finding has the code. Only codes of rules that ran, over the whole file, are judged. An `ignore` without
        codes is judged only if every rule ran; an `ignore-file` without codes never is, and `# noqa` without
        codes is left to other linters.

    Why it matters
        What it was for has been mended, or never was; the next finding on that line would be hidden by it.

    Example
        import torch

        x = torch.zeros(3)
        x = x + 1  # torchlint: ignore[DEV101] moved in place  # <-

    Use instead
        import torch

        x = torch.zeros(3)
        x = x + 1

    Fix
        Safe. Removes the code, or the comment with its reason if no code is left; other text in the comment
        stays.
    """

    code = "DEV002"
    name = "unused-suppression"
