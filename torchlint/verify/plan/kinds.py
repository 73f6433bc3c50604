"""What a caller hands in: the kind of each parameter, told from its annotation, its default, its use and its name."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from torchlint.verify.plan.scope import default_values
from torchlint.verify.words import words

#: A parameter to hand in: name, kind (see `standins/makers.py`), `position` or `keyword`, detail.
Parameter = tuple[str, str, str, Any]

_ANNOTATIONS = (
    (r"\b(List|Sequence|Tuple|list|tuple)\[.*Tensor", "tensors"),
    (r"\b(Dict|Mapping|dict)\b", "mapping"),
    (r"Tensor\b", "tensor"),
    (r"\bdevice\b", "device"),
    (r"DataLoader|Iterable|Iterator", "loader"),
    (r"Optimizer", "optimizer"),
    (r"GradScaler", "scaler"),
    (r"Scheduler", "scheduler"),
    (r"ndarray", "array"),
    (r"Module\b", "module"),
    (r"\bint\b", "int"),
    (r"\bfloat\b", "float"),
    (r"\bbool\b", "bool"),
    (r"\bstr\b", "str"),
)
_DEVICE = re.compile(r"^(?!.*(ids|count|num|type|name)).*device|^dev$|^gpu$", re.IGNORECASE)
_NAMES = (
    (r"^params$|^parameters$", "parameters"),
    (r"(^|_)rank$", "int"),
    (r"(^|_)(path|file|filename|name|folder|dir|root|url|checkpoint|ckpt)$", "str"),
    (r"scaler$", "scaler"),
    (r"sched(uler)?$", "scheduler"),
    (r"optim|^opt$|^optimizer", "optimizer"),
    (r"criterion|loss_f|^loss_?fn$|objective", "criterion"),
    (r"loader|_dl$|^dl$|^batches$|dataset$|iterator$", "loader"),
    (
        r"(^|_)(model|net|network|encoder|decoder|backbone|module|generator|discriminator|critic|policy|netG|netD)$",
        "module",
    ),
    (
        r"epochs?$|^n$|^n_|num_|_size$|^size$|^dim$|_dim$|width|channels|features|classes|hidden|layers$|heads$",
        "int",
    ),
    (
        r"every$|interval|freq$|accum|^steps$|count$|length$|limit$|vocab|rows|columns|seed|^k$|^start|^stop",
        "int",
    ),
    (r"(^|_)(lr|rate|dropout|eps|alpha|beta|gamma|momentum|decay|p|scale|temperature|threshold)$", "float"),
)
_OF_MODULES = frozenset(
    words("parameters eval train state_dict named_parameters modules load_state_dict apply children")
)
_OF_TENSORS = frozenset(
    words(
        "size shape view dim device reshape unsqueeze squeeze softmax argmax mean sum abs float long norm dtype "
        "permute transpose flatten numel is_cuda max min exp log sigmoid expand matmul new_zeros clamp contiguous "
        "detach"
    )
)
_OF_SCALERS = frozenset(("scale", "unscale_", "update"))


@dataclass
class Use:
    """How a function uses a name."""

    called: bool = False
    iterated: bool = False
    item_grads: bool = False
    counted: bool = False
    computed: bool = False
    moved: bool = False
    named_device: bool = False
    spread: bool = False
    keys: list[str] = field(default_factory=list)
    attributes: set[str] = field(default_factory=set)
    strings: list[str] = field(default_factory=list)
    handed_to_call: bool = False
    arrayed: bool = False
    callees: list[tuple[str, int]] = field(default_factory=list)


def parameters(
    function: ast.FunctionDef,
    *,
    method: bool,
    number: bool = False,
    given: Mapping[str, Any] | None = None,
    tree: ast.Module | None = None,
) -> list[Parameter]:
    """What to hand to a function. Parameters with a default keep it.

    method: the first one is the object. number: what is not known is a number, as arguments of a constructor mostly
    are. given: values for some names. tree: of the file, whose functions a parameter may be handed on to.
    """
    args = function.args
    defaults = default_values(function)
    positional = [*args.posonlyargs, *args.args][1 if method else 0 :]
    keyword = [(a, "keyword") for a in args.kwonlyargs]
    listed: list[Parameter] = []
    uses = _uses(function)
    first_default = len(positional)
    for i, a in enumerate(positional):
        if a.arg in defaults:
            first_default = min(first_default, i)
    for i, (a, how) in enumerate([*((a, "position") for a in positional), *keyword]):
        if given and a.arg in given:
            listed.append((a.arg, "value", "keyword" if i > first_default else how, given[a.arg]))
            continue
        if a.arg in defaults:
            default = defaults[a.arg]
            if _DEVICE.search(a.arg) and isinstance(default, ast.Constant) and default.value is not None:
                continue
            continue
        kind, detail = kind_of(a, uses.get(a.arg, Use()), function, number=number, tree=tree)
        listed.append((a.arg, kind, how, detail))
    if args.vararg is not None and not positional and function.name == "forward":
        listed.append((args.vararg.arg, "tensor", "position", None))
    return listed


def kind_of(
    a: ast.arg,
    use: Use,
    function: ast.FunctionDef,
    *,
    number: bool = False,
    tree: ast.Module | None = None,
    depth: int = 0,
) -> tuple[str, Any]:
    """The kind of a parameter, and what more there is to say of it."""
    name = a.arg
    if a.annotation is not None:
        annotation = ast.unparse(a.annotation)
        for pattern, kind in _ANNOTATIONS:
            if re.search(pattern, annotation):
                return ("host_tensor" if kind == "tensor" and use.moved else kind), (
                    use.keys or None
                ) if kind == "mapping" else None
    if re.search(r"(^|_)(config|cfg|args|opts?|hparams|options|conf|params_dict)$", name) and name != "opt":
        return "unknown", None
    if use.named_device or (_DEVICE.search(name) and not use.called):
        return "device", None
    by_use = _by_use(name, use)
    if by_use is not None:
        return by_use
    for pattern, kind in _NAMES:
        if re.search(pattern, name):
            return kind, None
    if use.arrayed:
        return "array", None
    if tree is not None and depth < 2:
        for callee, position in use.callees:
            found = _handed_on(callee, position, tree, number, depth)
            if found is not None:
                return found
    if use.strings:
        return "str", use.strings[0]
    if use.counted:
        return "int", None
    if (
        re.search(r"(^|_)(step|index|idx|i|t)$", name)
        and not use.attributes & _OF_TENSORS
        and not use.handed_to_call
    ):
        return "int", None
    if number:
        return "int", None
    if (
        use.computed
        or use.attributes & _OF_TENSORS
        or function.name in ("forward", "loss")
        or use.handed_to_call
    ):
        return "tensor", None
    return "unknown", None


def _handed_on(
    callee: str, position: int, tree: ast.Module, number: bool, depth: int
) -> tuple[str, Any] | None:
    """What a function of the file takes at that position."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and node.name == callee:
            args = [*node.args.posonlyargs, *node.args.args]
            args = args[1:] if args and args[0].arg in ("self", "cls") else args
            if position < len(args):
                a = args[position]
                found = kind_of(
                    a, _uses(node).get(a.arg, Use()), node, number=number, tree=tree, depth=depth + 1
                )
                return None if found[0] == "unknown" else found
    return None


