"""DEV505: the MPS fallback is asked for after torch has read the variable."""

from __future__ import annotations

from collections.abc import Iterator

from torchlint.findings import Severity
from torchlint.placement.events import Env
from torchlint.rule import Report, Rule


class LateMpsFallback(Rule):
    """`PYTORCH_ENABLE_MPS_FALLBACK` is set after torch is imported.

    What it does
        Finds assignments to `os.environ["PYTORCH_ENABLE_MPS_FALLBACK"]` that run after the first import of torch.

    Why it matters
        torch reads the variable when it is imported, so that operations that MPS lacks still raise.

    Example
        import os

        import torch

        os.environ["PYTORCH_ENABLE_MPS_FALLBACK"] = "1"  # <-
        layer = torch.nn.Linear(2, 2)

    Use instead
        import os

        os.environ["PYTORCH_ENABLE_MPS_FALLBACK"] = "1"

        import torch

        layer = torch.nn.Linear(2, 2)

    Fix
        None.

    References
        https://docs.pytorch.org/docs/stable/mps_environment_variables.html
        https://github.com/Visionatrix/Visionatrix/pull/212
    """

    code = "DEV505"
    name = "late-mps-fallback"
    severity = Severity.WARNING

    def on_env(self, env: Env) -> Iterator[Report]:
        if env.name == "PYTORCH_ENABLE_MPS_FALLBACK" and env.after_torch:
            yield self.finding(
                env, "torch read this variable when it was imported; set it before the first import"
            )
