"""Methods that move or convert: `to`, `cuda`, `cpu`, `half`, `type`, …."""

from __future__ import annotations

import libcst as cst

from torchlint.placement.calls.arguments import Arguments
from torchlint.placement.devices import accelerator_number, device_places, emit_device_name, name_device
from torchlint.placement.events import (
    DeviceName,
    DeviceText,
    Move,
    Operand,
    Use,
)
from torchlint.placement.hazards.startup import note_start
from torchlint.placement.hazards.syncs import emit_sync
from torchlint.placement.hazards.wrappers import note_wrapped_move
from torchlint.placement.interpreter import Env, Interpreter
from torchlint.placement.syntax import argument, dotted, integer, string, words
from torchlint.placement.values import (
    HOST,
    Alternative,
    Certainty,
    Kind,
    Place,
    Value,
    Where,
    is_as_given,
    place_named,
    with_rank,
)

MOVES = frozenset(
    [
        "to",
        "cuda",
        "cpu",
        "xpu",
        "npu",
        "hpu",
        "mps",
        "half",
        "float",
        "double",
        "bfloat16",
        "type",
        "type_as",
        "to_empty",
    ]
)


#: Methods that convert, for which a `Move` is worth its event only where the result is dropped.
CASTS = frozenset(["long", "int", "bool", "short", "char", "byte", "cfloat", "cdouble"])


PLACING = frozenset(["to", "cuda", "cpu", "xpu", "npu", "hpu", "mps", "to_empty"])


def name_devices(run: Interpreter, node: cst.Call, name: str, receiver: Value, arguments: Arguments) -> None:
    """Note the devices that a move names, whatever it moves."""
    if name == "cuda":
        index = arguments.find("device", 0)
        if index is not None and words(index.node) in ("True", "False"):
            run.emit(DeviceText(index.node, run.scene, "", what="bool"))
        chosen = index is not None and index.value.name is None and integer(index.node) is None
        emit_device_name(run, DeviceName(node, run.scene, "cuda", "cuda()", "cuda", receiver, chosen=chosen))
    for operand in arguments.all():
        name_device(run, operand.node, operand.value, "literal", "to", receiver)
    if name == "to" and arguments.positional and type(node.func) is cst.Attribute:
        _note_pinned(run, node.func.value, arguments.positional[0].node)


def _note_pinned(run: Interpreter, receiver: cst.BaseExpression, device: cst.CSTNode) -> None:
    """`x.pin_memory().to(device)`: the caller may name the CPU, and without an accelerator nothing can be pinned."""
    pins = type(receiver) is cst.Call and type(receiver.func) is cst.Attribute
    if pins and receiver.func.attr.value == "pin_memory" and not run.scene.caught:  # type: ignore[attr-defined]
        given = run.frame.parameters.get(dotted(device) or "")
        if given is not None and given.kind is Kind.DEVICE:
            emit_device_name(run, DeviceName(receiver, run.scene, "cuda", "api", "torch.Tensor.pin_memory"))


def _note_pinned_creation(run: Interpreter, value: Value, arguments: Arguments) -> None:
    """`torch.empty(…, pin_memory=True)` whose copy goes to a device that the caller names, which may be the CPU."""
    device = arguments.find("device", 0)
    given = run.frame.parameters.get(dotted(device.node) or "") if device is not None else None
    for made in value.places if given is not None and given.kind is Kind.DEVICE and not run.scene.caught else ():
        if type(made.origin) is cst.Call and not made.guards:
            pinned = argument(made.origin, "pin_memory")
            if pinned is not None and words(pinned) == "True":
                emit_device_name(run, DeviceName(made.origin, run.scene, "cuda", "api", "torch.Tensor.pin_memory"))


