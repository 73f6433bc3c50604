"""Training steps: backward, mixed precision, and the order of its calls."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import TYPE_CHECKING

from torchlint.placement.events.base import Event
from torchlint.placement.values import Certainty

if TYPE_CHECKING:
    import libcst as cst

    from torchlint.placement.values import Value


@dataclass(slots=True)
class Autocast(Event):
    """An autocast region or decorator.

    api: qualified name. device_type: the argument's value. dtype: `float16`, `bfloat16`, `default` or `unknown`.
    enabled: `yes`, `no` or `flag`. decorator: the bare class, not an instance, decorates a function.
    device, dtype_node: the arguments as they stand; a vendor's own autocast has no `device`.
    misplaced: what is wrong with the arguments, in a word; empty where all is well. `missing`, `dtype`, `bool`,
        `device` (a torch.device), `indexed` ("cuda:0"), `text` (of a device): given as device type; `device_type`,
        `enabled`: given to a vendor's own autocast.
    dropped: the call is a statement of its own.
    """

    api: str
    device_type: Value | None
    dtype: str
    enabled: str = "yes"
    decorator: bool = False
    device: cst.BaseExpression | None = None
    dtype_node: cst.BaseExpression | None = None
    misplaced: str = ""
    dropped: bool = False

    @property
    def family(self) -> str:
        """The device type that it is for, without an index; empty where the code does not say."""
        vendor = (
            self.api.split(".")[1] if self.api.startswith(("torch.cuda.", "torch.cpu.", "torch.xpu.")) else ""
        )
        literal = self.device_type.name if self.device_type is not None else None
        return vendor or (literal or "").split(":")[0]

    @property
    def covers(self) -> str:
        """The device type on which a region computes in lower precision, or `unknown`; empty where it is off."""
        return "" if self.enabled == "no" else self.family or "unknown"

    @property
    def half(self) -> bool:
        """Whether it computes in float16, said by its dtype or by the default of its device."""
        if self.dtype == "default":
            return self.family in ("cuda", "mps", "xpu", "hpu")
        return self.dtype == "float16"


@dataclass(slots=True)
class UnsafeUnderAutocast(Event):
    """A function that CUDA autocast refuses is called in a region that is not known to be for the CPU."""

    api: str


@dataclass(slots=True)
class Backward(Event):
    """`loss.backward()`. scaled: it ran on `scaler.scale(loss)`; owner: a framework's own backward.

    loss: what goes backward, as it stands.
    """

    value: Value
    scaled: bool = False
    owner: str = ""
    loss: cst.BaseExpression | None = None


@dataclass(slots=True)
class GradUse(Event):
    """Gradients are read or changed between backward and step: clipping, norms; `grad` or `retain_grad` of a tensor.

    value: the tensor whose gradient is asked for.
    """

    api: str
    value: Value | None = None


@dataclass(slots=True)
class Step(Event):
    """`optimizer.step()` on an optimizer (or what is used as one)."""

    value: Value


@dataclass(slots=True)
class Scaler(Event):
    """A call on a GradScaler: `scale`, `unscale_`, `step`, `update`, or `new` where one is made."""

    op: str
    value: Value
    name: str = ""


class Fault(enum.Enum):
    """What breaks the mixed-precision protocol on a path
    (https://docs.pytorch.org/docs/stable/notes/amp_examples.html)."""

    HALF_UNSCALED = "float16 loss never scaled"
    NEVER_SCALED = "plain backward, then scaler.step"
    PLAIN_STEP = "scaled backward, then optimizer.step"
    SECOND_STEP = "optimizer.step beside scaler.step"
    SCALED_CLIP = "scaled gradients clipped"
    NO_UPDATE = "step without update"
    UPDATE_SKIPPED = "update skipped after unscale_"
    UNSCALED_TWICE = "unscale_ again before update"
    UNSCALED_LATE = "unscale_ after step"
    UPDATE_ALONE = "update without step"
    MADE_ANEW = "scaler made anew"
    HALF_PARAMETERS = "float16 parameters to unscale"
    OWNED = "own scaler beside a framework's"


@dataclass(slots=True)
class Protocol(Event):
    """A step of the mixed-precision protocol is missing, doubled or out of order on paths of a function.

    every: on all paths that come there, not on some only. trace: what led there, a few words for each node, in order.
    scaler, optimizer: as the code at the node calls them; empty where it does not name them.
    certainty: of what the scaler and the optimizer are.
    """

    fault: Fault
    every: bool
    trace: tuple[tuple[str, cst.CSTNode], ...] = ()
    scaler: str = ""
    optimizer: str = ""
    certainty: Certainty = Certainty.INFERRED