def _by_use(name: str, use: Use) -> tuple[str, Any] | None:
    if use.attributes & _OF_SCALERS and re.search("scaler", name):
        return "scaler", None
    if {"step", "zero_grad"} <= use.attributes or (
        re.search("opt", name) and use.attributes & {"step", "zero_grad"}
    ):
        return "optimizer", None
    if use.attributes & _OF_MODULES:
        return "module", None
    if use.called:
        return ("criterion" if re.search(r"loss|crit", name) else "module"), None
    if use.spread or use.attributes & {"keys", "items"}:
        return "mapping", use.keys or None
    if use.keys:
        return "mapping", use.keys
    if use.iterated:
        return ("parameters" if use.item_grads else "loader"), None
    if use.moved and not any(re.search(pattern, name) for pattern, kind in _NAMES if kind == "module"):
        return "host_tensor", None
    return None


def _uses(function: ast.FunctionDef) -> dict[str, Use]:
    uses: dict[str, Use] = {}

    def use(node: ast.AST) -> Use | None:
        return uses.setdefault(node.id, Use()) if isinstance(node, ast.Name) else None

    for node in _nodes(function):
        if isinstance(node, ast.Call):
            _note_call(node, use)
        elif isinstance(node, ast.Attribute) and (u := use(node.value)):
            u.attributes.add(node.attr)
            u.moved = u.moved or node.attr in ("to", "cuda")
        elif isinstance(node, (ast.For, ast.comprehension)) and (u := use(_iterated(node.iter))):
            u.iterated = True
            grads = (n for n in ast.walk(function) if isinstance(n, ast.Attribute) and n.attr == "grad")
            u.item_grads = any(
                isinstance(n.value, ast.Name) and n.value.id in _target_names(node.target) for n in grads
            )
        elif isinstance(node, ast.BinOp):
            if isinstance(node.op, (ast.Mod, ast.FloorDiv)) and (u := use(node.right)):
                u.counted = True
            for side in (node.left, node.right):
                if (u := use(side)) and not isinstance(node.op, (ast.Mod, ast.FloorDiv)):
                    u.computed = True
        elif isinstance(node, ast.Subscript):
            if (
                (u := use(node.value))
                and isinstance(node.slice, ast.Constant)
                and isinstance(node.slice.value, str)
            ):
                u.keys.append(node.slice.value)
            elif u:
                u.computed = True
            if isinstance(node.value, ast.Dict) and (u := use(node.slice)):
                u.strings += [
                    k.value
                    for k in node.value.keys
                    if isinstance(k, ast.Constant) and isinstance(k.value, str)
                ]
        elif isinstance(node, ast.Compare) and (u := use(node.left)):
            u.counted = u.counted or any(_is_number(c) for c in node.comparators)
            u.strings += [
                c.value for c in node.comparators if isinstance(c, ast.Constant) and isinstance(c.value, str)
            ]
    return uses


