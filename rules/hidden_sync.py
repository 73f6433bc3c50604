"""DEV303: the host waits for the device in every step, and nothing in the words says so."""

from __future__ import annotations

import re

import libcst as cst

from torchlint.findings import Confidence, Severity
from torchlint.placement.events import Sync
from torchlint.placement.scene import Scene
from torchlint.placement.syntax import dotted
from torchlint.rule import Probe, weakest
from torchlint.waits import WaitRule


class HiddenSync(WaitRule):
    """The host waits for the device in every step, and nothing in the words says so.

    What it does
        Finds what reads a tensor's value without a word for it, in code that runs for every batch (a training
        step, a `forward`, an optimizer's `step`): the truth of a tensor in `if`, `while` and `assert`, its text
        in an f-string or `print`, a tensor given where an operation takes a Python number, boolean masks and
        `nonzero`, `repeat_interleave` without `output_size`, `scaler.get_scale()`, the slice of a CPU tensor that
        is assigned to. Silent in a class that the files of the project never call, or only every so many
        steps. `possible` where the code needs the answer at once: it returns, counts, saves or calls a layer by it,
        and in a branch of a layer or a loss that nothing shows to be taken in training.

    Why it matters
        Each of these waits until the device has computed everything before it; meanwhile nothing new is queued.

    Example
        from torch import nn


        class Attention(nn.Module):
            def forward(self, scores, values, blocked):
                weights = scores.softmax(dim=-1)
                if blocked.any():  # <-
                    weights = weights.masked_fill(blocked, 0.0)
                return weights @ values

    Use instead
        from torch import nn


        class Attention(nn.Module):
            def forward(self, scores, values, blocked):
                weights = scores.softmax(dim=-1)
                weights = weights.masked_fill(blocked, 0.0)
                return weights @ values

    Fix
        None.

    Verification
        Confirmed where the line waits for a value that is on the accelerator.

    References
        https://pytorch.org/docs/stable/generated/torch.cuda.set_sync_debug_mode.html
        https://github.com/lucidrains/x-transformers/pull/355
    """

    code = "DEV303"
    name = "hidden-sync"
    severity = Severity.WARNING
    probe = Probe("sync")

    def concerns(self, sync: Sync) -> bool:
        return sync.hidden

    def message(self, sync: Sync) -> str:
        why = _WHY.get(sync.api) or _why(sync.api)
        return f"{why.format(self.context.code(sync.node))}, which waits for the device in every step"

    def confidence(self, sync: Sync) -> Confidence:
        sure = super().confidence(sync)
        if sync.scene.role in ("forward", "loss"):
            sure = weakest(sure, Confidence.LIKELY)  # how often a model runs is for who calls it
        if not _is_shown(sync):
            return weakest(sure, Confidence.POSSIBLE)
        if sync.branched and sync.scene.role in ("forward", "loss") and not sync.scene.hot:
            # A branch is mostly for inference, debugging, an option or a cache.
            return weakest(sure, Confidence.POSSIBLE)
        if sync.decides or _stands_in(sync.scene):
            return weakest(sure, Confidence.POSSIBLE)
        if sync.api in _CHECKING:
            return weakest(sure, Confidence.POSSIBLE)
        if sync.api in _DYNAMIC and not (sync.scene.hot or sync.scene.role == "step"):
            # The shape of what follows depends on the values; whether a layer can do without is for its author.
            return weakest(sure, Confidence.POSSIBLE)
        return sure


def _is_shown(sync: Sync) -> bool:
    """Whether more than its use tells that what is read is a tensor, and elsewhere.

    What a mapping holds may as well be a text, unless it was computed. What a layer reads has to come from its
    parameters or from what it was given: of sizes, an operation gives a tensor on the CPU.
    """
    value = sync.value
    if value is None:
        return True
    if sync.api in _TEXTS and _is_entry(sync.node) and not value.facts & _COMPUTED:
        return False
    return bool(value.places) or sync.scene.role not in ("forward", "loss") or sync.scene.hot


