"""Values of frameworks around torch, by the hand-written facts of `frameworks`: their classes, functions, methods."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from torchlint.placement.devices import name_device
from torchlint.placement.events import Backward, Call, Move, Use
from torchlint.placement.knowledge import frameworks
from torchlint.placement.knowledge.frameworks import Fact, Lives
from torchlint.placement.knowledge.library_facts import (
    CLASSIFICATION,
    METRICS_WITH_STATES,
    TRANSFORMS_WITH_STATES,
)
from torchlint.placement.syntax import descendants, words
from torchlint.placement.values import (
    DEFAULT,
    HOST,
    NO_FACTS,
    NUMBER,
    UNKNOWN,
    Alternative,
    Certainty,
    Kind,
    Place,
    Value,
    Where,
    sequence,
    tensor,
    union,
    with_rank,
)

if TYPE_CHECKING:
    from torchlint.placement.calls.arguments import Arguments
    from torchlint.placement.interpreter import Env, Interpreter

#: Methods that move, or that convert as `to(dtype)` does.
_MOVES = frozenset(["to", "cuda", "cpu", "half", "float", "double", "bfloat16"])
#: Arguments of `from_pretrained` by which the library places the model itself.
_PLACING_ARGUMENTS = frozenset(
    ["device_map", "quantization_config", "load_in_8bit", "load_in_4bit", "device"]
)


def framework_instance(name: str, places: tuple[Alternative, ...] = ()) -> Value | None:
    """An instance of a framework's class, by the class's qualified name; None where nothing is known of it.

    facts: `in place` where its `to` changes the object itself, `copies` where `to` returns another one.
    """
    found = frameworks.fact(name)
    if found is None or found.kind in (Kind.FUNCTION, Kind.NUMBER):
        return None
    facts = _move_facts(found)
    if found.moves_inputs and found.kind is Kind.MODULE:
        facts |= {"wrapped"}
    kept = places if found.kind in (Kind.MODULE, Kind.OBJECT, Kind.OWNED) else ()
    return Value(found.kind, kept, found.certainty, name=name, facts=facts)


def is_metric(value: Value) -> bool:
    """Whether a Module is a metric of torchmetrics."""
    found = frameworks.fact(value.name) if value.name is not None and value.ref is None else None
    return found is not None and found.what == "metric"


def _move_facts(found: Fact) -> frozenset[str]:
    if found.in_place_to is None:
        return NO_FACTS
    return frozenset({"in place" if found.in_place_to else "copies"})


def framework_call(
    run: Interpreter, name: str, node: cst.Call, arguments: Arguments, env: Env
) -> Value | None:
    """What a call of a framework's function or class gives; None where nothing is known of it."""
    if name.startswith("transformers.") and name.endswith(".BitsAndBytesConfig"):
        return Value(Kind.OBJECT, name="transformers.BitsAndBytesConfig", facts=quantised_to(arguments))
    if name.startswith(_HUBS) and name.endswith(_LOADING):
        _name_device_of_loaded(run, name, arguments)
    found = frameworks.fact(name)
    if found is None:
        return None
    if found.kind is not Kind.FUNCTION:
        accelerator = arguments.find("accelerator")
        if accelerator is not None and name.endswith(("Fabric", "Trainer")):
            name_device(run, accelerator.node, accelerator.value, "literal", name)
        return _instance(run, found, name, node, arguments)
    if found.instance:
        return _made(run, name.rpartition(".")[0], node, arguments)
    return _returned(run, found, node, arguments, None, name)


#: Libraries that load models, the calls that do, and what says that the model is one that CUDA alone runs.
_HUBS = ("transformers.", "diffusers.", "sentence_transformers.")
_LOADING = (".from_pretrained", ".pipeline", ".SentenceTransformer", ".CrossEncoder")
_OF_CUDA = ("quantization_config", "load_in_4bit", "load_in_8bit", "attn_implementation", "use_flash_attention_2")


