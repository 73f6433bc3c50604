"""DEV501: a file whose imports, one through the other, end at CUDA kernels can't run without CUDA."""

from __future__ import annotations

from pathlib import Path

import pytest
from checking import reported_lines

from torchlint.findings import Confidence

CODE = """
import torch
from engine.layers import Block

def work(x: torch.Tensor, device):
    return x + torch.zeros(3, device="cuda")
"""


def of_project(
    folder: Path, modules: dict[str, str], code: str = CODE, path: str = "app/models/small/run.py", *, confidence: Confidence
) -> list[int]:
    """The lines reported in a program of a project that holds `modules`, too, and chooses a device somewhere.

    It stands deep, since the folder that the test gets is named as one of tests.
    """
    (folder / "setup.cfg").write_text("")
    for name, text in {"main.py": "DEVICES = ['cpu']\n", **modules}.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    file = folder / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(code)
    return reported_lines(code, "DEV501", path=str(file), confidence=confidence)


@pytest.mark.parametrize(
    ("modules", "likely"),
    [
        ({"engine/layers.py": "from flash_attn import flash_attn_func\n"}, False),
        ({"engine/layers.py": "import torch\n"}, True),
        ({"engine/layers.py": "from . import norms\n", "engine/norms.py": "import os, triton\n"}, False),
        ({"engine/layers.py": "from .norms import (\n    A,  # one\n)\n", "engine/norms.py": "import apex\n"}, False),
        ({"engine/layers.py": "", "engine/__init__.py": "import transformer_engine as te\n"}, False),
        ({"src/engine/layers.py": "import spconv.pytorch as spconv\n"}, False),
        ({"engine/layers.py": "def f():\n    import flash_attn\n"}, True),
        ({"engine/layers.py": "try:\n    import flash_attn\nexcept ImportError:\n    pass\n"}, True),
        ({"engine/layers.py": "import apex\n", "apex/__init__.py": ""}, True),  # one of its own, by that name
        ({"engine/other.py": "import flash_attn\n", "engine/layers.py": ""}, True),
        ({"engine/layers.py": "class C:\n    def f(self, b):\n        assert b == 'nccl', b\n"}, False),
    ],
)
def test_what_an_import_ends_at_decides(tmp_path: Path, modules: dict[str, str], likely: bool) -> None:
    assert of_project(tmp_path, modules, confidence=Confidence.LIKELY) == ([6] if likely else [])


def test_it_stays_possible(tmp_path: Path) -> None:
    modules = {"engine/layers.py": "import flash_attn\n"}
    assert of_project(tmp_path, modules, confidence=Confidence.POSSIBLE) == [6]


def test_the_package_that_a_file_is_in_is_imported_first(tmp_path: Path) -> None:
    code = CODE.replace("from engine.layers import Block", "")
    modules = {"engine/__init__.py": "from .fused import f\n", "engine/fused.py": "import amp_C\n"}
    modules |= {"engine/deep/__init__.py": "", "engine/deep/small/__init__.py": ""}
    assert of_project(tmp_path, modules, code, "engine/deep/small/scale.py", confidence=Confidence.LIKELY) == []


def test_imports_that_go_round_end(tmp_path: Path) -> None:
    modules = {"engine/layers.py": "from engine import norms\n", "engine/norms.py": "from engine import layers\n"}
    assert of_project(tmp_path, modules, confidence=Confidence.LIKELY) == [6]
