"""DEV501: which questions, flags, names and choices excuse a named device."""

from __future__ import annotations

import pytest
from checking import expect, findings

CODE = "DEV501"


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


def test_work_of_many_processes_may_name_cuda_whatever_else_is_asked() -> None:
    expect(
        """
        import torch
        def place(options):
            if options.world_size > 1 and options.mode == "tensor_parallel":
                device = torch.device("cuda")
            else:
                device = torch.device("cpu")
            return device
        """,
        "DEV501",
    )


def test_what_refuses_other_devices_may_name_its_own() -> None:
    code = """
        import torch
        def quantize(weight: torch.Tensor, device=None):
            device = device or torch.device("cuda"){}
            if {}:
                raise RuntimeError("wrong device")
            return weight.to(device)
        """
    expect(code.format("", 'device.type != "cuda"'), "DEV501")
    expect(code.format("  # <-", "weight.dim() != 2"), "DEV501")


@pytest.mark.parametrize("test, marked", [("dtype == torch.float16", ""), ("verbose", "  # <-")])
def test_half_precision_is_for_accelerators(test: str, marked: str) -> None:
    expect(
        f"""
        import torch
        def verify(net, x, dtype, verbose):
            if {test}:
                return net(x.to("cuda")){marked}
            return net(x)
        """,
        "DEV501",
    )


def test_a_class_that_drives_cuda_by_events_may_name_it() -> None:
    code = """
        import torch
        class Renderer:
            def __init__(self):
                self.device = torch.device("cuda"){}
                self.started = {}
        """
    expect(code.format("", "torch.cuda.Event(enable_timing=True)"), "DEV501")
    expect(code.format("  # <-", "None"), "DEV501")


@pytest.mark.parametrize(("cls", "marked"), [("DeviceHPU", ""), ("Device", "  # <-")])
def test_what_bears_the_name_of_a_device_is_for_it(cls: str, marked: str) -> None:
    code = f"""
        import torch
        class {cls}:
            def __init__(self):
                self.device = torch.device("hpu"){marked}
        """
    expect(code, CODE)


@pytest.mark.parametrize(("asked", "marked"), [("self.table.is_pinned()", ""), ("self.table.is_contiguous()", "  # <-")])
def test_memory_is_pinned_where_an_accelerator_is(asked: str, marked: str) -> None:
    code = f"""
        import torch
        class Store:
            def __init__(self, table):
                self.table = table
            def read(self):
                if {asked}:
                    return self.table.cuda(){marked}
                return self.table
        """
    expect(code, CODE)


@pytest.mark.parametrize(("layer", "marked"), [("CuGraphRelGraphConv", ""), ("RelGraphConv", "  # <-")])
def test_a_layer_of_a_cuda_library_needs_cuda(layer: str, marked: str) -> None:
    code = f"""
        import torch
        from dgl.nn import {layer}
        device = torch.device("cuda"){marked}
        net = {layer}(8, 8).to(device)
        """
    expect(code, CODE)
