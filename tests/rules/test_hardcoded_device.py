"""DEV501: which named devices are reported, what excuses them, and what the fix writes."""

from __future__ import annotations

from pathlib import Path

import pytest
from checking import expect, findings, fixed, reported_lines

from torchlint.findings import Confidence

CODE = "DEV501"


@pytest.mark.parametrize(
    "imports, use",
    [
        ("import torch", "x.cuda()"),
        ("import torch", 'x.to("cuda")'),
        ("import torch", 'x.to(device="cuda:0")'),
        ("import torch", 'torch.ones(3, device="cuda")'),
        ("import torch as th", 'th.device("cuda")'),
        ("from torch import device as Device", 'Device("cuda")'),
        ("from torch import zeros", 'zeros(3, device="mps")'),
        ("import torch", "torch.cuda.FloatTensor(3)"),
        ("from torch.cuda import LongTensor", "LongTensor(3)"),
        ("import torch", 'x.type("torch.cuda.FloatTensor")'),
        ("import torch", 'x.new_zeros(3, device="cuda")'),
        ("import torch", 'torch.Generator("cuda")'),
        ("import torch", 'torch.set_default_tensor_type("torch.cuda.FloatTensor")'),
    ],
)
def test_a_named_device_is_reported_where_nothing_asks_for_it(imports: str, use: str) -> None:
    expect(
        f"""
        {imports}
        def work(x):
            y = {use}  # <-
            return y
        """,
        CODE,
    )


def test_a_literal_is_reported_where_it_stands_and_not_where_it_is_used() -> None:
    expect(
        """
        import torch
        device = "cuda"  # <-
        class Runner:
            where = "cuda:1"  # <-
            def run(self, x, model):
                model.to(device)
                return model(x.to(self.where))
        """,
        CODE,
    )


def test_all_places_of_a_file_are_one_finding() -> None:
    (finding,) = findings(
        """
        import torch
        def work(x, y):
            return x.cuda() + y.to("cuda")
        def more(x):
            return x.cuda()
        """,
        CODE,
    )
    assert finding.range.start.line == 4
    assert [(r.role, r.range.start.line) for r in finding.related] == [("also", 4), ("also", 6)]


@pytest.mark.parametrize(
    "code",
    [
        'device = "cuda" if torch.cuda.is_available() else "cpu"\nx = torch.ones(3).to(device)',
        'device = torch.device("cuda:0" if torch.cuda.is_available() else "cpu")\nx = torch.ones(3, device=device)',
        "if torch.cuda.is_available():\n    x = torch.ones(3).cuda()",
        "use_cuda = torch.cuda.is_available()\nif use_cuda:\n    x = torch.ones(3).cuda()",
        "if not torch.cuda.is_available():\n    x = 1\nelse:\n    x = torch.ones(3).cuda()",
        "x = torch.ones(3).cuda() if torch.cuda.is_available() else torch.ones(3)",
        "if torch.cuda.device_count() > 1:\n    x = torch.ones(3).cuda()",
        "try:\n    x = torch.ones(3).cuda()\nexcept RuntimeError:\n    x = torch.ones(3)",
        "for i in range(torch.cuda.device_count()):\n    x = torch.ones(3).cuda(i)",
    ],
)
def test_a_question_for_the_device_excuses(code: str) -> None:
    expect("import torch\n" + code + "\n", CODE)


@pytest.mark.parametrize(
    "known", ["type(x) == torch.Tensor", "isinstance(x, torch.Tensor)", "type(x) in (torch.Tensor, torch.FloatTensor)"]
)
def test_a_comparison_that_always_holds_does_not_excuse(known: str) -> None:
    expect(
        f"""
        import torch
        def keep(x):
            if {known}:
                if x.device != torch.device("cuda"):  # <-
                    x = x.to(torch.device("cuda"))  # <-
            return x
        """,
        CODE,
    )


