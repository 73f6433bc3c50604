"""DEV502: which calls of vendors' functions are reported."""

from __future__ import annotations

import re
from textwrap import dedent

import pytest
from checking import expect, findings, reported_lines

from torchlint.findings import Confidence

CODE = "DEV502"


def elsewhere(code: str) -> str:
    """The code in a file that is meant to run without CUDA, too: a function of it is given a device."""
    given = re.sub(r"(\bdef \w+\()([^()]*)\)", lambda m: f"{m[1]}{', '.join(filter(None, (m[2], 'device=None')))})", code)
    return dedent(given) + "\ndef place(x, device):\n    return x.to(device)\n"


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ("pass", False),
        ("x = x.to(mode)", False),
        ("place = 'cuda' if torch.cuda.is_available() else 'cpu'", True),
        ("y = torch.load(x, map_location='cpu')", True),
        ("x = x.cpu()", False),
        ("x = x.to(torch.device(mode))", False),
    ],
)
def test_a_function_shows_that_it_is_meant_to_run_elsewhere(line: str, shown: bool) -> None:
    code = f"import torch\ndef work(x, mode, args):\n    torch.cuda.synchronize()\n    {line}\n    return x\n"
    assert reported_lines(code, CODE) == ([3] if shown else [])
    assert reported_lines(code, CODE, confidence=Confidence.POSSIBLE) == [3]
    # What another function shows is not enough; what one of the same class shows is.
    apart = f"import torch\ndef work(x):\n    torch.cuda.synchronize()\ndef other(x, mode, args):\n    {line}\n"
    assert reported_lines(apart, CODE) == []
    lines = apart.replace("(x", "(self, x").split("\n")
    of_class = "\n".join([lines[0], "class Work:", *(f"    {text}" for text in lines[1:])])
    assert reported_lines(of_class, CODE) == ([4] if shown else [])


@pytest.mark.parametrize(
    ("before", "reported"),
    [
        ('assert device.type == "cuda", "only for CUDA"', False),
        ('assert device.type != "meta"', True),
        ("x = x.cuda()", False),
        ('x = x.to("cuda:0")', False),
        ("if kind == 2:\n        x = x.cuda()", True),
        ("x = x.to(device)", True),
        ("engine = NCCLEngine(x)", False),
        ("engine = Engine(x)", True),
    ],
)
def test_what_failed_before_does_not_fail_there(before: str, reported: bool) -> None:
    code = f"import torch\ndef work(x, device, kind):\n    {before}\n    torch.cuda.synchronize()\n    return x\n"
    assert bool(reported_lines(code, CODE)) is reported


@pytest.mark.parametrize(("call", "reported"), [("_lazy_call", False), ("call_now", True)])
def test_what_torch_calls_once_cuda_is_up_has_it(call: str, reported: bool) -> None:
    code = f"""
import torch
from torch.cuda import _lazy_call
def restore(state, device):
    def back(device=device):
        index = device.index or torch.cuda.current_device()
        torch.cuda.default_generators[index].set_state(state)
    {call}(back)
"""
    assert bool(reported_lines(code, CODE)) is reported


@pytest.mark.parametrize(
    "imports, call",
    [
        ("import torch", "torch.cuda.synchronize()"),
        ("import torch as th", "th.cuda.current_device()"),
        ("from torch import cuda", "cuda.get_device_name(0)"),
        ("from torch.cuda import synchronize", "synchronize()"),
        ("import torch", "torch.cuda.set_device(0)"),
        ("import torch", "torch.cuda.reset_peak_memory_stats()"),
        ("import torch", "torch.mps.synchronize()"),
    ],
)
def test_a_call_that_fails_elsewhere_is_reported(imports: str, call: str) -> None:
    expect(elsewhere(f"{imports}\ndef work():\n    {call}  # <-\n"), CODE)


@pytest.mark.parametrize(
    "call",
    [
        "torch.cuda.empty_cache()",
        "torch.cuda.manual_seed_all(1)",
        "torch.cuda.is_available()",
        "torch.cuda.max_memory_allocated()",
        "torch.cuda.set_device(args.local_rank)",
        "torch.accelerator.synchronize()",
        "if torch.cuda.is_available():\n        torch.cuda.synchronize()",
        "try:\n        torch.cuda.synchronize()\n    except Exception:\n        pass",
    ],
)
def test_harmless_and_guarded_calls_are_silent(call: str) -> None:
    expect(f"import torch\ndef work(args):\n    {call}\n", CODE)


def test_what_drives_a_device_on_purpose_is_possible_only() -> None:
    code = """
        import torch
        def timed(work):
            start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            start.record()
            work()
            end.record()
            torch.cuda.synchronize()
            return start.elapsed_time(end)
        """
    assert findings(code, CODE) == ()
    assert reported_lines(code, CODE, confidence=Confidence.POSSIBLE) == [4, 8]


@pytest.mark.parametrize("head", ["with torch.cuda.amp.autocast():", "if True:"])
def test_autocast_of_cuda_alone_is_reported(head: str) -> None:
    mark = "  # <-" if "autocast" in head else ""
    expect(elsewhere(f"import torch\ndef run(model, x):\n    {head}{mark}\n        return model(x)\n"), CODE)


def test_as_a_decorator_with_and_without_parentheses() -> None:
    expect(
        elsewhere("""
        import torch
        from torch.cuda.amp import autocast
        class Net:
            @autocast()  # <-
            def one(self, x):
                return x
            @torch.cuda.amp.autocast  # <-
            def two(self, x):
                return x
            @autocast(enabled=False)
            def three(self, x):
                return x
        """),
        CODE,
    )


