"""What annotations, defaults and use say of a value whose making is not seen."""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Set as AbstractSet
from functools import lru_cache
from typing import TYPE_CHECKING

import libcst as cst

from torchlint.placement.definitions.records import Class, is_module_base
from torchlint.placement.evidence.scopes import Usage
from torchlint.placement.knowledge import torch_api
from torchlint.placement.knowledge.frameworks_bridge import framework_instance
from torchlint.placement.syntax import dotted, entry_of, string
from torchlint.placement.values import NONE, NUMBER, Alternative, Certainty, Kind, Place, Value, Where

if TYPE_CHECKING:
    from torchlint.placement.interpreter import Interpreter

#: Attributes of numpy.ndarray (NumPy 2 reference, "ndarray attributes" and "methods") that tensors share or that
#: refute a tensor only together with others.
_ARRAY_ATTRIBUTES = frozenset(
    "T all any argmax argmin argpartition argsort astype base byteswap choose clip compress conj conjugate copy ctypes"
    " cumprod cumsum data device diagonal dot dtype dump dumps fill flags flat flatten imag item itemset itemsize mT"
    " max"
    " mean min nbytes ndim newbyteorder nonzero partition prod ptp put ravel real repeat reshape resize round"
    " searchsorted setfield setflags shape size sort squeeze std strides sum swapaxes take to_device tobytes tofile"
    " tolist tostring trace transpose var view".split()
)
#: Attributes that other common things have, too (devices, strings, files, frames, sparse matrices, paths, optimizers).
_SHARED_ATTRIBUTES = frozenset(
    "to type device names name index values value add sub mul div pow get set count keys items copy_ pop append"
    " format split join close open read write update apply map cuda cpu float half double bfloat16 long int bool"
    " requires_grad_ is_shared share_memory abs sqrt exp log cos sin tan is_sparse equal eq ne gt lt ge le where"
    " select unique unfold fill_ histogram mode median quantile diff corr cov rename bitwise_and bitwise_or isnan"
    " rsub sign apply_ map_ is_cuda is_complex grad stride storage crop backward dequantize expand zero_ module_load"
    " tile align_to".split()
)
#: Of those, the ones that still speak for a tensor when they come in company that lies in dir(Tensor).
_SPEAKING = frozenset(
    "float half long is_cuda cuda cpu grad backward requires_grad_ expand copy_ zero_ fill_ size()".split()
)
#: What only a Module has, by the names that nothing else uses.
_MODULE_ONLY = frozenset(
    "parameters named_parameters load_state_dict named_modules modules children named_children register_buffer"
    " register_forward_hook register_module add_module".split()
)
#: Marks that the usage walk adds; not attributes.
MARKS = frozenset(["[tensor]", "[copied]", "[batch]", "dim=", "size()", "dim()", "[str]", "[,]"])


@lru_cache(maxsize=1)
def _distinguishing() -> frozenset[str]:
    tensor = torch_api.TENSOR_ATTRIBUTES - torch_api.MODULE_ATTRIBUTES
    return frozenset(a for a in tensor if not a.startswith("__")) - _ARRAY_ATTRIBUTES - _SHARED_ATTRIBUTES


def distinguishes_tensor(attribute: str) -> bool:
    """Whether nothing but a tensor is likely to have this attribute."""
    return attribute in _distinguishing()


_PLACING = frozenset(["to", "cuda", "cpu"])
_SWITCHING = frozenset(["eval", "train"])
_OF_MODULES = _PLACING | _SWITCHING | {"zero_grad"}


def speaks_of_array(attribute: str) -> bool:
    """Whether nothing but a tensor or an array is likely to have this attribute."""
    return attribute in torch_api.TENSOR_ATTRIBUTES - torch_api.MODULE_ATTRIBUTES - _SHARED_ATTRIBUTES


#: Attributes of tensors that batches, lists, dicts, texts and devices have, too.
_OF_BATCHES = frozenset(
    "to cuda cpu type name names index values value items keys count get set pop append update format split join clear"
    " copy copy_ sort is_shared requires_grad_ share_memory pin_memory apply_ map_ data size stride storage"
    " crop".split()
)


