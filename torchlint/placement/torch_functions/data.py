"""Datasets, loaders, checkpoints and packed sequences."""

from __future__ import annotations

from dataclasses import replace

import libcst as cst

from torchlint.placement.calls.arguments import Arguments
from torchlint.placement.calls.operations import emit_host_only
from torchlint.placement.devices import (
    device_at_hand,
    device_places,
    name_device,
)
from torchlint.placement.events import (
    Build,
    Load,
    Pin,
    Save,
)
from torchlint.placement.hazards.generators import note_sampling
from torchlint.placement.hazards.loads import (
    is_count_of_run,
    is_downloaded,
    is_given_from_table,
    is_published,
    is_saved_from_host,
    is_saved_on_host,
    is_shipped,
    path_of,
    texts_of,
)
from torchlint.placement.hazards.syncs import demand_host
from torchlint.placement.interpreter import Env, Interpreter
from torchlint.placement.syntax import words
from torchlint.placement.timeline import read_pending
from torchlint.placement.torch_functions.registry import api
from torchlint.placement.values import (
    HOST,
    NO_FACTS,
    UNKNOWN,
    Alternative,
    Certainty,
    Kind,
    Value,
    element_of,
    sequence,
    tensor,
    with_rank,
)

#: What reads a file, rather than what an address names.
_OF_FILES = frozenset(["torch.load", "torch.jit.load"])


@api("torch.load", "torch.hub.load_state_dict_from_url", "torch.utils.model_zoo.load_url", "torch.jit.load")
def _load(run: Interpreter, name: str, node: cst.Call, arguments: Arguments, env: Env) -> Value:
    position = 1 if name in _OF_FILES else 2
    mapped = arguments.find("map_location", position)
    spread = any(arg.star == "**" for arg in node.args)  # of a mapping that a branch left empty, too
    known = mapped is not None or spread or bool(arguments.starred)
    path = arguments.find("f", 0) or arguments.find("url", 0)
    what = path_of(path.node) if path is not None else ""
    shipped = path is not None and is_shipped(run, path.node)
    texts = texts_of(run, path.node) if path is not None and not known else frozenset()
    event = Load(node, run.scene, name, known, what, device_at_hand(run), shipped=shipped, texts=texts)
    event.trained = run.frame.trained
    if not known and path is not None:
        event.published = is_published(run, path.node) or is_downloaded(run, texts)
        event.published |= name not in _OF_FILES and is_given_from_table(run, path.node)
        event.of_host = name == "torch.load" and (is_saved_on_host(run) or is_saved_from_host(run, what))
    run.emit(event)
    if mapped is not None:
        name_device(run, mapped.node, mapped.value, "literal", name)
        places = device_places(run, mapped, node)
        if name == "torch.load" and places and all(p.place.is_host for p in places):
            return Value(Kind.UNKNOWN, places, Certainty.INFERRED)
    return Value(Kind.UNKNOWN)


@api("torch.onnx.operators.shape_as_tensor", "torch._shape_as_tensor")
def _shape(run: Interpreter, name: str, node: cst.Call, arguments: Arguments, env: Env) -> Value:
    """The shape of a tensor, which is on the host (aten/src/ATen/native/TensorShape.cpp: `_shape_as_tensor`)."""
    return tensor((Alternative(HOST, 1, node),))


@api("torch.utils.data.DataLoader", "torch.utils.data.dataloader.DataLoader")
def _loader(run: Interpreter, name: str, node: cst.Call, arguments: Arguments, env: Env) -> Value:
    from torchlint.placement.hazards.workers import note_workers
    from torchlint.placement.knowledge.libraries import batch_of

    dataset = arguments.value("dataset", 0) or UNKNOWN
    run.emit(Build(node, run.scene, "loader", name, dataset, tuple(arguments.positional), arguments.values()))
    pinned = arguments.find("pin_memory")
    if pinned is not None and words(pinned.node) == "True":
        run.emit(Pin(node, run.scene, dataset), "loader")
    note_workers(run, node, dataset, arguments)
    note_sampling(run, node, "DataLoader", arguments, dataset)
    element = batch_of(run, dataset, arguments, node)
    own = not {"collate_fn", "batch_sampler"} & arguments.named.keys() and not arguments.may_have(
        "collate_fn"
    )
    facts = (
        frozenset({"collates"})
        if own and dataset.kind is not Kind.OWNED and len(arguments.positional) < 7
        else NO_FACTS
    )
    return Value(Kind.LOADER, element=element, ref=dataset.ref, facts=facts)


