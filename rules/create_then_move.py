"""DEV202: a tensor is created on the CPU and moved at once, where it could have been created on the device."""

from __future__ import annotations

import re
from collections.abc import Iterator

import libcst as cst

from torchlint.findings import Confidence, Safety, Severity
from torchlint.mixes import is_empty, is_hot, shown
from torchlint.placement.events import Create, Move
from torchlint.placement.scene import Scene
from torchlint.placement.syntax import condition, descendants, dotted
from torchlint.placement.values import Kind, Where
from torchlint.rule import NodeEdit, NodeFix, Note, Probe, Report, Rule, RuleContext

#: Factories that need nothing from the host: their tensors are as well filled on the device.
_FILLED_ANYWHERE = frozenset(
    f"torch.{name}"
    for name in "zeros ones empty full arange eye linspace logspace rand randn randint randperm normal".split()
)


#: Factories that take data, and put it on the host first even if they are told a device
#: (torch/csrc/utils/tensor_new.cpp, `internal_new_from_data`).
_FROM_NUMBER = frozenset(["torch.tensor", "torch.as_tensor", "torch.scalar_tensor"])


_SETS_UP = re.compile(r"^_*(?:init|initiali[sz]e|setup|set_up)_(?!hidden|state)")
_IS_TEST = re.compile(r"(?:^|[\\/])tests?\.py$")
#: Those whose elements are the same to the last bit on every device.
_SAME_ANYWHERE = frozenset(["torch.zeros", "torch.ones", "torch.empty", "torch.full", "torch.arange", "torch.eye"])


class CreateThenMove(Rule):
    """A tensor is created on the CPU and moved at once, in code that runs for each batch.

    What it does
        Finds `torch.zeros(…).to(device)`, `torch.randn(…).cuda()`, `torch.tensor(0.0).to(device)` and their like in
        `forward`, in losses, in training steps and in loops that train.

    Why it matters
        The tensor is allocated and filled on the host, then copied, and the copy from pageable memory makes the
        host wait. With `device=` a kernel fills it in place.

    Example
        import torch
        from torch import nn


        class Mask(nn.Module):
            def forward(self, x):
                keep = torch.ones(x.shape[1]).to(x.device)  # <-
                return x * keep

    Use instead
        import torch
        from torch import nn


        class Mask(nn.Module):
            def forward(self, x):
                keep = torch.ones(x.shape[1], device=x.device)
                return x * keep

    Fix
        Safe. Passes `device=` to the factory and drops the move. Unsafe for random numbers, which differ from
        device to device.

    Verification
        Confirmed where the tensor is on the CPU first and elsewhere after the line.

    References
        https://pytorch.org/tutorials/recipes/recipes/tuning_guide.html#create-tensors-directly-on-the-target-device
    """

    code = "DEV202"
    name = "create-then-move"
    severity = Severity.WARNING
    probe = Probe("copies")

    def __init__(self, context: RuleContext) -> None:
        super().__init__(context)
        self._created: dict[cst.CSTNode, Create] = {}

    def on_create(self, create: Create) -> None:
        self._created[create.node] = create

    def on_move(self, move: Move) -> Iterator[Report]:
        scene, value = move.scene, move.value
        if value.kind is not Kind.TENSOR or not move.moves_device or not value.on_host or "filled" in value.facts:
            return
        if any(p.place.is_host for p in move.target):
            return
        if scene.is_test or scene.role in ("data", "test") or not (is_hot(scene) or _beside_tensor(move)):
            return
        made = [self._created.get(p.origin) if p.origin is not None else None for p in value.places]
        creations = [create for create in made if create is not None and _could_be_elsewhere(create, move)]
        if len(creations) < len(made):
            return
        # Done once, or now and then, it costs nothing that anybody would notice.
        often = is_hot(scene) or _computes(scene)
        seldom = scene.tests & {"periodic", "first", "rare"} or _sets_up(scene) or _sums_up(scene)
        # Made once, and copied in each turn of a loop; or made where what is kept from before does not do.
        seldom = seldom or any(len(c.scene.loops) < len(scene.loops) or _is_cached(c) for c in creations)
        if seldom or _IS_TEST.search(self.context.path):
            often = False
        for create in creations:
            created = shown(create.node, self.context)
            message = f"`{created}` is filled on the CPU and then copied: create it on the device"
            if create.api in _FROM_NUMBER:
                message += " (`torch.full((), …, device=…)`; `torch.tensor` copies there, too)"
            notes = [Note("context", move.node, "copied here")]
            sure = Confidence.LIKELY if often else Confidence.POSSIBLE
            yield self.finding(
                create, message, confidence=sure, notes=notes, fix=self._fix(move, create), cause=move.node
            )

    def _fix(self, move: Move, create: Create) -> NodeFix | None:
        if move.receiver is not create.node or not isinstance(move.node, cst.Call):
            return None
        arguments = self._arguments(move.node, move, create)
        if arguments is None or create.api in _FROM_NUMBER:
            return None
        safety = Safety.SAFE if create.api in _SAME_ANYWHERE else Safety.UNSAFE
        code = self.context.code(create.node)
        inner = code[:-1].rstrip()
        comma = "" if inner.endswith("(") else " " if inner.endswith(",") else ", "
        text = f"{inner}{comma}{arguments})"
        return NodeFix(f"create it with {arguments}", safety, (NodeEdit(move.node, "replace", text),))

    def _arguments(self, call: cst.Call, move: Move, create: Create) -> str | None:
        """The arguments that say to a factory what the move does, where that is all it does."""
        if move.dtype is not None or len(call.args) > 1 or move.api not in ("to", "cuda"):
            return None
        if not call.args:
            return 'device="cuda"' if move.api == "cuda" else None
        argument = call.args[0]
        code = self.context.code(argument.value)
        if argument.star or (argument.keyword is not None and argument.keyword.value != "device"):
            return None
        if move.api == "cuda":
            return f"device={code}" if code.startswith(("\"", "'")) else None
        kind = next((value.kind for name, value in create.nearby if name == code), None)
        if kind is not Kind.TENSOR:
            return f"device={code}"
        typed = any(a.keyword is not None and a.keyword.value == "dtype" for a in create.node.args)  # type: ignore[attr-defined]
        return None if typed else f"dtype={code}.dtype, device={code}.device"


