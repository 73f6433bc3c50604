"""DEV502: a function is called that fails on machines without CUDA."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from torchlint.findings import Confidence, Severity
from torchlint.placement.events import DeviceName
from torchlint.placement.hazards.comparisons import is_setting
from torchlint.placement.knowledge import torch_api
from torchlint.placement.syntax import words
from torchlint.portability import DeviceNames, hangs_on_unassigned
from torchlint.rule import Probe, Report, RuleContext


class CudaOnlyApi(DeviceNames):
    """A function is called that fails on machines without CUDA.

    What it does
        Finds calls of `torch.cuda.synchronize`, `current_device`, `Stream`, `Event`, `get_device_name` and others
        that raise where torch has no CUDA (and the like of `torch.mps` and `torch.xpu`), and of
        `torch.cuda.amp.autocast`, which does nothing there, where nothing around them asks for CUDA first.
        All of a file are one finding. Silent after `assert device.type == "cuda"`, and where the function went to CUDA
        before. Possible only where nothing in the function, its class and the file shows that it is meant to run
        elsewhere (they are given no device, choose none, ask for none, and never name the CPU), or where the project
        builds CUDA kernels.

    Why it matters
        The code fails on machines without that vendor's device, although what it asks for often has a portable
        form. Functions that do nothing there (`torch.cuda.empty_cache`, `manual_seed_all`) are not reported.

    Example
        import time

        import torch


        def timed(work, x, device):
            x = x.to(device)
            start = time.perf_counter()
            work(x)
            torch.cuda.synchronize()  # <-
            return time.perf_counter() - start

    Use instead
        import time

        import torch


        def timed(work, x, device):
            x = x.to(device)
            start = time.perf_counter()
            work(x)
            if torch.cuda.is_available():
                torch.cuda.synchronize()
            return time.perf_counter() - start

    Fix
        None.

    References
        https://docs.pytorch.org/docs/stable/accelerator.html
    """

    code = "DEV502"
    name = "cuda-only-api"
    severity = Severity.WARNING
    probe = Probe("hardcoded", {"direct": True})
    judged = frozenset(["api"])

    def __init__(self, context: RuleContext) -> None:
        super().__init__(context)
        #: Where functions put something on CUDA, whatever there is: what they call afterwards does not fail first.
        self._going: dict[cst.FunctionDef, list[frozenset[tuple[str, bool]]]] = {}
        self._failed: set[cst.CSTNode] = set()

    def on_device_name(self, named: DeviceName) -> None:
        super().on_device_name(named)
        function = named.scene.function
        if function is None or named.guarded or named.chosen:
            return
        if named.what in ("cuda()", "literal") and named.device == "cuda":
            self._going.setdefault(function, []).append(named.scene.conditions)
        elif any(conditions <= named.scene.conditions for conditions in self._going.get(function, ())):
            self._failed.add(named.node)

    def finish(self) -> Iterator[Report]:
        found = [named for named in self.unexcused() if named.node not in self._failed]
        # Streams, graphs and events are there to drive one vendor's device: who writes them knows, and so does what
        # stands beside them.
        driving = {named.scene.function for named in found if _last(named) not in _COMMON}
        for named in found:
            known = torch_api.VENDOR.get(named.api)
            message = f"`{named.api}` fails where there is no {named.device.upper()}"
            if _last(named) == "pin_memory":
                message = "nothing can be pinned where there is no accelerator, and the device may be the CPU"
            if not named.raises:
                message = f"`{named.api}` does nothing where there is no {named.device.upper()}"
            if known is not None and known.replacement is not None and known.since is not None:
                version = ".".join(map(str, known.since))
                message += f"; `{known.replacement}` (torch {version}) is portable"
            # A program that tells about its GPU on the way is one for a GPU.
            tells = (named.scene.function is None and _last(named) in _TELLING) or _last(named) == "memory_summary"
            excused = tells or _follows_tensor(named) or named.scene.function in driving
            excused |= hangs_on_unassigned(named.scene)
            # Code that never speaks of other devices times, shows or tunes the one that it is written for.
            excused |= named.shown != "file" or named.around == "kernels"
            confidence = Confidence.POSSIBLE if excused else Confidence.LIKELY
            yield self.finding(named, message, confidence=confidence, cause=self.context.module)


def _last(named: DeviceName) -> str:
    return named.api.rsplit(".", 1)[-1]


def _follows_tensor(named: DeviceName) -> bool:
    """`with torch.cuda.device(x.device)`: what launches a kernel where a tensor is was given one on CUDA."""
    call = named.node
    if _last(named) != "device" or not isinstance(call, cst.Call) or not call.args:
        return False
    given = call.args[0].value
    return isinstance(given, cst.Attribute) and given.attr.value == "device" and not is_setting(words(given.value))


#: What is asked of a device in order to be shown.
_TELLING = frozenset(
    "get_device_properties get_device_name get_device_capability mem_get_info memory_summary device".split()
)
#: What code asks of a device in passing.
_COMMON = frozenset(
    "synchronize current_device device get_device_name get_device_properties get_device_capability set_device"
    " mem_get_info"
    " get_rng_state set_rng_state reset_peak_memory_stats reset_max_memory_allocated memory_summary ipc_collect"
    " empty_cache autocast seed pin_memory".split()
)
