"""A GradScaler that a loop makes anew: no two rounds unscale for the same one."""

from __future__ import annotations

import pytest
from checking import findings

CODE = """
import torch
def train(model, loader, optimizer, half):
    scaler = torch.amp.GradScaler("cuda")
    for step, batch in enumerate(loader):
        loss = model(batch).mean()
        if half:
            {}
            scaler.scale(loss).backward()
        else:
            loss.backward()
        if step % 4 == 0:
            if half:
                scaler.unscale_(optimizer)
            norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            if norm.isfinite():
                if half:
                    scaler.step(optimizer)
                    scaler.update()
                else:
                    optimizer.step()
"""


@pytest.mark.parametrize(("made", "reported"), [('scaler = torch.amp.GradScaler("cuda")', False), ("pass", True)])
def test_another_scaler_in_each_round_is_never_unscaled_twice(made: str, reported: bool) -> None:
    found = [f for f in findings(CODE.format(made), "DEV402") if "comes again" in f.message]
    assert bool(found) is reported