def test_a_comparison_of_types_excuses() -> None:
    expect(
        """
        import torch
        def keep(x, device):
            if type(x) == torch.Tensor:
                if x.device.type != "cpu":
                    x = x.to(torch.device("cuda"))
            if device != torch.device("cpu"):
                x = x.cuda()
            return x
        """,
        CODE,
    )


@pytest.mark.parametrize(
    "test",
    [
        "args.cuda",
        "opt.use_gpu",
        "self.n_gpu > 0",
        'config["use_cuda"]',
        'cfg.get("gpu")',
        "not args.no_cuda",
        "gpu_ids",
        "device.type == 'cuda'",
        "'cuda' in str(device)",
        "args.device != 'cpu'",
        "is_cuda_available()",
        "x.is_cuda or flag",
        "kind == Kind.CUDA",
        "spect.type() == 'torch.cuda.HalfTensor'",
    ],
)
def test_a_flag_or_a_comparison_excuses(test: str) -> None:
    expect(
        f"""
        import torch
        def work(self, args, opt, config, cfg, gpu_ids, device, x, flag, kind, Kind, is_cuda_available, spect):
            y = torch.ones(3)
            if {test}:
                y = y.cuda()
            return y
        """,
        CODE,
    )


@pytest.mark.parametrize(
    "line",
    [
        'parser.add_argument("--device", default="cuda")',
        'names = ["cuda", "cpu"]',
        'table = {"cuda": 1, "where": "cuda"}',
        'trainer = Trainer(accelerator="cuda")',
        'same = x.device == torch.device("cuda")',
        "torch.cuda.manual_seed_all(0)",
        "torch.cuda.empty_cache()",
        "y = x.cuda(args.gpu)",
        'y = x.to(f"cuda:{args.rank}")',
        'y = torch.device("cuda", args.local_rank)',
        'model = torch.load("x", map_location="cpu")',
    ],
)
def test_what_is_data_or_chosen_elsewhere_is_silent(line: str) -> None:
    expect(
        f"""
        import torch
        def work(x, args, parser, Trainer):
            {line}
            return x
        """,
        CODE,
    )


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


@pytest.mark.parametrize("name", ["to_gpu", "run_cuda", "CudaPrefetcher", "DataParallelNet"])
def test_functions_and_classes_that_say_so_are_silent(name: str) -> None:
    expect(f"import torch\nclass {name}:\n    def run(self, x):\n        return x.cuda()\n", CODE)


def test_a_function_that_is_called_behind_a_question_alone_is_silent() -> None:
    expect(
        """
        import torch
        def move(x):
            return x.cuda()
        def work(x):
            if torch.cuda.is_available():
                x = move(x)
            return x
        """,
        CODE,
    )


def test_one_unguarded_use_of_a_literal_is_enough() -> None:
    expect(
        """
        import torch
        where = "cuda"  # <-
        def work(x):
            if torch.cuda.is_available():
                x = x.to(where)
            return x
        def more(x):
            return x.to(where)
        """,
        CODE,
    )


def test_following_another_tensor_to_the_current_device_is_reported() -> None:
    code = """\
        import torch
        def mask(lengths):
            steps = torch.arange(3)
            if lengths.is_cuda:
                steps = steps.cuda()  # <-
            return steps < lengths.unsqueeze(1)
        """
    expect(code, CODE)
    assert "steps = steps.to(lengths.device)" in fixed(code, CODE)


def test_a_default_is_possible_only() -> None:
    code = 'import torch\ndef work(x, device="cuda"):\n    return x.to(device)\n'
    expect(code, CODE)
    assert reported_lines(code, CODE, confidence=Confidence.POSSIBLE) == [2]