def move(
    run: Interpreter,
    node: cst.Call,
    func: cst.Attribute,
    name: str,
    value: Value,
    arguments: Arguments,
    env: Env,
) -> Value:
    """`.to(...)`, `.cuda()`, `.cpu()`, `.half()`, `.type(...)` and their like."""
    if name == "to" and value.may_be_on_host:
        _note_pinned_creation(run, value, arguments)
    target, dtype = target_of(run, node, name, value, arguments)
    non_blocking = is_non_blocking(name, arguments)
    rank = value.places[0].rank if len({p.rank for p in value.places}) == 1 and value.places else None
    places = value.places if target is None else with_rank(target, rank)
    facts = value.facts - {"pending", "pinned"}
    if dtype is not None:
        facts = facts | {"float64"} if dtype in ("float64", "double") else facts - {"float64"}
    if value.kind is Kind.MODULE:
        facts -= {"assumed"} if target is not None else set()
    else:
        facts |= {"fresh"}
        if target is not None:
            if "leaf" in value.facts and not all_host(target):
                facts |= {"moved leaf"} if _loses(run, node, func.value) else {"copied leaf"}
            facts -= {"leaf", "parameter", "buffer", "assumed"}
        if target is not None and non_blocking and all_host(target) and not value.on_host:
            facts |= {"pending"}
            places = tuple(p._replace(origin=node) for p in places)
            run.timeline.copies(node)
    result = value.but(
        places=places, facts=facts, element=None if value.kind is Kind.UNKNOWN else value.element
    )
    event = Move(
        node, run.scene, name, func.value, value, result, target is not None, target or (), dtype, non_blocking,
        run.move_uses.get(node, Use.USED), run.rows.get(node),
    )  # fmt: skip
    run.emit(event)
    if target and all(p.place.is_named and p.place.name.startswith("cuda") for p in target):
        note_start(run, node)
    if target is not None and value.kind is not Kind.MODULE:
        _note_sent(run, value, target)
    if run.frame.function is not None:
        if value.kind is Kind.MODULE:
            run.frame.function.changes = True
        elif event.use in (Use.USED, Use.UNREAD) and target is not None:
            run.frame.function.moves_values = True
    if target is not None and all_host(target) and "pending" not in facts:
        run.timeline.waits()
    if target is not None and all_host(target) and name != "type" and "pending" not in facts:
        if name == "cpu" or any("cpu" in _text(a.value) for a in node.args):
            if value.kind is Kind.UNKNOWN and event.use is Use.USED and _is_copied(func.value, value):
                emit_sync(run, node, "cpu", value.but(kind=Kind.TENSOR, certainty=Certainty.INFERRED))
            else:
                emit_sync(run, node, "cpu", value)
    if target is not None and value.kind is Kind.UNKNOWN and event.use is Use.DROPPED:
        _note_module_move(run, value)
    if value.kind is Kind.MODULE and target is not None:
        note_wrapped_move(run, node, value, target)
        _note_module_move(run, value)
        _note_settled(run, value, target)
        from torchlint.placement.calls.dispatch import moved_in_place

        moved_in_place(run, func.value, dotted(_itself(func.value)), value, result, env)
    return result


#: Methods of a Module that return the Module itself.
_OF_ITSELF = frozenset("half float double bfloat16 eval train requires_grad_ to cuda cpu".split())


def _itself(node: cst.BaseExpression) -> cst.BaseExpression:
    """`model` in `model.half().eval()`: the Module that a chain of such methods is called on."""
    while type(node) is cst.Call and type(node.func) is cst.Attribute and node.func.attr.value in _OF_ITSELF:
        node = node.func.value
    return node


def _loses(run: Interpreter, node: cst.Call, receiver: cst.BaseExpression) -> bool:
    """Whether nothing refers to what is moved any more: it has no name, or its copy takes that (`x = x.cuda()`)."""
    if type(receiver) is cst.Call:
        return True
    name, statement = dotted(receiver), run.statement
    if name is None or type(statement) is not cst.Assign or len(statement.targets) != 1:
        return False
    target, value = statement.targets[0].target, statement.value
    if type(target) is cst.Tuple and type(value) is cst.Tuple and len(target.elements) == len(value.elements):
        pairs = zip(target.elements, value.elements)
        return any(v.value is node and dotted(t.value) == name for t, v in pairs)
    return value is node and dotted(target) == name


def is_non_blocking(name: str, arguments: Arguments) -> bool:
    """Whether a move says `non_blocking=True`, by keyword or as the last of its positional arguments."""
    given = arguments.find("non_blocking")
    if given is None and name in ("to", "cuda", "cpu") and arguments.positional:
        given = arguments.positional[-1]
    return (
        given is not None and name in ("to", "cuda", "cpu", "type", "copy_") and words(given.node) == "True"
    )


def _text(node: cst.CSTNode) -> str:
    return (string(node) or words(node)).lower()


#: What modules are called that are put on the host for a while.
_MODULE_WORDS = (
    "model", "net", "module", "encoder", "decoder", "generator", "discriminator", "actor", "critic", "policy", "pipe",
    "pipeline", "vae", "unet", "ema",
)  # fmt: skip


def _is_copied(receiver: cst.BaseExpression, value: Value) -> bool:
    """Whether what `.cpu()` is called on is data rather than a module: it comes from a computation."""
    name = dotted(receiver)
    if name is None:
        return True
    last = name.rsplit(".", 1)[-1].lower().rstrip("0123456789_")
    return "." not in name and "assumed" in value.facts and not last.endswith(_MODULE_WORDS)


#: What holds wherever anything is elsewhere.
_AVAILABLE = frozenset(["accelerator"])


