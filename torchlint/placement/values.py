"""What is known of a value: its kind, the places where it may live, and how sure that is."""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    import libcst as cst

#: More alternatives than this are not told apart; the oldest stay.
MOST_ALTERNATIVES = 6


class Kind(enum.Enum):
    """What sort of thing a value is. What is not handled is UNKNOWN, never TENSOR."""

    __hash__ = object.__hash__  # Enum's own is a Python function, and kinds are looked up all the time

    TENSOR = "tensor"
    MODULE = "module"
    OPTIMIZER = "optimizer"
    SCHEDULER = "scheduler"
    SCALER = "scaler"
    LOADER = "loader"
    DATASET = "dataset"
    DEVICE = "device"
    GENERATOR = "generator"
    CONTEXT = "context manager"
    ARRAY = "array"
    NUMBER = "number"
    STRING = "string"
    DTYPE = "dtype"
    NONE = "None"
    SEQUENCE = "sequence"
    MAPPING = "mapping"
    FUNCTION = "function"
    CLASS = "class"
    OBJECT = "object"  # an instance of a class that the project defines and that is no Module
    OWNED = "owned by a framework"  # moves itself or its inputs; its `to` works in place
    API = "api"  # a library's module, class or function, by qualified name
    UNKNOWN = "unknown"


class Certainty(enum.IntEnum):
    """KNOWN: torch's own API, a class, an annotation. INFERRED: how it is used. GUESSED: a name.

    A guess may silence a finding, never accuse.
    """

    GUESSED = 0
    INFERRED = 1
    KNOWN = 2


class Where(enum.Enum):
    __hash__ = object.__hash__

    HOST = "host"
    NAMED = "named"
    OF_CALLER = "of caller"
    OF_MODULE = "of module"
    DEFAULT = "default"
    UNKNOWN = "unknown"


class Place(NamedTuple):
    """Where a tensor lives, as far as the code says.

    HOST: the CPU. NAMED: the device that the expression `name` denotes. OF_CALLER: wherever the caller put the
    parameter `name`. OF_MODULE: wherever the Module of class `name` is. DEFAULT: the default device, which the
    code has set. Two places that are not HOST are only known to differ if both have an `accelerator`, and these do.
    accelerator: of a NAMED place, the accelerator that it is where there is one, as the code spells it out:
    `cuda:1`, `cuda` (the current one); `:1` is the second of whatever sort there is. Empty where it doesn't say.
    """

    where: Where
    name: str = ""
    accelerator: str = ""

    @property
    def is_host(self) -> bool:
        return self.where is Where.HOST

    @property
    def is_named(self) -> bool:
        return self.where is Where.NAMED

    def describe(self) -> str:
        """A few words for a message, e.g. "on the CPU", "on `device`", "wherever the caller put `x`"."""
        if self.where is Where.HOST:
            return "on the CPU"
        if self.where is Where.NAMED:
            return f"on `{self.name}`"
        if self.where is Where.OF_CALLER:
            return f"wherever the caller put `{self.name}`"
        if self.where is Where.OF_MODULE:
            return "wherever the module is"
        if self.where is Where.DEFAULT:
            return "on the default device"
        return "somewhere unknown"


#: Device types of torch that name an accelerator (torch.device's own list).
VENDORS = frozenset(["cuda", "mps", "xpu", "hpu", "npu", "mtia", "xla", "ipu", "privateuseone", "musa"])


def place_named(text: str) -> Place:
    """The place that a device string denotes."""
    kind, _, number = text.partition(":")
    if kind == "cpu":
        return HOST
    spelled_out = kind in VENDORS and (number.isdecimal() or text == kind)
    return Place(Where.NAMED, text, text if spelled_out else "")


HOST = Place(Where.HOST)
DEFAULT = Place(Where.DEFAULT)
ELSEWHERE = Place(Where.UNKNOWN)


class Alternative(NamedTuple):
    """One of the places where a value may live.

    rank: 0 for a 0-dim tensor, 1 for at least one dimension, None where it is not known.
    origin: the node that put it there.
    guards: the conditions under which it is there, as (condition, truth) pairs, so that correlated branches
        do not conflict.
    through: the target of the assignment to an attribute by which it came here from another method.
    """

    place: Place
    rank: int | None = None
    origin: cst.CSTNode | None = None
    guards: frozenset[tuple[str, bool]] = frozenset()
    through: cst.CSTNode | None = None

    def excludes(self, other: Alternative) -> bool:
        """Whether both can't hold in one run, since a condition would have to be true and false."""
        if not self.guards or not other.guards:
            return False
        return any((condition, not truth) in other.guards for condition, truth in self.guards)


