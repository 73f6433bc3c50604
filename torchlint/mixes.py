"""What the rules on mixed devices have in common: how sure a mix is, what is said of it, and how it is mended."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import libcst as cst

from torchlint.findings import Confidence, Safety
from torchlint.placement.definitions.substitution import is_open
from torchlint.placement.events import Create, Mix, Move
from torchlint.placement.evidence.sharing import is_shared
from torchlint.placement.syntax import dotted, integer, parameters
from torchlint.placement.values import Alternative, Certainty, Kind, Value, Where
from torchlint.rule import NodeEdit, NodeFix, Note, RuleContext, confidence_of, weakest

if TYPE_CHECKING:
    from torchlint.placement.scene import Scene

#: Roles whose code gets batches and runs on the accelerator whenever there is one.
COMPUTING = frozenset(["forward", "loss", "step"])
#: Roles whose code runs on the host by right.
_HOST_ROLES = frozenset(["data", "test"])

#: Factories whose result is the same wherever it is made; those that draw give other numbers elsewhere.
_TAKES_DEVICE = frozenset(
    f"torch.{name}"
    for name in "zeros ones empty full arange eye linspace logspace tensor as_tensor range tril_indices triu_indices"
    " hann_window hamming_window blackman_window bartlett_window kaiser_window scalar_tensor".split()
)


#: What asks whether code is traced or exported rather than run.
_TRACING = re.compile(r"is_tracing|is_scripting|in_onnx_export|fx_proxy|is_compiling|is_exporting|_dynamo")


def is_hot(scene: Scene) -> bool:
    """Whether code runs once a batch beside the accelerator's work."""
    return scene.hot or (scene.role in COMPUTING and (scene.role != "step" or scene.stepwise))


#: Factories whose positional arguments are sizes.
_TAKES_SIZES = frozenset(f"torch.{name}" for name in "zeros ones empty full rand randn Tensor FloatTensor".split())


class Origins:
    """How tensors came to be where they are: the creations and moves of a file, by node."""

    def __init__(self) -> None:
        self.created: dict[cst.CSTNode, Create] = {}
        self.moved: dict[cst.CSTNode, Move] = {}

    def note(self, event: Create | Move) -> None:
        """Remember an event."""
        if isinstance(event, Create):
            self.created[event.node] = event
        else:
            self.moved[event.node] = event


def confidence_in(mix: Mix, origins: Origins) -> Confidence | None:
    """How sure it is that a mix fails; None where its code belongs on the host."""
    scene = mix.scene
    (accused, host), (witness, other) = mix.host, mix.other
    if scene.role in _HOST_ROLES or scene.is_test or scene.converts:
        return None
    if scene.role == "init" and other.place.where is Where.OF_MODULE:
        return None  # nobody can have moved it yet
    sure = weakest(confidence_of(accused.value.certainty), confidence_of(witness.value.certainty))
    if any(truth and _TRACING.search(condition) for condition, truth in scene.conditions):
        return Confidence.POSSIBLE  # a graph is traced, and its values have no place
    if "assumed" in witness.value.facts or is_open(host):
        return Confidence.POSSIBLE
    if _is_off_by_default(scene) and not mix.confirmed:
        return Confidence.POSSIBLE
    create = origins.created.get(host.origin) if host.origin is not None else None
    in_module = getattr(scene.owner, "is_module", False)
    if accused.value.kind is Kind.MODULE and other.place.where is Where.OF_CALLER and not (
        in_module or _is_for_others(mix)
    ):
        return Confidence.POSSIBLE  # a Module that nothing moves rather runs on tensors of the CPU
    if witness.value.kind is Kind.MODULE and other.place.where is Where.OF_CALLER and not mix.confirmed:
        local = create is not None and create.scene.function is scene.function
        if not local or not (is_hot(scene) or mix.asked):
            return Confidence.POSSIBLE  # a Module that is handed in may have just been built, and data is on the CPU
    if any(o.value.kind is Kind.MODULE and "behind" in o.value.facts for o in (accused, witness)):
        return Confidence.POSSIBLE  # DataParallel moves what it gets
    if other.place.where in (Where.OF_MODULE, Where.OF_CALLER) and _is_sent_by_option(mix):
        return None
    if other.place.where is Where.OF_CALLER and _SAVED.search(other.place.name):
        return Confidence.POSSIBLE  # what was saved is rather read to the CPU
    if host.through is not None and in_module and not _is_kept_apart(mix, origins):
        return Confidence.POSSIBLE
    if _hangs_on_flags(mix):
        return Confidence.POSSIBLE
    if "mixed" in witness.value.facts:
        return Confidence.POSSIBLE  # what made it raises already, and how that is mended decides where it is
    if mix.follows and create is not None and create.why == "default":
        return Confidence.POSSIBLE  # the programs that run this on an accelerator make it the default device
    if other.place.where not in (Where.NAMED, Where.DEFAULT) and _is_on_purpose(mix, create):
        return Confidence.POSSIBLE
    if host.through is not None and _has_no_forward(scene):
        return Confidence.POSSIBLE
    if create is not None and is_empty(create) and (host.through is not None or mix.api not in _JOINS):
        return Confidence.POSSIBLE  # an attribute until something is put there; a stand-in that only a join has use for
    move = origins.moved.get(host.origin) if host.origin is not None else None
    if move is not None and other.place.where not in (Where.NAMED, Where.DEFAULT):
        left = {p.place for p in move.value.places} if move.scene.function is scene.function else ()
        if other.place not in left:
            return Confidence.POSSIBLE  # sent to the CPU on purpose: rather the other one is there, too
    return weakest(sure, _confidence_in_place(other, mix, create))


