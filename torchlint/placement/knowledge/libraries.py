"""Calls of builtins and of libraries other than torch."""

from __future__ import annotations

import re
from dataclasses import replace

import libcst as cst

from torchlint.placement.calls.arguments import Arguments
from torchlint.placement.calls.operations import emit_host_only, mix
from torchlint.placement.definitions.functions import summarise
from torchlint.placement.definitions.records import Class
from torchlint.placement.events import Clock, Operand
from torchlint.placement.evidence.flags import as_flag
from torchlint.placement.hazards.buffers import computed_buffer
from torchlint.placement.hazards.startup import emit_variable, note_variable
from torchlint.placement.hazards.syncs import (
    demand,
    emit_sync,
    may_wait,
    number_read,
    read_as_text,
    read_numbers,
)
from torchlint.placement.hazards.timers import note_timeit
from torchlint.placement.interpreter import Env, Interpreter
from torchlint.placement.knowledge.frameworks_bridge import framework_call
from torchlint.placement.syntax import dotted, string
from torchlint.placement.timeline import read_pending
from torchlint.placement.values import (
    ARRAY,
    DOUBLES,
    HOST,
    NUMBER,
    UNKNOWN,
    Alternative,
    Certainty,
    Kind,
    Value,
    element_of,
    join,
    sequence,
    tensor,
    with_rank,
)

_CONVERSIONS = frozenset(["float", "int", "bool", "complex"])
_TO_TEXT = frozenset(["print", "str", "repr", "format"])
_NUMPY_NUMBERS = frozenset(
    "mean sum max min std var median prod any all argmax argmin dot allclose array_equal count_nonzero"
    " percentile".split()
)
#: Parts of SciPy that take a function and numbers, and call `float` on those (scipy/integrate/_quadpack_py.py).
_TAKES_NUMBERS = ("scipy.integrate.", "scipy.optimize.")
#: Functions of NumPy that call the method of their argument, or read an attribute of it (numpy/_core/fromnumeric.py).
_DELEGATED = frozenset("squeeze nonzero swapaxes shape ndim size".split())
_CLOCKS = frozenset(
    [
        "time.time",
        "time.perf_counter",
        "time.monotonic",
        "time.process_time",
        "timeit.default_timer",
        "time.perf_counter_ns",
        "time.time_ns",
        "datetime.datetime.now",
        "datetime.datetime.utcnow",
    ]
)


def builtin_call(run: Interpreter, name: str, node: cst.Call, arguments: Arguments, env: Env) -> Value:
    """A call of a Python builtin."""
    given = arguments.positional
    first = given[0].value if given else UNKNOWN
    if name in _CONVERSIONS:
        if given and may_wait(first):
            emit_sync(run, node, f"{name}()", first)
            return number_read(node)
        emit_sync(run, node, f"{name}()", first)
        return Value(Kind.NUMBER, first.places) if first.kind is Kind.NUMBER else NUMBER
    if name in _TO_TEXT:
        for operand in given:
            emit_sync(run, operand.node, f"{name}()", operand.value, hidden=True)
        return Value(
            Kind.STRING,
            first.places if first.kind is Kind.DEVICE else (),
            facts=_text_of_device(first) if first.kind is Kind.DEVICE else frozenset(),
        )
    if name == "range":
        for operand in given:
            demand(run, operand.value)
            emit_sync(run, operand.node, "range()", operand.value, hidden=True)
        return sequence(element=NUMBER).but(tests=frozenset().union(*(o.value.tests for o in given)))
    if name in (
        "len",
        "isinstance",
        "hasattr",
        "id",
        "type",
        "hash",
        "callable",
        "ord",
        "round",
        "abs",
        "pow",
        "divmod",
    ):
        if name in ("round", "abs") and first.kind is Kind.TENSOR:
            return first
        kept = first.places if first.kind is Kind.NUMBER and name in ("round", "abs") else ()
        return Value(Kind.NUMBER, kept, tests=first.tests)
    if name == "enumerate":
        return sequence(element=sequence((NUMBER, element_of(first)))).but(tests=first.tests)
    if name == "zip":
        return sequence(element=sequence(tuple(element_of(o.value) for o in given)))
    if name in ("list", "tuple", "reversed", "sorted", "iter", "set", "frozenset"):
        if first.kind in (Kind.SEQUENCE, Kind.LOADER) and name in ("list", "tuple", "iter"):
            return first
        if name == "sorted" and "key" not in arguments.named:
            emit_sync(run, node, "sorted()", element_of(first), hidden=True)
        return sequence(element=element_of(first)) if given else sequence(())
    if name == "next":
        return element_of(first)
    if name == "map":
        return sequence(element=_mapped(run, node, given))
    if name == "filter":
        return sequence(element=element_of(given[1].value)) if len(given) > 1 else UNKNOWN
    if name in ("sum", "max", "min"):
        return _reduced(run, name, node, given, first)
    if name == "dict":
        keys = dict(arguments.values().items())
        element: Value | None = None
        for value in keys.values():
            element = value if element is None else join(element, value)
        return Value(Kind.MAPPING, element=element, keys=keys or None)
    if name == "getattr" and len(given) >= 2:
        text = string(given[1].node)
        if text is not None and first.kind is Kind.API:
            return Value(Kind.API, name=f"{first.name}.{text}")
        return computed_buffer(run, first, given[1].node) or as_flag(UNKNOWN, text or "")
    if (
        name == "setattr"
        and len(given) == 3
        and isinstance(given[0].value.ref, Class)
        and string(given[1].node) is None
    ):
        given[0].value.ref.registered.add("*")
        return UNKNOWN
    if name in ("any", "all"):
        inner = element_of(first)
        if inner.kind is Kind.TENSOR:
            emit_sync(run, node, f"{name}()", inner, hidden=True)
        return NUMBER
    return UNKNOWN


