"""DEV107: what is loaded without saying where to."""

from __future__ import annotations

from pathlib import Path

import pytest
from checking import expect, findings, fixed
from steps import PROGRAM


def test_what_the_same_file_saves_from_the_cpu_comes_back_to_it() -> None:
    code = """
import torch

def save(model, path):
    torch.save(model.eval().cpu().state_dict(), path)

def load(model, checkpoint):
    model.load_state_dict(torch.load(checkpoint))
"""
    assert not findings(code, "DEV107")
    mapped_nowhere = code.replace(".cpu()", "")
    assert [f.code for f in findings(mapped_nowhere, "DEV107")] == ["DEV107"]


def test_a_state_that_is_gathered_on_the_cpu_comes_back_to_it() -> None:
    code = """
import torch
from torch.distributed.fsdp import FullStateDictConfig, FullyShardedDataParallel as FSDP, StateDictType

def save(model, path):
    with FSDP.state_dict_type(model, StateDictType.FULL_STATE_DICT, FullStateDictConfig(offload_to_cpu=True)):
        torch.save(model.state_dict(), path)

def load(model, checkpoint):
    model.load_state_dict(torch.load(checkpoint))
"""
    assert not findings(code, "DEV107")
    kept = code.replace("offload_to_cpu=True", "offload_to_cpu=False")
    assert [f.code for f in findings(kept, "DEV107")] == ["DEV107"]


def test_a_move_to_the_cpu_elsewhere_says_nothing_of_what_is_saved() -> None:
    code = """
import torch

def save(model, path):
    torch.save(model.state_dict(), path)

def measure(model, batch):
    return model(batch).cpu()

def load(model, checkpoint):
    model.load_state_dict(torch.load(checkpoint))
"""
    assert [f.code for f in findings(code, "DEV107")] == ["DEV107"]


def test_groups_of_options_hold_no_tensors_and_bytes_in_memory_are_the_programs_own() -> None:
    for read, expected in (("path", ["DEV107"]), ("param_group_path", []), ("state_bytes", [])):
        code = f"import torch\ndef load_optimizer(optimizer, {read}):\n    return torch.load({read})\n"
        assert [f.code for f in findings(code, "DEV107")] == expected


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
    assert [f.code for f in findings(code, "DEV107")] == expected


def test_a_file_beside_the_source_that_the_program_writes_itself_is_none_that_it_was_shipped_with() -> None:
    code = """
import os
import torch

WEIGHTS = os.path.join(os.path.dirname(__file__), "weights.pt")

def train(model):
    torch.save(model.state_dict(), WEIGHTS)

def resume(model):
    model.load_state_dict(torch.load(WEIGHTS))
"""
    assert [f.code for f in findings(code, "DEV107")] == ["DEV107"]


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
    assert [f.code for f in findings(code, "DEV107")] == (["DEV107"] if reported else [])


@pytest.mark.parametrize(
    "imports, call",
    [
        ("import torch", "torch.load(path)"),
        ("import torch as th", "th.load(path, weights_only=True)"),
        ("from torch import load", "load(path)"),
        ("import torch", 'torch.load(path)["state_dict"]'),
        ("from torch.hub import load_state_dict_from_url", "load_state_dict_from_url(path)"),
    ],
)
def test_a_load_without_map_location_is_reported(imports: str, call: str) -> None:
    expect(f"{imports}\ndef resume(path):\n    return {call}  # <-\n", "DEV107")


@pytest.mark.parametrize(
    "call",
    [
        "torch.load(path, 'cpu')",
        "torch.load(path, map_location=device)",
        "torch.load(path, **options)",
        "torch.load(*options)",
        "torch.load(path) if torch.cuda.is_available() else torch.load(path, map_location='cpu')",
        "torch.save(model.state_dict(), path)\n    model.load_state_dict(torch.load(path))",
        "torch.utils.model_zoo.load_url('https://example.org/w.pth')",
        "torch.utils.model_zoo.load_url(urls['resnet18'])",
    ],
)
def test_a_load_that_is_mapped_or_known_to_fit_is_silent(call: str) -> None:
    expect(f"import torch\ndef resume(path, device, options, model, urls):\n    {call}\n", "DEV107")


TABLE = """
    from torch.hub import load_state_dict_from_url
    URLS = {{"small": "https://example.org/small.pth"}}
    def pretrained(net, arch, checkpoint_url{default}):
        {lines}
        net.load_state_dict(load_state_dict_from_url(checkpoint_url)){mark}
    """


