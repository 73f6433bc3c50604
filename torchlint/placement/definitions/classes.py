"""Classes: attributes over all methods, what a Module registers, and what reading an attribute gives."""

from __future__ import annotations

from typing import Any

import libcst as cst

from torchlint.placement.definitions.functions import define, instance_of, summarise
from torchlint.placement.definitions.records import MODULE_HABITS, Class, Function
from torchlint.placement.devices import mark_field
from torchlint.placement.events import Attribute
from torchlint.placement.hazards.late_layers import note_late
from torchlint.placement.interpreter import Env, Interpreter
from torchlint.placement.syntax import dotted, statements, words
from torchlint.placement.values import (
    DISTRIBUTION,
    ELSEWHERE,
    HOST,
    NO_FACTS,
    UNKNOWN,
    Alternative,
    Certainty,
    Kind,
    Place,
    Value,
    Where,
    join,
    sequence,
)


def define_class(run: Interpreter, node: cst.ClassDef, env: Env) -> Value:
    """Make the Class of a `class` statement; its body runs where it stands."""
    named = [_plain_base(base.value) for base in node.bases]
    bases = [_resolved_base(run, run.evaluate(base, env), base) for base in named]
    cls = Class(node, run, bases)
    texts = " ".join(words(d.decorator).lower() for d in node.decorators)
    if any(w in texts for w in ("cuda", "gpu", "accelerator", "skip", "require")):
        cls.guards = frozenset({"accelerator"})
    class_env: Env = dict(env) if run.frame.function is not None else {}
    for statement in statements(node.body):
        if type(statement) is cst.FunctionDef:
            value = define(run, statement, env if run.frame.function is not None else run.globals, cls)
            function: Function = value.ref
            if statement.name.value not in cls.methods or not function.has_decorator("setter", "deleter", "overload"):
                cls.methods[statement.name.value] = function
        else:
            run.block([statement], class_env)
            for small in statement.body if type(statement) is cst.SimpleStatementLine else (statement,):
                if type(small) is cst.AnnAssign:
                    mark_field(run, small)
    cls.looks_like_module = _looks_like_module(run, cls)
    cls.class_env = {k: v for k, v in class_env.items() if k not in env}
    run.classes.append(cls)
    return Value(Kind.CLASS, ref=cls)


def _unseen_bases(cls: Class) -> list[Value]:
    bases = [b for known in cls.lineage() for b in known.bases]
    return [b for b in bases if b.ref is None and not (b.name or "torch.").startswith(("torch.", "builtins."))]


def _has_unseen_base(cls: Class) -> bool:
    return bool(_unseen_bases(cls))


#: Bases of the standard library, which make no class a Module.
_OF_PYTHON = ("abc.", "typing.", "typing_extensions.", "collections.", "enum.", "dataclasses.", "object", "threading.")


def _may_be_module(cls: Class) -> bool:
    """Whether a base that is not seen may make a class a Module, which moves what it registers."""
    return any(not (b.name or "").startswith(_OF_PYTHON) for b in _unseen_bases(cls))


def _plain_base(node: cst.BaseExpression) -> cst.BaseExpression:
    """The class of a base such as `Net[State]`."""
    return node.value if type(node) is cst.Subscript else node


def _looks_like_module(run: Interpreter, cls: Class) -> bool:
    """Whether a class that inherits from what is not seen has a forward, or calls on itself what only Modules have."""
    unseen = _unseen_bases(cls)
    if not unseen or cls.is_known_module or cls.is_data or cls.is_test or cls.is_optimizer:
        return False
    if any((b.name or "").endswith("Module") and not (b.name or "").endswith("DataModule") for b in unseen):
        return True
    forward = cls.methods.get("forward")
    if forward is not None and not forward.is_static and "backward" not in cls.methods:
        return True
    uses = (run.usage.of(m.node).attributes.get("self", ()) for m in cls.methods.values())
    return any(MODULE_HABITS & set(used) for used in uses)