def speaks_in_forward(attribute: str) -> bool:
    """Whether an argument of a Module's forward that has this attribute is a tensor rather than a batch of them."""
    return attribute in torch_api.TENSOR_ATTRIBUTES and attribute not in _OF_BATCHES


def kind_from_use(name: str, usage: Usage, *, parts: bool = True) -> Kind | None:
    """TENSOR or MODULE where the use of `name` proves it, None where it does not.

    A tensor: every attribute used lies in dir(Tensor), and one of them is no array's and no other common thing's.
    `name(...)` and `**name` refute. parts: that it is a part of a batch, moved and handed on, counts as proof.
    """
    if name.endswith("dtype"):
        return None  # a dtype has `is_floating_point`, too
    used = usage.attributes.get(name)
    if not used:
        return None
    if used & _MODULE_ONLY:
        return Kind.MODULE
    if name in usage.called and used & _OF_MODULES and used - MARKS <= torch_api.MODULE_ATTRIBUTES:
        # It is sent to a device or switched to training, and it is called: no tensor can be.
        return Kind.MODULE
    if used & _PLACING and used & _SWITCHING and used - MARKS <= torch_api.MODULE_ATTRIBUTES:
        return Kind.MODULE  # no tensor is switched to training, whoever calls this in the end
    if name in usage.called and f"{name}.eval" in usage.called:
        return Kind.MODULE  # whatever else it has
    if name in usage.called or name in usage.unpacked or "[str]" in used or "backward()" in used:
        return None
    plain = used - MARKS
    if not plain <= torch_api.TENSOR_ATTRIBUTES:
        return None
    if plain & _distinguishing():
        return Kind.TENSOR
    if "size()" in used or "dim()" in used or "[tensor]" in used:
        return Kind.TENSOR
    augmented = usage.augmented.get(name, 0)
    if (name in usage.computed or augmented) and plain & _PLACING and usage.assigned[name] - augmented < 2:
        return Kind.TENSOR  # a Module has no operators, and arrays don't move
    if "[copied]" in used:
        # `x.cuda(non_blocking=True)`: Module.cuda has no such parameter.
        return Kind.TENSOR
    if parts and plain & _PLACING and is_part_of_batch(name, usage):
        # A part of a batch that is sent to a device and handed on: what frameworks call a batch comes whole.
        return Kind.TENSOR
    speaking = plain & _SPEAKING
    if len(speaking) >= 2 and not speaking <= torch_api.MODULE_ATTRIBUTES:
        return Kind.TENSOR
    if "dim=" in used and plain:
        return Kind.TENSOR
    backward = "backward" in plain and f"{name}.backward" in usage.called
    if ("is_cuda" in plain or backward) and not plain & {"step", "zero_grad"}:
        return Kind.TENSOR
    return Kind.TENSOR if given_as_tensor(name, usage) else None


def is_part_of_batch(name: str, usage: Usage) -> bool:
    """Whether `name` is a part of what a loop over batches, or a parameter, is unpacked into, and is used again.

    Of a parameter: where two parts are sent to a device, and none is used as a model.
    """
    whole = usage.through.get(name)
    if whole is not None and (whole in usage.tuples or holds_tensors(whole, usage)):
        return True
    if _goes_through_batch(name, usage):
        return True
    if name in usage.batch_parts:
        return name in usage.given or usage.loads[name] > 1 or len(usage.attributes[name] - MARKS) > 1
    siblings = usage.siblings.get(name, ())
    placed = [s for s in siblings if usage.attributes.get(s, set()) & _PLACING]
    if len(placed) < 2 or name not in usage.given:
        return False
    return not any(s in usage.called or usage.attributes.get(s, set()) & _MODULE_ONLY for s in siblings)


def _goes_through_batch(name: str, usage: Usage) -> bool:
    """Whether `name` goes through parts of a batch in a row, or through a batch that a model gets as `**batch`."""
    row = usage.displays.get(name)
    if row:
        # One tensor among them is enough: it is moved in vain.
        return all(n in usage.batch_parts for n in row) or any(_is_used_as_tensor(n, usage) for n in row)
    if _is_spread_batch(usage.through.get(name, ""), usage):
        return True
    whole = usage.entries.get(name)
    if whole is not None and usage.through.get(whole) in usage.batch_parts:
        return True  # the targets of a detector: a list of dicts
    return whole is not None and _is_spread_batch(whole, usage)