def _note_call(node: ast.Call, use: Any) -> None:
    if u := use(node.func):
        u.called = True
    attr = getattr(node.func, "attr", "")
    name = getattr(node.func, "id", "")
    of_numpy = ast.unparse(node.func).startswith(("np.", "numpy."))
    for argument in [*node.args, *(k.value for k in node.keywords)]:
        if of_numpy and (u := use(argument)):
            u.arrayed = True
    for i, argument in enumerate(node.args):
        if not (u := use(argument)):
            continue
        u.callees.append((attr or name, i))
        if attr in ("to", "device") and not u.attributes & _OF_TENSORS and not u.called:
            u.named_device = True
        elif name == "range" or attr in ("zeros", "ones", "rand", "randn", "empty", "arange", "full"):
            u.counted = True
        elif name not in ("len", "print", "isinstance", "enumerate", "zip", "str", "int", "float"):
            u.handed_to_call = True
    for keyword in node.keywords:
        if keyword.arg is None and (u := use(keyword.value)):
            u.spread = True
        if keyword.arg in ("device", "device_type", "map_location") and (u := use(keyword.value)):
            u.named_device = True


def _is_number(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and type(node.value) is int


def _iterated(node: ast.expr) -> ast.expr:
    """What a loop goes through, below `enumerate`, `tqdm` and their like."""
    while isinstance(node, ast.Call) and node.args and getattr(node.func, "id", getattr(node.func, "attr", "")) in (
        "enumerate", "tqdm", "iter", "reversed", "list", "zip", "trange", "track",
    ):  # fmt: skip
        node = node.args[0]
    return node


def _target_names(node: ast.expr) -> set[str]:
    return {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}


def _nodes(function: ast.FunctionDef) -> Iterator[ast.AST]:
    for statement in function.body:
        yield from ast.walk(statement)