def _resolved_base(run: Interpreter, value: Value, node: cst.BaseExpression) -> Value:
    if value.kind is Kind.API and run.project is not None and value.name:
        resolved = run.project.resolve(value.name, run.path, allowance=run.allowance)
        if resolved is not None and isinstance(resolved.ref, Class):
            return resolved
    if value.kind is Kind.UNKNOWN:
        name = dotted(node)
        return Value(Kind.API, name=name) if name else value
    return value


def analyse(cls: Class) -> None:
    """Summarise the methods of a class, `__init__` first, so that its attributes are known."""
    if cls.state != "new":
        return
    cls.state = "running"
    for base in cls.bases:
        if isinstance(base.ref, Class):
            analyse(base.ref)
    first = [m for m in ("__init__", "setup", "build", "configure_model") if m in cls.methods]
    for name in (*first, *(m for m in cls.methods if m not in first)):
        summarise(cls.methods[name])
    cls.state = "done"


def start_analysis(cls: Class) -> None:
    """At least `__init__`: enough to know what an instance holds."""
    for known in cls.lineage():
        init = known.methods.get("__init__")
        if init is not None:
            summarise(init)


def assign_attribute(
    run: Interpreter,
    owner: Class,
    target: cst.Attribute,
    value: Value,
    source: cst.BaseExpression | None,
    env: Env,
    augmented: bool,
) -> None:
    """`self.name = value` in a method."""
    name = target.attr.value
    function = run.frame.function
    method = function.name if function is not None else ""
    if value.kind is Kind.TENSOR and {"parameter", "leaf"} <= value.facts and not owner.is_module:
        # Nothing but a Module keeps Parameters of its own.
        owner.looks_like_module = _has_unseen_base(owner) and not owner.is_data
    if owner.is_module and _registers(value) and not augmented:
        owner.registered.add(name)
    if owner.is_module and name in owner.registered and value.kind is Kind.TENSOR and "parameter" not in value.facts:
        # A registered buffer stays one; the new tensor is where the code put it until the module moves.
        value = value.but(facts=value.facts | {"buffer"})
    before = _left_by_others(run, owner, name, method)
    kept = owner.attributes[name] = value if before is None else join(before, value)
    owner.rebound[name, method] = before, kept
    owner.assigned_in[name].add(method)
    if value.kind is not Kind.NONE and not value.on_host:
        owner.unsure.add(name)
    owner.targets.setdefault(name, target)
    if owner.is_module or value.kind is Kind.TENSOR:
        run.emit(Attribute(target, run.scene, owner, name, value, "assign", source, run.frame.statement))
    if owner.is_module and name in owner.registered and not _is_being_built(run, owner):
        # What came from the caller is there until the module moves; of other things that is not as plain.
        given = value.kind is Kind.TENSOR and all(p.place.where is Where.OF_CALLER for p in value.places)
        env[f"{run.frame.self_name}.{name}"] = (
            value if given and value.places else _registered_value(owner, value)
        )


def _left_by_others(run: Interpreter, owner: Class, name: str, method: str) -> Value | None:
    """What an attribute may hold beside what is assigned: what the same method gave it before is gone for good."""
    now = owner.attributes.get(name)
    before, after = owner.rebound.get((name, method), (None, None))
    overwrites = now is not None and now is after and not run.scene.conditions and not run.scene.loops
    return before if overwrites else now


def _registers(value: Value) -> bool:
    if value.kind is Kind.MODULE:
        return True
    return value.kind is Kind.TENSOR and "parameter" in value.facts


def assign_foreign_attribute(run: Interpreter, target: cst.Attribute, value: Value, env: Env) -> None:
    """`other.name = value`: what the class of `other` knew of it no longer holds."""
    base = run.evaluate(target.value, env)
    if base.kind is Kind.OBJECT and base.name == DISTRIBUTION:
        _forget_parameters(run, target.value, base, env)
    root = target.value
    while type(root) is cst.Attribute:
        root = root.value
    held = run.evaluate(root, env) if root is not target.value else base
    note_late(run, target, target.value, held, value)
    if held.kind is Kind.MODULE and value.kind is not Kind.NUMBER:
        # Whose parameters are replaced is wherever they come from.
        run.moved_elsewhere.update(p.origin for p in held.places if p.origin is not None)
    if isinstance(base.ref, Class) and base.kind in (Kind.MODULE, Kind.OBJECT):
        cls: Class = base.ref
        cls.assigned_in[target.attr.value].add("(outside)")
        cls.unsure.add(target.attr.value)
        old = cls.attributes.get(target.attr.value)
        if old is not None:
            cls.attributes[target.attr.value] = join(old, value if run.may_note_on(cls) else UNKNOWN)


