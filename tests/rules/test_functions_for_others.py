"""DEV102 and DEV103: functions that anybody may call, and tensors that nothing says are more than numbers."""

from __future__ import annotations

from pathlib import Path

import pytest
from checking import expect, findings

SHIFTED = """
import torch
def shifted(x: torch.Tensor):
    return x + torch.arange(3)
"""


@pytest.mark.parametrize(("marker", "reported"), [("pyproject.toml", True), ("setup.py", True), ("README.md", False)])
def test_only_what_others_install_is_called_by_anybody(tmp_path: Path, marker: str, reported: bool) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / marker).write_text("")
    assert bool(findings(SHIFTED, "DEV102", path=str(tmp_path / "ops.py"))) == reported


def test_a_file_that_is_no_part_of_a_project_may_be_called_by_anybody(tmp_path: Path) -> None:
    assert findings(SHIFTED, "DEV102", path=str(tmp_path / "ops.py"))


@pytest.mark.parametrize("name", ["test", "check_shapes"])
def test_a_module_that_is_tried_out_where_it_was_made(name: str) -> None:
    expect(
        f"""
        import torch
        class Net(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.conv = torch.nn.Conv2d(3, 3, 3)
            def forward(self, x):
                return self.conv(x)
            def {name}(self, device="cpu"):
                x = torch.rand(1, 3, 32, 32)
                return self.forward(x).shape
        """,
        "DEV102",
    )


def test_a_ctc_loss_of_another_library_has_its_labels_on_the_cpu() -> None:
    expect(
        """
        import torch
        from warpctc_pytorch import CTCLoss
        criterion = CTCLoss()
        def run(net, loader, sizes, lengths):
            net = net.cuda()
            text = torch.IntTensor(5)
            for image in loader:
                cost = criterion(net(image.cuda()), text, sizes, lengths)
                cost.backward()
        """,
        "DEV201",
    )


def test_a_loss_of_another_library_has_prediction_and_target_in_one_place() -> None:
    expect(
        """
        import torch
        from losses import Special
        criterion = Special()
        def run(net, loader):
            net = net.cuda()
            target = torch.zeros(5, 3)  # <-
            for image in loader:
                cost = criterion(net(image.cuda()), target)
                cost.backward()
        """,
        "DEV201",
    )


@pytest.mark.parametrize(("made", "mark"), [("np.radians(angle)", ""), ("np.array([angle, 1.0])", "  # <-")])
def test_numpy_makes_a_number_of_a_number(made: str, mark: str) -> None:
    expect(
        f"""
        import numpy as np
        import torch
        class Angular(torch.nn.Module):
            def __init__(self, angle=40):
                super().__init__()
                self.angle = torch.tensor({made}){mark}
            def forward(self, x):
                return x * torch.tan(self.angle)
        """,
        "DEV103",
    )