def _is_off_by_default(scene: Scene) -> bool:
    """Whether code runs only where a caller asks for it, by a parameter that is False otherwise.

    Where a number or None is the default, to pass another one is what the function is for.
    """
    function = scene.function
    if function is None:
        return False
    off = {p.name.value for p in parameters(function) if p.default is not None and dotted(p.default) == "False"}
    return any(truth and text in off for text, truth in scene.conditions)


def _is_kept_apart(mix: Mix, origins: Origins) -> bool:
    """Whether a Module's method is seen to keep something where the Module does not see it: a tensor that is made or
    moved, or Modules in a container that nobody else gets. The weight of a Module is a Parameter."""
    accused, host = mix.host
    if accused.value.kind is not Kind.MODULE:
        return host.origin in origins.created or host.origin in origins.moved
    if not isinstance(host.through, cst.Attribute):
        return True
    name, lineage = host.through.attr.value, mix.scene.owner.lineage()  # type: ignore[attr-defined]
    return not any(is_shared(cls.node, name) for cls in lineage)


#: What arguments are called that hold what a checkpoint held.
_SAVED = re.compile(r"^(?:\w+_)?(?:state_?dict|checkpoint|ckpt|pretrained_weights)$|^loaded_")


def _is_sent_by_option(mix: Mix) -> bool:
    """Whether an option of the program sends the accused to a device: it rather moves the model and the batch, too."""
    accused, host = mix.host
    without = {text for text, truth in host.guards if not truth and not text.endswith(" Is None")}
    return any(
        p.place.where is Where.NAMED and not p.place.is_host and any(t in without for t, truth in p.guards if truth)
        for p in accused.value.places
    )


def _hangs_on_flags(mix: Mix) -> bool:
    """Whether one flag has to put the accused on the CPU, and another one the witness where it is.

    Nothing says that a run sets both, and each operand is elsewhere without its own.
    """
    (accused, host), (witness, other) = mix.host, mix.other
    if not host.guards or not other.guards:
        return False
    if accused.value.on_host or all(p.place == other.place for p in witness.value.places):
        return False
    flags = {text for text, _ in host.guards | other.guards if not text.endswith(" Is None")}
    return len(flags) > 1


def _is_for_others(mix: Mix) -> bool:
    """Whether a function that a library offers hands a model that it made on, beside its caller's tensor as it came."""
    value = mix.other[0].value
    as_given = value.certainty is Certainty.KNOWN and any(fact.startswith("like:") for fact in value.facts)
    handed_on = mix.within is not None and mix.api != "forward"
    return mix.scene.offered and handed_on and as_given


