"""Whether a class hands what one of its attributes keeps to something else, which may register or move it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import libcst as cst

from torchlint.placement.syntax import children, descendants, dotted

#: Functions that look at what they get, and keep nothing of it.
_LOOKING = frozenset("len enumerate zip range reversed iter isinstance print sum min max any all".split())
#: Methods of a container that put something into it.
_FILLING = frozenset("append insert extend add update setdefault".split())
#: What makes a tensor part of a Module.
_REGISTERING = frozenset("Parameter Buffer register_buffer register_parameter ParameterList ParameterDict".split())


def is_shared(cls: cst.ClassDef, attribute: str) -> bool:
    """Whether a method hands a container that it keeps, or an item of it, to a call, to its caller or to another name.

    Who gets it may register it, or move what is in it.
    """
    return any(_shares(method, attribute) for method in _methods(cls))


def is_registered_too(cls: cst.ClassDef, attribute: str) -> bool:
    """Whether a method also makes a parameter or a buffer of a tensor that it keeps."""
    for method in _methods(cls):
        held = _Held(method, attribute)
        for node in descendants(method):
            if type(node) is cst.Call and (dotted(node.func) or "").rpartition(".")[2] in _REGISTERING:
                if any(held.holds(part) for arg in node.args for part in _parts(arg.value)):
                    return True
    return False


def _methods(cls: cst.ClassDef) -> Iterator[cst.FunctionDef]:
    body = cls.body.body if type(cls.body) is cst.IndentedBlock else ()
    return (node for node in body if type(node) is cst.FunctionDef and node.params.params)


class _Held:
    """The names that a method has for an attribute, and for what is in it."""

    def __init__(self, method: cst.FunctionDef, attribute: str) -> None:
        self.whole = f"{method.params.params[0].name.value}.{attribute}"
        self.aliases = {self.whole}
        self.items: set[str] = set()
        nodes = list(descendants(method))
        for node in nodes:
            self._alias(node)
        for node in nodes:
            self._item(node)

    def holds(self, node: cst.CSTNode) -> bool:
        name = dotted(node)
        return name is not None and (name in self.aliases or name in self.items)

    def _alias(self, node: cst.CSTNode) -> None:
        if type(node) is not cst.Assign:
            return
        value = dotted(node.value)
        targets = {dotted(t.target) for t in node.targets}
        if value == self.whole:
            self.aliases |= {t for t in targets if t is not None and "." not in t}
        elif self.whole in targets and value is not None and "." not in value:
            self.aliases.add(value)

    def _item(self, node: cst.CSTNode) -> None:
        if isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute):
            if node.func.attr.value in _FILLING and dotted(node.func.value) in self.aliases:
                self._add(arg.value for arg in node.args)
        elif isinstance(node, cst.Assign):
            for target in node.targets:
                into = target.target
                if dotted(into) in self.aliases:
                    self._add(_parts(node.value))
                elif isinstance(into, cst.Subscript) and dotted(into.value) in self.aliases:
                    self._add([node.value])
        elif isinstance(node, cst.For | cst.CompFor):
            self._add(target for target, source in _turns(node) if dotted(source) in self.aliases)

    def _add(self, nodes: Iterable[cst.CSTNode]) -> None:
        self.items |= {n.value for n in nodes if isinstance(n, cst.Name)} - self.aliases


def _turns(loop: cst.For | cst.CompFor) -> Iterator[tuple[cst.CSTNode, cst.CSTNode]]:
    """What a loop binds in its turns, each with what it goes through: `for i, (a, b) in enumerate(zip(x, y))`."""
    pending: list[tuple[cst.CSTNode, cst.CSTNode]] = [(loop.target, loop.iter)]
    while pending:
        target, source = pending.pop()
        yield target, source
        if type(source) is not cst.Call or type(target) is not cst.Tuple:
            continue
        names = [e.value for e in target.elements]
        given = [a.value for a in source.args if not a.star]
        if dotted(source.func) == "enumerate":
            names = names[1:]
        elif dotted(source.func) != "zip":
            continue
        pending += zip(names, given)


def _parts(node: cst.BaseExpression) -> Iterator[cst.CSTNode]:
    """An expression, or what stands in a list, tuple or dict, be it computed item by item."""
    if isinstance(node, cst.List | cst.Tuple | cst.Set | cst.Dict):
        for element in node.elements:
            yield element.value
    elif isinstance(node, cst.ListComp | cst.GeneratorExp | cst.SetComp):
        yield node.elt
        yield node.for_in.iter
    else:
        yield node


def _shares(method: cst.FunctionDef, attribute: str) -> bool:
    held = _Held(method, attribute)
    return any(_hands_on(node, held) for node in descendants(method))


def _hands_on(node: cst.CSTNode, held: _Held) -> bool:
    if isinstance(node, cst.Call):
        name = dotted(node.func) or ""
        owner, _, last = name.rpartition(".")
        if name in _LOOKING or (last in _FILLING and owner in held.aliases):
            return False
        return any(held.holds(part) for arg in node.args for part in _parts(arg.value))
    if isinstance(node, cst.Return | cst.Yield):
        return any(dotted(child) in held.aliases for child in children(node))
    if isinstance(node, cst.Assign) and dotted(node.value) in held.aliases:
        names = (dotted(target.target) for target in node.targets)
        return any(name is not None and "." in name and name != held.whole for name in names)
    return False
