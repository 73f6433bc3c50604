"""Modules behind DataParallel and DistributedDataParallel: what the wrapper hides, and where it wants them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import libcst as cst

from torchlint.placement.calls.arguments import Arguments
from torchlint.placement.definitions.records import Class
from torchlint.placement.events import Behind, Event, Move, Parallel, Use
from torchlint.placement.knowledge import torch_api
from torchlint.placement.syntax import descendants, dotted, integer, mentions
from torchlint.placement.values import Alternative, Certainty, Kind, Value

if TYPE_CHECKING:
    from torchlint.placement.interpreter import Interpreter

#: The fact of a Module that DataParallel or DistributedDataParallel wraps, on some path at least.
BEHIND = "behind"
_HIDING = ("DataParallel", "DistributedDataParallel")
#: What the wrappers have of their own (torch/nn/parallel/data_parallel.py, distributed.py).
_OWN = frozenset(
    "module device_ids output_device dim src_device_obj replicate scatter gather parallel_apply device device_type"
    " device_mesh process_group no_sync join join_hook join_device join_process_group reducer logger static_graph"
    " register_comm_hook broadcast_buffers find_unused_parameters gradient_as_bucket_view mixed_precision to_kwargs"
    " require_backward_grad_sync require_forward_param_sync is_multi_device_module parameters_to_ignore modules_buffers"
    " named_module_buffers broadcast_bucket_size bucket_bytes_cap will_sync_module_buffers training".split()
)


def hides(api: str) -> bool:
    """Whether a wrapper hides the attributes of what it wraps; that of FSDP hands them on."""
    return api.rpartition(".")[2] in _HIDING


def note_behind(run: Interpreter, node: cst.Attribute, base: Value, attr: str) -> None:
    """An attribute is read of a wrapper that has none of this name."""
    if BEHIND not in base.facts or base.kind is not Kind.MODULE or attr.startswith("_"):
        return
    if attr in _OWN or attr in torch_api.MODULE_ATTRIBUTES or run.scene.expects_error or run.scene.caught:
        return
    name = dotted(node.value)
    if name is None or any(mentions(c, {name, name.partition(".")[0]}) for c, _ in run.scene.conditions):
        return
    always = "wrapped" in base.facts
    if not always and (_knows_wrappers(run) or _excluded(run) or _has_others(run)):
        return
    if attr not in run.usage.assigned_of_others:
        wrap = next(iter(run.wraps)) if len(run.wraps) == 1 else None
        run.emit(Behind(node, run.scene, attr, always, wrap))


def _knows_wrappers(run: Interpreter) -> bool:
    """Whether the file takes wrapped models apart somewhere: then who wraps, and when, is more than is seen here."""
    return "module" in run.usage.mentions


def _has_others(run: Interpreter) -> bool:
    """Whether the file imports a wrapper of the same name that is not torch's: apex's has methods of its own."""
    return any(
        type(node) is cst.ImportFrom
        and not isinstance(node.names, cst.ImportStar)
        and (dotted(node.module) or "" if node.module is not None else "").partition(".")[0] != "torch"
        and any(dotted(alias.name) in _HIDING for alias in node.names)
        for node in descendants(run.module)
    )


def _excluded(run: Interpreter) -> bool:
    """Whether a condition around says that nothing was wrapped."""
    return any((text, not truth) in run.scene.conditions for text, truth in run.wrapped_under)


def note_parallel(run: Interpreter, node: cst.Call, api: str, arguments: Arguments, module: Value) -> None:
    """DataParallel and DistributedDataParallel want a Module on the device where they compute with it.

    DataParallel wants it on the first of its devices (torch/nn/parallel/data_parallel.py: `DataParallel.forward`), and
    moves it there itself if that is the only one.
    """
    if run.scene.is_test or run.scene.caught or not hides(api):
        return
    ids = arguments.find("device_ids", 1)
    given = ids is not None and ids.value.kind is not Kind.NONE
    first, several = _first_of(ids.node) if ids is not None and given else (0, True)
    if api.endswith(".DistributedDataParallel"):
        if ids is not None and given:
            _note_distributed(run, node, ids.node, module)
        return
    at = _index_of(module)
    if first is not None and at is not None and at != first and several:
        run.emit(Parallel(node, run.scene, "elsewhere", first, at, module.origin))
    if (several or first is None) and _is_on_host(module):
        name = _bound_name(run, node)
        if name and name in run.frame.usage.called:
            run.emit(Parallel(node, run.scene, "unmoved", origin=module.origin, name=name))
    if isinstance(module.ref, Class):
        for held in _lists_in_forward(run, module.ref):
            run.emit(Parallel(node, run.scene, "list", read=held), held)
        for read in _reads_parameters(run, module.ref):
            run.emit(Parallel(node, run.scene, "parameters", read=read), read)


def _is_on_host(module: Value) -> bool:
    return module.kind is Kind.MODULE and module.certainty is Certainty.KNOWN and module.on_host


def _bound_name(run: Interpreter, node: cst.Call) -> str:
    """The local name that a wrapper is bound to, where nothing else gets it, by which it might be moved unseen."""
    statement = run.statement
    if type(statement) is not cst.Assign or statement.value is not node or len(statement.targets) != 1:
        return ""
    name, usage = dotted(statement.targets[0].target) or "", run.frame.usage
    given = name in usage.given or name in usage.call_arguments or name in usage.torch_arguments
    moved = usage.attributes.get(name, set()) & {"to", "cuda", "module", "apply"}
    return "" if "." in name or given or moved else name


def is_left_behind(event: Parallel, events: Iterable[Event]) -> bool:
    """Whether a function sends tensors to a device, and no Module, after it wrapped one on the CPU."""
    moves = [
        e for e in events if isinstance(e, Move) and e.moves_device and e.scene.function is event.scene.function
    ]
    return bool(moves) and all(m.value.kind in (Kind.TENSOR, Kind.UNKNOWN) and m.use is Use.USED for m in moves)


def _note_distributed(run: Interpreter, node: cst.Call, ids: cst.CSTNode, module: Value) -> None:
    """`device_ids` names the one device of a Module that is there (torch/nn/parallel/distributed.py: `__init__`)."""
    if not isinstance(ids, cst.List | cst.Tuple) or any(type(e) is cst.StarredElement for e in ids.elements):
        return
    if len(ids.elements) > 1:
        run.emit(Parallel(node, run.scene, "several"))
    elif ids.elements and _is_on_host(module):
        run.emit(Parallel(node, run.scene, "unplaced", origin=module.origin))


def _reads_parameters(run: Interpreter, cls: Class, depth: int = 0) -> list[cst.CSTNode]:
    """Where a Module's forward takes its own first parameter: a replica has none
    (torch/nn/parallel/replicate.py: `replicate`), so that `next(self.parameters())` raises StopIteration. Places
    in other files are left out."""
    forward = cls.method("forward")
    if forward is None or not forward.node.params.params or cls.run is not forward.run:
        return []
    own = forward.node.params.params[0].name.value
    bodies = [forward.node.body]
    for call in [n for n in descendants(forward.node.body) if type(n) is cst.Call]:
        called = dotted(call.func) or ""
        method = cls.method(called.removeprefix(f"{own}.")) if called.startswith(f"{own}.") else None
        if method is not None and method is not forward and method.run is forward.run:
            bodies.append(method.node.body)
    if forward.run is not run:
        bodies.clear()
    found: list[cst.CSTNode] = [n for body in bodies for n in descendants(body) if _takes_parameter(n, own)]
    if depth < 3 and not found:
        parts = (cls.attributes.get(name) for name in cls.registered)
        inner = (v.ref for v in parts if v is not None and isinstance(v.ref, Class) and v.ref is not cls)
        found = [n for part in inner for n in _reads_parameters(run, part, depth + 1)]
    return found[:1]


def _takes_parameter(node: cst.CSTNode, own: str) -> bool:
    """Whether a node is `next(self.parameters())`, or that of a part of the Module."""
    if type(node) is not cst.Call or dotted(node.func) != "next" or len(node.args) != 1:
        return False
    given = node.args[0].value
    name = dotted(given.func) if type(given) is cst.Call else None
    return name is not None and name.startswith(f"{own}.") and name.endswith(".parameters")


def note_wrapped_move(run: Interpreter, node: cst.Call, value: Value, target: tuple[Alternative, ...]) -> None:
    """A DataParallel is moved to another device than the first of its own."""
    first = next((fact for fact in value.facts if fact.startswith(f"{BEHIND} ")), None)
    at = _index_of(value.at(target))
    if first is not None and at is not None and at != int(first.split()[1]):
        run.emit(Parallel(node, run.scene, "elsewhere", int(first.split()[1]), at))


def first_device(arguments: Arguments) -> frozenset[str]:
    """The fact that says which device DataParallel wants its Module on, where it has several and that is known."""
    ids = arguments.find("device_ids", 1)
    first, several = _first_of(ids.node) if ids is not None and ids.value.kind is not Kind.NONE else (0, True)
    return frozenset({f"{BEHIND} {first}"}) if first is not None and several else frozenset()


def _first_of(ids: cst.CSTNode) -> tuple[int | None, bool]:
    """The first of the devices that a literal list names, and whether there are several."""
    if not isinstance(ids, cst.List | cst.Tuple) or not ids.elements:
        return None, False
    return integer(ids.elements[0].value), len(ids.elements) > 1


def _index_of(module: Value) -> int | None:
    """The number of the accelerator that a Module was put on, where the code spells it out."""
    if len(module.places) != 1:
        return None
    number = module.places[0].place.accelerator.partition(":")[2]
    return int(number) if number.isdigit() else None


def _lists_in_forward(run: Interpreter, cls: Class) -> list[cst.CSTNode]:
    """Where `forward` reads a plain list of the Module's submodules: replicas share it with the original."""
    forward = cls.method("forward")
    if forward is None or forward.run is not run or not forward.node.params.params:
        return []
    own = forward.node.params.params[0].name.value
    found: list[cst.CSTNode] = []
    for node in descendants(forward.node.body):
        if type(node) is cst.Attribute and dotted(node.value) == own:
            known = cls.attribute(node.attr.value)
            if known is None or node.attr.value in known[0].registered:
                continue
            value = known[1]
            inner = value.element if value.kind is Kind.SEQUENCE else None
            if inner is not None and inner.kind is Kind.MODULE:
                found.append(node)
    return found[:1]
