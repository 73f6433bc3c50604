"""DEV107: what is loaded without saying where to."""

from __future__ import annotations

import pytest

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


def test_a_state_that_is_gathered_on_the_cpu_comes_back_to_it() -> None:
    code = b"""
import torch
from torch.distributed.fsdp import FullStateDictConfig, FullyShardedDataParallel as FSDP, StateDictType

def save(model, path):
    with FSDP.state_dict_type(model, StateDictType.FULL_STATE_DICT, FullStateDictConfig(offload_to_cpu=True)):
        torch.save(model.state_dict(), path)

def load(model, checkpoint):
    model.load_state_dict(torch.load(checkpoint))
"""
    options = CheckOptions(frozenset({"DEV107"}))
    assert not check_source(code, "model.py", options).findings
    kept = code.replace(b"offload_to_cpu=True", b"offload_to_cpu=False")
    assert [f.code for f in check_source(kept, "model.py", options).findings] == ["DEV107"]


def test_a_move_to_the_cpu_elsewhere_says_nothing_of_what_is_saved() -> None:
    code = b"""
import torch

def save(model, path):
    torch.save(model.state_dict(), path)

def measure(model, batch):
    return model(batch).cpu()

def load(model, checkpoint):
    model.load_state_dict(torch.load(checkpoint))
"""
    options = CheckOptions(frozenset({"DEV107"}))
    assert [f.code for f in check_source(code, "model.py", options).findings] == ["DEV107"]


def test_groups_of_options_hold_no_tensors_and_bytes_in_memory_are_the_programs_own() -> None:
    options = CheckOptions(frozenset({"DEV107"}))
    for read, expected in (("path", ["DEV107"]), ("param_group_path", []), ("state_bytes", [])):
        code = f"import torch\ndef load_optimizer(optimizer, {read}):\n    return torch.load({read})\n"
        assert [f.code for f in check_source(code.encode(), "model.py", options).findings] == expected


@pytest.mark.parametrize(
    "path, expected",
    [
        ("Path(__file__).resolve().parent / 'weights.pt'", []),
        ("str(WEIGHTS)", []),
        ("os.path.join(os.path.dirname(__file__), 'models', 'weights.pt')", []),
        ("resources.files('scores') / 'weights.pt'", []),
        ("os.path.join(os.path.dirname(__file__), name)", ["DEV107"]),
        ("os.path.join(os.path.dirname(__file__), path)", ["DEV107"]),
        ("ELSEWHERE / 'weights.pt'", ["DEV107"]),
        ("'weights.pt'", ["DEV107"]),
    ],
)
def test_a_fixed_file_beside_the_source_was_read_on_many_machines_before(path: str, expected: list[str]) -> None:
    code = f"""
import os
from importlib import resources
from pathlib import Path
import torch

HERE = Path(__file__).parent
WEIGHTS = HERE / "models" / "weights.pt"
ELSEWHERE = HERE / os.environ["RUN"]

def build(model, name, path):
    weights = torch.load({path})
    model.load_state_dict(weights)
"""
    options = CheckOptions(frozenset({"DEV107"}))
    assert [f.code for f in check_source(code.encode(), "model.py", options).findings] == expected


def test_a_file_beside_the_source_that_the_program_writes_itself_is_none_that_it_was_shipped_with() -> None:
    code = b"""
import os
import torch

WEIGHTS = os.path.join(os.path.dirname(__file__), "weights.pt")

def train(model):
    torch.save(model.state_dict(), WEIGHTS)

def resume(model):
    model.load_state_dict(torch.load(WEIGHTS))
"""
    options = CheckOptions(frozenset({"DEV107"}))
    assert [f.code for f in check_source(code, "model.py", options).findings] == ["DEV107"]


@pytest.mark.parametrize(
    ("field", "base", "read", "reported"),
    [
        ("seed: int", "", "recipe_state.pt", False),
        ("loader: Optional[dict[str, Any]] = None", "", "recipe_state.pt", False),
        ("seed: int", "", "model.pt", True),
        ("model: nn.Module", "", "recipe_state.pt", True),
        ("buffer: torch.Tensor", "", "recipe_state.pt", True),
        ("seed: int", "(nn.Module)", "recipe_state.pt", True),
        ("seed: int", "(Unknown)", "recipe_state.pt", True),
    ],
)
def test_counts_of_a_run_that_the_file_saves_under_the_same_name_hold_no_tensors(
    field: str, base: str, read: str, reported: bool
) -> None:
    code = f"""
import os
from typing import Any, Optional
import torch
from torch import nn
from elsewhere import *

class Progress{base}:
    {field}

    def state_dict(self):
        return {{"it": self.it}}

def save(progress: Progress, folder):
    torch.save(progress.state_dict(), os.path.join(folder, "recipe_state.pt"))

def resume(folder):
    state_dict = torch.load(os.path.join(folder, "{read}"), weights_only=True)
    return state_dict
"""
    found = check_source(code.encode(), "client.py", CheckOptions(frozenset({"DEV107"}))).findings
    assert [f.code for f in found] == (["DEV107"] if reported else [])
