"""DEV108: a device is compared with something that it is never equal to."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from torchlint.findings import Confidence, Safety, Severity
from torchlint.placement.events import Compare
from torchlint.placement.values import Kind
from torchlint.rule import NodeEdit, NodeFix, Probe, Report, Rule, confidence_of, weakest


class DeviceComparison(Rule):
    """A device is compared with something that it is never equal to.

    What it does
        Finds a torch.device compared with a string (`x.device == "cuda"`), tested for a part of it
        (`"cuda" in x.device`), the `device` of a tensor compared with one that has no number
        (`x.device == torch.device("cuda")`, `str(x.device) == "cuda"`), one looked for among strings
        (`x.device in ("cuda", "mps")`), and devices compared by identity (`device is "cuda"`). Also what one of
        the two kinds of device has and the other has not: `device.startswith("cuda")` of a torch.device,
        `device.type` of a text, and arithmetic with the `index` of a device that has none.

    Why it matters
        A torch.device equals no string, holds nothing to iterate over, and `cuda:0` does not equal `cuda`. The
        branch is never, or always, taken, or the test itself raises.

    Example
        import torch


        def tolerance(x: torch.Tensor):
            if x.device == "cuda":  # <-
                return 1e-2
            return 1e-5

    Use instead
        import torch


        def tolerance(x: torch.Tensor):
            if x.device.type == "cuda":
                return 1e-2
            return 1e-5

    Fix
        Unsafe. Compares the type of the device, or its text. The branch that was dead comes to life.

    References
        https://github.com/pytorch/pytorch/pull/170254
        https://docs.pytorch.org/docs/stable/tensor_attributes.html#torch.device
    """

    code = "DEV108"
    name = "device-comparison"
    severity = Severity.ERROR
    probe = Probe("value")

    def on_compare(self, compare: Compare) -> Iterator[Report]:
        message = _MESSAGES.get(compare.what)
        if message is None or compare.right is None or compare.scene.expects_error:
            return
        sure = [confidence_of(v.certainty) for v in (compare.left, compare.right) if v.kind is Kind.DEVICE]
        yield self.finding(
            compare, message, confidence=weakest(Confidence.CERTAIN, *sure), fix=self._fix(compare)
        )

    def _fix(self, compare: Compare) -> NodeFix | None:
        node = compare.node
        if not isinstance(node, cst.Comparison) or compare.right is None or len(node.comparisons) > 1:
            return None
        sides = ((node.left, compare.left), (node.comparisons[0].comparator, compare.right))
        device = next((n for n, v in sides if v.kind is Kind.DEVICE), None)
        text = next((v.name for _, v in sides if v.kind is Kind.STRING), None)
        if device is None or compare.what not in ("device == str", "str in device"):
            return None
        code = self.context.code(device)
        by_type = compare.what == "device == str" and text is not None and ":" not in text
        changed = f"{code}.type" if by_type and not isinstance(device, cst.BaseString) else f"str({code})"
        return NodeFix(f"compare `{changed}`", Safety.UNSAFE, (NodeEdit(device, "replace", changed),))


_MESSAGES = {
    "device == str": "a torch.device never equals a string; compare its `type`",
    "device in texts": "a torch.device never equals a string, and so is in no tuple of them; compare its `type`",
    "text == unindexed": "the device of a tensor on an accelerator has a number (`cuda:0`), and so has its text;"
    " compare the `type`",
    "device is device": "every `device` is an object of its own, so that two are never the same; compare with `==`",
    "type == indexed": "the `type` of a device has no index, and so never equals this",
    "method of text": "a torch.device has no methods of strings; ask its `type`, or `str(device)`",
    "attribute of text": "this is a string, which has neither `type` nor `index`; make it a `torch.device`",
    "no index": "the `index` of a device that is named without one is None, and this raises TypeError",
    "device is str": "two equal strings need not be one object, and a torch.device is none; compare with `==`",
    "str in device": "a torch.device is no container: `in` raises TypeError; look into `str(device)`",
    "tensor's device == unindexed": "the device of a tensor on an accelerator has a number, and so never equals one"
    " without; compare the `type`",
}
