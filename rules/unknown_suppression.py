"""DEV003: a suppression comment that names no rule, or is not understood."""

from __future__ import annotations

from torchlint.rule import Rule


class UnknownSuppression(Rule):
    """A suppression comment names no rule, or is written in a way that torchlint does not understand.

    What it does
        Reports codes and names in `# torchlint: ignore[...]` that no rule has, with the nearest that one has,
        and comments that begin with `torchlint:` and look like a suppression, but are none, such as
        `# torchlint: disable=DEV101`.

    Why it matters
        The comment suppresses nothing, although it says that it does.

    Example
        import torch


        def warm_up(device):
            weight = torch.ones(4)
            weight.to(device)  # torchlint: ignore[discarded-moves] only to start the driver  # <-

    Use instead
        import torch


        def warm_up(device):
            weight = torch.ones(4)
            weight.to(device)  # torchlint: ignore[discarded-move] only to start the driver

    Fix
        None.
    """

    code = "DEV003"
    name = "unknown-suppression"