def _is_entry(node: cst.CSTNode) -> bool:
    """`batch["name"]`"""
    if not isinstance(node, cst.Subscript) or len(node.slice) != 1:
        return False
    index = node.slice[0].slice
    return isinstance(index, cst.Index) and isinstance(index.value, cst.BaseString)


_TEXTS = frozenset(["f-string", "print()", "str()", "repr()", "format()", "format", "set_postfix"])
#: Facts of what operations on tensors gave, or a model.
_COMPUTED = frozenset(["loss", "grad", "of grad", "cut", "joint", "computed", "assumed", "output"])


def _stands_in(scene: Scene) -> bool:
    """Whether code runs only where the caller left out an argument, which a training may always pass."""
    if scene.function is None:
        return False
    params = scene.function.params
    optional = {
        param.name.value
        for param in (*params.params, *params.kwonly_params)
        if param.default is not None and dotted(param.default) == "None"
    }
    missing = {_MISSING.match(condition) for condition, truth in scene.conditions if truth}
    return any(match is not None and match[1] in optional for match in missing)


#: A condition that asks whether a name is None, whichever of its bindings.
_MISSING = re.compile(r"(\w+)(?:'\d+)? Is None$")


def _why(api: str) -> str:
    """What an operation does that reads a value."""
    if api.startswith("math."):
        return f"`{{}}` ({api}) takes a Python number, and so waits for a tensor's"
    if api.endswith("=tensor)"):
        return "`{}` is a tensor given for a Python number"
    return f"`{{}}` ({api}) reads values to know its result"


#: Operations whose result has a shape that depends on values.
_DYNAMIC = frozenset(
    [
        "nonzero",
        "where",
        "argwhere",
        "masked_select",
        "unique",
        "unique_consecutive",
        "bincount",
        "one_hot",
        "unpad_sequence",
        "range()",
        "slice bound",
        "arange",
        "zeros",
        "ones",
        "empty",
        "full",
        "rand",
        "randn",
        "eye",
    ]
) | {"boolean mask index"}
#: Operations that wait only to see whether they could be done.
_CHECKING = frozenset(
    [
        "inverse",
        "inv",
        "cholesky",
        "solve",
        "lstsq",
        "lu_factor",
        "ldl_factor",
        "tensorinv",
        "tensorsolve",
        "gaussian_nll_loss",
        "ctc_loss",
        "cov",
    ]
)
_WHY = {
    "if": "the truth of `{}` is read",
    "any()": "`{}` reads the truth of tensors",
    "all()": "`{}` reads the truth of tensors",
    "max()": "`{}` compares tensors on the host",
    "min()": "`{}` compares tensors on the host",
    "f-string": "the text of `{}` is asked for",
    "print()": "the text of `{}` is asked for",
    "str()": "the text of `{}` is asked for",
    "repr()": "the text of `{}` is asked for",
    "format()": "the text of `{}` is asked for",
    "add_scalar": "`{}` is turned into a number",
    "add_scalars": "`{}` is turned into numbers",
    "set_postfix": "the text of `{}` is asked for",
    "wandb.log": "`{}` is turned into numbers",
    "format": "the text of `{}` is asked for",
    "boolean mask index": "`{}` selects by a mask, whose size has to be known",
    "sorted()": "`{}` compares tensors on the host",
    "in": "`{}` asks whether any element is equal",
    "tensor of tensors": "`{}` reads each tensor in the list (`torch.stack` does not)",
    "slice bound": "`{}` is a tensor that bounds a slice, and so is read as a number",
    "masked assignment": "`{}` selects by a mask, whose size has to be known (`torch.where` need not)",
    "slice assignment": "`{}` is on the CPU and is assigned what is on an accelerator",
    "copy_": "`{}` copies from an accelerator to the CPU",
    "get_scale": "`{}` reads the scale",
}
