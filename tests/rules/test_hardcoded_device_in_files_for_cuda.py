"""DEV501: which files need CUDA as a whole, by their imports, their paths or their first lines."""

from __future__ import annotations

from pathlib import Path

import pytest
from checking import expect, findings, reported_lines
from steps import notebook

from torchlint.findings import Confidence

CODE = "DEV501"


@pytest.mark.parametrize(
    "line",
    [
        "import triton",
        "from flash_attn import flash_attn_func",
        "assert torch.cuda.is_available()",
        "if not torch.cuda.is_available():\n    raise SystemExit('needs CUDA')",
        "if not torch.cuda.is_available():\n    sys.exit(1)",
        "torch.distributed.init_process_group('nccl')",
        "torch.distributed.init_process_group(backend='nccl')",
        "model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(2, 2))",
    ],
)
def test_a_file_that_needs_cuda_as_a_whole_is_silent(line: str) -> None:
    expect("import sys, torch\n" + line + "\ndef work(x):\n    return x.cuda()\n", CODE)


def test_an_import_that_may_fail_does_not_excuse() -> None:
    expect(
        """
        import torch
        try:
            import triton
        except ImportError:
            triton = None
        def work(x):
            return x.cuda()  # <-
        """,
        CODE,
    )


@pytest.mark.parametrize(
    "path", ["tests/test_step.py", "test_step.py", "train_gpu.py", "benchmarks/speed.py", "cuda/ops.py"]
)
def test_tests_benchmarks_and_files_for_gpus_are_silent(path: str) -> None:
    code = "import torch\ndef work(x):\n    return x.cuda()\n"
    assert bool(findings(code, CODE, path=path)) == (path == "cuda/ops.py")


@pytest.mark.parametrize(
    "lines",
    [
        "from lightning.fabric.accelerators import CUDAAccelerator",
        "from apex import amp",
    ],
)
def test_what_is_imported_for_cuda_excuses_the_file(lines: str) -> None:
    expect(f"import torch\n{lines}\nx = torch.ones(3).cuda()\n", CODE)


@pytest.mark.parametrize(
    "file, package, reported",
    [
        ("apex/contrib/masks.py", "apex", []),
        ("flash_attn/layers/rotary.py", "flash_attn", []),
        ("colossalai/layers/rotary.py", "colossalai", [2]),  # kernels for others than CUDA, too
        ("apex/contrib/masks.py", "apex/contrib", [2]),  # a folder of that name, not the package
        ("examples/masks.py", "apex", [2]),  # beside the package
    ],
)
def test_a_package_of_cuda_kernels_is_for_cuda_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, file: str, package: str, reported: list[int]
) -> None:
    (tmp_path / package).mkdir(parents=True)
    (tmp_path / package / "__init__.py").touch()
    monkeypatch.chdir(tmp_path)
    code = "import torch\nx = torch.cuda.FloatTensor(3)\n"
    assert reported_lines(code, CODE, path=file) == reported


def test_what_is_imported_under_an_option_excuses_nothing() -> None:
    expect(
        """
        import torch
        from accelerate.utils import is_deepspeed_available
        if is_deepspeed_available():
            import deepspeed
        x = torch.ones(3).cuda()  # <-
        """,
        CODE,
    )


@pytest.mark.parametrize(
    "handler, needed", [("raise ImportError('apex is needed')", True), ("raise", True), ("amp = None", False), ("pass", False)]
)
def test_an_import_whose_failure_is_raised_again_is_needed(handler: str, needed: bool) -> None:
    code = f"""
        import torch
        try:
            from apex import amp
        except ImportError:
            {handler}
        device = torch.device("cuda:0")
        model = torch.nn.Linear(3, 3).to(device)
        """
    assert bool(findings(code, "DEV501")) is not needed


@pytest.mark.parametrize(
    "line, marked",
    [
        ("torch.cuda.set_device(rank)", ""),
        ("assert torch.backends.cudnn.enabled", ""),
        ("torch.manual_seed(rank)", "  # <-"),
    ],
)
def test_a_program_for_gpus_from_its_start_may_name_them(line: str, marked: str) -> None:
    expect(
        f"""
        import torch
        rank = comm.Get_rank()
        {line}
        model = torch.nn.Linear(2, 2).cuda(){marked}
        """,
        "DEV501",
    )


@pytest.mark.parametrize(
    "line", ["x = torch.tensor([1.0], device='cuda')", "x = torch.rand(3).cuda(0)", "x = torch.cuda.FloatTensor(2)"]
)
def test_a_page_that_shows_a_tensor_on_cuda_is_possible_alone(line: str) -> None:
    assert reported_lines(f"import torch\n{line}", "DEV501") == [2]
    assert reported_lines(notebook("import torch", line), "DEV501", path="page.ipynb") == []
    assert reported_lines(notebook("from torch import nn", "nn.Linear(2, 2).cuda()"), "DEV501", path="page.ipynb") == [1]


@pytest.mark.parametrize(
    ("line", "reported"),
    [
        ("try:\n    import flash_attn\nexcept ImportError:\n    flash_attn = None", False),
        ("try:\n    import tqdm\nexcept ImportError:\n    tqdm = None", True),
        ("fabric = Fabric(accelerator='cuda', strategy=FSDPStrategy())", False),
        ("fabric = Fabric(accelerator='cuda', strategy=DDPStrategy())", True),
        ("trainer = Trainer(accelerator='gpu', devices=2)", False),
        ("trainer = pl.Trainer(accelerator='auto')", True),
        ("def fit(accelerator='gpu'):\n    return Trainer(accelerator=accelerator)", True),
        ("module = load_ext('_ext', ['knn'])\nclass KNN(Function):\n    pass", False),
        ("module = load_module('_ext', ['knn'])\nclass KNN(Function):\n    pass", True),
    ],
)
def test_a_file_of_what_needs_cuda_is_for_cuda(line: str, reported: bool) -> None:
    code = f"import torch\n{line}\ndef work(x, device):\n    return x.cuda()\n"
    assert bool(reported_lines(code, "DEV501", path="work.py")) is reported
    assert reported_lines(code, "DEV501", path="work.py", confidence=Confidence.POSSIBLE)


@pytest.mark.parametrize("asks, marked", [("    if torch.cuda.is_available():\n        net.cuda()\n", True), ("", False)])
def test_the_file_of_a_module_that_is_run_asks_elsewhere_for_cuda(asks: str, marked: bool) -> None:
    code = f"""import torch
from torch import nn
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(3, 3)
if __name__ == "__main__":
    net = Net()
{asks}    net(torch.ones(3))
    torch.cuda.synchronize(){"  # <-" if marked else ""}
"""
    expect(code, "DEV502")