NO_FACTS: frozenset[str] = frozenset()
#: The name of the objects that are distributions of torch; their places are those of their parameters.
DISTRIBUTION = "distribution"


class Value:
    """An abstract value; never changed once it is made.

    places: the alternatives; empty means that nothing is known.
    element: what iterating gives; items: what each position holds; keys: what each string key holds.
    ref: the Function or Class of the project that it is, or is an instance of.
    name: the qualified API name, the text of a string literal, a device type or a dtype; of a Module's parameter, the
        Module's name in the code.
    facts: words from a small vocabulary:
        fresh      a copy that a move made, nothing else refers to it
        parameter  an nn.Parameter, or registered state of a Module
        buffer     a registered buffer
        mask       a boolean tensor
        pending    an asynchronous copy to the host that nobody waited for
        grad       requires grad or hangs on a graph
        leaf       a leaf that requires grad
        pinned     pinned host memory
        loss       a 0-dim tensor that a loss function or a reduction gave
        wrapped    a Module wrapped in DataParallel, DDP or `prepare`: moves its inputs
        behind     a Module that DataParallel or DDP wraps on some path, so that its attributes are hidden
        quantised  a Module that bitsandbytes placed
        collates   a DataLoader that puts batches together itself; batch: such a batch; collated: a part of one
        part       a tensor only because it is a part of what a loop hands out, is moved, and handed on
        made       a container that the code around makes itself, so that filling it changes nothing else
        filtered   a container of moved elements that leaves some out (`ref` is the comprehension)
        instance   of a class that is not seen, and is none of torch's
        in place   a framework's object whose `to` changes it; copies: whose `to` returns another one
        disabled   a scaler that may be switched off by a flag
        element    what an index took out, perhaps of a single dimension
        batch      what a loader yields: a tensor, or several in a tuple or dict
        given      a part of an argument, as it was passed
        joint      what an operation made of several tensors, so that its places are one
        output     what a Module on a known device gave
        called     what is called, and a Module if its caller gives one
        handed     of unknown kind, but given to a function as a tensor or a Module
        optional   an argument that is None where the caller leaves it out
        taken      where it is was assumed only since it was taken out of what a loop goes through
        moved leaf the copy that moving a leaf made, where nothing else refers to the leaf; copied leaf: where
            something does
        filled     a tensor written piece by piece
        perhaps    of unknown kind, but a tensor on some path
        doubtful   a tensor of the host joined with what may be one of an accelerator, or a number
        computed   of unknown kind, but a method that tensors have was called on what a model gave
        of grad    a gradient, or computed from one
        cut        no gradient flows through it: detached, or no function of its inputs that has one
        row        what iterating over a tensor gave
        modulo     a number that `%` gave
        of module  an attribute of a Module whose class is not seen
        float64    an array, or a tensor, of that type
        clock      a number read off a clock, or computed from one
    tests: what its truth says of the run: "accelerator", "no-accelerator", "periodic" (now and then), "between"
        (most of the time), "first" (once), "later" (but once), "training", "inference", "debug", "flag"; "several"
        beside them where more than one of them had to hold.
    """

    __slots__ = ("certainty", "element", "facts", "items", "keys", "kind", "name", "places", "ref", "tests")

    def __init__(
        self,
        kind: Kind = Kind.UNKNOWN,
        places: tuple[Alternative, ...] = (),
        certainty: Certainty = Certainty.KNOWN,
        *,
        element: Value | None = None,
        items: tuple[Value, ...] | None = None,
        keys: dict[str, Value] | None = None,
        ref: Any = None,
        name: str | None = None,
        facts: frozenset[str] = NO_FACTS,
        tests: frozenset[str] = NO_FACTS,
    ) -> None:
        self.kind = kind
        self.places = places
        self.certainty = certainty
        self.element = element
        self.items = items
        self.keys = keys
        self.ref = ref
        self.name = name
        self.facts = facts
        self.tests = tests

    def __repr__(self) -> str:
        places = ", ".join(p.place.describe() + (f" rank {p.rank}" if p.rank is not None else "") for p in self.places)
        extra = f" {self.name}" if self.name else ""
        return f"<{self.kind.value}{extra} [{places}] {self.certainty.name.lower()} {' '.join(sorted(self.facts))}>"

    @property
    def is_tensor(self) -> bool:
        return self.kind is Kind.TENSOR

    @property
    def is_module(self) -> bool:
        return self.kind is Kind.MODULE

    @property
    def on_host(self) -> bool:
        """Whether every alternative is the host (and there is one)."""
        return bool(self.places) and all(p.place.is_host for p in self.places)

    @property
    def may_be_on_host(self) -> bool:
        return any(p.place.is_host for p in self.places)

    @property
    def origin(self) -> cst.CSTNode | None:
        return next((p.origin for p in self.places if p.origin is not None), None)

    def but(self, **changes: Any) -> Value:
        """A copy in which some fields differ."""
        new = Value.__new__(Value)
        # Written out, since this is called for every second operation.
        new.kind, new.places, new.certainty = self.kind, self.places, self.certainty
        new.element, new.items, new.keys = self.element, self.items, self.keys
        new.ref, new.name, new.facts, new.tests = self.ref, self.name, self.facts, self.tests
        for field, value in changes.items():
            setattr(new, field, value)
        return new

    def at(self, places: tuple[Alternative, ...]) -> Value:
        new = self.but()
        new.places = places
        return new

    def same(self, other: Value) -> bool:
        """Whether a further round of a loop would learn nothing from `other`."""
        return self is other or (
            self.kind is other.kind
            and self.places == other.places
            and self.certainty == other.certainty
            and self.name == other.name
            and self.facts == other.facts
        )