@pytest.mark.parametrize(
    "code, device",
    [
        ("def work(x, device):\n    return x.cuda()", "device"),
        ("def work(x: torch.Tensor, y):\n    return y.cuda() + x", "x.device"),
        ("def work(x: torch.Tensor):\n    return x.cuda()", '"cuda" if torch.cuda.is_available() else "cpu"'),
        (
            "def work(x: torch.Tensor, y: torch.Tensor):\n    return x.cuda(), y.cuda()",
            '"cuda" if torch.cuda.is_available() else "cpu"',
        ),
        (
            "class A:\n    def __init__(self, device):\n        self.device = device\n    def run(self, y):\n        return y.cuda()",
            "self.device",
        ),
        ("def work(y):\n    return y.cuda()", '"cuda" if torch.cuda.is_available() else "cpu"'),
    ],
)
def test_the_fix_takes_the_device_at_hand(code: str, device: str) -> None:
    assert f".to({device})" in fixed("import torch\n" + code + "\n", CODE)


@pytest.mark.parametrize(
    "body, reported",
    [
        ("with torch.autocast('cuda'):\n        y = model(x.to(device))\n    return y", True),
        ("with torch.autocast('cuda', enabled=flag):\n        y = model(x.to(device))\n    return y", False),
        ("if args.amp:\n        with torch.autocast('cuda'):\n            return model(x.to(device))", False),
    ],
)
def test_autocast_for_cuda_is_reported_where_a_device_is_at_hand(body: str, reported: bool) -> None:
    code = f"import torch\ndef run(model, x, device, flag, args):\n    {body}\n"
    assert bool(findings(code, CODE)) is reported


def test_work_on_many_devices_that_is_an_option_does_not_excuse() -> None:
    expect(
        """
        import torch
        def main(args, model):
            if args.distributed:
                torch.distributed.init_process_group("nccl")
                model = torch.nn.parallel.DistributedDataParallel(model)
            return model.cuda()  # <-
        """,
        CODE,
    )


def test_a_comprehension_over_the_devices_that_are_there_is_a_question() -> None:
    expect(
        """
        import torch
        def all_of_them():
            return [torch.ones(3, device="cuda") for i in range(torch.cuda.device_count())]
        """,
        CODE,
    )


@pytest.mark.parametrize(
    "before, after",
    [
        ("y.cuda(non_blocking=True)", "y.to(x.device, non_blocking=True)"),
        ("y.cuda(0)", "y.to(x.device)"),
        ('y.to("cuda")', "y.to(x.device)"),
        ('torch.ones(3, device="cuda:0")', "torch.ones(3, device=x.device)"),
        ('torch.device("cuda", 0)', 'torch.device("cuda", 0)'),
    ],
)
def test_the_fix_keeps_the_other_arguments(before: str, after: str) -> None:
    code = "import torch\ndef work(x: torch.Tensor, y):\n    return {} + x\n"
    assert fixed(code.format(before), CODE) == code.format(after)


@pytest.mark.parametrize(
    "code, line",
    [
        (
            'class A:\n    def __init__(self):\n        self.device = torch.device("cuda")\n    def run(self, x):\n        return x.to(self.device)',
            "self.device = torch.device(",
        ),
        ('def work(x, device=None):\n    device = "cuda"\n    return x.to(device)', "device = "),
    ],
)
def test_the_fix_does_not_define_a_device_by_itself(code: str, line: str) -> None:
    choice = '"cuda" if torch.cuda.is_available() else "cpu"'
    assert line + choice in fixed("import torch\n" + code + "\n", CODE)


@pytest.mark.parametrize(
    "test",
    ["x.is_cuda", "flag and x.is_cuda", "x.is_cuda and x.is_floating_point() and sys.platform != 'win32'"],
)
def test_a_tensor_that_follows_another_one_to_cuda_goes_to_the_current_device(test: str) -> None:
    (finding,) = findings(
        f"""
        import sys
        import torch
        def work(x, y: torch.Tensor, flag):
            if {test}:
                y = y.cuda()
            return x + y
        """,
        CODE,
    )
    assert finding.range.start.line == 6
    assert "`x.device`" in finding.message


