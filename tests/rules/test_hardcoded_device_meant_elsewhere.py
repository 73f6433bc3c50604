"""DEV501, DEV502: what must show that code is meant to run without CUDA before a name of it is a slip."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import pytest
from checking import reported_lines

PROGRAM = """
import torch

def predict(model, path):
    model = model.cuda()
    return model
"""


def of_project(folder: Path, others: dict[str, str], code: str = PROGRAM, rule: str = "DEV501") -> list[int]:
    """The lines reported in a file of a project that holds `others`, too."""
    (folder / "setup.cfg").write_text("")
    for name, text in others.items():
        (folder / name).write_text(text)
    within = folder / "app" / "models" / "small"  # the folder's own name is one of a test
    within.mkdir(parents=True)
    file = within / "predict.py"
    file.write_text(dedent(code))
    return reported_lines(code, rule, path=str(file))


@pytest.mark.parametrize(
    ("others", "reported"),
    [
        ({"main.py": "def train(model):\n    return model.cuda()\n"}, False),
        ({"main.py": "import torch\nPLACE = 'cuda' if torch.cuda.is_available() else 'cpu'\n"}, True),
        ({"main.py": "parser.add_argument('--no-cuda', action='store_true')\n"}, True),
        ({"main.py": "import torch\nx = torch.load('x.pt', map_location='cpu')\n"}, True),
    ],
)
def test_the_project_shows_that_it_is_for_other_machines(
    tmp_path: Path, others: dict[str, str], reported: bool
) -> None:
    assert of_project(tmp_path, others) == ([5] if reported else [])


@pytest.mark.parametrize("beside", ["def place(x, device):\n    return x.to(device)\n", ""])
def test_the_file_itself_may_show_it(tmp_path: Path, beside: str) -> None:
    others = {"main.py": "def train(model):\n    return model.cuda()\n"}
    assert of_project(tmp_path, others, PROGRAM + beside) == ([5] if beside else [])


@pytest.mark.parametrize("given", ["scores: torch.Tensor", "scores"])
def test_a_tensor_that_the_function_is_given_shows_where_to_compute(tmp_path: Path, given: str) -> None:
    code = f"""
import torch

def mask(model, {given}):
    return torch.zeros(3, device="cuda") + model(scores)
"""
    others = {"main.py": "def train(model):\n    return model.cuda()\n"}
    assert of_project(tmp_path, others, code) == ([5] if "Tensor" in given else [])


@pytest.mark.parametrize(
    ("extension", "reported"), [("CUDAExtension('k', ['k.cu'])", False), ("CppExtension('k', ['k.cpp'])", True)]
)
@pytest.mark.parametrize("rule", ["DEV501", "DEV502"])
def test_a_project_of_cuda_kernels_is_for_cuda(tmp_path: Path, extension: str, reported: bool, rule: str) -> None:
    code = """
import torch

def work(x, device):
    torch.cuda.synchronize()
    return x.cuda()
"""
    others = {"setup.py": f"setup(ext_modules=[{extension}])\n", "main.py": "DEVICES = ['cpu']\n"}
    line = 6 if rule == "DEV501" else 5
    assert of_project(tmp_path, others, code, rule) == ([line] if reported else [])


@pytest.mark.parametrize(("beside", "reported"), [("CUDAExtension('k', ['k.cu'])", False), ("x = net.cuda()", True)])
def test_a_package_in_no_marked_project_is_asked_for_its_kernels(tmp_path: Path, beside: str, reported: bool) -> None:
    within = tmp_path / "app" / "models" / "small"
    within.mkdir(parents=True)
    for folder in (within, within.parent, within.parent.parent):
        (folder / "__init__.py").write_text("")
    (tmp_path / "app" / "build.py").write_text(beside)
    (within / "predict.py").write_text(PROGRAM)
    assert reported_lines(PROGRAM, "DEV501", path=str(within / "predict.py")) == ([5] if reported else [])


@pytest.mark.parametrize(("trains", "reported"), [("", True), ("loss.backward()", False)])
def test_a_program_has_no_other_device_than_the_current_one(trains: str, reported: bool) -> None:
    code = f"""
import torch

def lengths(mask, n, loss):
    {trains or "pass"}
    if mask.is_cuda:
        n = n.cuda()
    return n + mask
"""
    assert bool(reported_lines(code, "DEV501", path="lengths.py")) is reported


@pytest.mark.parametrize(
    ("otherwise", "reported"),
    [("device = torch.device('cpu')", False), ("print(device)", True), ("other = torch.device('cpu')", True)],
)
def test_a_device_that_every_branch_binds_anew_is_none(otherwise: str, reported: bool) -> None:
    code = f"""
import torch

def start(net, rank):
    device = torch.device("cuda")
    if rank > -1:
        device = torch.device("cuda", rank)
    elif torch.cuda.is_available():
        device = torch.device("cuda")
    else:
        {otherwise}
    return net.to(device)
"""
    assert reported_lines(code, "DEV501", path="start.py") == ([5] if reported else [])


@pytest.mark.parametrize(
    ("file", "text", "reported"),
    [
        ("ops/setup.py", "extension = CUDAExtension\n", False),
        ("ops/setup.py", "extension = CppExtension\n", True),
        ("op/act.py", "op = load('act', sources=[os.path.join(path, 'act_kernel.cu')])\n", False),
        ("op/act.py", "op = load('act', sources=[os.path.join(path, 'act.cpp')])\n", True),
    ],
)
def test_a_program_that_builds_kernels_beside_it_is_for_cuda(
    tmp_path: Path, file: str, text: str, reported: bool
) -> None:
    code = "import torch\ndef work(x, device):\n    return x.cuda()\n"
    home = tmp_path / "one" / "two" / "three"
    (home / file).parent.mkdir(parents=True)
    (home / file).write_text(text)
    (home / "work.py").write_text(code)
    assert bool(reported_lines(code, "DEV501", path=str(home / "work.py"))) is reported