def _is_on_purpose(mix: Mix, create: Create | None) -> bool:
    """Whether the code itself says that the accused is on the CPU, or an object keeps a Module that others may move."""
    accused, host = mix.host
    if accused.value.kind is Kind.MODULE and host.through is not None:
        return True
    if create is not None:
        return create.why == "explicit" or "pinned" in accused.value.facts  # only what is on the CPU is pinned
    # A copy, or a device that is the CPU; a tokenizer's output or a loader's batch was never asked to be there.
    node = host.origin
    return isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute) and node.func.attr.value in _SENDING


def _has_no_forward(scene: Scene) -> bool:
    """Whether a Module's method computes, and none of it is called in a model: who gives it what is not known."""
    owner = scene.owner
    if is_hot(scene) or owner is None or not getattr(owner, "is_module", False):
        return False
    known = all(b.ref is not None or b.name == "torch.nn.Module" for c in owner.lineage() for b in c.bases)  # type: ignore[attr-defined]
    return known and owner.method("forward") is None  # type: ignore[attr-defined]


#: Operations that take a tensor without elements as well.
_JOINS = frozenset("cat concat concatenate stack vstack hstack dstack masked index masked_assignment".split())

#: What puts a tensor on the CPU because it is told to.
_SENDING = frozenset("to cpu copy_ type device cuda".split())

#: Functions with these words in their names turn tensors into files, text or pictures, or data into tensors.
_FOR_PEOPLE = re.compile(
    r"^log_|(?:^|_)(?:write|save|dump|export|plot|show|draw|visuali[sz]e|print|read|load|parse"
    r"|state_dict|checkpoint|ckpt|convert|upgrade|collate)(?:_|$)|(?:^|_)(?:format|make|build|get|assemble)_(?:\w+_)?batch$"
)


def _confidence_in_place(other: Alternative, mix: Mix, create: Create | None) -> Confidence:
    scene = mix.scene
    if other.place.where in (Where.NAMED, Where.DEFAULT):
        # The device of something unknown may be the CPU.
        return Confidence.LIKELY if other.place.name.endswith(".device") else Confidence.CERTAIN
    if scene.host_only or scene.role == "init":
        return Confidence.POSSIBLE
    if scene.function is not None and _FOR_PEOPLE.search(scene.function.name.value) and not is_hot(scene):
        return Confidence.POSSIBLE
    if mix.host[0].value.kind is Kind.MODULE and not getattr(scene.owner, "is_module", False):
        # A function that builds a model and never moves it may well run on the CPU throughout.
        return Confidence.LIKELY if mix.confirmed or _is_for_others(mix) else Confidence.POSSIBLE
    # A plain object's loss is computed where its class has its tensors, which may be the host.
    plain = scene.role == "loss" and scene.owner is not None and not getattr(scene.owner, "is_module", False)
    if mix.confirmed or (is_hot(scene) and (scene.hot or not plain or mix.asked)):
        return Confidence.LIKELY
    if mix.open:
        return Confidence.POSSIBLE
    # Otherwise only a function that asks where its caller has this shows that it may be anywhere.
    if scene.device_aware and (mix.asked or scene.reached or other.place.where is Where.OF_MODULE):
        return Confidence.LIKELY
    here = create is not None and create.scene.function is scene.function and _is_filler(create)
    return Confidence.LIKELY if here and scene.offered else Confidence.POSSIBLE


def _is_filler(create: Create) -> bool:
    """Whether a tensor is made from sizes and numbers that stand in the code, rather than from data."""
    if is_empty(create):
        return False
    if create.api not in _TAKES_DEVICE and not create.random:
        return False
    return create.data is None or is_constant(create)


def is_constant(create: Create) -> bool:
    """Whether a tensor is made of a number, or of a list of numbers that stands in the code."""
    data = create.data
    if data is None or is_empty(create):
        return False
    parts = data.items if data.kind is Kind.SEQUENCE and data.items else (data,)
    return all(part.kind is Kind.NUMBER for part in parts)