@pytest.mark.parametrize(
    "use",
    [
        "y.to(x.device.type)",
        "torch.ones(3, device=x.device.type)",
        'torch.ones(3).to("cuda" if x.is_cuda else "cpu")',
        'torch.ones(3).to("cpu" if not x.is_cuda else "cuda")',
        'torch.ones(3, device=torch.device("cuda" if x.is_cuda else "cpu"))',
    ],
)
def test_the_type_of_a_device_is_the_current_one_of_its_sort(use: str) -> None:
    expect(
        f"""
        import torch
        def work(x: torch.Tensor, y: torch.Tensor):
            return x + {use}  # <-
        """,
        CODE,
    )


def test_the_type_of_a_device_is_the_current_one_of_its_sort_under_a_name_too() -> None:
    expect(
        """
        import torch
        def work(x: torch.Tensor):
            kind = "cuda" if x.is_cuda else "cpu"  # <-
            return x + torch.ones(3, device=kind)
        """,
        CODE,
    )


TYPES = ["x.device.type", '"cuda" if x.is_cuda else "cpu"', '"cpu" if not x.is_cuda else "cuda"']


@pytest.mark.parametrize("kind", TYPES)
def test_the_type_of_a_device_is_what_autocast_wants(kind: str) -> None:
    expect(
        f"""
        import torch
        def work(model, x: torch.Tensor):
            with torch.autocast({kind}, dtype=torch.bfloat16):
                return model(x)
        """,
        CODE,
    )


@pytest.mark.parametrize("kind", TYPES)
def test_the_type_of_a_device_is_all_that_is_asked_of_a_generator(kind: str) -> None:
    expect(
        f"""
        import torch
        def noise(x: torch.Tensor, seed: int):
            kind = {kind}
            draws = torch.Generator({kind}).manual_seed(seed)
            again = torch.Generator(device=kind).manual_seed(seed)
            noise = torch.randn(x.shape, device=x.device, generator=draws)
            return noise + torch.randn(x.shape, device=x.device, generator=again)
        """,
        CODE,
    )


@pytest.mark.parametrize("default", ['"cuda"', 'torch.device("cuda:0")'])
def test_a_default_is_reported_where_a_tensor_is_given_along(default: str) -> None:
    expect(
        f"""
        import torch
        def one_hot(x, classes, device={default}):  # <-
            x = x.long().view(-1, 1)
            return torch.zeros((x.size(0), classes), device=device).scatter_(1, x, 1.0)
        """,
        CODE,
    )


@pytest.mark.parametrize(
    "body",
    [
        "return model.to(device)(x.to(device))",
        "x = x.to(device)\n            return torch.zeros(3, device=device) + x",
        "return torch.zeros(3).to(device)",
    ],
)
def test_a_default_says_what_the_author_has_where_what_is_given_is_moved(body: str) -> None:
    expect(
        f"""
        import torch
        def work(model, x: torch.Tensor, device="cuda"):
            {body}
        """,
        CODE,
    )


def test_a_default_is_only_possible_where_no_tensor_is_given() -> None:
    code = 'import torch\ndef grid(n, device="cuda"):\n    return torch.arange(n, device=device)\n'
    assert not findings(code, CODE)
    (finding,) = findings(code, CODE, confidence=Confidence.POSSIBLE)
    assert finding.confidence is Confidence.POSSIBLE


def test_a_function_that_stops_without_cuda_under_an_option_excuses_itself_alone() -> None:
    expect(
        """
        import torch
        def place(net, gpus):
            if len(gpus) > 0:
                assert torch.cuda.is_available()
                net = net.cuda()
            return net
        def mean():
            return torch.tensor([0.5]).cuda()  # <-
        """,
        CODE,
    )