def _is_used_as_tensor(name: str, usage: Usage) -> bool:
    return kind_from_use(name, usage) is Kind.TENSOR or given_as_tensor(name, usage)


def _is_spread_batch(whole: str, usage: Usage) -> bool:
    """Whether a model gets a batch as `**batch`, or what the caller or `self` holds is called with `*batch`."""
    if whole not in usage.elements and whole not in usage.parameters:
        return False
    for called in usage.spread.get(whole, ()):
        # What is passed to a class may be the Modules that it is made of; to a function, anything in a row.
        name = called.rpartition(".")[2].lstrip("*")
        held = called.startswith("*self.") or called[1:] in usage.parameters
        if name and name[0].islower() and name not in ("cls", "dict") and (called[0] != "*" or held):
            return True
    return False


def has_shape(name: str, usage: Usage) -> bool:
    """Whether `name`, which is joined with a tensor, has a shape: no number has, and arrays are made tensors first."""
    attributes = usage.attributes.get(name, set())
    if not attributes & {"shape", "ndim"} or not attributes - MARKS <= torch_api.TENSOR_ATTRIBUTES:
        return False
    refuted = name in usage.called or name in usage.unpacked or "[str]" in attributes
    return not refuted and not is_made_tensor(name, usage)


def entry_of_batch(node: cst.BaseExpression, usage: Usage) -> str:
    """How sure it is that `batch[key]`, which is moved, is a tensor: "" not at all, "part", or "whole" for certain."""
    whole = entry_of(node)
    if whole is None or whole in usage.called:
        return ""
    if _is_spread_batch(whole, usage):
        return "whole"
    return "part" if whole in usage.elements else ""


#: Functions of torch that take one list or tuple of tensors, and no tensor in its stead.
_TAKES_LISTS = frozenset(
    "cat concat concatenate stack hstack vstack dstack row_stack column_stack pad_sequence".split()
)
_OF_LISTS = frozenset("append extend insert pop copy sort reverse clear remove index count".split())


def holds_tensors(name: str, usage: Usage) -> bool:
    """Whether `name` is a list or tuple of tensors: it goes straight into a function of torch that takes one."""
    if name not in usage.torch_arguments or name in usage.called or name in usage.unpacked:
        return False
    if not usage.attributes.get(name, set()) <= _OF_LISTS:
        return False
    return any(
        position == 0 and not listed and function.rsplit(".", 1)[-1] in _TAKES_LISTS
        for function, position, listed in usage.torch_arguments.get(name, ())
    )


#: Where the last word of a function's name is looked up: aliases of these modules are many (`F`, `nn.init`, …).
_NAMESPACES = ("torch.", "torch.nn.functional.", "torch.nn.init.", "torch.linalg.", "torch.special.", "torch.fft.")


def given_as_tensor(name: str, usage: Usage) -> bool:
    """Whether `name` goes straight into a function of torch that takes tensors, and nothing speaks against it."""
    if name not in usage.torch_arguments or name in usage.called or name in usage.unpacked:
        return False
    if not usage.attributes.get(name, set()) - MARKS <= torch_api.TENSOR_ATTRIBUTES:
        return False
    return any(
        function.startswith("Tensor.") or _takes_tensor(function.rsplit(".", 1)[-1], position, listed)
        for function, position, listed in usage.torch_arguments.get(name, ())
    )


def given_as_number(name: str, usage: Usage) -> bool:
    """Whether `name` says how many elements a factory of torch shall make: `torch.arange(n)`, `torch.zeros(n, 2)`."""
    if usage.attributes.get(name) or name in usage.called or name in usage.indexed:
        return False
    return any(
        function.rpartition(".")[2] in _COUNTING and not listed
        for function, _, listed in usage.torch_arguments.get(name, ())
    )


_COUNTING = frozenset("arange zeros ones empty eye rand randn randperm".split())


#: Parameters that torch's schemas call tensors and that take a number as well.
_NUMBERS_TOO = frozenset(["other", "start", "end", "exponent", "min", "max", "value", "std", "mean"])