def _name_device_of_loaded(run: Interpreter, name: str, arguments: Arguments) -> None:
    """Note the device that a model is loaded to: `from_pretrained(…, device_map="cuda")`."""
    if any(arguments.find(keyword) is not None for keyword in _OF_CUDA):
        return
    for keyword in ("device_map", "device"):
        given = arguments.find(keyword)
        if given is not None:
            name_device(run, given.node, given.value, "literal", name)


#: Transforms whose results need not be tensors of the host, whatever came before.
_OPEN_TRANSFORMS = ("Lambda", "ToPILImage", "ToDevice")


def _instance(run: Interpreter, found: Fact, name: str, node: cst.Call, arguments: Arguments) -> Value | None:
    """What constructing a framework's class gives."""
    made = framework_instance(name)
    if made is None:
        return None
    last = name.rsplit(".", 1)[-1]
    if (found.what == "metric" and last in METRICS_WITH_STATES) or (
        found.what == "transform" and found.kind is Kind.MODULE and last in TRANSFORMS_WITH_STATES
    ):
        return made.at(with_rank(_places(run, _CREATED, node, arguments, None), None))
    if found.kind is Kind.DATASET and last in CLASSIFICATION:
        transform = arguments.value("transform", 1 if last == "ImageFolder" else None)
        if transform is not None and "to tensor" in transform.facts:
            image = tensor(_places(run, _FROM_HOST, node, arguments, None), Certainty.KNOWN)
            label = NUMBER if arguments.find("target_transform") is None else UNKNOWN
            return made.but(element=sequence((image, label)))
    if name.startswith("torch_geometric.datasets.") and not _may_send(node) and not run.has_default_device:
        part = tensor(_places(run, _FROM_HOST, node, arguments, None), Certainty.INFERRED)
        return made.but(element=Value(Kind.OWNED, element=part, name=OF_GRAPHS, facts=frozenset({"in place"})))
    if last == "Compose":
        given = arguments.value("transforms", 0)
        steps = given.items if given is not None and given.items is not None else ()
        ends = [i for i, step in enumerate(steps) if _makes_tensor(step)]
        if ends and all(_is_plain_transform(step) for step in steps[ends[0] + 1 :]):
            return made.but(facts=made.facts | {"to tensor"})
    return made.but(facts=made.facts | {"to tensor"}) if _makes_tensor(made) else made


def _may_send(node: cst.Call) -> bool:
    """Whether a dataset may put its graphs on a device: a transform does that is told one (`T.ToDevice(device)`)."""
    given = [a.value for a in node.args if a.star or (a.keyword is not None and "transform" in a.keyword.value)]
    return any(
        type(value) is not cst.Call or any(type(n) is cst.Name and "evice" in n.value for n in descendants(value))
        for value in given
    )


#: What a graph holds as tensors
#: (https://pytorch-geometric.readthedocs.io/en/latest/generated/torch_geometric.data.Data.html).
OF_GRAPH = frozenset("x y edge_index edge_attr edge_weight pos adj_t".split())
#: The class of what datasets of graphs hold.
OF_GRAPHS = "torch_geometric.data.Data"


def _makes_tensor(step: Value) -> bool:
    return step.kind is Kind.OBJECT and (step.name or "").rsplit(".", 1)[-1] in _TO_TENSOR


#: They turn pictures of the host into tensors of the host.
_TO_TENSOR = frozenset(["ToTensor", "PILToTensor", "ToTensorV2"])


def _is_plain_transform(step: Value) -> bool:
    name = (step.name or "").rsplit(".", 1)[-1]
    return step.kind is Kind.OBJECT and name != "" and name not in _OPEN_TRANSFORMS


