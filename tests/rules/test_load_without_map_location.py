"""DEV107: what is loaded without saying where to."""

from __future__ import annotations

from torchlint.check import CheckOptions, check_source


def test_what_the_same_file_saves_from_the_cpu_comes_back_to_it() -> None:
    code = b"""
import torch

def save(model, path):
    torch.save(model.eval().cpu().state_dict(), path)

def load(model, checkpoint):
    model.load_state_dict(torch.load(checkpoint))
"""
    options = CheckOptions(frozenset({"DEV107"}))
    assert not check_source(code, "model.py", options).findings
    mapped_nowhere = code.replace(b".cpu()", b"")
    assert [f.code for f in check_source(mapped_nowhere, "model.py", options).findings] == ["DEV107"]
