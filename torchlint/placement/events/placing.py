"""Where things are put and how they meet: moves, creations, operations on several places, state of Modules."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from torchlint.placement.events.base import Event

if TYPE_CHECKING:
    import libcst as cst

    from torchlint.placement.events.base import Operand
    from torchlint.placement.values import Alternative, Value


class Use(enum.Enum):
    """What becomes of the result of a move."""

    USED = "used"
    DROPPED = "dropped"
    #: Dropped, and nothing held what was moved either: it warms the device up, or asks whether it is there.
    TEMPORARY = "dropped with its receiver"
    #: Bound to a parameter's name that the function reads no more.
    UNREAD = "bound to what is not read"
    LOOP_VARIABLE = "bound to a loop variable only"
    #: In a function that is handed to a `map` whose result is dropped: it never runs.
    NEVER = "never run"


@dataclass(slots=True)
class Move(Event):
    """`.to/.cuda/.cpu/.half/.type/…` of a value.

    api: the method's name. receiver: the node it is called on. value: before; result: after.
    moves_device: whether it may change the device (`half` does not). target: where it goes.
    row: the tuple that the move stands in, where the statement is one (`a.cuda(), b.cuda()`).
    """

    api: str
    receiver: cst.BaseExpression
    value: Value
    result: Value
    moves_device: bool
    target: tuple[Alternative, ...] = ()
    dtype: str | None = None
    non_blocking: bool = False
    use: Use = Use.USED
    row: cst.Tuple | None = None


@dataclass(slots=True)
class Create(Event):
    """A tensor is born.

    api: qualified name. why: `explicit` (device=), `template` (*_like, new_*), `default`, `host-only` (from_numpy,
    torch.Tensor, …: ignores the default device), `generator`, `unknown` (**kwargs, out=).
    data: the host data it is made from, if any. dtype: its name, where it is given.
    nearby: the tensors off the host and the devices that names in scope are bound to, latest first.
    """

    api: str
    value: Value
    why: str
    data: Value | None = None
    random: bool = False
    nearby: tuple[tuple[str, Value], ...] = ()
    dtype: str | None = None


@dataclass(slots=True)
class Mix(Event):
    """One operation joins operands in different places.

    api: the operator or function. host: the operand and the alternative that is on the CPU; other: the one that
    is not. operands: all of them. confirmed: a caller within the file passes a tensor that is off the host;
    open: there are callers, and nothing tells where what they pass is.
    follows: the project's programs set a default device, which what is made here without one is on.
    asked: the function reads the device of what is not on the CPU, and so is written for callers that have it anywhere.
    within: where a call decides it, the other end: the operation within the function, or the call if that is `node`'s.
    """

    api: str
    operands: tuple[Operand, ...]
    host: tuple[Operand, Alternative]
    other: tuple[Operand, Alternative]
    confirmed: bool = False
    open: bool = False
    follows: bool = False
    asked: bool = False
    within: cst.CSTNode | None = None


@dataclass(slots=True)
class Split(Event):
    """One operation joins operands that the code puts on different accelerators.

    api: the operator or function. one, other: the operands, and where each is. within: see `Mix`.
    """

    api: str
    one: tuple[Operand, Alternative]
    other: tuple[Operand, Alternative]
    within: cst.CSTNode | None = None


@dataclass(slots=True)
class Leftover(Event):
    """An operation joins a tensor that was left where it was with one that is moved.

    Either an attribute of a Module keeps it (`through` of its alternative), and the other one is moved by the caller or
    with the Module; or it came with others that were sent to a device, where the other one is.
    api: the operator or function. kept: the operand that stayed, and its alternative; other: what it joins.
    batch: what stayed was taken from a loader, and other loops of the file send what they take to the same device.
    """

    api: str
    kept: tuple[Operand, Alternative]
    other: tuple[Operand, Alternative]
    batch: bool = False


@dataclass(slots=True)
class HostOnly(Event):
    """A value is handed to something that takes it from the host alone.

    api: `numpy`, `numpy.…`, `pack_padded_sequence`. operand: what is handed over; away: the alternative that is not
    on the host, or None where the value requires grad and NumPy refuses it for that. confirmed: calls within the file
    pass what is off the host. trains: the function runs a backward, so that gradients are on.
    """

    api: str
    operand: Operand
    away: Alternative | None
    confirmed: bool = False
    trains: bool = False


@dataclass(slots=True)
class Attribute(Event):
    """A Module gets an attribute in one of its methods.

    how: `assign`, `append` (to a list that it holds), `buffer`, `parameter`, `module`, `dict` (through `__dict__`).
    owner: the Class. name: the attribute, empty where it is computed. value_node: what is assigned. statement: the
    assignment, where it has no other target.
    """

    owner: object
    name: str
    value: Value
    how: str
    value_node: cst.CSTNode | None = None
    statement: cst.CSTNode | None = None


@dataclass(slots=True)
class Build(Event):
    """An optimizer, loader, loss or scaler is built over values, or an optimizer's state is loaded.

    what: `optimizer`, `optimizer state`, `loader`, `loss`, `offloaded state` (a state dict is gathered on the CPU);
    api: qualified name. value: the optimizer itself, whose element is a parameter (and has the name of its Module);
    what a loader or loss is built over.
    """

    what: str
    api: str
    value: Value
    arguments: tuple[Operand, ...] = ()
    keywords: dict[str, Value] = field(default_factory=dict)


@dataclass(slots=True)
class Draw(Event):
    """Random numbers are drawn with a generator of another device than they are drawn on.

    api: what draws. generator: of the `host`, `away` from it, or `none` is given, where one of the host is made.
    onto: a `tensor` whose place is known, or what the `default` device makes, which the file sets to an accelerator.
    origin: where the generator is made.
    """

    api: str
    generator: str
    onto: str
    origin: cst.CSTNode | None = None


@dataclass(slots=True)
class Wrap(Event):
    """DDP, DataParallel, compile or `prepare` wraps a value.

    on_first: it is a process's part of a distributed training, and all processes put it on the first device.
    """

    api: str
    value: Value
    keywords: dict[str, Value] = field(default_factory=dict)
    on_first: bool = False


@dataclass(slots=True)
class Late(Event):
    """A Module that is on a device gets a layer, a parameter or a buffer that is on the CPU.

    name: of the Module in the code. moved: what put it on the device.
    """

    name: str
    moved: cst.CSTNode | None = None


@dataclass(slots=True)
class Behind(Event):
    """An attribute is read of a DataParallel or DistributedDataParallel that only the model in it can have.

    name: the attribute. always: the model is wrapped on every path. wrap: where, if that is in one place.
    """

    name: str
    always: bool
    wrap: cst.CSTNode | None = None


@dataclass(slots=True)
class Parallel(Event):
    """DataParallel or DistributedDataParallel wraps a Module that it can't compute with as it is.

    how: `elsewhere` (it is on CUDA device `at`, the first of the devices is `first`, `origin` put it there), `list`
    (its forward reads submodules from a plain list, at `read`), `parameters` (it takes one of its own, which replicas
    have not), `unmoved` (it is on the CPU, and only tensors are moved), `unplaced` (nothing moved it to the device that
    `device_ids` names), `several` (which names more). name: that the wrapper is bound to.
    """

    how: str
    first: int = 0
    at: int = 0
    origin: cst.CSTNode | None = None
    read: cst.CSTNode | None = None
    name: str = ""
