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
