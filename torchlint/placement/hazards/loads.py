"""What files are read by `torch.load`: where they stand, and what their contents go into."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from typing import TypeGuard

import libcst as cst

from torchlint.placement.definitions.records import Class, Function
from torchlint.placement.events import Load, Save
from torchlint.placement.interpreter import Interpreter
from torchlint.placement.syntax import children, descendants, dotted, string, words
from torchlint.placement.values import Certainty, Kind, Value

#: What a scheduler of the learning rate and a GradScaler keep are numbers (torch/optim/lr_scheduler.py,
#: torch/amp/grad_scaler.py: `state_dict`).
_KEEPS_NUMBERS = re.compile(r"(?:sched(?:uler)?s?|scaler)$", re.IGNORECASE)


def path_of(node: cst.CSTNode) -> str:
    """A path in words; of a sum, what it starts with."""
    return path_of(node.left) + "…" if type(node) is cst.BinaryOperation else words(node)


#: How a program finds what is installed beside it.
_ANCHORS = frozenset(["__file__", "pkg_resources", "resources"])
#: What paths are put together with.
_PATH_TOOLS = frozenset("os osp op path pathlib Path str open join dirname abspath realpath importlib files".split())


def is_shipped(run: Interpreter, path: cst.CSTNode) -> bool:
    """Whether a path names one fixed file beside the source: `Path(__file__).parent / "weights.pt"`."""
    names = _read_from(run, path, 0)
    return bool(names & _ANCHORS) and names <= _ANCHORS | _PATH_TOOLS


def _read_from(run: Interpreter, node: cst.CSTNode, depth: int) -> set[str]:
    """The names that an expression is made of, constants of the module and of the function replaced by theirs."""
    found: set[str] = set()
    for name in _names(node):
        own = name in run.frame.parameters or bool(run.frame.usage.assigned.get(name))
        if name in _ANCHORS or (name in _PATH_TOOLS and not own):
            found.add(name)
            continue
        bound = _bound_to(run, name) if depth < _DEEPEST else None
        found |= {f"variable {name}"} if bound is None else _read_from(run, bound, depth + 1)
    return found


def _names(node: cst.CSTNode) -> list[str]:
    name = dotted(node) or ""
    if re.match(r"os\.(?!path\b|fspath\b)", name):
        return [name]  # the environment
    if type(node) is cst.Attribute:
        return _names(node.value)
    if type(node) is cst.Arg:
        return _names(node.value)
    if type(node) is cst.Name:
        return [node.value]
    return [name for child in node.children for name in _names(child)]


def _bound_to(run: Interpreter, name: str) -> cst.BaseExpression | None:
    """What a name is bound to, if that is once in the function, or else once in the module."""
    function = run.frame.function
    if name in run.frame.parameters:
        return None
    for scope in (function.node.body if function is not None else None, run.module):
        found = _bindings(run, scope).get(name) if scope is not None else None
        if found:
            return found[0] if len(found) == 1 else None
    return None


def _bindings(run: Interpreter, scope: cst.CSTNode) -> dict[str, list[cst.BaseExpression]]:
    """What each name is bound to by the assignments in a scope, which is looked through once."""
    known = run.bindings.get(scope)
    if known is None:
        known = run.bindings[scope] = {}
        for node in descendants(scope):
            if type(node) is cst.Assign:
                for name in {t.target.value for t in node.targets if type(t.target) is cst.Name}:
                    known.setdefault(name, []).append(node.value)
    return known


_HASHED = re.compile(r"-[0-9a-f]{8}\.(?:pth?|bin|tar)\b")


def is_published(run: Interpreter, path: cst.CSTNode, depth: int = 0) -> bool:
    """Whether what is read is one of the addresses that the code itself gives: a constant, or out of a table.

    Or it has the name of one: the weights that torch.hub fetches end in a piece of their hash (torch/hub.py,
    `HASH_REGEX`).
    """
    texts = [n.value for n in (path, *descendants(path)) if type(n) is cst.SimpleString]
    if any("://" in text or _HASHED.search(text) for text in texts):
        return True
    if depth >= _DEEPEST:
        return False
    if _fetches(run, path):
        return True
    return any(
        is_published(run, value, depth + 1) for name in set(_names(path)) for value in _all_bound_to(run, name)
    )


def _fetches(run: Interpreter, path: cst.CSTNode) -> bool:
    """Whether a path is what a function of the file gives back that has an address of its own in it."""
    if type(path) is not cst.Call or type(path.func) is not cst.Name:
        return False
    for line in run.module.body:
        if type(line) is cst.FunctionDef and line.name.value == path.func.value:
            return any("://" in n.value for n in descendants(line.body) if type(n) is cst.SimpleString)
    return False


def _all_bound_to(run: Interpreter, name: str) -> list[cst.BaseExpression]:
    """All that a name is bound to in the function, its default among them, or else at the top of the module."""
    function = run.frame.function
    if function is not None:
        params = function.node.params
        found = [p.default for p in (*params.params, *params.kwonly_params) if p.name.value == name and p.default]
        found += _bindings(run, function.node.body).get(name, [])
        if found or name in run.frame.parameters:
            return found
    return [a.value for a in _of_scope(run.module) if _binds(a, name)]


def _of_scope(node: cst.CSTNode) -> Iterator[cst.CSTNode]:
    """The statements of a module, those in its blocks included, functions and classes left out."""
    for child in children(node):
        if type(child) is cst.SimpleStatementLine or type(child) is cst.SimpleStatementSuite:
            yield from child.body
        elif type(child) in _BLOCKS:
            yield from _of_scope(child)


_BLOCKS = frozenset(
    [
        *(cst.If, cst.Else, cst.For, cst.While, cst.With),
        *(cst.Try, cst.TryStar, cst.Finally, cst.ExceptHandler, cst.IndentedBlock),
    ]
)


def _binds(node: cst.CSTNode, name: str) -> TypeGuard[cst.Assign]:
    if type(node) is not cst.Assign:
        return False
    return any(type(t.target) is cst.Name and t.target.value == name for t in node.targets)


#: How many constants deep a path is followed.
_DEEPEST = 4


def texts_of(run: Interpreter, path: cst.CSTNode, depth: int = 2) -> frozenset[str]:
    """What of a path is spelled out, in what its names are bound to as well: words of some length, and no keys."""
    if type(path) is cst.Subscript:
        return frozenset()
    text = string(path) if isinstance(path, cst.BaseExpression) else None
    if type(path) is cst.FormattedStringText:
        text = path.value
    if text is not None:
        return frozenset([text]) if len(text) > len("/.pth") else frozenset()
    bound = _values_of(run, path.value) if type(path) is cst.Name and depth else []
    found = [texts_of(run, value, depth - 1) for value in bound]
    return frozenset[str]().union(*found, *(texts_of(run, child, depth) for child in children(path)))


def _values_of(run: Interpreter, name: str) -> list[cst.BaseExpression]:
    """All that a name is bound to in the function, or else in the module."""
    function = run.frame.function
    for scope in (function.node.body if function is not None else None, run.module):
        found = _bindings(run, scope).get(name, []) if scope is not None else []
        if found or name in run.frame.parameters:
            return found
    return []


def is_downloaded(run: Interpreter, texts: frozenset[str]) -> bool:
    """Whether a file has the name that an address in the code ends in."""
    names = {text.rpartition("/")[2] for text in texts} - {""}
    addresses = (string(n) or "" for n in descendants(run.module) if type(n) is cst.SimpleString) if names else ()
    return any("://" in address and address.rpartition("/")[2] in names for address in addresses)


def is_given_from_table(run: Interpreter, path: cst.CSTNode) -> bool:
    """Whether a function of the file gets an address that it reads out of a table, from a call in the file."""
    function = run.frame.function
    if function is None or type(path) is not cst.Name or path.value not in run.frame.parameters:
        return False
    places = [i for i, p in enumerate(function.node.params.params) if p.name.value == path.value]
    for call in descendants(run.module):
        if type(call) is cst.Call and type(call.func) is cst.Name and call.func.value == function.name:
            given = [a for a in call.args if a.keyword is not None and a.keyword.value == path.value]
            given += [call.args[i] for i in places if i < len(call.args) and call.args[i].keyword is None]
            if any(type(arg.value) is cst.Subscript for arg in given):
                return True
    return False


def is_saved_from_host(run: Interpreter, what: str) -> bool:
    """Whether what saves files in the project brings it to the CPU first, as a rule."""
    function = run.scene.function
    reader = function.name.value if function is not None else ""
    if run.project is None or not os.path.isfile(run.path):
        return False
    return run.project.surroundings.saves_from_host(run.path, reader, f"{what} {reader}")


#: What speaks of devices, or of what moves models by itself.
_OF_DEVICES = re.compile(
    rb"cuda|device|gpu|\.to\(|accelerat|lightning|deepspeed|distributed|\bmps\b|\bxpu\b|Trainer|from_pretrained",
    re.IGNORECASE,
)


#: What saves; `th` is what torch is called by custom where it is not called so.
_SAVING = re.compile(rb"\b(?:torch|th)\.save\(")


def is_saved_on_host(run: Interpreter) -> bool:
    """Whether a file of the folder saves what it trains, and none of them speaks of a device."""
    if run.project is None or not os.path.isfile(run.path) or not run.path.endswith(".py"):
        return False
    texts = run.project.surroundings.beside(run.path)
    trains = any(_SAVING.search(text) and b".backward(" in text for text in texts)
    return trains and not any(map(_OF_DEVICES.search, texts))


def is_count_of_run(run: Interpreter, node: cst.CSTNode) -> bool:
    """Whether `object.state_dict()` is of a class of the project whose fields are numbers, texts and mappings."""
    function = run.called.get(node)
    cls = function.owner if function is not None and function.name == "state_dict" else None
    if cls is None or any(not isinstance(base.ref, Class) for owner in cls.lineage() for base in owner.bases):
        return False
    held = [value.kind for owner in cls.lineage() for value in owner.attributes.values()]
    types = [type_ for owner in cls.lineage() for type_ in _types_of_fields(owner)]
    return bool(held or types) and set(held) <= _COUNTING and all(names <= _COUNTING_TYPES for names in types)


def _types_of_fields(cls: Class) -> Iterator[set[str]]:
    """The names in the annotation of each field that a class declares."""
    for line in cls.node.body.body:
        for small in line.body if type(line) is cst.SimpleStatementLine else ():
            if type(small) is cst.AnnAssign:
                yield set(_names(small.annotation.annotation))


#: What counts of a run are, and the state of a loader.
_COUNTING = frozenset([Kind.NUMBER, Kind.STRING, Kind.NONE, Kind.DTYPE])
_COUNTING_TYPES = frozenset("int float bool str dict Dict Any Optional None typing".split())


def note_loaded(run: Interpreter, node: cst.CSTNode, into: str) -> None:
    """What is read, or a part of it, goes into what `into` names."""
    while type(node) is cst.Subscript or type(node) is cst.Attribute:
        node = node.value
    if type(node) is cst.Call:
        event = run.events.get((Load, node))
        if isinstance(event, Load):
            event.into = into
    elif type(node) is cst.Name and into == "load_state_dict" and Load in run.kinds:
        # A state that is read into a name first, and goes from there into a Module or an optimizer.
        for event in run.events.values():
            if isinstance(event, Load) and event.scene.function is run.scene.function and event.into == node.value:
                event.into = f"{node.value} {into}"


def note_restored(run: Interpreter, receiver: Value, holder: cst.BaseExpression, state: cst.CSTNode) -> None:
    """`holder.load_state_dict(state)`: where a scheduler or a scaler takes all that was read, it was numbers alone.

    So it is where an engine of TensorRT does: its state is the bytes of the engine (torch2trt's `TRTModule`).
    """
    name = dotted(holder) or ""
    named = _KEEPS_NUMBERS.search(name) is not None or any(map(_is_engine, _all_bound_to(run, name)))
    unsure = receiver.kind not in (Kind.MODULE, Kind.OPTIMIZER) or receiver.certainty is not Certainty.KNOWN
    if receiver.kind not in (Kind.SCHEDULER, Kind.SCALER) and not (named and unsure):
        return
    event = run.events.get((Load, state))
    if event is None and (state_name := dotted(state)) is not None:
        function = run.scene.function
        read = [e for e in run.events.values() if isinstance(e, Load) and e.scene.function is function]
        event = next((e for e in reversed(read) if e.into.partition(" ")[0] == state_name), None)
    if isinstance(event, Load):
        event.numbers = True


def _is_engine(value: cst.BaseExpression) -> bool:
    return type(value) is cst.Call and (dotted(value.func) or "").rpartition(".")[2] == "TRTModule"


#: A path that is the same wherever it stands: a text, or a constant of the file.
_FIXED_PATH = re.compile(r"""["'].*["']|[A-Z][A-Z0-9_]*""")


def is_written_before(run: Interpreter, functions: Mapping[int, Function], load: Load) -> bool:
    """Whether the run itself writes a file before it reads it: one function calls the one that does, and then this."""
    reader = functions.get(id(load.scene.function))
    if load.mapped or reader is None or _FIXED_PATH.fullmatch(load.what) is None:
        return False
    order = list(run.called.values())
    for save in run.events.values():
        writer = functions.get(id(save.scene.function)) if isinstance(save, Save) else None
        if writer is None or writer is reader or save.what != load.what or save.scene.conditions:  # type: ignore[attr-defined]
            continue
        if writer not in order or reader not in order or order.index(writer) > order.index(reader):
            continue
        always = {id(scene.function) for scene in writer.called_from if not scene.conditions}
        if reader.called_from and all(id(scene.function) in always for scene in reader.called_from):
            return True
    return False