def _computes(scene: Scene) -> bool:
    """Whether this is a method of a Module that its forward, or what trains, calls."""
    return scene.role == "function" and getattr(scene.owner, "is_module", False) and scene.reached


def _is_cached(create: Create) -> bool:
    """Whether a tensor is made only where something that the method itself keeps is missing, or is of another size."""
    function = create.scene.function
    if function is None or not function.params.params:
        return False
    own = f"{function.params.params[0].name.value}."
    nodes = list(descendants(function))
    targets = (dotted(t.target) for node in nodes if type(node) is cst.Assign for t in node.targets)
    kept = {name for name in targets if name is not None and name.startswith(own)}
    if not kept:
        return False
    for choice in nodes:
        if type(choice) is not cst.If or not any(n is create.node for n in descendants(choice)):
            continue
        taken = any(n is create.node for n in descendants(choice.body))
        enough = cst.Or if taken else cst.And  # with these, one part alone may lead here
        # Of `given is not None or self.size != n` the first part leads nowhere where `given is None` holds as well.
        parts = [p for p in _alternatives(choice.test, enough) if not _is_refuted(p, create.scene)]
        if parts and all(any(dotted(n) in kept for n in descendants(part)) for part in parts):
            return True
    return False


def _is_refuted(test: cst.BaseExpression, scene: Scene) -> bool:
    known = condition(test)
    return known is not None and (known[0], not known[1]) in scene.conditions


def _alternatives(test: cst.BaseExpression, operator: type[cst.BaseBooleanOp]) -> Iterator[cst.BaseExpression]:
    if type(test) is cst.BooleanOperation and type(test.operator) is operator:
        yield from _alternatives(test.left, operator)
        yield from _alternatives(test.right, operator)
    else:
        yield test


def _sets_up(scene: Scene) -> bool:
    """Whether a function says by its name that it runs once, before the work begins."""
    return scene.function is not None and _SETS_UP.search(scene.function.name.value) is not None


def _sums_up(scene: Scene) -> bool:
    """Whether this is where a metric gives its result, once all batches were counted."""
    if scene.function is None or scene.function.name.value != "compute":
        return False
    return any(name.endswith("Metric") for name in getattr(scene.owner, "kind_names", ()))


def _could_be_elsewhere(create: Create, move: Move) -> bool:
    if is_empty(create):
        return False
    if create.why != "default" or create.scene.function is not move.scene.function:
        return False
    if create.api in _FILLED_ANYWHERE:
        return True
    return move.receiver is create.node and not move.scene.conditions and _is_of_number(create)


def _is_of_number(create: Create) -> bool:
    """Whether a 0-dim tensor is made of a Python number, which a kernel could fill in."""
    data, node = create.data, create.node
    if create.api not in _FROM_NUMBER or data is None or data.kind is not Kind.NUMBER or data.places:
        return False
    # What a name holds may be a number of NumPy, or one of its arrays.
    return isinstance(node, cst.Call) and bool(node.args) and not isinstance(node.args[0].value, cst.Name)


def _beside_tensor(move: Move) -> bool:
    """Whether the device is that of a tensor at hand, so that the code computes rather than sets up."""
    if move.scene.role in ("script", "init"):
        return False
    return bool(move.target) and all(p.place.where in (Where.OF_CALLER, Where.OF_MODULE) for p in move.target)