def _text_of_device(device: Value) -> frozenset[str]:
    """What is known of `str(device)`."""
    known = frozenset({"device type", "device text"})
    return known | {"text of tensor's device"} if "of tensor" in device.facts else known


def _mapped(run: Interpreter, node: cst.Call, given: list[Operand]) -> Value:
    if len(given) < 2:
        return UNKNOWN
    function = given[0].value
    inner = element_of(given[1].value)
    if function.kind is Kind.FUNCTION and function.ref is not None:
        from torchlint.placement.definitions.functions import call_function

        return call_function(run, function.ref, node, Arguments([Operand(given[1].node, inner)]))
    if function.kind is Kind.FUNCTION and function.element is not None:
        return function.element
    if function.name in ("builtins.int", "builtins.float", "builtins.str"):
        return NUMBER
    return UNKNOWN


def _reduced(run: Interpreter, name: str, node: cst.Call, given: list[Operand], first: Value) -> Value:
    values = [o.value for o in given]
    inner = element_of(first) if len(given) == 1 or name == "sum" else first
    if inner.kind is Kind.TENSOR:
        if name == "sum":
            summed = first if first.kind is Kind.SEQUENCE and first.items else inner
            return mix(run, node, "sum", [Operand(given[0].node, summed)]).but(facts=inner.facts & {"grad", "loss"})
        emit_sync(run, node, f"{name}()", inner, hidden=True)
        return inner
    if len(values) > 1 and any(v.kind is Kind.TENSOR for v in values):
        known = next(v for v in values if v.kind is Kind.TENSOR)
        emit_sync(run, node, f"{name}()", known, hidden=True)
        return known
    if len(values) > 1 and all(v.kind is Kind.NUMBER for v in values):
        return Value(Kind.NUMBER, read_numbers(values))
    return NUMBER if inner.kind is Kind.NUMBER else UNKNOWN


