"""Which programs run on the CPU alone, by the only devices that they name."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import libcst as cst

from torchlint.placement.syntax import descendants, words

if TYPE_CHECKING:
    from torchlint.placement.evidence.usage import FileUsage

#: Names of what moves models and batches by itself.
PLACING_FRAMEWORKS = frozenset(
    "Accelerator accelerator Fabric fabric Trainer LightningModule pl L lightning deepspeed colossalai Booster booster"
    " DDP DistributedDataParallel init_process_group build_model device devices gpu use_cuda".split()
)
#: Of these, what a program uses whose devices are the CPU, too.
_WITH_DEVICES = frozenset("device devices DDP DistributedDataParallel init_process_group".split())
#: Attributes that speak of accelerators.
_OF_ACCELERATORS = frozenset(
    "cuda xpu mps npu hpu is_cuda gpu gpus use_cuda use_gpu is_available device_count current_device local_rank"
    " current_accelerator get_device prepare Accelerator accelerator Fabric Trainer LightningModule".split()
)
#: What programs keep in it what they were asked for.
_SETTINGS = re.compile(
    r"(?:^|[._])(?:self|args?|opts?|options?|cfg|conf|config|params?|hparams|flags)$", re.IGNORECASE
)
_ACCELERATOR = re.compile(r"[rbu]*[\"']+(?:cuda|mps|xpu|npu|hpu|gpu)[\"':%{]", re.IGNORECASE)


def names_cpu_alone(usage: FileUsage, module: cst.Module) -> bool:
    """Whether every `torch.device(…)` of a file is the CPU, and it gets no device from elsewhere."""
    if (
        not all(_is_cpu(device) for device in usage.devices)
        or usage.sets_default_device
        or usage.star_imports
    ):
        return False
    if not usage.mentions.isdisjoint(_OF_ACCELERATORS):
        return False
    for scope in usage.scopes.values():
        if (PLACING_FRAMEWORKS - _WITH_DEVICES) & scope.loads.keys():
            return False
        if any("device" in read and _SETTINGS.search(name) for name, read in scope.attributes.items()):
            return False
    texts = (node.value for node in descendants(module) if type(node) is cst.SimpleString)
    return not any(_ACCELERATOR.match(text) for text in texts)


def _is_cpu(call: cst.Call) -> bool:
    """Whether `torch.device(…)` is the CPU, by its words."""
    return len(call.args) == 1 and words(call.args[0].value).strip("\"'") == "cpu"