def test_a_portable_form_is_named_with_the_torch_that_has_it() -> None:
    (finding,) = findings(elsewhere("import torch\ndef work():\n    torch.cuda.synchronize()\n"), CODE)
    assert "`torch.accelerator.synchronize` (torch 2.6)" in finding.message


def test_the_capability_of_a_device_is_asked_of_cuda() -> None:
    expect(
        """
        import torch
        def dtype(device):
            return torch.bfloat16 if torch.cuda.get_device_capability()[0] >= 8 else torch.float16  # <-
        def of(x):
            return torch.cuda.get_device_capability(x.device)
        def asked():
            return torch.cuda.is_available() and torch.cuda.get_device_capability()[0] >= 8
        """,
        CODE,
    )


def test_a_kernel_is_launched_where_its_tensor_is() -> None:
    expect(
        elsewhere("""
        import torch
        def launch(kernel, x):
            with torch.cuda.device(x.device):
                kernel(x)
        def first(kernel, x):
            with torch.cuda.device(0):  # <-
                kernel(x)
        """),
        CODE,
    )


def test_memory_is_pinned_for_a_device_that_may_be_the_cpu() -> None:
    expect(
        """
        import torch
        def batch(x: torch.Tensor, device):
            return x.pin_memory().to(device, non_blocking=True)  # <-
        def asked(x: torch.Tensor, device):
            if device.type == "cuda":
                return x.pin_memory().to(device, non_blocking=True)
            return x.to(device)
        def other(x: torch.Tensor):
            return x.pin_memory()
        """,
        CODE,
    )


@pytest.mark.parametrize(
    ("assigned", "asked", "reported"),
    [
        ("pass", "hasattr(self, 'hook')", False),
        ("pass", "hasattr(self, 'hook') and self.hook is not None", False),
        ("self.hook = None", "hasattr(self, 'hook')", True),
        ("self.hook = None", "hasattr(self, 'hook') and self.hook is not None", True),
        ("pass", "not hasattr(self, 'hook')", True),
        ("pass", "hasattr(model, 'hook')", True),
    ],
)
def test_what_hangs_on_an_attribute_that_no_class_assigns_may_never_run(
    assigned: str, asked: str, reported: bool
) -> None:
    code = f"""
    import torch


    class Base:
        def offload(self):
            {assigned}


    class Pipeline(Base):
        def run(self, model):
            if {asked}:
                torch.cuda.ipc_collect()
            return model
    """
    found = bool(reported_lines(elsewhere(code), "DEV502", path="pipeline.py"))
    assert found is reported
    moved = code.replace("torch.cuda.ipc_collect()", "model = model.cuda()")
    assert bool(reported_lines(moved, "DEV501", path="pipeline.py")) is reported


@pytest.mark.parametrize(
    "said, marked",
    [
        ("This needs a GPU with 24GB memory.", ""),
        ("Requires CUDA.", ""),
        ("Requirements:\n    - Linux\n    - PyTorch with CUDA support\n", ""),
        ("Requirements:\n    - Linux\n    - CUDA (optional)\n", "  # <-"),
        ("Requirements:\n    - Linux\n\nKnows of CUDA.\n", "  # <-"),
        ("No GPU is required; CUDA is used if it is there.", "  # <-"),
        ("Trains a model.", "  # <-"),
    ],
)
def test_a_program_may_say_that_it_is_for_cuda(said: str, marked: str) -> None:
    expect(
        elsewhere(f'''"""{said}"""
import torch


def work(model):
    torch.cuda.reset_peak_memory_stats(){marked}
    return model
'''),
        "DEV502",
    )


def test_what_is_printed_where_cuda_is_missing_counts_too() -> None:
    expect(
        elsewhere("""
        import torch
        def start():
            if torch.cuda.is_available():
                torch.cuda.reset_peak_memory_stats()
            else:
                print("This notebook is intended for CUDA GPUs but CUDA is not available.")
        def clean():
            torch.cuda.reset_peak_memory_stats()
        """),
        "DEV502",
    )


def test_a_program_that_tells_about_its_gpu_is_for_one() -> None:
    expect(
        elsewhere("""
        import torch
        print(torch.cuda.get_device_properties(0))
        """),
        "DEV502",
    )


def test_a_multi_gpu_demonstration_in_a_program_is_for_gpus() -> None:
    expect(
        elsewhere("""
        import torch
        with torch.cuda.device(1):
            x = torch.zeros(3)
        def work(x):
            with torch.cuda.device(1):  # <-
                return x + 1
        """),
        "DEV502",
    )


def test_an_extension_for_cuda_asks_for_it() -> None:
    code = """
        import torch
        import {}
        def count(index):
            return torch.cuda.get_device_properties(index).multi_processor_count{}
        """
    expect(elsewhere(code.format("group_norm_cuda", "")), "DEV502")
    expect(elsewhere(code.format("group_norm", "  # <-")), "DEV502")


@pytest.mark.parametrize(
    ("library", "marked"), [("transformer_engine.pytorch as te", ""), ("tqdm", "  # <-")]
)
def test_a_library_that_needs_cuda_is_a_question_for_it(library: str, marked: str) -> None:
    expect(
        elsewhere(f"""
        import torch
        try:
            import {library}
            it_is_here = True
        except ImportError:
            it_is_here = False
        def precision():
            if it_is_here and torch.cuda.get_device_capability() >= (8, 9):{marked}
                return "fp8"
            return "bf16"
        """),
        CODE,
    )


@pytest.mark.parametrize(("named", "marked"), [("gpu max 1550", ""), ("h100", "  # <-")])
def test_what_runs_for_a_device_of_that_name_has_it(named: str, marked: str) -> None:
    expect(
        elsewhere(f"""
        import torch
        def peak(name):
            if "{named}" in name:
                return torch.xpu.get_device_properties("xpu").max_compute_units{marked}
            return 0
        """),
        CODE,
    )