def is_collated_tensor(name: str, value: Value, usage: Usage) -> bool:
    """Whether `name` is a part of what a DataLoader's own collation made, and is moved: the rest has no `to`."""
    if "collated" not in value.facts or name in usage.called or name in usage.unpacked:
        return False
    attributes = usage.attributes.get(name, set()) - MARKS
    return bool(attributes & {"to", "cuda"}) and attributes <= torch_api.TENSOR_ATTRIBUTES


#: Modules whose second argument is their state: a tensor, or a tuple of two.
_RECURRENT = frozenset(f"torch.nn.{name}" for name in "RNN LSTM GRU RNNCell LSTMCell GRUCell".split())


def goes_into_module(
    name: str, usage: Usage, held: Callable[[str], Value | None], losses: AbstractSet[str] = frozenset()
) -> bool:
    """Whether `name` is the input of one of torch's own Modules or goes into a loss, and nothing refutes a tensor.

    held: what a name that is called holds, if that is known. losses: the last names of functions that compute what
    backward runs on.
    """
    if name not in usage.call_arguments or name in usage.called or name in usage.unpacked:
        return False
    if not usage.attributes.get(name, set()) - MARKS <= torch_api.TENSOR_ATTRIBUTES:
        return False
    for called, position in usage.call_arguments.get(name, ()):
        module = held(called)
        if module is not None and module.kind is Kind.MODULE and module.name in torch_api.MODULES:
            if module.name in torch_api.LOSSES or (position == 0 and "Container" not in module.name):
                return True
            if position == 1 and module.name in _RECURRENT:
                return True
        if position == 1 and called.rpartition(".")[2] in losses and (module is None or module.kind is Kind.UNKNOWN):
            return True
    return False


@lru_cache(maxsize=1024)
def _takes_tensor(function: str, position: int, listed: bool) -> bool:
    """Whether a function of torch takes nothing but a tensor there, or a list of tensors where it gets a list."""
    wanted = torch_api.Kind.TENSORS if listed else torch_api.Kind.TENSOR
    for namespace in _NAMESPACES:
        overloads = torch_api.overloads(namespace + function)
        if overloads:
            there = [o.parameters[position] for o in overloads if position < len(o.parameters)]
            return bool(there) and all(p.kind is wanted and p.name not in _NUMBERS_TOO for p in there)
    return False


#: Functions that turn host data into a tensor, so that what they get is rather none yet.
_TAKES_HOST_DATA = frozenset(
    "tensor from_numpy Tensor FloatTensor LongTensor IntTensor BoolTensor ByteTensor DoubleTensor".split()
)


def is_made_tensor(name: str, usage: Usage) -> bool:
    """Whether the scope itself makes a tensor of what `name` holds at first."""
    return any(
        function.rpartition(".")[2] in _TAKES_HOST_DATA for function, _, _ in usage.torch_arguments.get(name, ())
    )


_TENSOR_NAMES = frozenset(
    [
        "Tensor",
        "FloatTensor",
        "LongTensor",
        "BoolTensor",
        "IntTensor",
        "ByteTensor",
        "HalfTensor",
        "DoubleTensor",
        "Parameter",
    ]
)
_NUMBER_NAMES = frozenset(["int", "float", "bool", "complex", "Number"])