@pytest.mark.parametrize(
    ("default", "lines"),
    [
        ("", "checkpoint_url = URLS[arch]"),
        ("", "checkpoint_url = URLS.get(arch)"),
        ("", "checkpoint_url = lookup(arch, URLS)"),
        ("", "checkpoint_url = 'https://example.org/' + arch"),
        ("=URLS['small']", "pass"),
    ],
)
def test_weights_from_an_address_that_the_code_gives_are_silent(default: str, lines: str) -> None:
    expect(TABLE.format(default=default, lines=lines, mark=""), "DEV107")


@pytest.mark.parametrize("lines", ["pass", "checkpoint_url = arch + '.pth'"])
def test_weights_from_an_address_of_the_caller_are_reported(lines: str) -> None:
    expect(TABLE.format(default="", lines=lines, mark="  # <-"), "DEV107")


def test_a_cache_that_the_same_code_fills_is_silent() -> None:
    expect(
        """
        import os
        import torch
        def vectors(path, make):
            if os.path.isfile(path):
                made = torch.load(path)
            else:
                made = make()
                torch.save(made, path)
            return made
        """,
        "DEV107",
    )


def test_a_checkpoint_that_is_saved_later_on_is_no_cache() -> None:
    expect(
        """
        import torch
        def main(model, path, resume):
            if resume:
                model.load_state_dict(torch.load(path))  # <-
            train(model)
            torch.save(model.state_dict(), path)
        """,
        "DEV107",
    )


def test_the_fix_maps_to_the_device_at_hand() -> None:
    assert "torch.load(path, map_location=device)" in fixed(
        "import torch\ndef resume(path, device):\n    return torch.load(path)\n", "DEV107"
    )
    assert 'torch.load(path, map_location="cpu")' in fixed(
        "import torch\ndef resume(path):\n    return torch.load(path)\n", "DEV107"
    )


@pytest.mark.parametrize("holder", ["lr_scheduler", "self.scheduler", "scaler", "self.grad_scaler"])
def test_the_state_of_a_scheduler_or_a_scaler_holds_no_tensors(holder: str) -> None:
    expect(
        f"""
        import torch
        class Checkpoints:
            def resume(self, path, lr_scheduler, scaler):
                state_dict = torch.load(path)
                {holder}.load_state_dict(state_dict)
        """,
        "DEV107",
    )


def test_an_annotated_scheduler_is_none_of_the_optimizers() -> None:
    expect(
        """
        import torch
        from torch.optim.lr_scheduler import LRScheduler
        def resume(path, schedule: LRScheduler):
            schedule.load_state_dict(torch.load(path))
        """,
        "DEV107",
    )


def test_a_checkpoint_that_a_scheduler_takes_a_part_of_is_reported() -> None:
    expect(
        """
        import torch
        def resume(path, model, scheduler):
            checkpoint = torch.load(path)  # <-
            model.load_state_dict(checkpoint["model"])
            scheduler.load_state_dict(checkpoint["scheduler"])
        """,
        "DEV107",
    )


MOVED = "model.to('cuda' if torch.cuda.is_available() else 'cpu')\noptimizer = "


def test_a_program_on_the_host_reads_back_what_it_saved() -> None:
    code = PROGRAM.replace("{}", "") + (
        "torch.save(model.state_dict(), PATH)\n"
        "def check():\n"
        "    fresh = nn.Linear(2, 2)\n"
        "    fresh.load_state_dict(torch.load(PATH)){}\n"
    )
    expect(code.format(""), "DEV107")
    expect(code.format("  # <-").replace("optimizer = ", MOVED, 1), "DEV107")


@pytest.mark.parametrize("into, marked", [("metadata", ""), ("statistics_dict", ""), ("valid_best_score", ""), ("weights", "  # <-")])
def test_what_is_kept_beside_a_state_is_possible_alone(into: str, marked: str) -> None:
    expect(
        f"""
        import torch
        def load_checkpoint(path):
            {into} = torch.load(path){marked}
            return {into}
        """,
        "DEV107",
    )


def test_options_may_name_a_state() -> None:
    expect("import torch\ndef load(args):\n    return torch.load(args.model_path)  # <-\n", "DEV107")


GENERATE = """
import torch
from model import Net
net = torch.load(path)
net(start)
"""
TRAIN = """
import torch
from model import Net
net = Net()
for x in batches:
    net(x).mean().backward()
torch.save(net, "net.pt")
"""