def library_call(run: Interpreter, name: str, node: cst.Call, arguments: Arguments, env: Env) -> Value | None:
    """A call of a library's function by qualified name; None where nothing is known of it."""
    root, _, rest = name.partition(".")
    last = name.rsplit(".", 1)[-1]
    if name.startswith(_TAKES_NUMBERS):
        return UNKNOWN
    if root in ("numpy", "scipy", "jax", "cupy"):
        return _numpy(run, rest, last, node, arguments)
    if root in ("math", "random", "statistics"):
        if root == "math":
            for operand in arguments.positional:
                emit_sync(run, node, name, operand.value, hidden=True)
        return NUMBER if root == "math" or last in ("random", "randint", "uniform", "randrange", "gauss") else UNKNOWN
    if name == "wandb.log":
        for operand in arguments.positional[:1]:
            if isinstance(operand.node, cst.BaseExpression):
                read_as_text(run, operand.node, operand.value, name)
        return UNKNOWN
    if name in _CLOCKS:
        run.emit(Clock(node, run.scene, name))
        run.timeline.reads_clock(node, run.scene)
        return number_read(node).but(facts=frozenset({"clock"}))
    if name in ("timeit.timeit", "timeit.repeat"):
        note_timeit(run, node)
        return NUMBER
    if name in ("copy.deepcopy", "copy.copy"):
        return (arguments.value("x", 0) or UNKNOWN).but(ref=(arguments.value("x", 0) or UNKNOWN).ref)
    if name in ("os.environ.setdefault", "os.putenv") and arguments.positional:
        note_variable(run, node, arguments.positional[0].node)
        return UNKNOWN
    if name == "os.environ.update":
        given = [*(o.value for o in arguments.positional), *arguments.unpacked]
        for key in {*arguments.named, *(key for mapping in given for key in mapping.keys or ())}:
            emit_variable(run, node, key)
        return UNKNOWN
    if root in ("tqdm", "alive_progress", "rich") or last in ("tqdm", "trange", "track", "progress_bar"):
        if last == "trange":
            return sequence(element=NUMBER)
        return arguments.value("iterable", 0) or UNKNOWN
    if root == "itertools":
        return _itertools(last, arguments)
    if name in ("collections.OrderedDict", "collections.defaultdict"):
        return Value(Kind.MAPPING)
    if name == "collections.deque":
        return (
            sequence(element=element_of(arguments.positional[0].value))
            if arguments.positional
            else Value(Kind.SEQUENCE)
        )
    if name == "functools.partial":
        return UNKNOWN
    if root in (
        "os",
        "sys",
        "re",
        "json",
        "pathlib",
        "logging",
        "datetime",
        "csv",
        "argparse",
        "time",
        "glob",
        "shutil",
        "warnings",
        "matplotlib",
        "PIL",
        "cv2",
        "pandas",
        "sklearn",
    ):
        return _host_library(run, root, name, arguments)
    return framework_call(run, name, node, arguments, env)



#: Functions of matplotlib.pyplot that make arrays of what they draw, and of scikit-learn that check their inputs
#: (matplotlib.cbook; sklearn.utils.validation.check_array): both by `numpy.asarray`.
_TAKING_ARRAYS = re.compile(
    r"^matplotlib\.pyplot\.(?:plot|scatter|imshow|matshow|hist|bar|barh|errorbar|fill_between|contourf?|pcolormesh|stem"
    r"|step|semilog[xy]|loglog|boxplot)$"
    r"|^sklearn\.metrics\.(?:\w+_(?:score|error|report|matrix|curve|loss)|auc)$"
)


def _host_library(run: Interpreter, root: str, name: str, arguments: Arguments) -> Value:
    if _TAKING_ARRAYS.search(name):
        for operand in arguments.positional:
            given = _for_numpy(operand.value)
            if given is not None and given.places and all(p.place.is_named for p in given.places):
                role = "elements" if operand.value.kind is Kind.SEQUENCE else operand.role
                emit_host_only(run, operand.node, f"numpy by {name}", replace(operand, value=given, role=role))
            else:
                _note_handed(run, operand, f"numpy by {name}")
                _note_graph(run, operand, f"numpy by {name}")
    return ARRAY if root in ("cv2", "sklearn") else UNKNOWN


def _itertools(last: str, arguments: Arguments) -> Value:
    given = [o.value for o in arguments.positional]
    if last in ("chain", "cycle", "islice", "takewhile", "dropwhile") and given:
        source = given[-1] if last in ("takewhile", "dropwhile") else given[0]
        element = element_of(source)
        if last == "chain":
            for value in given[1:]:
                element = join(element, element_of(value))
        return sequence(element=element)
    if last in ("product", "zip_longest"):
        return sequence(element=sequence(tuple(element_of(v) for v in given)))
    if last == "count":
        return sequence(element=NUMBER)
    return UNKNOWN


