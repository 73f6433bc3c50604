"""DEV405: names that torch has deprecated, on request."""

from __future__ import annotations

from checking import expect


def test_deprecated_names_are_reported_on_request() -> None:
    expect(
        """
        import torch
        from torch.cuda.amp import GradScaler, autocast
        scaler = GradScaler()  # <-
        other = torch.amp.GradScaler("cuda")
        with autocast():  # <-
            pass
        with torch.autocast("cuda"):
            pass
        """,
        "DEV405",
    )
