"""DEV501: tensors that meet where they were moved, and code that only CUDA runs."""

from __future__ import annotations

from pathlib import Path

import pytest
from checking import expect, reported_lines

CODE = "DEV501"


@pytest.mark.parametrize(
    ("along", "reported"),
    [
        ("boxes = boxes.cuda()", []),  # it was with `found`, and is with `labels` now
        ("found = found.cuda()", []),
        ("steps = torch.arange(3).cuda()", [6, 7]),
        ("pass", [6]),
    ],
)
def test_what_is_moved_together_meets_on_the_current_device(along: str, reported: list[int]) -> None:
    code = f"""import torch
def keep(found: torch.Tensor):
    boxes = found[:, :4] * 2
    labels = found[:, -1].cpu().unique()
    if found.is_cuda:
        labels = labels.cuda()
        {along}
    return labels, boxes[labels]
"""
    assert reported_lines(code, CODE) == reported


@pytest.mark.parametrize("option", ["args.fp16", "config.get('use_fp16', False)", "use_amp", "has_apex"])
def test_a_branch_for_half_precision_is_for_cuda(option: str) -> None:
    code = """
        def prepare(model, args, config, use_amp, has_apex, device):
            if {}:
                model = model.cuda(){}
            return model
        """
    expect(code.format(option, ""), CODE)
    expect(code.format(f"not ({option})", "  # <-"), CODE)


@pytest.mark.parametrize(
    ("extension", "reported"), [("CppExtension('k', ['k.cpp'])", [4]), ("CUDAExtension('k', ['k.cu'])", [])]
)
def test_an_index_of_a_device_is_no_slip_among_cuda_kernels(
    tmp_path: Path, extension: str, reported: list[int]
) -> None:
    code = """
import torch
def noise(x: torch.Tensor):
    return torch.randn(3, device=x.get_device())
"""
    within = tmp_path / "app" / "models" / "small"
    within.mkdir(parents=True)
    (tmp_path / "main.py").write_text("DEVICES = ['cpu']\n")
    (within / "noise.py").write_text(code)
    (tmp_path / "setup.py").write_text(f"setup(ext_modules=[{extension}])\n")
    assert reported_lines(code, CODE, path=str(within / "noise.py")) == reported


@pytest.mark.parametrize(
    ("reader", "reported"),
    [
        ("    @classmethod\n    def read(cls, path):\n        return torch.load(path, map_location='cpu')", True),
        ("def read(path):\n    return torch.load(path, map_location='cpu')", False),
    ],
)
def test_a_module_that_reads_itself_is_used_by_others(reader: str, reported: bool) -> None:
    code = f"""import torch
class Model(torch.nn.Module):
    def generate(self, text):
        given = torch.tensor(text)
        if torch.cuda.is_available():
            given = given.cuda()
        return self(given)
{reader}
"""
    assert reported_lines(code, CODE) == ([6] if reported else [])
