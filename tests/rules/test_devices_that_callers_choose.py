"""DEV101, DEV102, DEV110 and DEV502: what callers choose and is not heard, and what is moved in a roundabout way."""

from __future__ import annotations

import pytest
from checking import expect

CHOSEN = """
import torch
class Voice{bases}:
    def __init__(self, path, device=None):
        self.path = path
        {lines}
"""
AVAILABLE = "self.device = torch.device('cuda' if torch.cuda.is_available() else 'cpu')"


def test_a_constructor_that_keeps_what_is_available_hears_no_device() -> None:
    expect(CHOSEN.format(bases="", lines=f"{AVAILABLE}  # <-"), "DEV110")


@pytest.mark.parametrize(
    "bases, lines",
    [
        ("", "self.device = device or torch.device('cuda' if torch.cuda.is_available() else 'cpu')"),
        ("", f"{AVAILABLE}\n        if device is not None:\n            self.device = device"),
        ("", "self.device = torch.device('cpu')"),
        ("(Base)", AVAILABLE),
    ],
)
def test_a_constructor_that_reads_its_device_or_has_its_signature_from_others_is_silent(bases: str, lines: str) -> None:
    expect(CHOSEN.format(bases=bases, lines=lines), "DEV110")


@pytest.mark.parametrize(
    "lines, marked",
    [
        ("x = made(b.size())\n    x.to(b.device)  # <-\n    x += b\n    return x", True),
        ("x = made(b.size())\n    x = x.to(b.device)\n    x += b\n    return x", False),
        ("x = made(b.size())\n    x.to(b.device)\n    return x", False),
        ("x = made(b.size())\n    x.to(b.device)\n    x = made(x)\n    x += b\n    return x", False),
    ],
)
def test_what_is_added_to_in_place_is_a_tensor_whose_move_is_lost(lines: str, marked: bool) -> None:
    assert marked is ("# <-" in lines)
    expect(f"import torch\nfrom helpers import made\ndef work(b):\n    {lines}\n", "DEV101")


STATE = """
import torch
from torch import nn, optim
from networks import load
def main(args, state):
    model = load(args.path)
    optimizer = optim.SGD(model.parameters(), lr=args.lr)
    optimizer.load_state_dict(state)
"""


@pytest.mark.parametrize(
    "move, marked",
    [
        ("model = nn.DataParallel(model).cuda()", True),
        ("model.cuda()", True),
        ("model = nn.DataParallel(model)", False),
        ("other = nn.DataParallel(load(args.other)).cuda()", False),
    ],
)
def test_a_model_that_moves_in_its_wrapper_leaves_the_state_of_its_optimizer(move: str, marked: bool) -> None:
    expect(f"{STATE}    {move}{'  # <-' if marked else ''}\n", "DEV102")


PINNED = """
import torch
def batch(values, n, device{default}):
    buffer = torch.tensor(values, pin_memory={pinned}){mark}
    return buffer[:n].view(n, 1).{move}
"""


@pytest.mark.parametrize("default", ["", "='cuda'"])
@pytest.mark.parametrize("move", ["to(device, non_blocking=True)", "to(device=device)"])
def test_a_buffer_that_is_pinned_for_a_device_of_the_callers_is_reported(default: str, move: str) -> None:
    expect(PINNED.format(default=default, pinned=True, move=move, mark="  # <-"), "DEV502")


@pytest.mark.parametrize(
    "pinned, move", [("device == 'cuda'", "to(device)"), ("False", "to(device)"), ("True", "cuda()"), ("True", "float()")]
)
def test_a_buffer_that_is_pinned_where_cuda_is_is_fine(pinned: str, move: str) -> None:
    expect(PINNED.format(default="", pinned=pinned, move=move, mark=""), "DEV502")


@pytest.mark.parametrize("device, marked", [("self.args.device", True), ("args.device", True), ("x.device", False)])
def test_a_context_for_the_device_of_the_options_is_no_tensors_device(device: str, marked: bool) -> None:
    code = f"""
        import torch
        class Runner:
            def evaluate(self, args, x: torch.Tensor):
                if torch.cuda.is_available():
                    torch.cuda.manual_seed_all(args.seed)
                with torch.cuda.device({device}):{"  # <-" if marked else ""}
                    torch.cuda.empty_cache()
                return x.cpu()
        """
    expect(code, "DEV502")
