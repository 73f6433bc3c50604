"""A call of a method, by the kind of its receiver."""

from __future__ import annotations

import re

import libcst as cst

from torchlint.placement.calls.arguments import Arguments, spread
from torchlint.placement.calls.operations import as_tensor_if_moved, mix
from torchlint.placement.definitions.classes import save_for_backward, start_analysis
from torchlint.placement.definitions.records import Class, Function
from torchlint.placement.events import (
    Operand,
)
from torchlint.placement.evidence.kinds import entry_of_batch
from torchlint.placement.hazards.loads import note_loaded, note_restored
from torchlint.placement.hazards.syncs import demand, demand_host, read_as_text
from torchlint.placement.hazards.wrappers import note_behind
from torchlint.placement.interpreter import Env, Interpreter
from torchlint.placement.knowledge.frameworks_bridge import framework_method, is_metric
from torchlint.placement.methods.containers import (
    array_method,
    device_method,
    mapping_method,
    sequence_method,
    string_method,
)
from torchlint.placement.methods.modules import (
    module_method,
    optimizer_method,
    register_modules,
    scaler_method,
)
from torchlint.placement.methods.moves import MOVES, PLACING, move, name_devices
from torchlint.placement.methods.owned import owned_method
from torchlint.placement.methods.tensors import tensor_method
from torchlint.placement.methods.unknowns import unknown_method
from torchlint.placement.syntax import dotted
from torchlint.placement.timeline import event_call
from torchlint.placement.torch_functions.distributions import distribution_method
from torchlint.placement.values import (
    DISTRIBUTION,
    UNKNOWN,
    Certainty,
    Kind,
    Value,
)


def method_call(
    run: Interpreter, node: cst.Call, func: cst.Attribute, receiver: Value, arguments: Arguments, env: Env
) -> Value:
    """`receiver.name(...)`."""
    name = func.attr.value
    sent = name in OF_MPI and receiver.kind in (Kind.UNKNOWN, Kind.OBJECT)
    if sent or (name == "step" and _is_environment(func.value)) or _PRIORITIES.search(name) is not None:
        # What an environment is told, or MPI sends, has to be on the host.
        need_on_host(run, arguments)
    if receiver.kind is Kind.OBJECT and receiver.name == "event":
        event_call(run, node, name)
        return Value(Kind.NUMBER) if name == "elapsed_time" else UNKNOWN
    if receiver.kind is Kind.OBJECT and receiver.name == DISTRIBUTION:
        return distribution_method(run, node, func, name, receiver, arguments)
    if name in _SHOWING and receiver.kind in (Kind.UNKNOWN, Kind.OBJECT, Kind.SEQUENCE, Kind.OWNED):
        for operand in arguments.all():
            if isinstance(operand.node, cst.BaseExpression):
                read_as_text(run, operand.node, operand.value, name)
    if name.startswith("load_"):
        for operand in arguments.positional:
            note_loaded(run, operand.node, name)
        if name == "load_state_dict" and arguments.positional:
            note_restored(run, receiver, func.value, arguments.positional[0].node)
    if name == "save_for_backward":
        save_for_backward(run, tuple(o.value for o in arguments.positional))
    if name == "register_modules" and isinstance(receiver.ref, Class):
        return register_modules(run, receiver.ref, arguments)
    note_behind(run, func, receiver, name)
    own = _own_method(receiver, name)
    if own is not None:
        from torchlint.placement.calls.dispatch import of_unmoved, project_call

        me = receiver if receiver.kind is Kind.MODULE and receiver.ref is not None else None
        if me is not None and (type(func.value) is cst.Name and func.value.value == run.frame.self_name):
            me = None
        result = project_call(run, own, node, arguments, env, me)
        if name in PLACING and receiver.kind in (Kind.MODULE, Kind.OBJECT):
            return receiver.at(()) if result.kind in (Kind.UNKNOWN, Kind.NONE) else result
        from torchlint.placement.definitions.classes import at_instance, given_to_others

        if isinstance(receiver.ref, Class) and dotted(func.value) != run.frame.self_name:
            result = given_to_others(result, receiver.ref)
        if receiver.kind is not Kind.MODULE:
            return result
        result = at_instance(result, receiver)
        return of_unmoved(result, receiver) if name == "forward" else result
    if receiver.kind is Kind.GENERATOR and name == "manual_seed":
        return receiver
    if name in ("to", "cuda"):
        name_devices(run, node, name, receiver, arguments)
    if receiver.kind is Kind.MODULE and (name == "generate" or (name == "update" and is_metric(receiver))):
        inputs = [*arguments.all(), *spread(node, arguments)]
        if name == "update":
            inputs = [Operand(o.node, as_tensor_if_moved(o.value), o.role) for o in inputs]
        mix(run, node, name, [Operand(func.value, receiver, "module"), *inputs])
    known = framework_method(run, receiver, name, node, arguments)
    if known is not None:
        return known
    handler = _BY_KIND.get(receiver.kind)
    if name == "is_pinned" and receiver.kind in (Kind.TENSOR, Kind.UNKNOWN):
        return Value(Kind.NUMBER, tests=frozenset({"flag"}))  # memory is pinned for an accelerator that is there
    if name == "type" and not arguments.all():
        return Value(Kind.STRING)
    if name in PLACING and receiver.kind is Kind.UNKNOWN:
        receiver = _entry(run, func.value, receiver)
    if name in PLACING and receiver.kind is Kind.DATASET and receiver.element is not None:
        env[dotted(func.value) or ""] = receiver.but(element=None)  # what it holds moves, or a copy does
    if name in MOVES and receiver.kind in (Kind.TENSOR, Kind.UNKNOWN, Kind.MODULE):
        return move(run, node, func, name, receiver, arguments, env)
    if receiver.kind in (Kind.OBJECT, Kind.DATASET) and isinstance(receiver.ref, Class):
        from torchlint.placement.calls.dispatch import call_value
        from torchlint.placement.language.expressions import attribute_of

        held = env.get(f"{dotted(func.value)}.{name}") or attribute_of(run, receiver, name, func, env)
        return call_value(run, held, node, arguments, env)
    if handler is not None:
        return handler(run, node, func, name, receiver, arguments, env)
    return UNKNOWN


