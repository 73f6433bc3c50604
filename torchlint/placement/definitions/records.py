"""Functions and classes of the project, as far as placement is concerned."""

from __future__ import annotations

from collections import defaultdict
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import libcst as cst

from torchlint.placement.knowledge.frameworks import fact
from torchlint.placement.values import UNKNOWN, Alternative, Kind, Place, Value

if TYPE_CHECKING:
    from torchlint.placement.events import Operand
    from torchlint.placement.interpreter import Env, Interpreter
    from torchlint.placement.scene import Scene


#: What an operation in a function joins: a parameter by its name, the Module's own state (""), or a device's place.
Joined: TypeAlias = str | Place


class Joining(NamedTuple):
    """An operation in a function that joins two parameters, or one with what the function has.

    conditions: what has to hold for it to run, as (condition, truth).
    """

    node: cst.CSTNode
    first: cst.CSTNode
    second: cst.CSTNode
    conditions: frozenset[tuple[str, bool]]


class Owed(NamedTuple):
    """An operation in a function that joins a tensor of the host with a parameter of unknown kind.

    operand: the tensor, `host` the place of it. other: what of the operation comes from the parameter.
    """

    node: cst.CSTNode
    api: str
    operand: Operand
    host: Alternative
    other: cst.CSTNode
    parameter: str
    scene: Scene


class Picked(NamedTuple):
    """Where a function takes something out of one parameter by another: `table[which]`, each a node and a name."""

    node: cst.CSTNode
    table: tuple[cst.CSTNode, str]
    which: tuple[cst.CSTNode, str]
    scene: Scene


class Function:
    """A function and its summary, which is computed once, in terms of its parameters.

    returns: what each exit gives. result: their join. parameters: names in order, without `self`.
    mixes: pairs of parameters that an operation joins, so that a call can be judged; "" is the Module's own state, and
    a Place is a device that the function names. kinds: what each parameter is.
    owed: operations that join a tensor of the host with a parameter of unknown kind.
    picked: where a parameter is the index of another one.
    moved: parameters on which an in-place move runs. writes: whether it changes what it got or an attribute.
    changes: whether it may change anything at all that outlives it, or hands values to what nobody knows.
    moves_values: whether it moves something that is no Module and uses the copy. rebinds: whether it binds a parameter
    to its moved copy, and reads that no more. helper: see `helper_style`.
    keeps: parameters added to an attribute of `self`. moved_if_module: parameters of unknown kind that it moves and
    whose moved copy it drops, which is right for a Module alone.
    works, waits: whether it gives work to the device, and whether it may wait for it.
    gives: whether it begins anything that may be work for a device. drains: whether it reads a tensor behind all that.
    defaults: the values of the parameters that have one. calls: what each call met so far passed, by parameter.
    called_from: the scenes of the calls met so far. role: of its code, once it was interpreted (see Scene).
    """

    __slots__ = (
        "called_from", "calls", "changes", "decorators", "defaults", "drains", "generator", "gives", "helper", "keeps",
        "kinds", "mixes",
        "moment", "moved", "moved_if_module", "moves_values", "node", "outer", "owed", "owner", "parameters", "picked",
        "rebinds", "result", "returns", "role", "run", "state", "waits", "works", "writes", "yields",
    )  # fmt: skip

    def __init__(self, node: cst.FunctionDef, run: Interpreter, outer: tuple[Env, ...], owner: Class | None) -> None:
        self.node = node
        self.run = run
        self.outer = outer
        self.owner = owner
        self.decorators: tuple[str, ...] = ()
        self.parameters: list[str] = []
        self.defaults: dict[str, Value] = {}
        self.calls: list[dict[str, Value]] = []
        self.called_from: list[Scene] = []
        self.role = ""
        self.returns: list[tuple[cst.CSTNode, Value]] = []
        self.result: Value = UNKNOWN
        self.yields: Value | None = None
        self.state = "new"
        self.mixes: dict[tuple[Joined, Joined], Joining] = {}
        self.kinds: dict[str, Kind] = {}
        self.owed: list[Owed] = []
        self.picked: list[Picked] = []
        self.moved: set[str] = set()
        self.moved_if_module: set[str] = set()
        self.keeps: set[str] = set()
        self.works = False
        self.waits = False
        self.gives = False
        self.drains = False
        self.writes = False
        self.changes = False
        self.moves_values = False
        self.rebinds = False
        self.helper = ""
        self.generator = False
        #: The scene and the arguments of the only call of a function that stands in another one.
        self.moment: tuple[Scene, dict[str, Value]] | None = None

    @property
    def name(self) -> str:
        return self.node.name.value

    def has_decorator(self, *names: str) -> bool:
        """Whether a decorator's last word is one of these."""
        return any(d.rsplit(".", 1)[-1] in names for d in self.decorators)

    def release(self) -> None:
        """Let go of all that may refer to it in turn."""
        for slot in _TIES:
            delattr(self, slot)

    @property
    def in_module(self) -> bool:
        """Whether it is a method of a Module, which may move what it keeps."""
        return self.owner is not None and self.owner.is_module

    @property
    def is_static(self) -> bool:
        return self.has_decorator("staticmethod")

    @property
    def is_property(self) -> bool:
        return self.has_decorator("property", "cached_property")