def _forget_parameters(run: Interpreter, node: cst.BaseExpression, distribution: Value, env: Env) -> None:
    """`self.prior.loc = self.prior.loc.cuda()`: the distribution is where its parameters are sent."""
    name = dotted(node)
    owner = run.frame.function.owner if run.frame.function is not None else None
    if name is None:
        return
    env[name] = distribution.at(())
    instance, _, attribute = name.partition(".")
    if owner is not None and instance == run.frame.self_name and attribute in owner.attributes:
        owner.attributes[attribute] = env[name]


def register(run: Interpreter, owner: Class, name: str, value: Value, how: str, node: cst.Call) -> None:
    """`register_buffer`, `register_parameter`, `add_module`."""
    owner.registered.add(name)
    owner.attributes[name] = value if run.may_note_on(owner) else UNKNOWN
    method = run.frame.function.name if run.frame.function is not None else ""
    owner.assigned_in[name].add(method)
    run.emit(Attribute(node, run.scene, owner, name, value, how, node))


def _is_being_built(run: Interpreter, owner: Class) -> bool:
    """Whether this is a constructor of the Module, which nobody can have moved yet."""
    function = run.frame.function
    return function is not None and function.name == "__init__" and function.owner in owner.lineage()


def _registered_value(owner: Class, value: Value) -> Value:
    """Registered state is wherever the module is, but of a Module that spreads its parts over accelerators."""
    if _accelerator_of(value) and len({_accelerator_of(owner.attributes.get(n)) for n in owner.registered} - {""}) > 1:
        return value
    return _at_home(value, Place(Where.OF_MODULE, owner.name), 0)


def _accelerator_of(value: Value | None) -> str:
    """The accelerator that the constructor puts a part of a Module on, where the code spells it out."""
    return value.places[0].place.accelerator if value is not None and len(value.places) == 1 else ""


def _at_home(value: Value, home: Place, depth: int) -> Value:
    if value.kind is Kind.TENSOR:
        rank = value.places[0].rank if value.places else None
        facts = value.facts - {"fresh"} | {"parameter"}
        return Value(Kind.TENSOR, (Alternative(home, rank, value.origin),), value.certainty, facts=facts)
    if depth > 3:
        return value
    moves = value.kind is Kind.MODULE or "perhaps" in value.facts
    places = (Alternative(home, None, value.origin),) if moves else value.places
    return value.but(
        places=places,
        element=_at_home(value.element, home, depth + 1) if value.element is not None else None,
        items=tuple(_at_home(i, home, depth + 1) for i in value.items) if value.items is not None else None,
        keys={k: _at_home(v, home, depth + 1) for k, v in value.keys.items()} if value.keys is not None else None,
    )


#: The name under which a class knows what the forward of an autograd function saves for its backward.
_SAVED = "saved_tensors"


def save_for_backward(run: Interpreter, given: tuple[Value, ...]) -> None:
    """`ctx.save_for_backward(…)` in the forward of an autograd function."""
    owner = run.frame.function.owner if run.frame.function is not None else None
    if owner is not None and owner.is_autograd_function:
        owner.attributes[_SAVED] = sequence(given)


def saved_by_forward(run: Interpreter) -> Value | None:
    """What `ctx.saved_tensors` holds in the backward of an autograd function, if its forward tells."""
    owner = run.frame.function.owner if run.frame.function is not None else None
    forward = owner.method("forward") if owner is not None and owner.is_autograd_function else None
    if owner is None or forward is None or forward is run.frame.function:
        return None
    summarise(forward)
    return owner.attributes.get(_SAVED)


