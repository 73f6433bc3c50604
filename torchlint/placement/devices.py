"""What a device argument denotes, and the names of vendors' devices that code spells out."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import libcst as cst

from torchlint.placement.events import DeviceName, DeviceText, Operand
from torchlint.placement.knowledge import torch_api
from torchlint.placement.syntax import (
    descendants,
    dotted,
    integer,
    parameters,
    string,
    words,
)
from torchlint.placement.values import (
    HOST,
    VENDORS,
    Alternative,
    Certainty,
    Kind,
    Place,
    Value,
    Where,
    place_named,
)

if TYPE_CHECKING:
    from torchlint.placement.definitions.records import Class, Function
    from torchlint.placement.evidence.scopes import Usage
    from torchlint.placement.interpreter import Interpreter

#: The fact of a choice that gives the type of a tensor's device: what is put there needs the index, too.
TYPE_OF_TENSOR = "type of tensor"


def device_places(
    run: Interpreter, operand: Operand, node: cst.CSTNode, *, sure: bool = True
) -> tuple[Alternative, ...]:
    """The places that a device argument denotes; `node` is the call that puts a tensor there.

    sure: the argument can be nothing but a device (it may be a dtype or a tensor where `.to(x)` gets it by position).
    """
    value = operand.value
    if "refused" in value.facts and value.ref in run.texts:
        run.emit(run.texts[value.ref])
    if value.kind is Kind.CONTEXT and value.name is None and value.places:
        run.emit(DeviceText(operand.node, run.scene, "", what="context"))
    if value.kind is Kind.STRING and value.name:
        return (named_place(value.name, node),)
    if value.kind is Kind.DEVICE and value.places:
        # A device that is the CPU since a tensor was there: that tensor is where it began.
        return tuple(
            Alternative(p.place, None, (p.origin or node) if p.place.is_host else node, p.guards)
            for p in value.places
        )
    if value.kind is Kind.TENSOR:
        return tuple(p._replace(rank=None, origin=node) for p in value.places)
    if value.kind is Kind.NONE:
        return (Alternative(HOST, None, node),)
    text = words(operand.node)
    if value.kind is Kind.UNKNOWN and run.frame.usage.assigned.get(text.partition(".")[0]):
        run.frame.unknown_devices.add(Place(Where.NAMED, text))
    if value.kind in (Kind.DEVICE, Kind.STRING, Kind.NUMBER) or sure or looks_like_device(operand.node):
        return (Alternative(Place(Where.NAMED, text, accelerator_number("", operand.node)), None, node),)
    return ()


def named_place(text: str, node: cst.CSTNode) -> Alternative:
    """The place that a device string denotes."""
    return Alternative(place_named(text), None, node)


def accelerator_number(vendor: str, node: cst.CSTNode | None) -> str:
    """The accelerator of a sort that a number in the code denotes; empty where it is no plain number."""
    number = integer(node) if isinstance(node, cst.BaseExpression) else None
    return "" if number is None else f"{vendor}:{number}"


def looks_like_device(node: cst.CSTNode) -> bool:
    """Whether an expression's last word speaks of a device; only used to tell a device from a dtype."""
    last = (dotted(node) or words(node)).rsplit(".", 1)[-1].lower()
    return any(w in last for w in ("device", "gpu", "cuda", "rank", "accelerator")) or last in ("dev", "d")


def is_vendor(text: str) -> bool:
    """Whether a device string names an accelerator."""
    return text.partition(":")[0] in VENDORS


def name_device(
    run: Interpreter, node: cst.CSTNode, value: Value, what: str, api: str, receiver: Value | None = None
) -> None:
    """Note a device literal where it is used; the event stands at the literal itself, if that is known."""
    if value.kind is Kind.STRING and value.name and is_vendor(value.name):
        literal = value.ref if isinstance(value.ref, cst.CSTNode) else node
        named = DeviceName(literal, run.scene, value.name.split(":")[0], what, api, receiver, literal=value.name)
        named.chosen = "formatted" in value.facts
        emit_device_name(run, named)
    elif what == "literal" and api != "torch.Generator" and TYPE_OF_TENSOR in value.facts:
        _note_type_of_tensor(run, value)
    elif (
        what == "literal"
        and "device type" in value.facts
        and api not in ("torch.device", "torch.Generator")
        and type(node) is cst.Attribute
    ):
        # The type of a device is the current one of its sort. Of a generator nothing but the type is asked
        # (ATen/core/Generator.h, `check_generator`): it serves tensors of every index.
        device = words(node.value)
        run.emit(DeviceName(node, run.scene, "cuda", "beside", api, at_hand="" if "…" in device else device))
    elif type(node) is cst.Call and type(node.func) is cst.Attribute and not node.args:
        asked = dotted(node.func.value)
        known = run.scene.asks_for_accelerator or any("get_device()" in c for c, _ in run.scene.conditions)
        if node.func.attr.value == "get_device" and asked is not None and not known and _is_tensor(run, asked):
            # https://docs.pytorch.org/docs/stable/generated/torch.Tensor.get_device.html: -1 for tensors on the CPU
            run.emit(DeviceName(node, run.scene, "cuda", "beside", "get_device", at_hand=f"{asked}.device"))


