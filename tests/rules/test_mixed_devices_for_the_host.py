"""DEV102: files, classes and functions whose work is the host's, and what confirms or refutes that."""

from __future__ import annotations

import pytest
from checking import expect, findings, reported_lines
from steps import notebook

from torchlint.findings import Confidence

CODE = "DEV102"


@pytest.mark.parametrize(
    "around",
    [
        "from torch.utils.data import Dataset",
        "import cv2",
        "print(split(torch.ones(3), 2))",
        "for i in range(3): split(torch.ones(3), i)",
    ],
)
def test_what_the_callers_have_is_only_possible_where_the_host_is_at_work(around: str) -> None:
    code = f"""
        import torch
        def split(fixed: torch.Tensor, n):
            return fixed[torch.isin(fixed, torch.arange(n))]
        {around}
        """
    assert not findings(code, CODE)
    assert findings(code, CODE, confidence=Confidence.POSSIBLE)


def test_what_is_made_of_data_may_meet_data() -> None:
    code = """
        import torch
        def split(fixed: torch.Tensor, rows):
            return fixed[torch.isin(fixed, torch.tensor([len(r) for r in rows]))]
        """
    assert not findings(code, CODE)


@pytest.mark.parametrize("path", ["src/datasets/parts.py", "pkg/dataio/parts.py", "examples/parts.py"])
def test_files_that_prepare_data_or_show_something_are_of_the_host(path: str) -> None:
    code = """
        import torch
        def split(fixed: torch.Tensor, n):
            return fixed[torch.isin(fixed, torch.arange(n))]
        """
    assert not findings(code, CODE, path=path)


def test_a_class_that_reads_data_is_of_the_host_all_the_same() -> None:
    code = """
        import torch
        class RowReader:
            def __init__(self, device):
                self.device = device
            def line(self, start: torch.Tensor):
                return torch.cat([start, torch.zeros(start.shape[0], 1)], dim=1)
        """
    assert not findings(code, CODE)


def test_a_result_that_is_moved_at_once_speaks_for_operands_on_the_host() -> None:
    expect(
        """
        import torch
        def bins(x: torch.Tensor, edges: torch.Tensor):
            edges = torch.cat([torch.tensor([0.0]), edges]).to(x.device)
            return torch.bucketize(x, edges)
        """,
        CODE,
    )


def test_a_programs_own_data_and_model_may_both_stay_where_they_are() -> None:
    code = """
        import torch
        train_x = torch.linspace(0, 1, 100)
        def train(model, optimizer, scale):
            for _ in range(50):
                loss = model(train_x).sum().to(scale)
                loss.backward()
                optimizer.step()
    """
    assert not findings(code, CODE)


def test_a_branch_for_the_cpu_is_silent() -> None:
    code = """
        import torch
        from torch.utils.data import DataLoader
        def predict(net, images, device=None):
            net.eval()
            if device is not None:
                return net(images.to(device))
            else:
                return net(images)
        def main(net, data):
            device = torch.device("cuda")
            net = net.to(device)
            for images, _ in DataLoader(data, 4):
                predict(net, images, device)
        """
    assert not findings(code, CODE)


def test_a_nested_function_of_what_makes_batches_is_for_the_host() -> None:
    expect(
        """
        import torch
        def get_batch(fabric, data):
            def pad_right(x, pad_id):
                return torch.cat((x, torch.full((9 - len(x),), pad_id, dtype=x.dtype)))
            x = torch.stack([pad_right(x, 0) for x in data])
            y = torch.stack([pad_right(x, -1) for x in data])
            return fabric.to_device((x, y))
        def train(fabric, model, optimizer, data):
            for step in range(9):
                x, y = get_batch(fabric, data)
                loss = (model(x) - y).mean()
                loss.backward()
                optimizer.step()
        """,
        "DEV102",
    )


@pytest.mark.parametrize("name, marked", [("format_batch", ""), ("durations", "  # <-")])
def test_a_method_that_puts_batches_together_may_run_on_the_host(name: str, marked: str) -> None:
    expect(
        f"""
        import torch
        from torch import nn
        class Voice(nn.Module):
            def forward(self, x: torch.Tensor):
                return self.{name}(x)
            def {name}(self, attention: torch.Tensor):
                found, counts = torch.unique(attention.max(1)[1], return_counts=True)
                durations = torch.ones([9]).to(counts.dtype){marked}
                return durations * counts
        """,
        "DEV102",
    )


def test_a_page_calls_all_its_functions_itself() -> None:
    body = (
        "def extend(x, pairs):\n"
        "    x = x.to(torch.float64)\n"
        "    return torch.cat([pairs, torch.zeros(2, 2)])\n"
    )
    assert reported_lines("import torch\n" + body, "DEV102") == [4]
    assert reported_lines(notebook("import torch", body), "DEV102", path="page.ipynb") == []
    assert reported_lines(notebook("import torch", "x = torch.rand(3)\nx = x.to('cuda')"), "DEV501", path="p.ipynb") == []


def test_weights_are_made_to_fit_on_the_host() -> None:
    code = """
        import torch
        from torch import nn
        class Diffusion(nn.Module):
            def __init__(self):
                super().__init__()
                self.weight = nn.Parameter(torch.zeros(3))
            def forward(self, x: torch.Tensor):
                return x * self.weight
            def {}(self, path):
                used = torch.ones(3){}
                return self.weight / used
        """
    expect(code.format("init_from_ckpt", ""), "DEV102")
    expect(code.format("compare", "  # <-"), "DEV102")