def _note_sent(run: Interpreter, value: Value, target: tuple[Alternative, ...]) -> None:
    """What a caller gave is not on the device that a part of it is sent to, as it came.

    What was computed from it tells nothing: a move to where it is already changes nothing. Nor does a move in a
    forward, which is there for callers of any kind.
    """
    if run.scene.role == "forward" or not is_as_given(value):
        return
    if all(p.place.where is Where.NAMED for p in target) and target and run.scene.tests <= _AVAILABLE:
        for alternative in value.places:
            if alternative.place.where is Where.OF_CALLER:
                run.frame.sent.setdefault(alternative.place, set()).update(p.place for p in target)


def all_host(places: tuple[Alternative, ...]) -> bool:
    return bool(places) and all(p.place.is_host for p in places)


def _note_module_move(run: Interpreter, value: Value) -> None:
    function = run.frame.function
    if function is not None:
        moved = function.moved if value.kind is Kind.MODULE else function.moved_if_module
        moved.update(p.place.name for p in value.places if p.place.where is Where.OF_CALLER)


def _note_settled(run: Interpreter, value: Value, target: tuple[Alternative, ...]) -> None:
    """A function that sends a Module of its caller to a device is the one that places things."""
    given = any(p.place.where is Where.OF_CALLER and p.through is None for p in value.places)
    if given and run.scene.tests <= _AVAILABLE and all(p.place.is_named for p in target):
        run.frame.settled.update(p.place for p in target)


def target_of(
    run: Interpreter, node: cst.Call, name: str, value: Value, arguments: Arguments
) -> tuple[tuple[Alternative, ...] | None, str | None]:
    """Where a move goes (None: it stays), and the dtype it sets."""
    if name == "cuda":
        index = arguments.find("device", 0)
        if index is not None and words(index.node) in ("True", "False"):
            run.emit(DeviceText(index.node, run.scene, "", what="bool"))
        which = "cuda" if index is None or index.value.kind is Kind.NONE else _device_of_cuda(index)
        return (Alternative(Place(Where.NAMED, "cuda", which), None, node),), None
    if name == "cpu":
        return (Alternative(HOST, None, node),), None
    if name in ("xpu", "npu", "hpu", "mps"):
        return (Alternative(place_named(name), None, node),), None
    if name in ("half", "float", "double", "bfloat16"):
        return None, name
    if name == "type":
        return _type_target(run, node, arguments)
    if name == "type_as":
        other = arguments.value("other", 0)
        return (
            tuple(p._replace(rank=None, origin=node) for p in other.places) if other is not None else ()
        ), None
    dtype = None
    given = arguments.find("device") or arguments.find("other")
    for operand in arguments.positional:
        if operand.value.kind is Kind.DTYPE or (dotted(operand.node) or "").endswith("dtype"):
            dtype = operand.value.name or "unknown"
        elif given is None:
            given = operand
    named_dtype = arguments.value("dtype")
    if named_dtype is not None:
        dtype = named_dtype.name or "unknown"
    if given is None:
        if arguments.starred or arguments.unpacked:
            return (), dtype
        return None, dtype
    if given.value.kind is Kind.NUMBER and dtype is not None:
        return None, dtype
    return device_places(run, given, node, sure="device" in arguments.named), dtype


def _device_of_cuda(index: Operand) -> str:
    """The accelerator that `.cuda(index)` goes to, where the code spells it out."""
    value = index.value
    if value.kind is Kind.STRING and value.name:
        return place_named(value.name).accelerator
    if value.kind is Kind.DEVICE and len(value.places) == 1:
        return value.places[0].place.accelerator
    return accelerator_number("cuda", index.node)


def _type_target(
    run: Interpreter, node: cst.Call, arguments: Arguments
) -> tuple[tuple[Alternative, ...] | None, str | None]:
    kind = arguments.value("dtype", 0)
    if kind is None:
        return None, None
    name = kind.name or ""
    given = arguments.find("dtype", 0)
    if given is not None and type(given.node) is cst.Call and words(given.node.func) == "type":
        return None, "unknown"  # the class of any tensor, wherever that is
    if kind.kind is Kind.DTYPE:
        # By its name alone it may as well be what `x.type()` says, which has the device of `x` in it.
        return (None, name) if name or kind.certainty is Certainty.KNOWN else ((), None)
    if name.startswith("torch.cuda.") and name.endswith("Tensor"):
        where = arguments.find("dtype", 0)
        spelled_out = where is not None and (dotted(where.node) or "").endswith("Tensor")
        if where is not None and (kind.kind is Kind.STRING or spelled_out):
            emit_device_name(run, DeviceName(node, run.scene, "cuda", "tensor type", name))
        return (Alternative(place_named("cuda"), None, node),), name
    if name.startswith("torch.") and name.endswith("Tensor"):
        return (Alternative(HOST, None, node),), name
    return (), None


LOSSY = frozenset("given fresh leaf parameter buffer mask loss pinned row float64".split()) | {
    "moved leaf",
    "copied leaf",
}