def framework_method(
    run: Interpreter, value: Value, name: str, node: cst.Call, arguments: Arguments
) -> Value | None:
    """What a method of a framework's object gives; None where nothing is known of it."""
    if value.name is None or value.ref is not None:
        return None
    if name == "backward" and arguments.positional:
        passed = arguments.positional[0]
        loss = passed.node if isinstance(passed.node, cst.BaseExpression) else None
        run.emit(Backward(node, run.scene, passed.value, owner=value.name, loss=loss))
        return UNKNOWN
    if name == "__call__" and "to tensor" in value.facts:
        made = tensor(_places(run, _FROM_HOST, node, arguments, None), Certainty.KNOWN)
        if not value.name.startswith("albumentations"):
            return made
        return Value(Kind.MAPPING, element=Value(), keys={"image": made})
    if name == "__call__" and _is_plain_transform(value) and arguments.positional:
        given = arguments.positional[0].value
        found = frameworks.fact(value.name)
        if given.kind is Kind.TENSOR and found is not None and found.what == "transform":
            return given.but(facts=given.facts - {"leaf", "parameter", "fresh"})
    if name in _MOVES and value.kind is Kind.OBJECT and type(node.func) is cst.Attribute:
        return _moved(run, value, name, node, node.func)
    found = frameworks.fact(f"{value.name}.{name}")
    if found is None or found.kind is not Kind.FUNCTION:
        return None
    if found.instance:
        return _made(run, value.name, node, arguments)
    return _returned(run, found, node, arguments, value, name)


def framework_attribute(value: Value, name: str, node: cst.Attribute) -> Value | None:
    """What an attribute of a framework's object holds; None where nothing is known of it."""
    if value.name is None or value.ref is not None:
        return None
    found = frameworks.fact(f"{value.name}.{name}")
    if found is None:
        return None
    if found.kind is Kind.FUNCTION:
        return None
    if found.kind is Kind.DEVICE:
        return Value(Kind.DEVICE, (Alternative(Place(Where.NAMED, words(node)), None, node),))
    return Value(found.kind, (), found.certainty, facts=_move_facts(found))


def _moved(run: Interpreter, value: Value, name: str, node: cst.Call, func: cst.Attribute) -> Value:
    moved = value.but(places=()) if "copies" in value.facts else value
    use = run.move_uses.get(node, Use.USED)
    run.emit(Move(node, run.scene, name, func.value, value, moved, name in ("to", "cuda", "cpu"), use=use))
    return moved


def _made(run: Interpreter, name: str, node: cst.Call, arguments: Arguments) -> Value | None:
    """What an alternative constructor of a class gives, such as `from_pretrained`."""
    made = framework_instance(name)
    if made is None or made.kind is not Kind.MODULE:
        return made
    if _PLACING_ARGUMENTS & arguments.named.keys():
        bits = quantised_to(arguments) if name.startswith("transformers.") else NO_FACTS
        return made.but(facts=made.facts | {"quantised"} | bits)
    if name.startswith("transformers.") and not arguments.unpacked:
        return made.at(with_rank(_places(run, _CREATED, node, arguments, None), None))
    return made


def quantised_to(arguments: Arguments) -> frozenset[str]:
    """To how many bits bitsandbytes quantises a model that `from_pretrained` or its config gets these arguments for."""
    config = arguments.value("quantization_config")
    if config is not None:
        return config.facts & {"8 bits", "4 bits"} if config.name else NO_FACTS  # it may be None
    for argument in ("load_in_8bit", "load_in_4bit"):
        given = arguments.value(argument)
        if given is not None and given.name == "True":
            return frozenset({f"{argument[8]} bits"})
    return NO_FACTS


def _given_back(found: Fact, arguments: Arguments) -> Value:
    """The arguments, moved and wrapped by the library where it does so (`prepare`)."""
    from torchlint.placement.methods.owned import prepared

    given = tuple(prepared(o.value) if found.moves_inputs else o.value for o in arguments.positional)
    return given[0] if len(given) == 1 else sequence(given)


def _without_places(value: Value) -> Value:
    return value.but(
        places=(),
        items=tuple(_without_places(i) for i in value.items) if value.items is not None else None,
        element=_without_places(value.element) if value.element is not None else None,
        keys={k: _without_places(v) for k, v in value.keys.items()} if value.keys else None,
    )


