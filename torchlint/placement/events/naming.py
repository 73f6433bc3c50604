"""Devices in words: names, texts and comparisons of them, what asks for one, what is read and written."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from torchlint.placement.events.base import Event

if TYPE_CHECKING:
    import libcst as cst

    from torchlint.placement.values import Value


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
    shown: `file` where the file itself shows that it is meant to run without CUDA, too; of an API, `elsewhere` where
    that is not in the function that calls it, nor in its class. around: what its project, or the file, is for: CUDA
    `kernels`, machines of `others`, too, or CUDA `alone`; empty where there is no project.
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
    is read, where an accelerator is there), `legacy` (given to `torch.Tensor`, which takes the CPU alone), `chosen` (a
    constructor keeps the device that is available).
    overrides: the function does read it, and takes its object's own device only where it gets none.
    """

    name: str
    parameter: cst.CSTNode
    how: str
    overrides: bool = False


@dataclass(slots=True)
class Env(Event):
    """An environment variable is set. after_torch: torch was imported before. started: what started CUDA before.

    text: what it is set to, where that is written out. inherited: the file starts processes, which read it anew.
    """

    name: str
    after_torch: bool
    started: cst.CSTNode | None = None
    text: str | None = None
    inherited: bool = False
