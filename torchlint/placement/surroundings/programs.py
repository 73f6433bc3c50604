"""What a project says of devices, in words: which it sets as default, whether it asks, and what it builds."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable

from torchlint.placement.surroundings.texts import SETS_DEFAULT, Texts

#: What a file has in it that chooses between CUDA and other devices, in words.
_CHOOSING = re.compile(
    rb"""is_available\(\)\s*(?:and[^\n:]*)?\s(?:else|and)\b|["']cpu["']|no[_-]cuda|use[_-]cuda|--(?:device|cpu)\b"""
)
#: What builds CUDA kernels, or says that a file of them is built.
_BUILDING = re.compile(
    rb"""\bCUDAExtension\(\s*(?:\w+\s*[=,]|["'][\w.]+["']|\*)|=\s*CUDAExtension\b|\bcuda_sources\s*=|["'][^"'\n]*[\w*]\.cu["']"""
)
#: What stands in all of that, which is faster to look for.
_OF_KERNELS = (b"CUDAExtension", b"cuda_sources", b'.cu"', b".cu'")


def has_default_device(texts: Texts, path: str) -> bool:
    """Whether a program of the project makes an accelerator the default device: that may be how all of it runs.

    So does what is no program, for the files beside it and those of the package that it imports.
    """
    own = os.path.realpath(path)
    parts = os.path.relpath(own, os.path.realpath(texts.root)).replace("\\", "/").split("/")
    package = parts[1] if parts[0] == "src" and len(parts) > 2 else parts[0].removesuffix(".py")
    imports = re.compile(rb"^[ \t]*(?:import|from)[ \t]+" + re.escape(package.encode()) + rb"\b", re.MULTILINE)
    return any(
        file != own
        and (os.path.dirname(file) == os.path.dirname(own) or _runs(file, data) or imports.search(data) is not None)
        for file, data in texts.defaults.items()
    )


def sets_default_device(source: bytes) -> bool:
    """Whether a file makes an accelerator the default device."""
    return SETS_DEFAULT.search(source) is not None


def _runs(file: str, data: bytes) -> bool:
    """Whether a file is run by itself: it says so, or is part of no package."""
    alone = not os.path.exists(os.path.join(os.path.dirname(file), "__init__.py"))
    return alone or _IS_PROGRAM.search(data) is not None


#: What speaks of devices, or of what places models and batches by itself.
_OF_DEVICES = re.compile(
    rb"cuda|device|\.to\(|gpu|\b(?:mps|xpu|npu|hpu|tpu)\b|accelerat|lightning|\bpl\.|Trainer|[Ff]abric|deepspeed",
    re.IGNORECASE,
)
_IS_PROGRAM = re.compile(rb"^if __name__ ==", re.MULTILINE)


def is_importable(path: str) -> bool:
    """Whether an import can name a file: `01_net.py` and `net-1.py` are run, and never imported."""
    return os.path.basename(path).partition(".")[0].isidentifier()


def stay_on_host(texts: Iterable[bytes], path: str) -> bool:
    """Whether a folder holds programs that train and all that they are made of, and none of it speaks of a device.

    texts: what its modules hold. A package is used by others, which may. What no import can name runs by itself.
    """
    if os.path.exists(os.path.join(os.path.dirname(os.path.abspath(path)), "__init__.py")):
        return False
    held = list(texts)
    programs = any(_IS_PROGRAM.search(text) for text in held) and any(b".backward(" in text for text in held)
    alone = bool(held) and not is_importable(path)
    return (programs or alone) and not any(_OF_DEVICES.search(text) for text in held)


def train_on_host(texts: Iterable[bytes]) -> bool:
    """Whether a project's files train models, and none of them speaks of a device."""
    trains = False
    for text in texts:
        if _OF_DEVICES.search(text) is not None:
            return False
        trains = trains or b".backward(" in text
    return trains


def speaks_elsewhere(texts: Iterable[bytes]) -> str:
    """What the files of a project are for: `kernels` of CUDA, machines of `others`, too, or CUDA `alone`."""
    others = False
    for text in texts:
        if any(word in text for word in _OF_KERNELS) and _BUILDING.search(text) is not None:
            return "kernels"
        others = others or _CHOOSING.search(text) is not None
    return "others" if others else "alone"