def class_attribute(run: Interpreter, cls: Class, name: str) -> Value:
    """`Class.name`."""
    method = cls.method(name)
    if method is not None:
        return Value(Kind.FUNCTION, ref=method)
    for known in cls.lineage():
        if name in known.class_env:
            return known.class_env[name]
    return UNKNOWN


def instance_attribute(run: Interpreter, base: Value, name: str, node: cst.Attribute) -> Value | None:
    """`instance.name`, from what all methods assign; None where the class does not know it."""
    value = _attribute(run, base, name, node)
    if value is None or (type(node.value) is cst.Name and node.value.value == run.frame.self_name):
        return value
    given = {p for c in base.ref.lineage() if "__init__" in c.methods for p in c.methods["__init__"].parameters}
    return _without_names(value, given)


def _without_names(value: Value, names: set[str], depth: int = 0) -> Value:
    """A value as others see it: on which device a parameter of the constructor was, they don't know."""
    kept = tuple(p for p in value.places if not (p.place.is_named and p.place.name in names))
    if len(kept) < len(value.places):
        kept = tuple(p for p in kept if not p.place.is_host)  # it was but one of several places
    if depth < 2 and value.element is not None:
        value = value.but(element=_without_names(value.element, names, depth + 1))
    if depth < 2 and value.items is not None:
        value = value.but(items=tuple(_without_names(i, names, depth + 1) for i in value.items))
    return value if len(kept) == len(value.places) else value.at(kept)


def given_to_others(value: Value, cls: Class) -> Value:
    """What a method gives to those who built the object: where that is, the constructor's default is no witness for.

    With `device=torch.device("cpu")` it is on the CPU, unless a caller passes another one.
    """
    names = set()
    for known in cls.lineage():
        init = known.methods.get("__init__")
        for name, default in init.defaults.items() if init is not None else ():
            if default.on_host if default.kind is Kind.DEVICE else default.name == "cpu":
                names.add(name)
    return _without_names(value, names) if names else value


def _attribute(run: Interpreter, base: Value, name: str, node: cst.Attribute) -> Value | None:
    cls: Class = base.ref
    method = cls.method(name)
    if method is not None and name not in cls.attributes:
        if method.is_property:
            return _property(run, base, method, node)
        return Value(Kind.FUNCTION, ref=method)
    if cls.state == "new" or not cls.attributes:
        start_analysis(cls)
    found = cls.attribute(name)
    if found is None or found[1].kind is Kind.NONE:
        _summarise_assigners(cls, name)
        found = cls.attribute(name)
    if found is None:
        for known in cls.lineage():
            if name in known.class_env:
                return known.class_env[name]
        heir = _heir_with(run, cls, name)
        if heir is None:
            return _unassigned(base, cls, name, node)
        cls, found = heir, (heir, heir.attributes[name])
    holder, value = found
    if holder.is_module and name in holder.registered and not _is_being_built(run, holder):
        value = _registered_value(holder, value)
        return at_instance(value, base)
    if not holder.is_module and value.kind is Kind.MODULE and value.may_be_on_host and _may_be_module(holder):
        return at_instance(value.but(places=_without_host(value)), base)
    if _assigned_elsewhere(run, cls, name) and not _is_first_read(run, cls, name):
        # Another method writes it, and who runs first is not known; but all of them may have left it on the host.
        _summarise_assigners(cls, name)
        found = cls.attribute(name)
        assert found is not None
        holder, value = found
        if not _always_on_host(cls, name, value):
            value = at_instance(value, base)
            return value.but(
                places=_without_host(value),
                certainty=min(value.certainty, Certainty.INFERRED),
                element=None,
                items=None,
                keys=None,
                facts=value.facts - {"fresh"},
            )
        value = value.but(certainty=min(value.certainty, Certainty.INFERRED))
    return at_instance(_through(value, holder.targets.get(name)), base)


