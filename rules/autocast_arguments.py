"""DEV403: autocast gets an argument that it refuses, or that switches it off."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from torchlint.findings import Confidence, Safety, Severity
from torchlint.placement.events import Autocast
from torchlint.rule import NodeEdit, NodeFix, Probe, Report, Rule

_MESSAGES = {
    "missing": "`{api}` needs a device type, and raises without one",
    "dtype": "the first argument of `{api}` is the device type; a dtype there raises",
    "bool": "the first argument of `{api}` is the device type; a bool there raises",
    "device_type": "`{api}` takes no `device_type`, and raises; `torch.autocast` does",
    "enabled": "the first argument of `{api}` is `enabled`; this value only reads as true",
    "device": "`device_type` must be a string: a `torch.device` raises",
    "indexed": '`device_type` is a type such as "cuda"; with an index it raises before torch 2.4',
    "text": 'the text of a device may be "cuda:0", which raises as `device_type` before torch 2.4',
    "uncalled": "`{api}` as a decorator needs parentheses: the function is taken for an argument",
    "float32": "autocast on the CPU knows no {dtype}, and disables itself",
}


class AutocastArguments(Rule):
    """Autocast is given an argument that it refuses, or that switches it off.

    What it does
        Finds a `torch.device`, its text or a name with an index (`"cuda:0"`) passed as `device_type`, a
        missing `device_type`, arguments in the wrong place, and `float32` on the CPU.

    Why it matters
        A `torch.device` raises a ValueError, `"cuda:0"` a RuntimeError before torch 2.4; `float32` on the CPU
        disables autocast with no more than a warning.

    Example
        import torch


        def predict(model, x: torch.Tensor):
            with torch.autocast(x.device):  # <-
                return model(x)


        def score(model, x):
            with torch.autocast(device_type="cuda:0", dtype=torch.bfloat16):  # <-
                return model(x)

    Use instead
        import torch


        def predict(model, x: torch.Tensor):
            with torch.autocast(x.device.type):
                return model(x)


        def score(model, x):
            with torch.autocast(device_type="cuda", dtype=torch.bfloat16):
                return model(x)

    Fix
        Safe. Passes the device's type. Unsafe where the value may be a string already, and where autocast
        would be switched on.

    References
        https://docs.pytorch.org/docs/stable/amp.html#torch.autocast
        https://github.com/pytorch/pytorch/blob/v2.3.0/torch/amp/autocast_mode.py
    """

    code = "DEV403"
    name = "autocast-arguments"
    severity = Severity.ERROR
    probe = Probe("autocast")

    def on_autocast(self, event: Autocast) -> Iterator[Report]:
        what = event.misplaced
        if event.decorator:
            what = "uncalled"
        elif (
            not what
            and event.family == "cpu"
            and event.dtype in ("float32", "float64")
            and event.enabled == "yes"
        ):
            what = "float32"
        if not what or (what in ("indexed", "text") and self.context.min_torch >= (2, 4)):
            return
        sure = what not in ("text", "device") or (
            event.device_type is not None and event.device_type.certainty > 1
        )
        yield self.finding(
            event,
            _MESSAGES[what].format(api=event.api, dtype=event.dtype),
            confidence=Confidence.CERTAIN if sure and what not in ("indexed", "text") else Confidence.LIKELY,
            severity=Severity.WARNING if what in ("float32", "enabled", "indexed", "text") else None,
            fix=self._fix(event, what),
        )

    def _fix(self, event: Autocast, what: str) -> NodeFix | None:
        if what == "uncalled":
            return None
        node = event.dtype_node if what == "float32" else event.device
        if node is None:
            return None
        if what == "device":
            return NodeFix("pass the type", Safety.SAFE, (NodeEdit(node, "after", ".type"),))
        if what == "indexed" and isinstance(node, cst.SimpleString):
            text = f"{node.prefix}{node.quote}{event.family}{node.quote}"
            return NodeFix("pass the type", Safety.SAFE, (NodeEdit(node, "replace", text),))
        if what == "text" and isinstance(node, cst.Call) and len(node.args) == 1:
            text = f"{self.context.code(node.args[0].value)}.type"
            return NodeFix("pass the type", Safety.UNSAFE, (NodeEdit(node, "replace", text),))
        if what == "float32" and isinstance(node, cst.Attribute):
            text = f"{self.context.code(node.value)}.bfloat16"
            return NodeFix("compute in bfloat16", Safety.UNSAFE, (NodeEdit(node, "replace", text),))
        return None