UNKNOWN = Value()
NUMBER = Value(Kind.NUMBER)
NONE = Value(Kind.NONE)
ARRAY = Value(Kind.ARRAY)
#: An array of float64.
DOUBLES = Value(Kind.ARRAY, facts=frozenset({"float64"}))


def tensor(
    places: tuple[Alternative, ...] = (), certainty: Certainty = Certainty.KNOWN, facts: frozenset[str] = NO_FACTS
) -> Value:
    return Value(Kind.TENSOR, places, certainty, facts=facts)


def union(a: tuple[Alternative, ...], b: tuple[Alternative, ...]) -> tuple[Alternative, ...]:
    """The alternatives of both, at most `MOST_ALTERNATIVES`; the first of those off the host that differ in origin."""
    if a == b or not b:
        return a
    if not a:
        return b
    merged = list(a)
    for new in b:
        if not any(_alike(old, new) for old in a):
            merged.append(new)
    return tuple(merged[:MOST_ALTERNATIVES])


def _alike(a: Alternative, b: Alternative) -> bool:
    """Whether two alternatives differ in no more than their origin, where that is of no interest."""
    same = a.place == b.place and a.rank == b.rank and a.guards == b.guards
    return same and (not a.place.is_host or a.origin is b.origin)


def with_rank(places: tuple[Alternative, ...], rank: int | None) -> tuple[Alternative, ...]:
    # Written out: `_replace` takes four times as long, and half of all operations come through here.
    return tuple(
        [p if p.rank == rank else Alternative(p.place, rank, p.origin, p.guards, p.through) for p in places]
    )


def guarded(value: Value, condition: str, truth: bool) -> Value:
    """The value as it is where `condition` was found to be `truth`."""
    if not value.places:
        return value
    guard = {(condition, truth)}
    return value.at(
        tuple([Alternative(p.place, p.rank, p.origin, p.guards | guard, p.through) for p in value.places])
    )


def returned_under(value: Value, condition: str, truth: bool) -> Value:
    """What a function gives where `condition` was found to be `truth`, each part of a tuple or list as well."""
    if value.kind is Kind.SEQUENCE and not value.places and (value.items is not None or value.element is not None):
        items, element = value.items, value.element
        return value.but(
            items=None if items is None else tuple(guarded(item, condition, truth) for item in items),
            element=None if element is None else guarded(element, condition, truth),
        )
    return guarded(value, condition, truth)


def narrowed(value: Value, conditions: frozenset[tuple[str, bool]]) -> Value:
    """The value without the alternatives that the conditions exclude."""
    if not conditions or not value.places:
        return value
    excluded = frozenset([(c, not t) for c, t in conditions])
    kept = tuple([p for p in value.places if not p.guards or p.guards.isdisjoint(excluded)])
    return value if len(kept) == len(value.places) else value.at(kept)


