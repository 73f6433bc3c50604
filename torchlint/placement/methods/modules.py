"""Methods of Modules, optimizers and gradient scalers."""

from __future__ import annotations

import libcst as cst

from torchlint.placement.calls.arguments import Arguments
from torchlint.placement.definitions.classes import register
from torchlint.placement.definitions.records import Class
from torchlint.placement.events import (
    Build,
    Scaler,
    Step,
)
from torchlint.placement.hazards.buffers import note_computed_buffer
from torchlint.placement.hazards.late_layers import note_late
from torchlint.placement.hazards.syncs import emit_sync
from torchlint.placement.interpreter import Env, Interpreter
from torchlint.placement.syntax import dotted, string
from torchlint.placement.values import (
    NUMBER,
    UNKNOWN,
    Certainty,
    Kind,
    Value,
    join,
    sequence,
    tensor,
    with_rank,
)


def register_modules(run: Interpreter, owner: Class, arguments: Arguments) -> Value:
    """`self.register_modules(vae=vae)` of a diffusers pipeline sets the attributes of these names."""
    method = run.frame.function.name if run.frame.function is not None else ""
    for attribute, value in arguments.values().items():
        value = value if run.may_note_on(owner) else UNKNOWN
        old = owner.attributes.get(attribute)
        owner.attributes[attribute] = value if old is None else join(old, value)
        owner.assigned_in[attribute].add(method)
    return UNKNOWN


#: Methods of every Module that placement knows; another name is an attribute that is called.
_MODULE_METHODS = frozenset(
    "register_buffer register_parameter add_module register_module parameters buffers named_parameters named_buffers"
    " children modules named_children named_modules eval train requires_grad_ apply share_memory compile state_dict"
    " forward generate items values keys append extend insert load_state_dict zero_grad".split()
)


def switch_mode(run: Interpreter, name: str, arguments: Arguments) -> None:
    """`model.eval()`, `model.train()`: what follows evaluates, or trains."""
    given = arguments.positional[0].node if arguments.positional else None
    off = given is not None and dotted(given) == "False"
    run.scene = run.scene._replace(evaluating=name == "eval" or off)


def module_method(
    run: Interpreter,
    node: cst.Call,
    func: cst.Attribute,
    name: str,
    value: Value,
    arguments: Arguments,
    env: Env,
) -> Value:
    owner = value.ref
    if isinstance(owner, Class) and name not in _MODULE_METHODS:
        from torchlint.placement.calls.dispatch import call_value
        from torchlint.placement.language.expressions import attribute

        return call_value(run, attribute(run, func, env), node, arguments, env)
    if name in ("register_buffer", "register_parameter") and len(arguments.positional) >= 1:
        given = arguments.value("tensor", 1) or arguments.value("param", 1) or UNKNOWN
        text = string(arguments.positional[0].node)
        kind = Kind.TENSOR if given.kind in (Kind.UNKNOWN, Kind.NONE, Kind.TENSOR) else given.kind
        stored = given.but(
            kind=kind, facts=given.facts | {"parameter" if name.endswith("parameter") else "buffer"}
        )
        note_late(run, node, func.value, value, stored)
        if isinstance(owner, Class) and text is not None:
            register(run, owner, text, stored, "buffer" if name.endswith("buffer") else "parameter", node)
        elif isinstance(owner, Class) and name.endswith("buffer"):
            note_computed_buffer(run, owner, arguments.positional[0].node, given)
        return UNKNOWN
    if name in ("add_module", "register_module") and isinstance(owner, Class) and arguments.positional:
        text = string(arguments.positional[0].node)
        given = arguments.value("module", 1) or UNKNOWN
        if text is not None:
            register(run, owner, text, given.but(kind=Kind.MODULE), "module", node)
        else:
            owner.registered.add("*")
        return UNKNOWN
    if name in ("parameters", "buffers"):
        facts = frozenset({"parameter", "leaf", "grad"}) if name == "parameters" else frozenset({"buffer"})
        inner = tensor(with_rank(value.places, 1), value.certainty, facts)
        return sequence(element=inner.but(name=dotted(func.value)))
    if name in ("named_parameters", "named_buffers"):
        inner = tensor(with_rank(value.places, 1), value.certainty, frozenset({"parameter", "leaf", "grad"}))
        return sequence(element=sequence((Value(Kind.STRING), inner)))
    if name in ("children", "modules"):
        return sequence(element=Value(Kind.MODULE, value.places, value.certainty))
    if name in ("named_children", "named_modules"):
        return sequence(
            element=sequence((Value(Kind.STRING), Value(Kind.MODULE, value.places, value.certainty)))
        )
    if name in ("eval", "train"):
        switch_mode(run, name, arguments)
        return value
    if name in ("requires_grad_", "apply", "share_memory", "compile"):
        return value
    if name == "state_dict":
        inner = tensor(tuple(p for p in value.places), Certainty.KNOWN, frozenset({"state"}))
        return Value(Kind.MAPPING, element=inner)
    if name == "forward":
        from torchlint.placement.calls.dispatch import call_module

        return call_module(run, value, node, arguments, env)
    if name == "generate" and not GENERATION.isdisjoint(arguments.named):  # others' may well give arrays
        return tensor(tuple(p for p in value.places if not p.place.is_host), Certainty.INFERRED)
    if name in EMBEDDINGS:
        return Value(Kind.MODULE, value.places, Certainty.INFERRED)
    if name in ("items", "values", "keys"):
        return sequence(element=value.element or UNKNOWN)
    if name in ("append", "extend", "insert") and arguments.positional:
        return UNKNOWN
    return UNKNOWN


def optimizer_method(
    run: Interpreter,
    node: cst.Call,
    func: cst.Attribute,
    name: str,
    value: Value,
    arguments: Arguments,
    env: Env,
) -> Value:
    if name == "step":
        run.emit(Step(node, run.scene, value))
    elif name == "load_state_dict":
        run.emit(Build(node, run.scene, "optimizer state", name, value))
    return UNKNOWN


def scaler_method(
    run: Interpreter,
    node: cst.Call,
    func: cst.Attribute,
    name: str,
    value: Value,
    arguments: Arguments,
    env: Env,
) -> Value:
    if name in ("scale", "unscale_", "step", "update"):
        run.emit(Scaler(node, run.scene, name, value, dotted(func.value) or ""))
    if name == "scale":
        given = arguments.value("outputs", 0) or UNKNOWN
        scaled = frozenset() if "off" in value.facts else frozenset({"scaled"})
        return given.but(
            kind=Kind.TENSOR, facts=given.facts | scaled, certainty=min(given.certainty, Certainty.INFERRED)
        )
    if name == "get_scale":
        emit_sync(run, node, "get_scale", Value(Kind.TENSOR, certainty=value.certainty), hidden=True)
    if name in ("get_scale", "state_dict"):
        return NUMBER
    return UNKNOWN


#: Methods of transformers' models that give a Module
#: (https://huggingface.co/docs/transformers/main/en/main_classes/model), and arguments that only its `generate` has
#: (https://huggingface.co/docs/transformers/main/en/main_classes/text_generation).
EMBEDDINGS = frozenset(["get_input_embeddings", "get_output_embeddings"])


GENERATION = frozenset(
    "max_new_tokens num_beams do_sample pad_token_id eos_token_id num_return_sequences".split()
)
