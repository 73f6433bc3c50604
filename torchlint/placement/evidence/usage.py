"""One walk over a file before it is interpreted: what each scope does with its names, and which loops train."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from typing import Any

import libcst as cst

from torchlint.placement.evidence.hints import (
    is_dtype,
    is_given_gradient,
    is_host_type,
    is_lengths,
    is_non_blocking,
    pairs_of,
    picked_by,
    widens,
)
from torchlint.placement.evidence.host_programs import PLACING_FRAMEWORKS, names_cpu_alone
from torchlint.placement.evidence.scopes import Usage
from torchlint.placement.language.loops import counts, is_small, note_batch, note_map, note_through
from torchlint.placement.syntax import (
    assigned_names,
    dotted,
    entry_of,
    integer,
    semantic_fields,
    shaped,
    words,
)

#: Iterating over these goes through the parts of a model, not through batches.
_PARTS_OF_A_MODEL = frozenset(
    [
        "parameters",
        "named_parameters",
        "modules",
        "named_modules",
        "children",
        "named_children",
        "param_groups",
        "buffers",
    ]
)


#: Attributes that speak of devices, or of a framework that does.
_OF_DEVICES = frozenset(
    "to cuda cpu device is_cuda xpu mps npu hpu get_device"
    " prepare Accelerator accelerator set_default_device set_default_tensor_type Fabric Trainer LightningModule".split()
)


#: Of these, what says no more than the type of a tensor, or that it is on the host now.
_OF_TYPES = frozenset(["type_as", "to", "cpu"])


#: Functions that training runs, by the names that frameworks call.
_TRAINING = ("forward", "training_step", "loss", "compute_loss")


#: What a function of another file is called that does one step of a training.
_STEP_CALL = re.compile(
    r"^_?(?:train|training|fit|optimi[sz]e)_(?:step|batch|iter|iteration|one_step|one_batch|one_iter|minibatch)$"
    r"|^(?:train_on_batch|optimize_parameters|forward_backward|forward_backward_step)$"
)


#: Arguments of a tensor's methods that are tensors themselves, by position.
TAKEN_BY_METHODS = {
    "gather": (1,), "scatter": (1,), "scatter_": (1,), "scatter_add": (1, 2), "scatter_add_": (1, 2),
    "index_select": (1,), "index_add": (1, 2), "index_add_": (1, 2), "index_copy_": (1, 2), "masked_fill": (0,),
    "masked_fill_": (0,), "masked_select": (0,), "masked_scatter_": (0, 1), "bmm": (0,), "expand_as": (0,),
    "view_as": (0,), "type_as": (0,),
}  # fmt: skip


#: Methods of so many things that the name alone does not say which one is called.
_COMMON_NAMES = frozenset("update step run forward add call apply process fit append log write reset".split())


class FileUsage:
    """The usage of every scope of a file, and facts of the file as a whole.

    scopes: by id of the FunctionDef, 0 for the module. hot: ids of loops that hold a backward of their own, or call
    a function of the file that does. called_in_loops: the last names of functions called in loops.
    parts_loops: ids of loops over the parts of a model. named: the ids of the functions of each name.
    small_loops: ids of loops over a few things at hand, such as the losses of one step. losses: the last names of
    functions of several arguments whose results backward runs on.
    libraries: the packages that the file imports from.
    mentions: attributes that are read of anything; assigned_of_others: those that are assigned of other objects than
    `self`. lengths: names by which sequences are packed, as they are. devices: the calls of `torch.device`.
    collating: the last names of functions that loaders put batches together with.
    """

    def __init__(self, module: cst.Module) -> None:
        self.scopes: dict[int, Usage] = {}
        self.hot: set[int] = set()
        self.parts_loops: set[int] = set()
        self.small_loops: set[int] = set()
        self._calls_in_loops: list[tuple[str, cst.CSTNode]] = []
        self.called_in_loops: set[str] = set()
        self._steps: set[str] = set()
        self._around: dict[int, cst.CSTNode] = {}
        self.torch_names: set[str] = {"torch"}
        self.sets_default_device = False
        self.star_imports = False
        self.libraries: set[str] = set()
        self.losses: set[str] = set()
        self.mentions: set[str] = set()
        self.devices: list[cst.Call] = []
        self.assigned_of_others: set[str] = set()
        self.lengths: set[str] = set()
        self.collating: set[str] = set()
        self.named: defaultdict[str, list[int]] = defaultdict(list)
        self._trained: set[int] | None = None
        self._setup: set[int] | None = None
        #: How many scopes call what has a name.
        self._callers: Counter[str] | None = None
        self.scopes[0] = Usage()
        self.add(module)

    def add(self, module: cst.Module) -> None:
        """Walk the statements of a module, or of a part of it that was parsed later."""
        self._trained = self._setup = self._callers = None
        for statement in module.body:
            self._scan(statement, self.scopes[0], None)
        for name, loop in self._calls_in_loops:
            self.called_in_loops.add(name)
            if name in self._steps or (name not in self.named and _STEP_CALL.search(name)):
                self._heat(loop)
        self._calls_in_loops.clear()

    def _heat(self, loop: cst.CSTNode | None) -> None:
        """Note that a loop holds a backward, and with it the loops that it is a small part of."""
        while loop is not None:
            self.hot.add(id(loop))
            loop = self._around.get(id(loop))

    def of(self, function: cst.FunctionDef | None) -> Usage:
        usage = self.scopes.get(0 if function is None else id(function))
        return usage if usage is not None else Usage()

    def is_trained(self, function: cst.FunctionDef) -> bool:
        """Whether code that trains, or a forward, calls the function, or one that calls it, by its name."""
        if self._trained is None:
            self._trained = set()
            queue = [i for name in _TRAINING for i in self.named.get(name, ())]
            queue += [i for i, usage in self.scopes.items() if usage.trains]
            while queue:
                scope = queue.pop()
                if scope in self._trained:
                    continue
                self._trained.add(scope)
                for called in self.scopes[scope].called:
                    name = called.rpartition(".")[2]
                    # Of a page or a script that trains, what its loops call is part of that.
                    if scope or name in self.called_in_loops:
                        queue += self.named.get(name, ())
        return id(function) in self._trained

    def is_called(self, function: cst.FunctionDef) -> bool:
        """Whether other code of the file than the function itself calls it by its name."""
        if self._callers is None:
            self._callers = Counter(name for usage in self.scopes.values() for name in usage.called)
        name = function.name.value
        return self._callers[name] > (name in self.of(function).called)

    def is_setup(self, function: cst.FunctionDef) -> bool:
        """Whether constructors alone call the function, themselves or through others of its kind."""
        if self._setup is None:
            self._setup = self._find_setup()
        return id(function) in self._setup

    def _find_setup(self) -> set[int]:
        names = {scope: name for name, scopes in self.named.items() for scope in scopes}
        callers: defaultdict[int, set[int]] = defaultdict(set)
        for caller, usage in self.scopes.items():
            for called in usage.called:
                for scope in self.named.get(called.rpartition(".")[2], ()):
                    callers[scope].add(caller)
        setup = {scope for scope, name in names.items() if name == "__init__"}
        helpers = {s for s in callers if not names[s].startswith("__") and names[s] not in _TRAINING}
        while True:
            more = {s for s in helpers - setup if callers[s] - {s} and callers[s] - {s} <= setup}
            if not more:
                return setup
            setup |= more

    def is_host_program(self, path: str, module: cst.Module) -> bool:
        """Whether the file is a program that trains on the CPU, where its models and its batches are."""
        trains = any(usage.trains for usage in self.scopes.values())
        if not trains or not self._stays_on_host(module):
            return False
        top = self.scopes[0]
        if top.trains or "__name__" in top.loads or path.endswith(".ipynb"):
            return True
        return any(self.scopes[i].trains for name in top.called for i in self.named.get(name, ()))

    def _stays_on_host(self, module: cst.Module) -> bool:
        """Whether a file names no device, or the CPU alone."""
        if self.devices:
            return names_cpu_alone(self, module)
        named = self.mentions & _OF_DEVICES
        if not self.sets_default_device:
            named.discard("set_default_tensor_type")  # it is given a type of the CPU
        if not named <= _OF_TYPES or any(u.moves for u in self.scopes.values()):
            return False
        return not any(PLACING_FRAMEWORKS & usage.loads.keys() for usage in self.scopes.values())

    @property
    def is_host_only(self) -> bool:
        """Whether the file trains a model and nothing in it speaks of a device."""
        return any(usage.trains for usage in self.scopes.values()) and self.mentions.isdisjoint(_OF_DEVICES)

    def _scan(self, node: cst.CSTNode, scope: Usage, loop: cst.CSTNode | None) -> None:
        reader = _READERS[type(node)]
        if reader is not None:
            reader(self, node, scope, loop)

    def _name(self, node: cst.Name, scope: Usage, loop: cst.CSTNode | None) -> None:
        scope.loads[node.value] += 1

    def _below(self, node: cst.CSTNode, scope: Usage, loop: cst.CSTNode | None) -> None:
        """The generic walk: nothing on it may cost, most nodes of a file come through here."""
        for field in semantic_fields(type(node)):
            child = getattr(node, field)
            kind = type(child)
            if kind is cst.Name:
                scope.loads[child.value] += 1
            elif kind is list or kind is tuple:
                for item in child:
                    reader = _READERS[type(item)]
                    if reader is not None:
                        reader(self, item, scope, loop)
            else:
                reader = _READERS[kind]
                if reader is not None:
                    reader(self, child, scope, loop)

    def _import(self, node: cst.CSTNode, scope: Usage, loop: cst.CSTNode | None) -> None:
        if type(node) is cst.Import:
            for alias in node.names:
                library = (dotted(alias.name) or "").split(".")[0]
                self.libraries.add(library)
                if library == "torch":
                    self.torch_names.add(alias.asname.name.value if alias.asname else "torch")  # type: ignore[union-attr]
            return
        if type(node) is cst.ImportFrom and node.module is not None and not node.relative:
            self.libraries.add((dotted(node.module) or "").split(".")[0])
        if type(node) is cst.ImportFrom and isinstance(node.names, cst.ImportStar):
            self.star_imports = True
        elif type(node) is cst.ImportFrom and node.module is not None and not isinstance(node.names, cst.ImportStar):
            if (dotted(node.module) or "").split(".")[0] == "torch" and not node.relative:
                for alias in node.names:
                    name = dotted(alias.asname.name if alias.asname else alias.name)
                    if name is not None:
                        self.torch_names.add(name)

    def _function(self, node: cst.FunctionDef, scope: Usage, loop: cst.CSTNode | None) -> None:
        inner = self.scopes[id(node)] = Usage()
        inner.parameters = frozenset(p.name.value for p in node.params.params)
        self.named[node.name.value].append(id(node))
        scope.assigned[node.name.value] += 1
        self._below(node.params, inner, None)
        self._scan(node.body, inner, None)
        if inner.backward:
            self._steps.add(node.name.value)
        for decorator in node.decorators:
            self._scan(decorator.decorator, scope, loop)

    def _attribute(self, node: cst.Attribute, scope: Usage, loop: cst.CSTNode | None) -> None:
        base = node.value
        name = dotted(base)
        self.mentions.add(node.attr.value)
        if name is None:
            self._scan(base, scope, loop)
            return
        attributes, loads = scope.attributes, scope.loads
        attributes[name].add(node.attr.value)
        loads[name] += 1
        while "." in name:
            name, _, tail = name.rpartition(".")
            loads[name] += 1
            attributes[name].add(tail)

    def _call(self, node: cst.Call, scope: Usage, loop: cst.CSTNode | None) -> None:
        func = node.func
        name = dotted(func)
        if name is not None:
            scope.called.add(name)
        if name == "map":
            note_map(node, scope)
        if type(func) is cst.Attribute:
            self._method_call(node, func, name, scope, loop)
        if loop is not None and name is not None:
            self._note_step(node, name, loop)
        of_torch = name is not None and name.partition(".")[0] in self.torch_names
        if name is not None and name.endswith(("set_default_device", "set_default_tensor_type")):
            self.sets_default_device = self.sets_default_device or not is_host_type(node)
        if of_torch and name is not None and name.endswith(".device"):
            self.devices.append(node)
        packs = name is not None and name.rpartition(".")[2] == "pack_padded_sequence"
        for position, arg in enumerate(node.args):
            value, keyword, star = arg.value, arg.keyword, arg.star
            kind = type(value)
            if packs and type(value) is cst.Name and is_lengths(arg, position):
                self.lengths.add(value.value)
            if keyword is not None:
                if keyword.value == "collate_fn":
                    self.collating.add((dotted(value) or "").rpartition(".")[2])
                elif keyword.value == "device":
                    scope.chooses = scope.chooses or kind is cst.Name or kind is cst.Attribute
            elif star == "**":
                inner = dotted(value)
                if inner is not None:
                    scope.unpacked.add(inner)
                    scope.spread[inner].add(name or "")
            elif star and type(value) is cst.Name:
                scope.spread[value.value].add(f"*{name or ''}")
            else:
                if type(value) is cst.Name and not star:
                    scope.given.add(value.value)
                if name is not None:
                    self._note_given(name, position, value, of_torch, scope)
            self._scan(value, scope, loop)
        if type(func) is cst.Attribute:
            self._attribute(func, scope, loop)
        else:
            self._scan(func, scope, loop)

    def _note_given(
        self, name: str, position: int, value: cst.BaseExpression, of_torch: bool, scope: Usage
    ) -> None:
        """Note the names that a call of `name` gets at a position."""
        if of_torch:
            listed = type(value) is cst.List or type(value) is cst.Tuple
            for item in [e.value for e in value.elements] if listed else [value]:  # type: ignore[attr-defined]
                inner = shaped(item)
                if inner is not None:
                    scope.torch_arguments[inner].add((name, position, listed))
            return
        # The second argument of a recurrent layer may be a tuple of tensors.
        for part in [e.value for e in value.elements] if position == 1 and type(value) is cst.Tuple else [value]:
            inner = dotted(part)
            if inner is not None:
                scope.call_arguments[inner].add((name, position))

    def _note_step(self, node: cst.Call, name: str, loop: cst.CSTNode) -> None:
        """Remember a call in a loop: the function may turn out to hold the backward."""
        receiver, dot, last = name.rpartition(".")
        whole = _STEP_CALL.search(last) and any("loader" in words(a.value) for a in node.args)
        if (not dot or receiver == "self" or last not in _COMMON_NAMES) and not whole:
            self._calls_in_loops.append((last, loop))
        if "loss_scaler" in last or (last == "scaler" and not dot):
            # timm's NativeScaler: a call does backward, clipping and step.
            self._heat(loop)

    def _method_call(
        self, node: cst.Call, func: cst.Attribute, name: str | None, scope: Usage, loop: cst.CSTNode | None
    ) -> None:
        method = func.attr.value
        receiver = name.rpartition(".")[0] if name is not None else None
        of_torch = (receiver or "").split(".")[0] in self.torch_names
        for position in () if of_torch else TAKEN_BY_METHODS.get(method, ()):
            given = node.args[position] if position < len(node.args) else None
            taken = shaped(given.value) if given is not None and given.keyword is None and not given.star else None
            if taken is not None:
                scope.torch_arguments[taken].add((f"Tensor.{method}", position, False))
        if method in ("backward", "manual_backward", "minimize") or (method == "step" and "optim" in words(func.value)):
            if method == "backward" and receiver is not None and any(a.keyword is None for a in node.args):
                # A tensor's backward hardly ever takes a gradient: this is a framework's.
                scope.attributes[receiver].add("backward()")
            self._note_losses(node, func.value, scope)
            scope.trains = True
            if loop is None:
                scope.backward = True
            elif not is_given_gradient(node):
                self._heat(loop)
        if method == "cuda" or (method == "to" and any(not is_dtype(a) for a in node.args)):
            scope.moves = True
        if method == "cuda" and receiver is not None and any(is_non_blocking(a) for a in node.args):
            scope.attributes[receiver].add("[copied]")
        if method in ("view", "reshape") and len(node.args) > 1 and integer(node.args[0].value) == -1:
            self._note_spread(func.value, scope)
        if receiver is not None:
            for arg in node.args:
                if arg.keyword is not None and arg.keyword.value in ("dim", "keepdim"):
                    scope.attributes[receiver].add("dim=")
            if method == "size" or (method == "dim" and not node.args):
                scope.attributes[receiver].add(method + "()")

    def _note_losses(self, node: cst.Call, receiver: cst.BaseExpression, scope: Usage) -> None:
        """Note what computed the values that a backward runs on: `loss.backward()`, `scaler.scale(loss).backward()`."""
        given = [a.value for a in node.args if a.keyword is None]
        given += [a.value for a in receiver.args] if type(receiver) is cst.Call else [receiver]
        self.losses.update(scope.results[v.value] for v in given if type(v) is cst.Name and v.value in scope.results)

    def _for(self, node: cst.For, scope: Usage, loop: cst.CSTNode | None) -> None:
        source = words(node.iter).replace("enumerate(", "").split("(")[0].rsplit(".", 1)[-1]
        parts = source in _PARTS_OF_A_MODEL
        if parts:
            self.parts_loops.add(id(node))
        if is_small(node.iter):
            self.small_loops.add(id(node))
            if loop is not None:
                self._around[id(node)] = loop
        if counts(node.iter):
            scope.counters.update(list(assigned_names(node.target))[:1])
        name = dotted(node.iter)
        if name is not None:
            scope.iterated.add(name)
        note_through(node, scope)
        note_batch(node, scope)
        self._scan(node.iter, scope, loop)
        self._target(node.target, scope, loop)
        self._scan(node.body, scope, loop if parts and loop is not None else node)
        if node.orelse is not None:
            self._scan(node.orelse, scope, loop)

    def _clause(self, node: cst.CompFor, scope: Usage, loop: cst.CSTNode | None) -> None:
        note_through(node, scope)
        self._below(node, scope, loop)

    def _while(self, node: cst.While, scope: Usage, loop: cst.CSTNode | None) -> None:
        self._scan(node.test, scope, node)
        self._scan(node.body, scope, node)
        if node.orelse is not None:
            self._scan(node.orelse, scope, loop)

    def _target(self, node: cst.CSTNode, scope: Usage, loop: cst.CSTNode | None) -> None:
        kind = type(node)
        if kind is cst.Name:
            scope.assigned[node.value] += 1  # type: ignore[attr-defined]
        elif kind in (cst.Tuple, cst.List):
            for element in node.elements:  # type: ignore[attr-defined]
                self._target(element.value, scope, loop)
        elif kind is cst.Attribute:
            name = dotted(node)
            if name is not None:
                scope.assigned[name] += 1
                if name.startswith("self.") and name.count(".") == 1:
                    scope.self_assigned.add(name[5:])
            self._scan(node.value, scope, loop)  # type: ignore[attr-defined]
        else:
            holder = dotted(node.value) if kind is cst.Subscript else None  # type: ignore[attr-defined]
            if holder is not None and holder.startswith("self.") and holder.count(".") == 1:
                scope.self_assigned.add(holder[5:])
            self._scan(node, scope, loop)

    def _assign(self, node: cst.Assign, scope: Usage, loop: cst.CSTNode | None) -> None:
        for target in node.targets:
            self._target(target.target, scope, loop)
            self._note_foreign(target.target)
            if type(target.target) is cst.Tuple and type(node.value) is cst.Name:
                names, whole = tuple(assigned_names(target.target)), node.value.value
                if whole in scope.elements:
                    scope.batch_parts.update(names)
                    scope.tuples.add(whole)
                elif whole in scope.parameters:
                    scope.siblings.update(dict.fromkeys(names, names))
            for name, value in pairs_of(target.target, node.value):
                if entry_of(value) in scope.elements:
                    scope.batch_parts.add(name)
            if type(target.target) is cst.Name and type(node.value) is cst.Call:
                function = dotted(node.value.func)
                if function is not None and sum(a.keyword is None and not a.star for a in node.value.args) > 1:
                    scope.results[target.target.value] = function.rpartition(".")[2]
            picked = picked_by(node.value)
            if picked is not None and type(target.target) is cst.Name:
                scope.picked[target.target.value] = picked
        self._scan(node.value, scope, loop)

    def _note_foreign(self, target: cst.CSTNode) -> None:
        if type(target) is cst.Attribute and dotted(target.value) != "self":
            self.assigned_of_others.add(target.attr.value)

    def _note_spread(self, node: cst.BaseExpression, scope: Usage) -> None:
        """What `table[index]` gave is laid out along a batch: the index holds one number an element of the batch."""
        picked = scope.picked.get(node.value) if type(node) is cst.Name else picked_by(node)
        if picked is not None:
            scope.attributes[picked].add("[batch]")

    def _assign_one(self, node: cst.CSTNode, scope: Usage, loop: cst.CSTNode | None) -> None:
        self._target(node.target, scope, loop)  # type: ignore[attr-defined]
        if type(node) is cst.AugAssign:
            self._note_foreign(node.target)
            name = dotted(node.target)
            if name is not None:
                scope.loads[name] += 1
                scope.augmented[name] += 1
                if type(node.operator) is cst.AddAssign:
                    scope.counters.add(name)
        if node.value is not None:  # type: ignore[attr-defined]
            self._scan(node.value, scope, loop)  # type: ignore[attr-defined]

    def _subscript(self, node: cst.Subscript, scope: Usage, loop: cst.CSTNode | None) -> None:
        name = dotted(node.value)
        if name is not None:
            scope.indexed.add(name)
            for element in node.slice:
                if type(element.slice) is cst.Index and type(element.slice.value) is cst.SimpleString:
                    scope.attributes[name].add("[str]")
                elif type(element.slice) is cst.Index and self._is_call_of_torch(element.slice.value):
                    scope.attributes[name].add("[tensor]")
                elif len(node.slice) > 1:
                    scope.attributes[name].add("[,]")
        if len(node.slice) > 1 and type(node.slice[0].slice) is cst.Slice and widens(node.slice[1]):
            self._note_spread(node.value, scope)
        self._below(node, scope, loop)

    def _is_call_of_torch(self, node: cst.BaseExpression) -> bool:
        root = node.func if type(node) is cst.Call else None
        while type(root) is cst.Attribute:
            root = root.value
        return type(root) is cst.Name and root.value in self.torch_names

    def _binary(self, node: cst.BinaryOperation, scope: Usage, loop: cst.CSTNode | None) -> None:
        """A chain of operators leans to the left, and may have thousands of terms."""
        left: cst.BaseExpression = node
        while type(left) is cst.BinaryOperation:
            _note_operand(left.right, scope)
            self._scan(left.right, scope, loop)
            left = left.left
        _note_operand(left, scope)
        self._scan(left, scope, loop)

    def _unary(self, node: cst.UnaryOperation, scope: Usage, loop: cst.CSTNode | None) -> None:
        if type(node.operator) is not cst.Not:
            _note_operand(node.expression, scope)
        self._scan(node.expression, scope, loop)

    def _if(self, node: cst.If, scope: Usage, loop: cst.CSTNode | None) -> None:
        """An if with its elifs, of which there may be a thousand."""
        clause: cst.If | cst.Else | None = node
        while type(clause) is cst.If:
            self._scan(clause.test, scope, loop)
            self._scan(clause.body, scope, loop)
            clause = clause.orelse
        if clause is not None:
            self._scan(clause, scope, loop)

    def _yield(self, node: cst.CSTNode, scope: Usage, loop: cst.CSTNode | None) -> None:
        scope.is_generator = True
        self._below(node, scope, loop)


def _note_operand(node: cst.BaseExpression, scope: Usage) -> None:
    """Note a name that is computed with."""
    if type(node) is cst.Name:
        scope.computed.add(node.value)


class _Readers(dict[type, Any]):
    """How to read each type of node: as it is registered, else what is below it; None for what holds no code."""

    def __missing__(self, kind: type) -> Any:
        self[kind] = reader = FileUsage._below if semantic_fields(kind) else None
        return reader


_READERS = _Readers()


_READERS |= {
    cst.Name: FileUsage._name,
    cst.CompFor: FileUsage._clause,
    cst.Import: FileUsage._import,
    cst.ImportFrom: FileUsage._import,
    cst.FunctionDef: FileUsage._function,
    cst.BinaryOperation: FileUsage._binary,
    cst.UnaryOperation: FileUsage._unary,
    cst.If: FileUsage._if,
    cst.Attribute: FileUsage._attribute,
    cst.Call: FileUsage._call,
    cst.For: FileUsage._for,
    cst.While: FileUsage._while,
    cst.Assign: FileUsage._assign,
    cst.AnnAssign: FileUsage._assign_one,
    cst.AugAssign: FileUsage._assign_one,
    cst.NamedExpr: FileUsage._assign_one,
    cst.Subscript: FileUsage._subscript,
    cst.Yield: FileUsage._yield,
}