_NUMBERS = {Kind.NUMBER, Kind.NONE, Kind.STRING}


def _join_kinds(a: Value, b: Value) -> Kind:
    if a.kind is b.kind:
        return a.kind
    kinds = {a.kind, b.kind}
    if Kind.TENSOR in kinds:
        other = b if a.kind is Kind.TENSOR else a
        # A tensor or None, or a number that a loop turns into one: it is used as the tensor.
        if other.kind in (Kind.NONE, Kind.NUMBER):
            return Kind.TENSOR
        return Kind.UNKNOWN
    if Kind.NONE in kinds:
        return b.kind if a.kind is Kind.NONE else a.kind
    if kinds == {Kind.STRING, Kind.DEVICE}:
        return Kind.DEVICE
    if kinds <= _NUMBERS:
        return Kind.NUMBER
    return Kind.UNKNOWN


_PLAIN = {Kind.STRING: Value(Kind.STRING), Kind.NUMBER: NUMBER}


def _is_plain(value: Value) -> bool:
    """Whether nothing is known of a number or a text but, perhaps, which one it is."""
    return (
        not value.places
        and not value.facts
        and not value.tests
        and value.ref is None
        and value.element is None
        and value.items is None
        and value.keys is None
        and value.certainty is Certainty.KNOWN
    )


#: What holds where it held on one of the paths.
_LASTING = frozenset({"filled", "behind", "moved leaf"})

#: What is never on an accelerator.
_READ = frozenset({Kind.NUMBER, Kind.ARRAY, Kind.STRING})


def _stays_on_host(value: Value) -> bool:
    return all(p.place.is_host for p in value.places)


def join(a: Value | None, b: Value | None) -> Value:
    """What is known where two paths meet."""
    if a is None or b is None:
        return a if b is None and a is not None else b if b is not None else UNKNOWN
    if a is b:
        return a
    if a.kind is b.kind and a.kind in _PLAIN and _is_plain(a) and _is_plain(b):
        # The items of a long list of texts or numbers: they have nothing in common but their kind.
        return a if a.name == b.name else _PLAIN[a.kind]
    if a.element is b.element and a.items is b.items and a.keys is b.keys and a.ref is b.ref and a.same(b):
        return a
    if Kind.SEQUENCE in (a.kind, b.kind) and a.kind is not b.kind:
        made = _made_for(a, b)
        if made is not None:
            return made
    kind = a.kind if a.kind is b.kind else _join_kinds(a, b)
    name = a.name if a.name == b.name else None
    if kind is Kind.API and name is None:
        kind = Kind.UNKNOWN
    element = join(a.element, b.element) if a.element is not None or b.element is not None else None
    items = None
    if a.items is not None and b.items is not None and len(a.items) == len(b.items):
        items = tuple(join(x, y) for x, y in zip(a.items, b.items))
    elif Kind.NONE in (a.kind, b.kind):
        items = a.items or b.items
    keys = (
        {**a.keys, **{k: join(a.keys.get(k), v) for k, v in b.keys.items()}}
        if a.keys and b.keys
        else a.keys or b.keys
    )
    # Where a number was read is no place of the tensor that it may be instead.
    reads = kind is not Kind.NUMBER and Kind.NUMBER in (a.kind, b.kind)
    places = union(*(() if reads and v.kind is Kind.NUMBER else v.places for v in (a, b)))
    if kind is Kind.DEVICE and any(p.place.is_host for p in places) and any(not p.place.is_host for p in places):
        # A device that may be the CPU is what its user chose, not a fault.
        places = tuple(p for p in places if not p.place.is_host)
    facts = a.facts & b.facts | (a.facts | b.facts) & _LASTING
    if "mixed" in a.facts | b.facts and all("mixed" in v.facts or _stays_on_host(v) for v in (a, b)):
        facts |= {"mixed"}  # nothing else has put it off the host
    if {a.kind, b.kind} & {Kind.NONE, Kind.NUMBER} and a.kind is not b.kind:
        facts = a.facts | b.facts
    if kind is Kind.UNKNOWN and a.kind is not b.kind:
        if Kind.TENSOR in (a.kind, b.kind) and Kind.UNKNOWN in (a.kind, b.kind):
            facts |= {"perhaps"}
        else:
            places = tuple(p for p in places if p.place.where is Where.OF_CALLER)
        if any(v.items and any(item.kind in _READ for item in v.items) for v in (a, b)):
            # What was read on the host comes along on one path: which part is which, is not known.
            element, places = None, ()
    elif kind is Kind.UNKNOWN:
        facts |= (a.facts | b.facts) & {"perhaps"}
    return Value(
        kind,
        places,
        min(a.certainty, b.certainty),
        element=element,
        items=items,
        keys=keys,
        ref=a.ref if a.ref is b.ref else (a.ref or b.ref if Kind.NONE in (a.kind, b.kind) else None),
        name=name,
        facts=facts,
        tests=a.tests & b.tests,
    )