#: What of a function may refer to it: environments, scenes and values know it, or what owns it.
_TIES = (
    "called_from", "calls", "defaults", "mixes", "moment", "outer", "owed", "owner", "picked", "result", "returns",
    "run", "yields",
)  # fmt: skip


class Class:
    """A class: its bases, its methods, and what its attributes hold over all methods."""

    __slots__ = (
        "_is_module", "_lineage", "assigned_in", "attributes", "bases", "class_env", "guards", "heirs",
        "kind_names", "looks_like_module", "methods", "node", "rebound", "registered", "run", "state",
        "targets", "unsure", "writers",
    )  # fmt: skip

    def __init__(self, node: cst.ClassDef, run: Interpreter, bases: list[Value]) -> None:
        self.node = node
        self.run = run
        self.bases = bases
        self.methods: dict[str, Function] = {}
        self.attributes: dict[str, Value] = {}
        self.assigned_in: defaultdict[str, set[str]] = defaultdict(set)
        #: The target of the first assignment to each attribute.
        self.targets: dict[str, cst.CSTNode] = {}
        #: What each attribute held before and after the assignments of a method that ran to its end, by both names.
        self.rebound: dict[tuple[str, str], tuple[Value | None, Value]] = {}
        #: Attributes that some assignment puts elsewhere than on the host, or nobody knows where.
        self.unsure: set[str] = set()
        self.class_env: Env = {}
        #: Attributes that a Module registers (parameters, buffers, submodules).
        self.registered: set[str] = set()
        self.guards: frozenset[str] = frozenset()
        self.state = "new"
        #: The methods that bind each attribute of `self`, once somebody asked.
        self.writers: dict[str, set[str]] | None = None
        #: The classes of the file that inherit from it, once somebody asked.
        self.heirs: list[Class] | None = None
        #: A base is not seen, and the class uses what only a Module has.
        self.looks_like_module = False
        self.kind_names = frozenset(self._qualified_bases())
        self._lineage: tuple[Class, ...] = ()
        self._is_module = _are_modules(self.kind_names)

    @property
    def name(self) -> str:
        return self.node.name.value

    def _qualified_bases(self) -> set[str]:
        names: set[str] = set()
        for base in self.bases:
            if isinstance(base.ref, Class):
                names |= base.ref.kind_names | {base.ref.name}
            elif base.name:
                names.add(base.name)
        return names

    def release(self) -> None:
        """Let go of all that may refer to it in turn."""
        for slot in self.__slots__:
            delattr(self, slot)

    def lineage(self) -> tuple[Class, ...]:
        """The class and its bases within the project, nearest first, each once."""
        if self._lineage:
            return self._lineage
        seen: list[Class] = []
        queue: list[Class] = [self]
        while queue:
            cls = queue.pop(0)
            if cls in seen:
                continue
            seen.append(cls)
            queue.extend(b.ref for b in cls.bases if isinstance(b.ref, Class))
        self._lineage = tuple(seen)
        return self._lineage

    def writers_of(self, name: str) -> set[str]:
        """The names of the methods of the class itself in which something is assigned to an attribute of `self`."""
        if self.writers is None:
            self.writers = {}
            for method, function in self.methods.items():
                for attribute in self.run.usage.of(function.node).self_assigned:
                    self.writers.setdefault(attribute, set()).add(method)
        return self.writers.get(name, set())

    def method(self, name: str) -> Function | None:
        for cls in self.lineage():
            if name in cls.methods:
                return cls.methods[name]
        return None

    def attribute(self, name: str) -> tuple[Class, Value] | None:
        """The class that binds an attribute, and what it holds there."""
        for cls in self.lineage():
            if name in cls.attributes:
                return cls, cls.attributes[name]
        return None

    @property
    def has_unknown_base(self) -> bool:
        """Whether a base is not known, so that the class may inherit anything."""
        return any(
            (b.ref is None and b.name is None) or (b.ref is not None and b.ref.has_unknown_base)
            for b in self.bases
        )

    def _is_a(self, *endings: str) -> bool:
        return any(n.endswith(endings) for n in self.kind_names)

    @property
    def is_module(self) -> bool:
        return self._is_module or any(c.looks_like_module for c in self.lineage())

    @property
    def is_known_module(self) -> bool:
        """Whether a base says that it is a Module, rather than what it does."""
        return _are_modules(self.kind_names)

    @property
    def is_data(self) -> bool:
        return _are_data(self.kind_names)

    @property
    def is_optimizer(self) -> bool:
        return _are_optimizers(self.kind_names)

    @property
    def is_autograd_function(self) -> bool:
        return any(n.endswith(("autograd.Function", "autograd.function.Function")) for n in self.kind_names)

    @property
    def is_test(self) -> bool:
        return self._is_a("TestCase") or self.name.startswith("Test")


