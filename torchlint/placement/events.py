"""The events of placement, the words that observers, rules and the verifier share."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from torchlint.placement.values import Alternative, Certainty, Value

if TYPE_CHECKING:
    import libcst as cst

    from torchlint.placement.scene import Scene


class Use(enum.Enum):
    """What becomes of the result of a move."""

    USED = "used"
    DROPPED = "dropped"
    #: Dropped, and nothing held what was moved either: it warms the device up, or asks whether it is there.
    TEMPORARY = "dropped with its receiver"
    #: Bound to a parameter's name that the function reads no more.
    UNREAD = "bound to what is not read"
    LOOP_VARIABLE = "bound to a loop variable only"


@dataclass(slots=True)
class Event:
    """Something that happens to values at a node, in a scene."""

    node: cst.CSTNode
    scene: Scene


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
class Operand:
    """One operand of an operation. role: `operand`, `index`, `in place`, `argument`, `weight`, `input`, `slice`,
    `elements` (of a list: the value is that of each)."""

    node: cst.CSTNode
    value: Value
    role: str = "operand"


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
class Sync(Event):
    """The host waits for the device.

    api: `item`, `tolist`, `cpu`, `float()`, `if`, `nonzero`, …. hidden: nothing in the code's words says so.
    demanded: the consumer needs the value on the host (lengths of packed sequences, the step of an environment).
    subject: the name of what is read, behind all calls and attributes. statement: where it stands.
    each: the elements of one tensor are read one by one. spared: the number is used where a tensor would do: it
    meets tensors in arithmetic, or is asked in a test, or goes into a record.
    idle: the code waited for all work just before, so that nothing is left to wait for.
    streams: the file orders work on streams of its own, which a wait for all of the device may be there to join.
    decides: it is asked by an `if` whose branches do what no operation on the device can stand in for, or the number
    that it reads is.
    anyway: later in the same step the host has to wait in any case. assumed: nothing shows that it waits for a
    device in every step: its code is left out by default, or callers leave out what is read, or have it on the CPU.
    """

    api: str
    value: Value | None
    hidden: bool = False
    demanded: bool = False
    subject: str = ""
    statement: cst.CSTNode | None = None
    each: bool = False
    spared: bool = False
    streams: bool = False
    idle: bool = False
    decides: bool = False
    anyway: bool = False
    assumed: bool = False


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
class DeviceName(Event):
    """A literal or an API that names one vendor's device.

    device: `cuda`, `mps`, `xpu`, …. what: `literal`, `cuda()`, `api`, `default` (of a parameter), `choice` (a
    two-way choice such as "cuda" if available else "cpu"), `tensor type`, `autocast`, `autocast decorator`,
    `compared`, `beside` (`.cuda()` where another tensor is on CUDA), `mention`. api: the function or
    attribute used; of a choice, what decides: `is_available`, `flag`, `comparison`, `not cpu`. receiver: what a
    `.cuda()` is called on. raises: whether a build without it raises.
    at_hand: an expression for a device that the code has at hand there (a parameter, a tensor's, the object's own).
    guarded: whether code around the literal or around its use asks for the device first, or handles its absence.
    chosen: the index of the device comes from somewhere else (`.cuda(args.gpu)`, f"cuda:{rank}").
    shown: `file` where the file itself shows that it is meant to run without CUDA, too. around: what its project is
    for: CUDA `kernels`, machines of `others`, too, or CUDA `alone`; empty where there is no project.
    """

    device: str
    what: str
    api: str = ""
    receiver: Value | None = None
    raises: bool = True
    literal: str = ""
    at_hand: str = ""
    guarded: bool = False
    chosen: bool = False
    shown: str = ""
    around: str = ""


@dataclass(slots=True)
class DeviceText(Event):
    """A text, or something else, that torch takes for no device is used as one.

    text: what it comes to. name: the option or parameter whose default it takes that from, and default: that.
    what: of what is no text: a device with `no index` where one is wanted, a `context` manager, a `bool`;
        an `ordinal` is past the devices that `CUDA_VISIBLE_DEVICES` leaves, which the file sets at `default`.
    """

    text: str
    name: str = ""
    default: cst.CSTNode | None = None
    what: str = ""


@dataclass(slots=True)
class Demand(Event):
    """The code as a whole is for accelerators of one vendor: it stops, or can't be imported, where there is none.

    why: `exit` (it raises or leaves if none is available), `import` (of a library that needs it), `nccl`,
    `said` (in words to its users), `refusal` (the function raises for what is elsewhere).
    """

    why: str


@dataclass(slots=True)
class Compare(Event):
    """A device is compared, or asked for what it has not; an availability function is tested uncalled.

    what: `device == str`, `device is str`, `device is device`, `str in device`, `tensor's device == unindexed`,
        `type == indexed`, `method of text` (of a torch.device), `attribute of text` (`type` of a text that names a
        device), `no index` (something is computed with it), `uncalled`.
    given: a parameter that decides it: where it is a torch.device, or a `tensor`, or `no text`, as `wanted` says.
    """

    what: str
    left: Value
    right: Value | None = None
    given: str = ""
    wanted: str = ""


@dataclass(slots=True)
class Load(Event):
    """A checkpoint is read.

    mapped: whether map_location is given. what: what is read, as far as words go (the path's expression).
    into: what the result is bound to or passed to, in words. at_hand: an expression for a device that the code has.
    numbers: what is read holds no tensors. shipped: it is a file of a fixed name beside the source.
    published: it is read from an address that the code gives, or bears the name of what stands under one. of_host:
    what saves in the same folder, and all else there, never speaks of a device; or what saves in the project brings it
    to the CPU first. of_run: the same run trained what it holds, or wrote it, before. texts: what of the path is
    spelled out. written: the run itself writes it before. trained: it is read once a loop that trains has ended.
    """

    api: str
    mapped: bool
    what: str = ""
    at_hand: str = ""
    into: str = ""
    numbers: bool = False
    shipped: bool = False
    published: bool = False
    of_host: bool = False
    written: bool = False
    trained: bool = False
    of_run: bool = False
    texts: frozenset[str] = frozenset()


@dataclass(slots=True)
class Save(Event):
    """Something is written by `torch.save`. what: where to, as far as words go.

    counts: it is the state of an object that keeps count of a run: no Module, no optimizer, nothing that may hold one.
    texts: what of the path is spelled out.
    """

    value: Value
    what: str = ""
    counts: bool = False
    texts: frozenset[str] = frozenset()


@dataclass(slots=True)
class IgnoredDevice(Event):
    """A function has a parameter for the device that it never reads, and decides itself where a tensor goes.

    name: the parameter. parameter: its node. how: `created`, `cuda()`, `own device`, `first` (returned before it
    is read, where an accelerator is there), `legacy` (given to `torch.Tensor`, which takes the CPU alone).
    overrides: the function does read it, and takes its object's own device only where it gets none.
    """

    name: str
    parameter: cst.CSTNode
    how: str
    overrides: bool = False


@dataclass(slots=True)
class Pin(Event):
    """Memory is pinned (`pin_memory`), on a tensor or by a DataLoader."""

    value: Value


@dataclass(slots=True)
class Workers(Event):
    """A DataLoader's dataset or collate function gives tensors that are on an accelerator.

    The node is what put such a tensor there, the loader where that is not known in this file.
    loader: the call that makes it. count: of its worker processes, as written. pins: whether it pins what it gets.
    """

    loader: cst.CSTNode
    count: int
    pins: bool
    certainty: Certainty


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
class Call(Event):
    """A function of the project is called. function: its Function with the summary; result: what comes back.

    dropped: the call is a statement of its own. name: what is called, in words. helper: what it hands back, if it is
    there to move only: `container`, `value` or `rebinds` (see placement.helpers). A library's helper has no `function`.
    """

    function: object
    result: Value
    arguments: tuple[Operand, ...] = ()
    dropped: bool = False
    name: str = ""
    helper: str = ""


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


@dataclass(slots=True)
class Filter(Event):
    """A comprehension moves its elements and leaves out those that can't be moved.

    how: `hasattr`, `isinstance` or `is_tensor`; `nested` where a call passes it containers, which it leaves as they
    are. by_position: what is left is taken apart by position.
    """

    how: str
    value: Value
    by_position: bool = False


@dataclass(slots=True)
class Return(Event):
    """A function returns. earlier: what its other exits returned before in program order."""

    value: Value
    earlier: tuple[tuple[cst.CSTNode, Value], ...] = ()


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


@dataclass(slots=True)
class Accumulate(Event):
    """A value that still holds its graph is kept across steps.

    how: `+=`, `append`, `update()`, …; `carried` where it is a state that the next step begins with,
        `within` where it holds such a value. into: the name of what keeps it. kept: the expression whose value it is.
    renewed: what keeps it begins anew now and then, within the loop.
    """

    value: Value
    how: str
    into: str
    kept: cst.BaseExpression
    renewed: bool = False


@dataclass(slots=True)
class Clock(Event):
    """Host time is read."""

    api: str


@dataclass(slots=True)
class Timing(Event):
    """A time span is computed whose end does not wait for the device work in it.

    start: where it begins; None where that is another hook of the same class. work: the last device work in it.
    end: where the clock is read for its end.
    """

    start: cst.CSTNode | None
    work: cst.CSTNode | None
    end: cst.CSTNode | None = None


@dataclass(slots=True)
class AsyncRead(Event):
    """The host reads a tensor while an asynchronous copy of it, begun at `copy`, may still be on its way."""

    api: str
    value: Value
    copy: cst.CSTNode | None


@dataclass(slots=True)
class Env(Event):
    """An environment variable is set. after_torch: torch was imported before. started: what started CUDA before.

    text: what it is set to, where that is written out.
    """

    name: str
    after_torch: bool
    started: cst.CSTNode | None = None
    text: str | None = None