def test_the_accelerator_of_a_trainer_has_a_device_at_hand_for_autocast() -> None:
    expect(
        """
        import torch
        class Trainer:
            def prepare(self, model):
                self.model = self.accelerator.prepare(model)
            def evaluate(self, batch):
                with torch.amp.autocast("cuda"):  # <-
                    return self.model(batch)
        """,
        CODE,
    )


def test_a_module_that_moves_to_cuda_whenever_it_is_there_may_be_elsewhere_itself() -> None:
    (finding,) = findings(
        """
        import torch
        from torch import nn
        class Model(nn.Module):
            def __init__(self):
                super().__init__()
                self.layer = nn.Linear(2, 2)
            def forward(self, words):
                x = torch.tensor(words)
                if torch.cuda.is_available():
                    x = x.cuda()
                return self.layer(x)
        """,
        CODE,
    )
    assert finding.range.start.line == 11
    assert "next(self.parameters()).device" in finding.message


def test_a_model_that_is_built_on_cuda_where_it_is_there_is_a_choice() -> None:
    expect(
        """
        import torch
        from torch import nn
        class Model(nn.Module):
            def __init__(self):
                super().__init__()
                self.layer = nn.Linear(2, 2)
                if torch.cuda.is_available():
                    self.layer = self.layer.cuda()
        """,
        CODE,
    )


def test_an_accelerator_of_a_framework_is_named() -> None:
    expect(
        """
        import lightning as L
        import torch
        def main():
            fabric = L.Fabric(accelerator="cuda", devices=1)  # <-
            return fabric
        def other():
            return L.Fabric(accelerator="auto"), L.Fabric(accelerator="cpu")
        """,
        CODE,
    )


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


@pytest.mark.parametrize("use", ["torch.ones(3, device=x.get_device())", "y.to(x.get_device())"])
def test_the_index_of_a_tensor_on_the_cpu_is_no_device(use: str) -> None:
    code = f"""
        import torch
        def work(x: torch.Tensor, y: torch.Tensor):
            return x + {use}  # <-
        """
    expect(code, CODE)
    assert use.replace("x.get_device()", "x.device") in fixed(code, CODE)


@pytest.mark.parametrize("test", ["x.is_cuda", "x.get_device() >= 0", "x.device.type == 'cuda'"])
def test_the_index_of_a_tensor_that_is_asked_first_is_one(test: str) -> None:
    expect(
        f"""
        import torch
        def work(x: torch.Tensor, y: torch.Tensor):
            if {test}:
                y = y.to(x.get_device())
            return x + y
        """,
        CODE,
    )


def test_a_function_that_raises_for_any_other_device_needs_this_one() -> None:
    code = """
import torch

def quantize(weight, device=None):
    device = device or torch.device("cuda")
    if device.type != "cuda":
        raise RuntimeError(f"no kernel for {device}")
    return weight.to(device)

def other(weight):
    return weight.to("cuda")  # <-
"""
    expect(code, CODE)


def test_an_autocast_for_what_is_available_is_reported_where_a_device_is_at_hand() -> None:
    expect(
        """
        import torch
        class Runner:
            def __init__(self, device):
                self.device = torch.device(device)
            def run(self, model, batch):
                kind = "cuda" if torch.cuda.is_available() else "cpu"
                with torch.autocast(device_type=kind, dtype=torch.bfloat16):  # <-
                    return model(batch)
        def run(model, x: torch.Tensor):
            with torch.autocast("cuda" if torch.cuda.is_available() else "cpu"):  # <-
                return model(x)
        """,
        CODE,
    )


def test_an_autocast_chosen_as_the_device_is_chosen_is_silent() -> None:
    expect(
        """
        import torch
        class Runner:
            def __init__(self):
                self.device = "cuda" if torch.cuda.is_available() else "cpu"
            def run(self, model, batch):
                with torch.autocast("cuda" if torch.cuda.is_available() else "cpu"):
                    return model(batch)
        def run(model, batch):
            with torch.autocast("cuda" if torch.cuda.is_available() else "cpu"):
                return model(batch)
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