def _is_tensor(run: Interpreter, name: str) -> bool:
    """Whether a name is a tensor by more than that it is asked for the index of its device, as any class may be."""
    held = run.frame.parameters.get(name) or run.held(name, {})
    if held is not None and held.kind is not Kind.UNKNOWN and held.certainty is Certainty.KNOWN:
        return held.kind is Kind.TENSOR
    usage = run.frame.usage
    used = {attribute for attribute in usage.attributes.get(name, ()) if attribute.isidentifier()} - {"get_device"}
    if name in usage.called or not used <= torch_api.TENSOR_ATTRIBUTES:
        return False
    return bool(used - torch_api.MODULE_ATTRIBUTES) or bool(usage.torch_arguments.get(name))


def emit_device_name(run: Interpreter, named: DeviceName) -> None:
    """Let the event leave. One place without a guard is enough for a literal that is used in many."""
    born = run.literals.get(named.node)
    named.guarded = (
        named.scene.asks_for_accelerator
        or (born is not None and born.asks_for_accelerator)
        or works_with_others(run.frame.usage)
    )
    if born is None or born.function is named.scene.function:
        named.at_hand = device_at_hand(run)
    if named.what == "cuda()" and named.guarded and not named.chosen:
        _note_neighbour(run, named)
        _note_own_module(run, named)
    old = run.events.get((DeviceName, named.node))
    if isinstance(old, DeviceName) and old.guarded and not named.guarded:
        del run.events[(DeviceName, named.node)]
    run.emit(named)


def _note_neighbour(run: Interpreter, named: DeviceName) -> None:
    """`if x.is_cuda: y.cuda()` follows a tensor, and goes to the current device, not to that of `x`.

    What an object calls its own `is_cuda` is a flag of its own.
    """
    for text, truth in named.scene.conditions:
        flag = text.partition("'")[0]
        asked = _IS_CUDA.fullmatch(_bound_to(run, flag) if flag.isidentifier() else text)
        if truth and asked is not None and asked[1] != run.frame.self_name:
            named.what, named.guarded, named.at_hand = "beside", False, f"{asked[1]}.device"


def _bound_to(run: Interpreter, name: str) -> str:
    """The expression that a function binds a name to, if it does so once."""
    function = run.frame.function
    if function is None or run.frame.usage.assigned.get(name) != 1:
        return ""
    for node in descendants(function.node.body):
        if type(node) is cst.Assign and any(dotted(t.target) == name for t in node.targets):
            return words(node.value)
    return ""


def _note_own_module(run: Interpreter, named: DeviceName) -> None:
    """`if torch.cuda.is_available(): x = x.cuda()` in a method of a Module, which may be elsewhere all the same."""
    scene, itself = named.scene, run.frame.self_name
    owner = run.frame.function.owner if run.frame.function is not None else None
    if owner is None or not owner.is_module or not itself or scene.role == "init" or "flag" in scene.tests:
        return
    moved = named.receiver
    if (
        moved is not None
        and moved.kind is Kind.TENSOR
        and ("torch.cuda.is_available()", True) in scene.conditions
    ):
        named.what, named.guarded = "beside", False
        named.at_hand = named.at_hand or f"next({itself}.parameters()).device"


def is_type_of_tensor(node: cst.IfExp) -> bool:
    """Whether a choice is `"cuda" if x.is_cuda else "cpu"`, the device of `x` without its index."""
    return _chosen_for_tensor(node) is not None


def asks_for_cuda(test: cst.BaseExpression) -> str:
    """The tensor of which `x.is_cuda`, or `not x.is_cuda`, asks where it is; empty for any other test."""
    if type(test) is cst.UnaryOperation and type(test.operator) is cst.Not:
        test = test.expression
    asks = type(test) is cst.Attribute and test.attr.value == "is_cuda"
    return (dotted(test.value) or "") if asks and type(test) is cst.Attribute else ""


def _chosen_for_tensor(node: cst.IfExp | cst.If) -> tuple[cst.BaseExpression, str] | None:
    """The `"cuda"` that a choice gives where a tensor is on CUDA, and that tensor; None where it is another choice."""
    chosen: cst.CSTNode | None = node.orelse if type(node.test) is cst.UnaryOperation else node.body
    tensor = asks_for_cuda(node.test)
    if not tensor or chosen is None:
        return None
    if isinstance(chosen, cst.BaseExpression):
        given: list[cst.BaseExpression] = [chosen]
    else:
        given = [n.value for n in descendants(chosen) if type(n) is cst.Assign]
    texts = [_text_of_device(g) for g in given]
    return next(((t, tensor) for t in texts if t is not None and string(t) == "cuda"), None)