def _made_for(a: Value, b: Value) -> Value | None:
    """A tuple of tensors that stands in for an argument that was left out: the argument is one like it."""
    made, given = (a, b) if a.kind is Kind.SEQUENCE else (b, a)
    if given.kind not in (Kind.UNKNOWN, Kind.TENSOR) or given.certainty is Certainty.KNOWN:
        return None
    if not made.items or any(item.kind is not Kind.TENSOR for item in made.items):
        return None
    if not given.places or not any(fact.startswith("like:") for fact in given.facts):
        return None
    part = Value(Kind.TENSOR, with_rank(given.places, None), Certainty.INFERRED)
    return sequence(tuple(join(item, part) for item in made.items)).but(facts=made.facts & given.facts)


def without_graph(value: Value, depth: int = 0) -> Value:
    """A value that was computed under no_grad: nothing in it hangs on a graph, but what requires grad itself."""
    if depth > 3:
        return value
    changes: dict[str, Any] = {}
    if "grad" in value.facts and not value.facts & {"leaf", "parameter"}:
        changes["facts"] = value.facts - {"grad"}
    if value.element is not None:
        changes["element"] = without_graph(value.element, depth + 1)
    if value.items is not None:
        changes["items"] = tuple(without_graph(i, depth + 1) for i in value.items)
    if value.keys is not None:
        changes["keys"] = {k: without_graph(v, depth + 1) for k, v in value.keys.items()}
    return value.but(**changes) if changes else value


def sequence(items: tuple[Value, ...] | None = None, element: Value | None = None) -> Value:
    """A list or tuple; `element` is the join of the items where they are known."""
    if items is not None and element is None:
        for item in items:
            element = item if element is None else join(element, item)
        if {Kind.TENSOR, Kind.NUMBER} <= {item.kind for item in items}:
            element = UNKNOWN  # which of them is meant is not known
    return Value(Kind.SEQUENCE, items=items, element=element)


def is_as_given(value: Value) -> bool:
    """Whether a value is an argument, or a part of one, rather than what was computed from it."""
    facts = value.facts
    return bool(facts & {"given", "taken", "collated"}) or any(fact.startswith("like:") for fact in facts)


_TAKEN = frozenset({"assumed", "taken"})
_ONE = frozenset({"element"})


def element_of(value: Value) -> Value:
    """What iterating over a value gives."""
    if value.kind is Kind.MAPPING:
        return Value(Kind.STRING)  # its keys
    if value.element is not None:
        return value.element
    if value.items:
        result = value.items[0]
        for item in value.items[1:]:
            result = join(result, item)
        return result
    if value.kind is Kind.TENSOR:
        facts = value.facts - {"leaf", "parameter"} | {"element", "row"}
        return tensor(with_rank(value.places, None), min(value.certainty, Certainty.INFERRED), facts)
    if value.kind in (Kind.NUMBER, Kind.ARRAY):
        return NUMBER if value.kind is Kind.NUMBER else ARRAY
    if value.kind is Kind.STRING:
        return Value(Kind.STRING)
    if "collates" in value.facts:
        return Value(Kind.UNKNOWN, facts=frozenset({"batch"}))
    # A loader's batches are rather on the host, whatever else its caller keeps on a device.
    places = value.places if value.kind is Kind.UNKNOWN else ()
    if places and "assumed" not in value.facts and all(p.place.is_named for p in places):
        # What was sent to a device, or computed there, has its parts there.
        return Value(Kind.UNKNOWN, places, value.certainty, facts=value.facts | _ONE)
    taken = _TAKEN if "assumed" not in value.facts or "taken" in value.facts else frozenset({"assumed"})
    return Value(Kind.UNKNOWN, places, facts=value.facts | taken)
