"""How one scope uses its names: what is read of them, where they are passed, how often they are bound."""

from __future__ import annotations

from collections import defaultdict


class Usage:
    """What one scope (a function or the module) does with its names; dotted names such as `self.x` count, too.

    attributes: which attributes are read of a name. called: names called as functions. unpacked: names passed
    as `**name`. torch_arguments: for names passed to functions of torch by position, (function, position, whether
    it stands there in a list). call_arguments: for names passed by position to what else has a name, (what is called,
    position).
    indexed: names subscripted. assigned: how often a name is bound. loads: how often it is read.
    counters: names that are counted up, by a loop or by `+=`.
    batch_parts: names unpacked from what a loop goes through: the inputs and targets of a batch. elements: the names of
    what loops go through, whole. given: names that calls get by position. tuples: names of batches that are unpacked.
    through: names that go through what another name holds, and displays: through the names in a tuple or list that
    stands there; entries: names that go through the values of a mapping. spread: what mappings are passed to as
    `**name`, and sequences as `*name`, with a star before what is called. siblings: names unpacked from one
    parameter, by each of them. computed: names with operators beside them. augmented: how often a name is bound by
    one. picked: the indices by which what a name holds was taken from a table. results: the functions whose results
    names hold. parameters: those of the function.
    backward: a backward stands here outside every loop. trains: one stands here at all. moves: a `to` names a device.
    chooses: a call is told a device that may be any.
    self_assigned: attributes of
    `self` bound here.
    """

    __slots__ = (
        "assigned", "attributes", "augmented", "backward", "batch_parts", "call_arguments", "called", "chooses",
        "computed",
        "containers", "counters", "displays", "elements", "entries", "given", "indexed", "is_generator", "iterated",
        "loads", "moves", "parameters", "picked", "results", "self_assigned", "siblings", "spread", "through",
        "torch_arguments", "trains", "tuples", "unpacked",
    )  # fmt: skip

    def __init__(self) -> None:
        self.attributes: defaultdict[str, set[str]] = defaultdict(set)
        self.called: set[str] = set()
        self.unpacked: set[str] = set()
        self.torch_arguments: defaultdict[str, set[tuple[str, int, bool]]] = defaultdict(set)
        self.call_arguments: defaultdict[str, set[tuple[str, int]]] = defaultdict(set)
        self.indexed: set[str] = set()
        self.iterated: set[str] = set()
        self.counters: set[str] = set()
        self.batch_parts: set[str] = set()
        self.elements: set[str] = set()
        self.given: set[str] = set()
        self.tuples: set[str] = set()
        self.through: dict[str, str] = {}
        self.displays: dict[str, tuple[str, ...]] = {}
        self.entries: dict[str, str] = {}
        self.spread: defaultdict[str, set[str]] = defaultdict(set)
        self.picked: dict[str, str] = {}
        self.computed: set[str] = set()
        self.results: dict[str, str] = {}
        self.siblings: dict[str, tuple[str, ...]] = {}
        self.parameters: frozenset[str] = frozenset()
        self.loads: defaultdict[str, int] = defaultdict(int)
        self.assigned: defaultdict[str, int] = defaultdict(int)
        self.augmented: defaultdict[str, int] = defaultdict(int)
        self.self_assigned: set[str] = set()
        self.backward = False
        self.trains = False
        self.moves = False
        self.chooses = False
        self.is_generator = False