def _text_of_device(node: cst.BaseExpression) -> cst.BaseExpression | None:
    """The string in `"cuda"` and in `torch.device("cuda")`."""
    if type(node) is cst.Call and (dotted(node.func) or "").endswith("device") and len(node.args) == 1:
        return node.args[0].value
    return node if isinstance(node, cst.BaseString) else None


def follow_tensor(node: cst.If, taken: Value | None, skipped: Value | None) -> Value | None:
    """What a name holds that `if x.is_cuda:` binds to `"cuda"`, and that is the CPU otherwise; None if it is not so."""
    if taken is None or skipped is None or _chosen_for_tensor(node) is None:
        return None
    on_host = [_is_cpu(value) for value in (taken, skipped)]
    if sum(on_host) != 1 or {taken.kind, skipped.kind} - {Kind.STRING, Kind.DEVICE}:
        return None
    away = skipped if on_host[0] else taken
    if away.name != "cuda" and [p.place.accelerator for p in away.places] != ["cuda"]:
        return None
    place = Place(Where.NAMED, "device", "cuda")
    return Value(Kind.DEVICE, (Alternative(place, None, node),), facts=frozenset({TYPE_OF_TENSOR}))


def _is_cpu(value: Value) -> bool:
    return value.name == "cpu" if value.kind is Kind.STRING else value.on_host


def _note_type_of_tensor(run: Interpreter, value: Value) -> None:
    """What is put on the current CUDA device because a tensor is on CUDA, which may be another one."""
    for alternative in value.places:
        choice = alternative.origin
        chosen = _chosen_for_tensor(choice) if isinstance(choice, cst.IfExp | cst.If) else None
        if chosen is not None:
            literal, at_hand = chosen[0], f"{chosen[1]}.device"
            old = run.events.get((DeviceName, literal))
            if isinstance(old, DeviceName) and old.guarded:
                del run.events[(DeviceName, literal)]
            run.emit(
                DeviceName(literal, run.scene, "cuda", "beside", "is_cuda", literal="cuda", at_hand=at_hand)
            )


#: Functions of torch.distributed (and of helpers around it) that tell processes apart or join them: their tensors
#: are where the backend wants them.
_COLLECTIVE = frozenset(
    "all_reduce all_gather all_gather_into_tensor all_gather_object reduce_scatter reduce_scatter_tensor all_to_all"
    " broadcast_object_list is_dist_avail_and_initialized".split()
)


#: The text of a condition that asks whether a tensor is on CUDA; what is bound anew has its count behind it.
_IS_CUDA = re.compile(r"([A-Za-z_][\w.]*|next\([\w.]+\.parameters\(\)\))\.is_cuda(?:'\d+)?")


def works_with_others(usage: Usage) -> bool:
    """Whether a scope calls functions for work with many processes."""
    return any(
        name.rsplit(".", 1)[-1] in _COLLECTIVE or name.endswith(("dist.broadcast", "distributed.broadcast"))
        for name in usage.called
    )


def device_at_hand(run: Interpreter) -> str:
    """An expression for the device of something that the current function has anyway; empty where it has nothing.

    A name that the function binds anew, or moves itself, says nothing of where things are to go.
    """
    frame = run.frame
    for name, value in frame.parameters.items():
        if value.kind is Kind.DEVICE and name in ("device", "dev") and not frame.usage.assigned.get(name):
            return name
    given = _tensor_given(run)
    if given:
        return f"{given}.device"
    owner = frame.function.owner if frame.function is not None else None
    if owner is not None and frame.self_name and run.scene.role != "init":
        if owner.attribute("device") or owner.method("device"):
            return f"{frame.self_name}.device"
        if _has_accelerator(run, owner):
            return f"{frame.self_name}.accelerator.device"
    known = run.globals.get("device")
    return "device" if known is not None and known.kind in (Kind.DEVICE, Kind.STRING) else ""


#: What Accelerate's `Accelerator` offers (https://huggingface.co/docs/accelerate/package_reference/accelerator).
_OF_ACCELERATOR = frozenset(
    "device prepare backward gather gather_for_metrics unwrap_model is_main_process wait_for_everyone free_memory"
    " num_processes process_index autocast reduce".split()
)


def _has_accelerator(run: Interpreter, owner: Class) -> bool:
    """Whether the methods of a class use `self.accelerator` as one of Accelerate's."""
    return any(
        not _OF_ACCELERATOR.isdisjoint(run.usage.of(method.node).attributes.get("self.accelerator", ()))
        for method in owner.methods.values()
    )