@api("torch.utils.data.TensorDataset", "torch.utils.data.dataset.TensorDataset")
def _tensor_dataset(run: Interpreter, name: str, node: cst.Call, arguments: Arguments, env: Env) -> Value:
    rows = tuple(
        element_of(o.value) if o.value.kind is Kind.TENSOR else UNKNOWN for o in arguments.positional
    )
    return Value(Kind.DATASET, element=sequence(rows), name=name)


@api("torch.utils.data.Subset", "torch.utils.data.dataset.Subset")
def _subset(run: Interpreter, name: str, node: cst.Call, arguments: Arguments, env: Env) -> Value:
    return arguments.value("dataset", 0) or UNKNOWN


@api("torch.utils.data.random_split", "torch.utils.data.dataset.random_split")
def _random_split(run: Interpreter, name: str, node: cst.Call, arguments: Arguments, env: Env) -> Value:
    note_sampling(run, node, "random_split", arguments, UNKNOWN)
    return sequence(element=arguments.value("dataset", 0) or UNKNOWN)


@api("torch.utils.data.RandomSampler", "torch.utils.data.sampler.RandomSampler")
def _random_sampler(run: Interpreter, name: str, node: cst.Call, arguments: Arguments, env: Env) -> Value:
    note_sampling(run, node, "RandomSampler", arguments, UNKNOWN)
    return UNKNOWN


@api(
    "torch.distributed.fsdp.FullStateDictConfig",
    "torch.distributed.fsdp.ShardedStateDictConfig",
    "torch.distributed.checkpoint.state_dict.StateDictOptions",
)
def _state_options(run: Interpreter, name: str, node: cst.Call, arguments: Arguments, env: Env) -> Value:
    offloads = arguments.find("offload_to_cpu", 0) or arguments.find("cpu_offload")
    if offloads is not None and words(offloads.node) != "False":
        run.emit(Build(node, run.scene, "offloaded state", name, UNKNOWN))
    return UNKNOWN


@api("torch.save", "torch.jit.save")
def _save(run: Interpreter, name: str, node: cst.Call, arguments: Arguments, env: Env) -> Value:
    path = arguments.find("f", 1)
    saved = arguments.value("obj", 0) or UNKNOWN
    given = arguments.find("obj", 0)
    counts = given is not None and is_count_of_run(run, given.node)
    what, texts = (path_of(path.node), texts_of(run, path.node)) if path is not None else ("", frozenset())
    run.emit(Save(node, run.scene, saved, what, counts, texts))
    for value in (saved, saved.element or UNKNOWN, *(saved.keys or {}).values()):
        read_pending(run, node, "torch.save", value)
    run.timeline.waits()
    return UNKNOWN


@api("torch.nn.utils.rnn.pack_padded_sequence", "torch.nn.utils.rnn.pack_sequence")
def _pack(run: Interpreter, name: str, node: cst.Call, arguments: Arguments, env: Env) -> Value:
    lengths = arguments.find("lengths", 1)
    if lengths is not None:
        demand_host(run, lengths.node)
        value = lengths.value
        if value.kind is Kind.UNKNOWN and any(f.startswith("like:") for f in value.facts):
            # A tensor or a list: the callers know.
            value = value.but(kind=Kind.TENSOR, facts=value.facts | {"perhaps"})
        emit_host_only(run, node, "pack_padded_sequence", replace(lengths, value=value))
    given = arguments.value("input", 0) or arguments.value("sequences", 0) or UNKNOWN
    return Value(Kind.UNKNOWN, given.places, Certainty.INFERRED, name="PackedSequence")


@api("torch.nn.utils.rnn.pad_packed_sequence")
def _pad_packed(run: Interpreter, name: str, node: cst.Call, arguments: Arguments, env: Env) -> Value:
    given = arguments.value("sequence", 0) or UNKNOWN
    padded = Value(Kind.TENSOR, with_rank(given.places, 1), Certainty.INFERRED, facts=frozenset({"grad"}))
    return sequence((padded, tensor((Alternative(HOST, 1, node),))))


@api("torch.nn.utils.rnn.pad_sequence")
def _pad(run: Interpreter, name: str, node: cst.Call, arguments: Arguments, env: Env) -> Value:
    given = arguments.value("sequences", 0) or UNKNOWN
    inner = element_of(given)
    return Value(
        Kind.TENSOR, with_rank(inner.places, 1) if inner.kind is Kind.TENSOR else (), Certainty.INFERRED
    )