def faulty_creation(mix: Mix, origins: Origins) -> Create | None:
    """The creation that should have had a device; None where rather nothing moved the tensor later."""
    accused, host = mix.host
    create = origins.created.get(host.origin) if host.origin is not None else None
    if create is None or host.through is not None or create.scene.function is None:
        return None
    if accused.value.kind is Kind.MODULE:
        return None  # the Module that has it was never moved
    if create.scene.function is mix.scene.function:
        return create
    # A helper that could know the device, and makes a tensor from nothing that comes from the host.
    if create.api in _TAKES_DEVICE and create.data is None and create.scene.role not in _HOST_ROLES:
        return create if create.nearby or create.scene.device_aware else None
    return None


def is_plain_factory(create: Create) -> bool:
    """Whether a tensor is made from sizes and numbers alone, and is more than a stand-in for nothing."""
    return create.api in _TAKES_DEVICE and create.data is None and not is_empty(create)


def is_empty(create: Create) -> bool:
    """Whether a tensor without elements is made: `torch.tensor([])`, `torch.empty(0)`."""
    node = create.node
    if not isinstance(node, cst.Call):
        return False
    if not node.args:
        return create.api.endswith("Tensor")  # `torch.Tensor()`
    first = node.args[0].value
    if isinstance(first, cst.List | cst.Tuple):
        return not first.elements or (
            create.api in _TAKES_SIZES and any(integer(e.value) == 0 for e in first.elements)
        )
    return create.api in _TAKES_SIZES and any(
        integer(a.value) == 0 for a in node.args if a.keyword is None and not a.star
    )


def device_fix(create: Create, mix: Mix) -> NodeFix | None:
    """Create the tensor where the other operand is, if a name in scope says where that is."""
    expression = device_expression(create, mix.other[1])
    if expression is None and create.scene.function is not mix.scene.function:
        devices = (name for name, value in create.nearby if value.kind is Kind.DEVICE)
        expression = next(devices, None)
    return None if expression is None else creation_fix(create, expression)


def creation_fix(create: Create, expression: str) -> NodeFix:
    """Create the tensor on the device that an expression denotes, or move it there where its maker takes no device."""
    if create.random:
        edit = NodeEdit(create.node, "argument", f"device={expression}")
        return NodeFix(f"create it with device={expression} (draws other random numbers)", Safety.UNSAFE, (edit,))
    if create.api in _TAKES_DEVICE:
        edit = NodeEdit(create.node, "argument", f"device={expression}")
        return NodeFix(f"create it with device={expression}", Safety.SAFE, (edit,))
    edit = NodeEdit(create.node, "after", f".to({expression})")
    return NodeFix(f"move it to {expression}", Safety.UNSAFE, (edit,))


def device_expression(create: Create, wanted: Alternative) -> str | None:
    """An expression for the device of `wanted`, from what is in scope where the tensor is created."""
    same = [(name, value) for name, value in create.nearby if _all_at(value, wanted)]
    same.sort(key=lambda entry: (entry[1].kind is not Kind.DEVICE, entry[0] != wanted.place.name))
    for name, value in same:
        return name if value.kind is Kind.DEVICE else f"{name}.device"
    return None


def _all_at(value: Value, wanted: Alternative) -> bool:
    return all(p.place == wanted.place for p in value.places)


def origin_notes(mix: Mix, context: RuleContext) -> list[Note]:
    """Where the two places of a mix come from."""
    (_, host), (witness, other) = mix.host, mix.other
    notes = []
    if host.origin is not None:
        notes.append(Note("origin", host.origin, f"`{shown(host.origin, context)}` is on the CPU"))
    if other.origin is not None:
        notes.append(Note("origin", other.origin, f"`{shown(witness.node, context)}` is {other.place.describe()}"))
    return notes


def shown(node: object, context: RuleContext) -> str:
    """The code of a node on one line, cut short."""
    code = " ".join(context.code(node).split())  # type: ignore[arg-type]
    return code if len(code) <= 60 else code[:57] + "…"