def from_annotation(node: cst.BaseExpression, run: Interpreter, places: tuple[Alternative, ...]) -> Value | None:
    """The value that an annotation promises, at `places`; None where it says nothing."""
    text = string(node)
    if text is not None:
        try:
            node = cst.parse_expression(text)
        except Exception:  # a forward reference that is no expression
            return None
    if type(node) is cst.BinaryOperation and type(node.operator) is cst.BitOr:
        left, right = from_annotation(node.left, run, places), from_annotation(node.right, run, places)
        return _either(left, right)
    if type(node) is cst.Subscript:
        return _from_generic(node, run, places)
    name = dotted(node)
    if name is None:
        return None
    if name == "None":
        return NONE
    last = name.rsplit(".", 1)[-1]
    value = run.lookup(name, {}) if "." not in name else None
    qualified = name
    if value is not None and value.kind is Kind.API and value.name:
        qualified = value.name
    if last in _TENSOR_NAMES and not (value is not None and isinstance(value.ref, Class)):
        return Value(Kind.TENSOR, places, Certainty.KNOWN)
    if last in _NUMBER_NAMES:
        return NUMBER
    if last == "str":
        return Value(Kind.STRING)
    if last in ("ndarray", "NDArray", "ArrayLike"):
        return Value(Kind.ARRAY)
    if qualified in ("torch.device", "device") or last == "Device":
        facts = frozenset() if last == "Device" else frozenset({"torch.device"})
        named = tuple(Alternative(Place(Where.NAMED, p.place.name), None, p.origin) for p in places)
        return Value(Kind.DEVICE, named, facts=facts)
    if last == "dtype":
        return Value(Kind.DTYPE)
    if value is not None and isinstance(value.ref, Class):
        cls = value.ref
        return Value(Kind.MODULE if cls.is_module else Kind.OBJECT, places, ref=cls)
    known = framework_instance(qualified, places) if "." in qualified else None
    if known is not None:
        return known
    if last == "Module" or is_module_base(qualified):
        return Value(Kind.MODULE, places)
    if last == "DataLoader":
        return Value(Kind.LOADER)
    if qualified.startswith("torch.optim.lr_scheduler."):
        return Value(Kind.SCHEDULER)
    if last == "Optimizer" or qualified.startswith("torch.optim."):
        return Value(Kind.OPTIMIZER)
    if last == "GradScaler":
        return Value(Kind.SCALER)
    if last == "Generator":
        return Value(Kind.GENERATOR, places)
    if last in ("Any", "object", "Optional", "Union"):
        return None
    if last in ("dict", "Dict", "list", "List", "tuple", "Tuple", "Sequence", "Iterable", "set"):
        return Value(Kind.MAPPING if last in ("dict", "Dict") else Kind.SEQUENCE, element=Value(Kind.UNKNOWN, places))
    # A type that is named and is none of torch's: no tensor.
    return Value(Kind.OBJECT, ()) if last[:1].isupper() else None


def _either(left: Value | None, right: Value | None) -> Value | None:
    if left is None or right is None:
        return None
    if left.kind is Kind.NONE:
        return right
    if right.kind is Kind.NONE or left.kind is right.kind:
        return left
    if Kind.TENSOR in (left.kind, right.kind):
        return Value(Kind.UNKNOWN, left.places or right.places)
    return NUMBER if {left.kind, right.kind} <= {Kind.NUMBER, Kind.STRING} else None


def _from_generic(node: cst.Subscript, run: Interpreter, places: tuple[Alternative, ...]) -> Value | None:
    head = (dotted(node.value) or "").rsplit(".", 1)[-1]
    inner = [e.slice.value for e in node.slice if type(e.slice) is cst.Index]
    if not inner:
        return None
    values = [from_annotation(i, run, places) for i in inner]
    if head in ("Iterable", "Iterator", "Generator", "DataLoader"):
        # What a loader gives is rather on the host, wherever its caller's tensors are.
        places = ()
        modules = [v if v is not None and v.kind is Kind.MODULE else None for v in values]
        values = [m or from_annotation(i, run, ()) for m, i in zip(modules, inner)]
    if head == "Optional":
        return values[0]
    if head == "Union":
        result = values[0]
        for value in values[1:]:
            result = _either(result, value)
        return result
    if head in (
        "List",
        "list",
        "Sequence",
        "Iterable",
        "Tuple",
        "tuple",
        "Iterator",
        "Generator",
        "Set",
        "set",
        "Collection",
    ):
        element = values[0]
        items = (
            tuple(v or Value(Kind.UNKNOWN, places) for v in values)
            if head in ("Tuple", "tuple") and len(values) > 1
            else None
        )
        return Value(Kind.SEQUENCE, element=element or Value(Kind.UNKNOWN, places), items=items)
    if head in ("Dict", "dict", "Mapping", "OrderedDict", "MutableMapping", "DefaultDict", "defaultdict"):
        return Value(Kind.MAPPING, element=(values[1] if len(values) > 1 else None) or Value(Kind.UNKNOWN, places))
    if head == "DataLoader":
        return Value(Kind.LOADER)
    if head in ("Annotated", "Final", "ClassVar"):
        return values[0]
    if head in ("Float", "Int", "Bool", "Shaped", "Integer", "Num"):  # jaxtyping: the array type comes first
        return values[0]
    if head in ("Literal",):
        return Value(Kind.STRING)
    if head in ("Callable",):
        return Value(Kind.FUNCTION)
    return None
