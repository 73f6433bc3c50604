"""DEV102, DEV201: what a file must show before something is said to be off the host, or still on it."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import pytest
from checking import findings

from torchlint.check import CheckOptions, check_source
from torchlint.findings import Confidence

CODE = "DEV102"


@pytest.mark.parametrize(
    ("called", "reported"), [("self.durations(x)", True), ("x", False)], ids=["by the forward", "by nobody"]
)
def test_a_method_of_a_module_computes_on_its_device_where_the_forward_calls_it(called: str, reported: bool) -> None:
    code = f"""
        import torch
        from torch import nn
        class Voice(nn.Module):
            def forward(self, x: torch.Tensor):
                return {called}
            def durations(self, attention: torch.Tensor):
                return attention * torch.ones(9)
        """
    assert bool(findings(code, CODE)) == reported


@pytest.mark.parametrize(
    ("other", "reported"),
    [
        ("def prepare(self, x): return x.new_zeros(3)", False),
        ("def prepare(self, x): return torch.zeros(3, device=x.device)", True),
        ("def __init__(self, device): self.device = device", True),
    ],
    ids=["asks nothing", "asks for the device", "keeps a device"],
)
def test_a_plain_class_shows_that_it_is_written_for_devices(other: str, reported: bool) -> None:
    code = f"""
        import torch
        import cv2
        class Lighting:
            {other}
            def apply(self, image: torch.Tensor):
                return torch.cat([image, torch.zeros(3, 3)])
        """
    assert bool(findings(code, CODE)) == reported


@pytest.mark.parametrize(("device", "reported"), [("x.device", True), ("None", False)])
def test_a_plain_class_computes_its_loss_where_it_has_its_tensors(device: str, reported: bool) -> None:
    code = f"""
        import torch
        class Algorithm:
            def loss(self, x: torch.Tensor):
                start = torch.zeros(1, device={device})
                return ((x - torch.linspace(0, 1, 51)) ** 2).mean() + start
        """
    assert bool(findings(code, CODE, "DEV201")) == reported


@pytest.mark.parametrize(("asked", "reported"), [("None", False), ("next(module.parameters()).device", True)])
def test_a_module_that_is_handed_in_may_have_just_been_built(asked: str, reported: bool) -> None:
    code = f"""
        import torch
        from torch import nn
        def shape_of(module: nn.Module):
            device = {asked}
            return device, module(torch.zeros(3, 3)).shape
        """
    assert bool(findings(code, CODE)) == reported


@pytest.mark.parametrize(
    ("wrapped", "reported"), [("nn.DataParallel(model.cuda())", False), ("model.cuda()", True)]
)
def test_a_model_that_is_wrapped_on_one_path_may_scatter_what_it_gets(wrapped: str, reported: bool) -> None:
    code = f"""
        import torch
        from torch import nn
        def predict(many: bool):
            model = nn.Linear(3, 3)
            if many and torch.cuda.is_available():
                model = {wrapped}
            return model(torch.ones(2, 3))
        """
    assert bool(findings(code, CODE)) == reported


@pytest.mark.parametrize(("moved", "reported"), [("x.data = x.data.cuda()", False), ("x.data = x.data * 2", True)])
def test_a_tensor_is_where_its_new_data_are(moved: str, reported: bool) -> None:
    code = f"""
        import torch
        from torch import nn
        model = nn.Linear(3, 3)
        model.cuda()
        x = torch.rand(1, 3)
        {moved}
        y = model(x)
        """
    assert bool(findings(code, CODE)) == reported


@pytest.mark.parametrize(
    ("value", "reported"), [("torch.tensor([1])", False), ("torch.tensor([1, 2])", True), ("torch.ones(2)", True)]
)
def test_one_number_is_filled_in_behind_a_mask_wherever_it_is(value: str, reported: bool) -> None:
    code = f"""
        import torch
        from torch import nn
        class Net(nn.Module):
            def forward(self, x: torch.Tensor):
                mask = x.sum(2)
                mask[mask == 0] = {value}
                return mask
        """
    assert bool(findings(code, CODE, "DEV201")) == reported


@pytest.mark.parametrize(
    ("moved", "reported"), [("rows[k] = rows[k].to(x.device)", False), ("rows[k] = rows[k] + 1", True)]
)
def test_an_item_that_was_moved_into_its_container_need_not_be_on_the_host(moved: str, reported: bool) -> None:
    code = f"""
        import torch
        def select(x: torch.Tensor, k, table):
            rows = {{name: torch.LongTensor(ids) for name, ids in table.items()}}
            {moved}
            print(x.device)
            return torch.index_select(x, 0, rows[k])
        """
    assert bool(findings(code, CODE)) == reported


def test_what_came_of_a_mix_is_blamed_for_no_other() -> None:
    code = """
        import torch
        from torch import nn
        class Net(nn.Module):
            def positions(self, n, scale: torch.Tensor | None = None):
                step = scale[0] if scale is not None else 1.0
                rows = (torch.arange(n) * step * self.config.rate).long().flatten()
                return torch.stack([rows, torch.arange(n)])
            def forward(self, n, scale: torch.Tensor | None = None):
                return self.positions(n, scale)
        """
    assert [f.range.start.line for f in findings(code, CODE)] == [7]


@pytest.mark.parametrize(
    ("data", "reported"),
    [("First(x) if many else Second(x)", False), ("elsewhere.read('train')", True)],
    ids=["of the project", "from elsewhere"],
)
def test_a_data_set_of_the_project_may_hold_what_was_moved(data: str, reported: bool) -> None:
    code = f"""
        import elsewhere
        import torch
        from torch import nn
        from torch.utils.data import DataLoader, Dataset
        class First(Dataset):
            def __init__(self, x):
                self.x = x.cuda()
            def __getitem__(self, i):
                return self.x[i]
        class Second(First):
            pass
        def train(x, many):
            model = nn.Linear(3, 3).cuda()
            data = {data}
            for batch in DataLoader(data):
                model(batch).sum().backward()
        """
    assert bool(findings(code, CODE)) == reported


@pytest.mark.parametrize(
    ("other", "reported"),
    [("agent.net = agent.net.to(device)", False), ("self.net = self.net.to(device)", True)],
    ids=["of the object", "of another class"],
)
def test_another_file_may_move_the_module_that_an_object_keeps(tmp_path: Path, other: str, reported: bool) -> None:
    (tmp_path / "setup.py").write_text("")
    (tmp_path / "main.py").write_text(f"def start(self, agent, device):\n    {other}\n")
    code = """
        import torch
        from torch import nn
        class Agent:
            def __init__(self, device):
                self.net = nn.Linear(3, 3)
                self.device = device
            def act(self, x):
                return self.net(torch.tensor(x, device=self.device))
        """
    path = tmp_path / "agent.py"
    path.write_text(dedent(code))
    result = check_source(path.read_bytes(), str(path), CheckOptions(frozenset([CODE]), Confidence.LIKELY))
    assert bool(result.findings) == reported