def _numpy(run: Interpreter, rest: str, last: str, node: cst.Call, arguments: Arguments) -> Value:
    first = arguments.positional[0].value if arguments.positional else UNKNOWN
    if rest == "squeeze" and first.kind is Kind.TENSOR:
        return first.at(with_rank(first.places, None))  # it calls the method of what it gets
    for operand in arguments.positional:
        given = _for_numpy(operand.value)
        if given is not None and not given.on_host and last not in _DELEGATED:
            # On an accelerator it makes NumPy raise: nothing here waits for one.
            role = "elements" if operand.value.kind is Kind.SEQUENCE else operand.role
            emit_host_only(run, operand.node, f"numpy.{rest}", replace(operand, value=given, role=role))
        elif given is None and last not in _DELEGATED:
            _note_handed(run, operand, f"numpy.{rest}")
        if last not in _DELEGATED or operand.value.kind is Kind.SEQUENCE:
            _note_graph(run, operand, f"numpy.{rest}")
        if isinstance(operand.node, cst.BaseExpression):
            read_pending(run, operand.node, f"numpy.{rest}", operand.value)
    if last in _NUMPY_NUMBERS and "axis" not in arguments.named and len(arguments.positional) < 2:
        return NUMBER
    if rest.startswith("random.") and not arguments.all():
        return NUMBER
    if rest in _ELEMENT_BY_ELEMENT and all(o.value.kind is Kind.NUMBER for o in arguments.positional):
        return NUMBER
    return _array(rest, arguments, first)


def _array(rest: str, arguments: Arguments, first: Value) -> Value:
    """What a function of NumPy gives, which is float64 by default
    (https://numpy.org/doc/stable/reference/arrays.scalars.html#numpy.double)."""
    dtype = arguments.value("dtype", _DTYPE_AT.get(rest, 1))
    doubles = rest in _DOUBLES or (rest in _FOLLOWING and "float64" in first.facts and first.kind is Kind.ARRAY)
    if dtype is not None and rest not in ("linspace", "reshape"):
        doubles = dtype.name in ("numpy.float64", "numpy.double", "float64", "builtins.float")
    elif "dtype" in arguments.named or arguments.unpacked:
        doubles = False
    return DOUBLES if doubles else ARRAY


#: Functions of NumPy that make a number of numbers (https://numpy.org/doc/stable/reference/ufuncs.html).
_ELEMENT_BY_ELEMENT = frozenset(
    "abs absolute add arccos arcsin arctan arctan2 cbrt ceil cos cosh deg2rad degrees divide exp exp2 expm1 floor hypot"
    " log log10 log1p log2 maximum minimum mod multiply negative power rad2deg radians reciprocal remainder rint round"
    " sign sin sinh sqrt square subtract tan tanh true_divide trunc clip".split()
)

#: Functions of NumPy whose arrays are float64 where no `dtype` is given, and those that keep the type of an array.
_DOUBLES = frozenset(
    "loadtxt genfromtxt zeros ones empty eye identity linspace logspace random.rand random.randn random.random"
    " random.uniform random.normal random.standard_normal random.random_sample".split()
)
_FOLLOWING = frozenset(["asarray", "array", "ascontiguousarray", "copy", "reshape", "squeeze", "expand_dims"])
#: Where `dtype` stands among their arguments, if it is not the second; past them where they have none.
_DTYPE_AT = {"eye": 3, "linspace": 5, "logspace": 5, "random.rand": 99, "random.randn": 99, "random.uniform": 99,
             "random.normal": 99, "random.random": 99, "random.standard_normal": 99, "squeeze": 99, "expand_dims": 99,
             "copy": 99, "ascontiguousarray": 1, "random.random_sample": 99}  # fmt: skip


def _note_graph(run: Interpreter, operand: Operand, api: str) -> None:
    """A tensor, or a list of some, goes to NumPy with its graph."""
    value, role = operand.value, operand.role
    if value.kind is Kind.SEQUENCE and "made" in value.facts:
        value, role = element_of(value), "elements"
    if value.kind is Kind.TENSOR and (not value.places or value.on_host):
        emit_host_only(run, operand.node, api, replace(operand, value=value.at(()), role=role))