def _returned(
    run: Interpreter, found: Fact, node: cst.Call, arguments: Arguments, receiver: Value | None, name: str
) -> Value:
    """What calling a function or method gives, by its fact."""
    if any(name in arguments.named for name in found.not_with):
        return UNKNOWN
    if found.only_with is not None:
        keyword, wanted = found.only_with
        given = arguments.value(keyword)
        if given is None or given.name != wanted:
            return (
                Value(Kind.OWNED, name=_OWNED_NAMES.get(found.what))
                if found.returns is Kind.OWNED
                else UNKNOWN
            )
    if found.what == "move helper":
        called = name.rsplit(".", 1)[-1]
        run.emit(
            Call(node, run.scene, None, UNKNOWN, tuple(arguments.positional), name=called, helper="value")
        )
        return _without_places(_given_back(found, arguments))
    if found.returns_arguments:
        return _given_back(found, arguments)
    places = _places(run, found, node, arguments, receiver)
    kind = found.returns
    if kind is Kind.TENSOR:
        return tensor(places, found.certainty)
    if kind is Kind.OWNED:
        pictures = [arguments.value(name) for name in ("images", "videos")] + [o.value for o in arguments.positional]
        if "device" in found.not_with and any(v is not None and v.places for v in pictures):
            places = ()  # an image processor computes where its images are
        element = tensor(places, Certainty.INFERRED) if found.lives is not None else None
        return Value(Kind.OWNED, element=element, name=_OWNED_NAMES.get(found.what), facts=_move_facts(found))
    if kind is Kind.SEQUENCE:
        items = tuple(Value(k, places if k is Kind.TENSOR else (), found.certainty) for k in found.items)
        return sequence(items) if items else Value(Kind.SEQUENCE)
    if kind is Kind.DEVICE:
        return Value(Kind.DEVICE, (Alternative(Place(Where.NAMED, words(node)), None, node),))
    if kind is Kind.MODULE:
        facts = frozenset({"wrapped"}) if found.moves_inputs else NO_FACTS
        born = with_rank(_places(run, found, node, arguments, None), None) if found.lives is Lives.CREATED else ()
        return Value(Kind.MODULE, born, found.certainty, facts=facts)
    if kind is None and found.what == "of one kind" and arguments.positional:
        # What is rearranged keeps its elements, and a tensor of one dimension or more some dimension.
        given = arguments.positional[0].value
        if given.kind is Kind.TENSOR:
            whole = with_rank(places, 1 if all(p.rank == 1 for p in given.places) else None)
            return Value(Kind.TENSOR, whole, given.certainty, facts=given.facts & _OF_ELEMENTS)
    if kind is None:
        return Value(Kind.UNKNOWN, places, Certainty.INFERRED)
    return Value(
        kind, (), found.certainty, name=name if kind is Kind.OBJECT else None, facts=_move_facts(found)
    )


#: Facts of a tensor that say something of its elements.
_OF_ELEMENTS = frozenset({"mask", "grad", "cut", "float64", "assumed", "taken"})

#: The class that a word in a fact stands for, where a function returns an instance of it.
_OWNED_NAMES = {"batch": "transformers.BatchEncoding", "graph": OF_GRAPHS}


_FROM_HOST = Fact(Kind.FUNCTION, "", lives=Lives.HOST)
_CREATED = Fact(Kind.FUNCTION, "", lives=Lives.CREATED)


def _places(
    run: Interpreter, found: Fact, node: cst.Call, arguments: Arguments, receiver: Value | None
) -> tuple[Alternative, ...]:
    """Where the tensors live that a call gives."""
    if found.lives is Lives.HOST:
        return (Alternative(HOST, 1, node),)
    if found.lives is Lives.CREATED:
        if run.context_places is not None:
            return tuple(p._replace(rank=1, origin=node) for p in run.context_places)
        return (Alternative(DEFAULT if run.has_default_device else HOST, 1, node),)
    if found.lives is Lives.ARGUMENTS:
        places: tuple[Alternative, ...] = ()
        for operand in arguments.positional:
            places = union(places, tuple(p._replace(rank=None) for p in operand.value.places))
        return places
    if found.lives is Lives.MODULE and receiver is not None:
        return tuple(p._replace(rank=None) for p in receiver.places if not p.place.is_host)
    return ()