def _tensor_given(run: Interpreter, *, rebound: bool = False) -> str:
    """The first parameter of the current function that is a tensor and stays where it is.

    rebound: its name may be bound to something else in the function.
    """
    usage = run.frame.usage
    for name, value in run.frame.parameters.items():
        if value.kind is Kind.TENSOR and value.certainty is not Certainty.GUESSED:
            bound = bool(usage.assigned.get(name)) and not rebound
            if not bound and usage.attributes.get(name, set()).isdisjoint(_MOVING):
                return name
    return ""


_MOVING = frozenset(["to", "cuda", "cpu"])


def note_available_type(run: Interpreter, node: cst.CSTNode, value: Value) -> None:
    """An autocast for what the machine has, where the code has the device at hand that is computed on."""
    if value.kind is not Kind.DEVICE or value.tests != {"accelerator"}:
        return
    if value.facts & {"torch.device", TYPE_OF_TENSOR}:
        return
    at_hand = device_at_hand(run)
    if not at_hand or (at_hand == "device" and "device" not in run.frame.parameters):
        return
    owner = run.frame.function.owner if run.frame.function is not None else None
    if owner is not None and at_hand.endswith("self.device"):
        own = owner.attributes.get("device")
        if own is not None and own.tests:
            return  # chosen by the same question
    run.emit(DeviceName(node, run.scene, "cuda", "beside", "available", at_hand=at_hand), "available")


def note_cuda_autocast(run: Interpreter, node: cst.CSTNode, name: str) -> None:
    """Mixed precision that is for CUDA alone by the name of its module."""
    if name.startswith("torch.cuda.amp."):
        emit_device_name(
            run, DeviceName(node, run.scene, "cuda", "api", "torch.cuda.amp.autocast", raises=False)
        )


def mark_decorator(run: Interpreter, decorator: cst.Decorator) -> None:
    """A decorator can't ask what the function is given for its device."""
    if DeviceName not in run.kinds:
        return
    for node in descendants(decorator.decorator):
        event = run.events.get((DeviceName, node))
        if isinstance(event, DeviceName) and event.what == "autocast":
            event.what = "autocast decorator"


def mark_default(run: Interpreter, parameter: cst.Param) -> None:
    """A device that is the default of a parameter: what the author has, and what who calls may say otherwise."""
    default, name = parameter.default, parameter.name.value
    assert default is not None
    for node in descendants(default) if DeviceName in run.kinds else ():
        event = run.events.get((DeviceName, node))
        if isinstance(event, DeviceName) and not _uses_device(event):
            event.what, event.api = "default", name
    text = string(default)
    if text is not None and is_vendor(text) and "device" in name.lower():
        run.emit(DeviceName(default, run.scene, text.split(":")[0], "default", name, literal=text))


def _uses_device(named: DeviceName) -> bool:
    """Whether CUDA is used on the spot, and not only named: in a default that is when the function is defined."""
    return named.what == "cuda()" or (named.what == "literal" and named.api not in ("", "torch.device"))


def name_tensor_type(run: Interpreter, node: cst.CSTNode, value: Value) -> None:
    """A constructor of CUDA tensors is handed on, as a parameter's default: `tensor=torch.cuda.FloatTensor`."""
    name = value.name or ""
    if value.kind is Kind.API and name.startswith("torch.cuda.") and name.endswith("Tensor"):
        emit_device_name(run, DeviceName(node, run.scene, "cuda", "tensor type", name))


def mark_field(run: Interpreter, field: cst.AnnAssign) -> None:
    """A device that is the default of a class's annotated field: who makes an instance may say otherwise."""
    for node in descendants(field.value) if field.value is not None and DeviceName in run.kinds else ():
        event = run.events.get((DeviceName, node))
        if isinstance(event, DeviceName) and not _uses_device(event):
            event.what, event.api = "default", dotted(field.target) or ""


def settle_defaults(run: Interpreter, function: Function) -> None:
    """Of a device that is a parameter's default: whether a tensor that is given along says better where things go.

    `def one_hot(x, device="cuda"): torch.full(…, device=device).scatter_(1, x)` wants the device of `x`.
    """
    for parameter in parameters(function.node):
        if parameter.default is None:
            continue
        for node in descendants(parameter.default):
            event = run.events.get((DeviceName, node))
            if isinstance(event, DeviceName) and event.what == "default":
                tensor = _tensor_given(run, rebound=True)
                places = any(
                    type(n) is cst.Arg and n.keyword is not None and n.keyword.value == "device"
                    and dotted(n.value) == parameter.name.value
                    for n in descendants(function.node.body)
                )  # fmt: skip
                event.at_hand = f"{tensor}.device" if tensor and places else ""