def _heir_with(run: Interpreter, cls: Class, name: str) -> Class | None:
    """The class of the file that inherits from a class and gives it an attribute, if it is the only one."""
    heirs = cls.heirs
    if heirs is None:
        heirs = [c for c in run.classes if c is not cls and cls in c.lineage()]
        if run.may_note_on(cls):
            cls.heirs = heirs
    found: Class | None = None
    for heir in heirs:
        if heir.state == "new":
            start_analysis(heir)
        if name in heir.attributes:
            if found is not None:
                return None
            found = heir
    return found


def _through(value: Value, target: cst.CSTNode | None, depth: int = 0) -> Value:
    """A value that an attribute keeps: it, and what it holds, came through the assignment to `target`."""
    if depth > 2 or target is None:
        return value
    changes: dict[str, Any] = {}
    if value.places:
        changes["places"] = tuple(p._replace(through=target) for p in value.places)
    elif value.kind is Kind.TENSOR:
        changes["places"] = (Alternative(ELSEWHERE, None, None, through=target),)
    if value.element is not None:
        changes["element"] = _through(value.element, target, depth + 1)
    if value.items is not None:
        changes["items"] = tuple(_through(i, target, depth + 1) for i in value.items)
    if value.keys is not None:
        changes["keys"] = {k: _through(v, target, depth + 1) for k, v in value.keys.items()}
    return value.but(**changes) if changes else value


def _summarise_assigners(cls: Class, name: str) -> None:
    """Summarise the methods that assign an attribute which `__init__` leaves out, or only promises as None."""
    for known in cls.lineage():
        for method in [m for n, m in known.methods.items() if n in known.writers_of(name)]:
            summarise(method)


def _unassigned(base: Value, cls: Class, name: str, node: cst.Attribute) -> Value | None:
    if name == "device" and not cls.has_unknown_base and not cls.is_module:
        return None
    if name == "device":
        places = base.places or (Alternative(Place(Where.NAMED, words(node)), None, node),)
        return Value(Kind.DEVICE, places, Certainty.INFERRED)
    return None


def _without_host(value: Value) -> tuple[Alternative, ...]:
    return (
        tuple(p for p in value.places if not p.place.is_host)
        if any(not p.place.is_host for p in value.places)
        else ()
    )


def _assigned_elsewhere(run: Interpreter, cls: Class, name: str) -> bool:
    """Whether a method other than the constructor writes an attribute, the one at hand included."""
    return bool(_writers(cls, name) - {"__init__"})


def _writers(cls: Class, name: str) -> set[str]:
    """The methods that write an attribute, as far as the code says or it was seen."""
    return {n for c in cls.lineage() for n in (*c.assigned_in.get(name, ()), *c.writers_of(name))}


def _is_first_read(run: Interpreter, cls: Class, name: str) -> bool:
    """Whether what the constructor left is read, the first time that the one other method that writes it runs."""
    function = run.frame.function
    if function is None or run.scene.conditions or run.scene.loops or run.scene.tests:
        return False
    return function.name == "forward" and _writers(cls, name) == {"__init__", "forward"}


def _always_on_host(cls: Class, name: str, value: Value) -> bool:
    """Whether every assignment to an attribute is seen, and puts a tensor on the host (or nothing at all)."""
    if value.kind is not Kind.TENSOR or not value.on_host or any(name in c.unsure for c in cls.lineage()):
        return False
    return all(c.methods[method].state == "done" for c in cls.lineage() for method in c.writers_of(name))


def at_instance(value: Value, base: Value, depth: int = 0) -> Value:
    """What is wherever the module is, is where this instance is (nobody knows, perhaps); also within containers."""
    if depth > 3 or (base.places and base.places[0].place.where is Where.OF_MODULE):
        return value
    changes: dict[str, Any] = {}
    if any(p.place.where is Where.OF_MODULE for p in value.places):
        places: list[Alternative] = []
        for alternative in value.places:
            if alternative.place.where is Where.OF_MODULE:
                places.extend(
                    p._replace(rank=alternative.rank, origin=p.origin or alternative.origin) for p in base.places
                )
            else:
                places.append(alternative)
        changes["places"] = tuple(dict.fromkeys(places))
    if value.element is not None:
        changes["element"] = at_instance(value.element, base, depth + 1)
    if value.items is not None:
        changes["items"] = tuple(at_instance(i, base, depth + 1) for i in value.items)
    if value.keys is not None:
        changes["keys"] = {k: at_instance(v, base, depth + 1) for k, v in value.keys.items()}
    return value.but(**changes) if changes else value


