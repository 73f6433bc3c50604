"""What shows that code is for accelerators of one vendor as a whole, so that naming one is no slip."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator

import libcst as cst

from torchlint.placement.events import Demand
from torchlint.placement.interpreter import Env, Interpreter
from torchlint.placement.syntax import condition, descendants, dotted
from torchlint.placement.values import Kind

#: Libraries that can't be imported, or do nothing, without CUDA (or ROCm), by their own installation pages.
_CUDA_LIBRARIES = frozenset(
    "triton cupy pycuda tensorrt torch_tensorrt torch2trt flash_attn apex amp_C transformer_engine nvidia pynvml spconv"
    " MinkowskiEngine causal_conv1d_cuda selective_scan_cuda deep_gemm cutlass nvdiffrast tinycudann cudnn vllm sglang"
    " bitsandbytes torchcomms colossalai deepspeed megatron horovod fairscale tensorrt_llm"
    " cudf cugraph pylibcugraph pylibcugraphops rmm".split()
)
#: Those of them that are CUDA kernels through and through, so that their own files are for CUDA, too.
KERNEL_LIBRARIES = frozenset(
    "cupy pycuda tensorrt torch_tensorrt torch2trt flash_attn apex transformer_engine spconv MinkowskiEngine deep_gemm"
    " nvdiffrast tinycudann".split()
)
#: What can't be imported where such kernels were not built or can't run.
BUILT_FOR_CUDA = KERNEL_LIBRARIES | {"triton", "amp_C", "causal_conv1d_cuda", "selective_scan_cuda"}
_EXTENSIONS = ("torch.utils.cpp_extension", "numba.cuda")
#: How the names of what is for CUDA alone begin in other libraries: cuGraph's layers of DGL and PyTorch Geometric, ….
_CUDA_CLASSES = ("CUDAAccelerator", "CuGraph")
#: Libraries whose import imports torch at once.
_ON_TORCH = frozenset(
    "torch torchvision torchaudio lightning pytorch_lightning accelerate timm torchmetrics torch_geometric kornia"
    " fairseq detectron2 torchtext".split()
)
_LEAVING = frozenset(["sys.exit", "os._exit", "builtins.exit", "builtins.quit", "pytest.skip", "pytest.fail"])
_ASKING = frozenset(["is_available", "device_count"])


def note_import(run: Interpreter, node: cst.CSTNode, name: str) -> None:
    """An import of a library that needs an accelerator of one vendor; one that may fail says nothing."""
    if run.scene.caught or run.scene.function is not None:
        return
    first, last = name.partition(".")[0], name.rpartition(".")[2]
    needed = first.endswith("_cuda") or first in _CUDA_LIBRARIES or name.startswith(_EXTENSIONS)
    if needed or last.startswith(_CUDA_CLASSES):
        run.emit(Demand(node, run.scene, "import"))


def flags_of_import(body: cst.BaseSuite) -> Iterator[str]:
    """The names that are set to True where a library of CUDA kernels could be imported."""
    names = [n.name for n in descendants(body) if type(n) is cst.ImportAlias]
    modules = [n.module for n in descendants(body) if type(n) is cst.ImportFrom and n.module is not None]
    if not any((dotted(n) or "").partition(".")[0] in KERNEL_LIBRARIES for n in (*names, *modules)):
        return
    for node in descendants(body):
        if type(node) is cst.Assign and dotted(node.value) == "True":
            yield from (name for t in node.targets if (name := dotted(t.target)) is not None)


def note_home(run: Interpreter) -> None:
    """A file of a package of CUDA kernels needs CUDA as much as the files that import the package."""
    folders = os.path.dirname(run.path).replace("\\", "/").split("/")
    for depth, folder in enumerate(folders, 1):
        if folder in KERNEL_LIBRARIES and os.path.isfile("/".join([*folders[:depth], "__init__.py"])):
            run.emit(Demand(run.module, run.scene, "import"))
            return


#: What a text says that tells its readers to have a GPU.
_FOR_CUDA = re.compile(
    r"\b(?:needs?|requires?|requiring|intended for|meant for|made for|only (?:works|runs) (?:on|with))\b"
    r"[^.;\n]{0,40}\b(?:GPUs?|CUDA|NVIDIA)\b"
    # One of a list of requirements.
    r"|\brequirements?:?\s*\n(?:\s*[-*][^\n]*\n)*?\s*[-*](?![^\n]*\boptional)[^\n]*\b(?:GPUs?|CUDA|NVIDIA)\b",
    re.IGNORECASE,
)
_DENIED = re.compile(r"(?:\bno|not|n't|without|optional\w*)\W+(?:\w+\W+)?$", re.IGNORECASE)


def note_text(run: Interpreter, node: cst.Expr) -> None:
    """The module's docstring, or what is printed where there is no CUDA, says that the code is for CUDA."""
    value = node.value
    if run.frame.function is None and isinstance(value, cst.SimpleString):
        said = [value]
    elif type(value) is cst.Call and "no-accelerator" in run.scene.tests:
        said = [a.value for a in value.args if isinstance(a.value, cst.SimpleString)]
    else:
        return
    for text in said:
        found = _FOR_CUDA.search(text.value)
        if found is not None and _DENIED.search(text.value[: found.start()]) is None:
            run.emit(Demand(node, run.scene, "said"))


def imports_torch(name: str) -> bool:
    """Whether importing a module imports torch, so that what torch reads then is settled."""
    return name.split(".")[0] in _ON_TORCH


def leaves_program(run: Interpreter, call: cst.Call, env: Env) -> bool:
    """Whether a call ends the program, or the test that it stands in."""
    if type(call.func) is cst.Attribute and call.func.attr.value == "skipTest":
        return True
    name = dotted(call.func)
    if name is None or name.rsplit(".", 1)[-1] not in ("exit", "_exit", "quit", "skip", "fail"):
        return False
    target = run.evaluate(call.func, env)
    return target.kind is Kind.API and target.name in _LEAVING


def note_demand(run: Interpreter, node: cst.If) -> None:
    """`if not torch.cuda.is_available(): raise`: without an accelerator the code does not run at all."""
    refuses = _refuses_others(node.test)
    if not refuses and not asks_availability(node.test):
        return
    last = node.body.body[-1] if node.body.body else None
    if type(last) is cst.SimpleStatementLine:
        last = last.body[-1]
    if type(last) is cst.Raise or (type(last) is cst.Expr and not refuses):
        run.emit(Demand(node, run.scene, "refusal" if refuses else "exit"))


def asserts_cuda(test: cst.BaseExpression) -> bool:
    """`assert device.type == "cuda"`, `assert x.is_cuda`."""
    asked = condition(test)
    if asked is None or not asked[1]:
        return False
    return asked[0].endswith(".is_cuda") or re.search(r"device\.type Equal .cuda.$", asked[0]) is not None


def _refuses_others(test: cst.BaseExpression) -> bool:
    """`device.type != "cuda"`, `not x.is_cuda`: what is not on CUDA is refused."""
    asked = condition(test)
    if asked is None or asked[1]:
        return False
    return asked[0].endswith(".is_cuda") or re.search(r"device(?:\.type)? Equal .cuda.$", asked[0]) is not None


def asks_availability(test: cst.BaseExpression) -> bool:
    """Whether a test calls `is_available` or `device_count`."""
    kind = type(test)
    if kind is cst.Name or kind is cst.Attribute:
        return (dotted(test) or "").endswith("cudnn.enabled")
    return any(
        type(n) is cst.Call and (dotted(n.func) or "").rsplit(".", 1)[-1] in _ASKING
        for n in descendants(test)
    )
