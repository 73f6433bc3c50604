"""DEV107: what must show that tensors are read, and that they may be read where their device is not."""

from __future__ import annotations

import pytest
from checking import findings

CODE = "DEV107"


@pytest.mark.parametrize(
    ("move", "beside", "reported"),
    [
        ("net.cuda()", "", False),
        ("net.to('cuda')", "", False),
        ("net.to(device)", "", True),
        ("net.cuda()", "PLACE = 'cuda' if torch.cuda.is_available() else 'cpu'", True),
        ("net.cuda()", "def place(x, device):\n    return x.to(device)", True),
        ("net.cuda()", "torch.distributed.init_process_group('nccl')", True),
    ],
)
def test_a_file_for_cuda_alone_finds_the_device_that_it_saved_from(move: str, beside: str, reported: bool) -> None:
    code = f"""
import torch

def predict(net, path{", device" if "device" in move else ""}):
    {move}
    checkpoint = torch.load(path)
    net.load_state_dict(checkpoint["net"])
    return net

{beside}
"""
    assert bool(findings(code, CODE)) is reported


@pytest.mark.parametrize(
    ("read", "reported"),
    [
        ("split_dict.pt", False),
        ("embedding.pt", False),
        ("init_states.pt", False),
        ("model_states.pt", True),
        ("state_dict.pt", True),
    ],
)
def test_the_name_of_a_file_shows_that_it_holds_a_model(read: str, reported: bool) -> None:
    code = f"import torch\ndef read(folder):\n    return torch.load(folder + '/' + '{read}')\n"
    code = code.replace("folder + '/' + ", "")
    assert bool(findings(code, CODE)) is reported


def test_what_goes_into_a_module_is_a_state_whatever_its_name() -> None:
    code = "import torch\ndef read(net):\n    net.load_state_dict(torch.load('embedding.pt'))\n"
    assert findings(code, CODE)


@pytest.mark.parametrize(("given", "reported"), [(", **options", False), ("", True)])
def test_options_that_hold_the_place_on_one_branch_are_given(given: str, reported: bool) -> None:
    code = f"""
import torch

def read(net, path, cpu):
    if cpu:
        options = {{"map_location": "cpu"}}
    else:
        options = {{}}
    net.load_state_dict(torch.load(path{given}))
"""
    assert bool(findings(code, CODE)) is reported


@pytest.mark.parametrize(("source", "reported"), [("https://example.org/vgg.pth", False), ("vgg.pth", True)])
def test_what_a_function_of_the_file_fetches_was_published(source: str, reported: bool) -> None:
    code = f"""
import torch

def pretrained_file():
    return fetch(url="{source}")

def build(model):
    model_file = pretrained_file()
    model.load_state_dict(torch.load(model_file))
"""
    assert bool(findings(code, CODE)) is reported