def _note_handed(run: Interpreter, operand: Operand, api: str) -> None:
    """A parameter of unknown kind goes to NumPy as it came: the callers know whether it is a tensor, and where."""
    value, name = operand.value, dotted(operand.node)
    if value.kind is Kind.UNKNOWN and name is not None and value is run.frame.parameters.get(name):
        facts = value.facts | {"handed"}
        emit_host_only(run, operand.node, api, replace(operand, value=value.but(kind=Kind.TENSOR, facts=facts)))


def _for_numpy(value: Value) -> Value | None:
    """The tensor, or the tensors of a list, that NumPy gets; what a Module gave, or was moved, is taken for one."""
    if value.kind is Kind.SEQUENCE and "made" in value.facts:
        inner = element_of(value)
        value = inner if inner.places else UNKNOWN
    if value.kind is Kind.TENSOR:
        return value
    if value.kind is Kind.UNKNOWN and value.places and not value.facts & {"assumed", "perhaps"}:
        if all(p.place.is_named for p in value.places):
            return value.but(kind=Kind.TENSOR, certainty=min(value.certainty, Certainty.INFERRED))
    return None


def item_of(dataset: Value) -> Value:
    """What a Dataset gives for an index, where that is known."""
    if dataset.element is not None or not isinstance(dataset.ref, Class):
        return dataset.element or UNKNOWN
    get = dataset.ref.method("__getitem__")
    if get is None or get.state == "running":
        return UNKNOWN
    summarise(get)
    item = get.result
    parts = item.items if item.items is not None else (item,)
    return item if all(p.kind is not Kind.TENSOR or p.on_host for p in parts) else UNKNOWN


#: Collators of transformers (https://huggingface.co/docs/transformers/main/en/main_classes/data_collator).
_COLLATOR = re.compile(r"^transformers\..*(?:DataCollator\w*|default_data_collator)$")


def batch_of(run: Interpreter, dataset: Value, arguments: Arguments, node: cst.Call) -> Value | None:
    """What a DataLoader over a dataset yields: what the dataset gives, stacked on the host."""
    collate = arguments.value("collate_fn")
    if collate is not None and collate.name is not None and _COLLATOR.search(collate.name):
        # They stack lists of numbers of the host, as `return_tensors="pt"` does.
        host = Alternative(HOST, 1, node)
        return Value(Kind.OWNED, element=tensor((host,), Certainty.INFERRED), name="transformers.BatchEncoding")
    if run.has_default_device or collate is not None or arguments.unpacked:
        return None
    element = dataset.element
    if element is None and isinstance(dataset.ref, Class):
        get = dataset.ref.method("__getitem__")
        if get is not None and get.state != "running":
            summarise(get)
            element = get.result
    known = None if element is None else _batched(element, node)
    if known is not None and known.kind is not Kind.UNKNOWN:
        return known
    if isinstance(dataset.ref, Class) or dataset.kind is Kind.TENSOR or arguments.find("batch_sampler") is not None:
        return None
    if dataset.kind is Kind.DATASET and element is None:
        return None  # one of several classes of the project, which may hold what was moved
    # Datasets read what they give from files, and default_collate stacks it where it is.
    host = Alternative(HOST, 1, node)
    return Value(Kind.UNKNOWN, (host,), Certainty.INFERRED, facts=frozenset({"batch"}))


def _batched(value: Value, node: cst.Call) -> Value:
    """default_collate stacks tensors where they are; numbers and arrays become tensors on the CPU."""
    if value.kind is Kind.TENSOR:
        return value.but(places=with_rank(value.places, 1), facts=frozenset())
    if value.kind in (Kind.NUMBER, Kind.ARRAY):
        return Value(Kind.TENSOR, (Alternative(HOST, 1, node),), Certainty.INFERRED)
    if value.kind is Kind.SEQUENCE and value.items is not None:
        return sequence(tuple(_batched(i, node) for i in value.items))
    if value.kind is Kind.MAPPING:
        keys = {k: _batched(v, node) for k, v in value.keys.items()} if value.keys else None
        return Value(
            Kind.MAPPING,
            keys=keys,
            element=_batched(value.element, node) if value.element is not None else None,
        )
    return UNKNOWN


__all__ = ["batch_of", "builtin_call", "dotted", "item_of", "library_call"]