def _entry(run: Interpreter, node: cst.BaseExpression, value: Value) -> Value:
    """An entry of a batch, `batch["labels"]`, that is moved: a tensor."""
    how = entry_of_batch(node, run.frame.usage)
    if not how:
        return value
    facts = value.facts | (run.part if how == "part" else frozenset())
    return value.but(kind=Kind.TENSOR, certainty=min(value.certainty, Certainty.INFERRED), facts=facts)


#: Methods of a communicator of mpi4py (https://mpi4py.readthedocs.io/en/stable/reference/mpi4py.MPI.Comm.html).
OF_MPI = frozenset("allreduce Allreduce bcast Bcast allgather Allgather Send Reduce Gather Scatter".split())
#: Methods of TensorBoard's writer and of progress bars that turn what they get into numbers or text
#: (torch/utils/tensorboard/_convert_np.py; tqdm.std.tqdm.set_postfix).
_SHOWING = frozenset(["add_scalar", "add_scalars", "set_postfix"])


#: Methods by which a replay buffer, whose tree is Python's, learns the priorities of what was drawn.
_PRIORITIES = re.compile(r"^(?:update|set)_(?:\w+_)?priorit(?:y|ies)$")
_ENVIRONMENT = re.compile(r"(?:^|_)(?:v?envs?|environment|game|gym|simulator|world)\d*(?:_|$)", re.IGNORECASE)


def need_on_host(run: Interpreter, arguments: Arguments) -> None:
    """What a call gets has to be on the host: a reason for each wait that brought it there."""
    for operand in arguments.all():
        demand(run, operand.value)
        demand_host(run, operand.node)


def _is_environment(receiver: cst.BaseExpression) -> bool:
    """Whether a receiver is called like the environment of reinforcement learning."""
    name = dotted(receiver)
    return name is not None and _ENVIRONMENT.search(name.rsplit(".", 1)[-1]) is not None


def _own_method(receiver: Value, name: str) -> Function | None:
    if isinstance(receiver.ref, Class) and receiver.kind in (
        Kind.MODULE,
        Kind.OBJECT,
        Kind.OPTIMIZER,
        Kind.CLASS,
        Kind.DATASET,
    ):
        cls: Class = receiver.ref
        if name in cls.attributes and name not in cls.methods:
            return None
        if cls.state == "new":
            start_analysis(cls)
        return cls.method(name)
    return None


_BY_KIND = {
    Kind.TENSOR: tensor_method,
    Kind.MODULE: module_method,
    Kind.OPTIMIZER: optimizer_method,
    Kind.SCALER: scaler_method,
    Kind.SEQUENCE: sequence_method,
    Kind.MAPPING: mapping_method,
    Kind.OWNED: owned_method,
    Kind.DEVICE: device_method,
    Kind.STRING: string_method,
    Kind.ARRAY: array_method,
    Kind.UNKNOWN: unknown_method,
    Kind.NONE: unknown_method,
}