def _property(run: Interpreter, base: Value, method: Function, node: cst.Attribute) -> Value:
    if method.state == "running":
        return UNKNOWN
    summarise(method)
    value = method.result
    if value.kind is Kind.UNKNOWN and method.name.endswith("device"):
        places = (
            base.places
            if base.kind is Kind.MODULE and base.places
            else (Alternative(Place(Where.NAMED, words(node)), None, node),)
        )
        return Value(Kind.DEVICE, places, Certainty.INFERRED)
    return at_instance(value, base)


def instantiate(run: Interpreter, cls: Class, node: cst.Call, bound: dict[str, Value]) -> Value:
    """`Class(...)`: a Module starts on the host, unless the code puts it elsewhere."""
    if not cls.is_module:
        start_analysis(cls)
        return Value(Kind.OBJECT, ref=cls)
    places: tuple[Alternative, ...] = ()
    if run.context_places is not None:
        places = tuple(p._replace(origin=node, rank=None) for p in run.context_places)
    elif not run.has_default_device and not any(v.kind is Kind.DEVICE for v in bound.values()):
        places = (Alternative(HOST, None, node),)
    start_analysis(cls)
    if _places_itself(cls) or not holds_state(cls) or _is_given_state(cls):
        places = ()
    return Value(Kind.MODULE, places, ref=cls, facts=_DOUBLE if _holds_doubles(cls) else NO_FACTS)


_DOUBLE = frozenset({"float64"})


def _holds_doubles(cls: Class) -> bool:
    """Whether a Module registers parameters or buffers of float64, by itself or in its parts."""
    held = [known.attributes.get(name) for known in cls.lineage() for name in known.registered]
    return any(v is not None and "float64" in v.facts for v in held)


def holds_state(cls: Class, depth: int = 0) -> bool:
    """Whether a Module is known to register parameters or buffers, itself or through its submodules."""
    if depth > 8:
        return False
    for known in cls.lineage():
        for name in known.registered:
            value = known.attributes.get(name)
            if value is None:
                continue
            if value.kind is Kind.TENSOR and not _joins_any(value):
                return True
            if value.kind is Kind.MODULE:
                if isinstance(value.ref, Class):
                    if holds_state(value.ref, depth + 1):
                        return True
                elif "state" in value.facts:
                    return True
    return False


def _joins_any(value: Value) -> bool:
    """Whether a registered tensor may stay where it is: it has a single element, or is no Parameter and nobody knows
    where it was made (`torch.as_tensor(best)` of what the constructor is given)."""
    if value.places:
        return all(p.rank == 0 for p in value.places)
    return "parameter" not in value.facts


def _is_given_state(cls: Class) -> bool:
    """Whether a Module registers a tensor that its constructor was given, so that it is where that is."""
    for known in cls.lineage():
        for name in known.registered:
            value = known.attributes.get(name)
            if value is not None and value.kind is not Kind.MODULE and not value.on_host:
                if any(p.place.where is Where.OF_CALLER for p in value.places):
                    return True
    return False


def _places_itself(cls: Class) -> bool:
    """Whether `__init__` moves the module or its parts, or a base does what is not known."""
    if cls.has_unknown_base:
        return True
    for known in cls.lineage():
        init = known.methods.get("__init__")
        if init is None:
            continue
        usage = known.run.usage.of(init.node)
        moved = {"to", "cuda"} & set().union(*usage.attributes.values()) if usage.attributes else set()
        if moved or usage.moves or any("device" in name for name in init.parameters):
            return True
    return False


__all__ = [
    "analyse", "assign_attribute", "assign_foreign_attribute", "class_attribute", "define_class", "given_to_others",
    "instance_attribute", "instance_of", "instantiate", "register", "save_for_backward",
    "saved_by_forward", "start_analysis",
]  # fmt: skip