@pytest.mark.parametrize(
    ("train", "reported"),
    [
        (TRAIN, False),
        (TRAIN.replace("Net()", "Net().cuda()"), True),
        (TRAIN.replace("Net()", "Net().to(where)"), True),
        (TRAIN.replace("torch.save", "store"), True),
        (TRAIN.replace("backward", "item"), True),
        (TRAIN.replace("import torch", "import torch, lightning"), True),
    ],
)
def test_what_the_folder_trains_on_the_cpu_comes_back_to_it(tmp_path: Path, train: str, reported: bool) -> None:
    (tmp_path / "train.py").write_text(train)
    (tmp_path / "generate.py").write_text(GENERATE.replace("path", "'net.pt'"))
    found = findings((tmp_path / "generate.py").read_text(), "DEV107", path=str(tmp_path / "generate.py"))
    assert bool(found) == reported


NEEDS_CUDA = """
    {imports}
    import torch
    def save(net, path):
        torch.save(net.state_dict(), path)
    def resume(net, path):
        net.load_state_dict(torch.load(path)){mark}
    """


def test_a_program_that_needs_cuda_finds_the_device_that_it_saved_from() -> None:
    expect(NEEDS_CUDA.format(imports="import apex", mark=""), "DEV107")


@pytest.mark.parametrize(
    "imports",
    ["import apex\n    import torch.distributed as dist\n    dist.init_process_group('nccl')", "import timm"],
)
def test_a_program_with_a_device_a_process_does_not(imports: str) -> None:
    expect(NEEDS_CUDA.format(imports=imports, mark="  # <-"), "DEV107")


RUN = """
    import torch
    PATH = "net.pth"
    def train(net):
        {condition}torch.save(net.state_dict(), {saved})
    def test(net):
        net.load_state_dict(torch.load(PATH)){mark}
    def main(net, again):
        {first}
        {second}
    """


@pytest.mark.parametrize(
    ("condition", "saved", "first", "second", "mark"),
    [
        ("", "PATH", "train(net)", "test(net)", ""),
        ("", "PATH", "if again: train(net)", "test(net)", "  # <-"),
        ("", "PATH", "test(net)", "train(net)", "  # <-"),
        ("", "'other.pth'", "train(net)", "test(net)", "  # <-"),
        ("if net.training: ", "PATH", "train(net)", "test(net)", "  # <-"),
        ("", "PATH", "train(net)", "pass", "  # <-"),
    ],
)
def test_what_the_run_wrote_just_before_comes_back(
    condition: str, saved: str, first: str, second: str, mark: str
) -> None:
    expect(RUN.format(condition=condition, saved=saved, first=first, second=second, mark=mark), "DEV107")


@pytest.mark.parametrize(("name", "mark"), [("resnet18-5c106cde.pth", ""), ("resnet18-best.pth", "  # <-")])
def test_weights_with_the_name_of_published_ones_are_silent(name: str, mark: str) -> None:
    code = """
        import torch
        if __name__ == "__main__":
            model_path = "weights/{}"
            net.load_state_dict(torch.load(model_path)){}
        """
    expect(code.format(name, mark), "DEV107")


BEST = """
    import torch
    def fit(net, loader, stopping, path, device):
        {before}
        for epoch in range(9):
            for x in loader:
                loss = net(x.to(device)).mean()
                {step}
            stopping(net, path)
        net.load_state_dict(torch.load(path + "/checkpoint.pth")){mark}
    """


@pytest.mark.parametrize(
    ("step", "before", "mark"),
    [
        ("loss.backward()", "pass", ""),
        ("print(loss)", "pass", "  # <-"),
        ("loss.backward()", "torch.distributed.init_process_group('nccl')", "  # <-"),
        ("loss.backward()", "net = torch.nn.parallel.DistributedDataParallel(net)", "  # <-"),
    ],
)
def test_the_best_of_a_training_is_read_once_it_has_ended(step: str, before: str, mark: str) -> None:
    expect(BEST.format(step=step, before=before, mark=mark), "DEV107")


def test_what_a_training_begins_with_was_saved_elsewhere() -> None:
    begins = "net.load_state_dict(torch.load(path))  # <-"
    expect(BEST.format(step="loss.backward()", before=begins, mark=""), "DEV107")


@pytest.mark.parametrize(("made", "mark"), [("TRTModule", ""), ("Network", "  # <-")])
def test_the_state_of_an_engine_is_bytes(made: str, mark: str) -> None:
    expect(
        f"""
        import torch
        from torch2trt import TRTModule
        from network import Network
        def load_engine(path):
            model = {made}()
            model.load_state_dict(torch.load(path)){mark}
            return model
        """,
        "DEV107",
    )