# Asked of every method, and next to all classes have one of a few bases.


@lru_cache(maxsize=1024)
def _are_modules(bases: frozenset[str]) -> bool:
    return any(map(is_module_base, bases))


@lru_cache(maxsize=1024)
def _are_data(bases: frozenset[str]) -> bool:
    if any(n in _SAMPLERS or n.startswith("torch.utils.data.") for n in bases):
        return True
    endings = ("Dataset", "IterableDataset", "BatchSampler", "DataModule", "Transform", "ImageFolder")
    return any(n.endswith(endings) for n in bases)


@lru_cache(maxsize=1024)
def _are_optimizers(bases: frozenset[str]) -> bool:
    return any(
        (n.startswith("torch.optim") and n.endswith("Optimizer"))
        or (n.startswith("torch.optim.") and "." not in n[12:] and n[12:13].isupper())
        for n in bases
    )


_SAMPLERS = frozenset(["torch.utils.data.Sampler", "torch.utils.data.sampler.Sampler", "Sampler"])
_MODULE_BASES = (
    "torch.nn.", "torch.ao.nn.", "torchmetrics.", "torchvision.models.", "transformers.PreTrainedModel", "timm.",
    "gpytorch.", "torch_geometric.nn.",
)  # fmt: skip
_MODULE_ENDINGS = (
    ".LightningModule", ".PreTrainedModel", ".ModelMixin", ".Metric", ".MessagePassing", ".BaseModule",
    ".ScriptModule", ".GraphModule", ".PyroModule",
)  # fmt: skip


def is_module_base(name: str) -> bool:
    """Whether a base class of this qualified name makes a class an nn.Module."""
    if name.startswith("torch.nn."):
        return not name.startswith(("torch.nn.functional", "torch.nn.utils", "torch.nn.Parameter", "torch.nn.init"))
    if name.startswith(_MODULE_BASES) or name.endswith(_MODULE_ENDINGS):
        return True
    known = fact(name)
    return known is not None and known.kind is Kind.MODULE


#: What a class reads of itself that it can have from nn.Module alone.
MODULE_HABITS = frozenset(
    "register_parameter register_buffer register_module add_module parameters named_parameters named_buffers"
    " named_modules register_forward_hook register_forward_pre_hook".split()
)
