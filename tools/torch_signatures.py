"""What an installed torch says of parameters and results: its stubs, native schemas and Python signatures.

A signature is written as text, `name:KIND` for each parameter, then `>RESULT`; overloads are joined by `|`:

    input:T dim:N keepdim:N *out:T>T2|input:T *out:T>T

`*` before a name starts the keyword-only parameters, `+` after a kind marks a variadic one, `=` one with a
default. Kinds: T tensor (perhaps a number instead), O tensor or None, L several tensors, S number that torch
unwraps from a tensor when it gets one, N number, bool or sizes, D device, Y dtype, G generator, X anything
else. Results: T tensor, T2 … tuple of so many tensors, T* tuple or list of tensors, H number, bool, string
or sizes of the host, A array, M module, 0 None, X anything else. Behind the result, `:` and flags that
calls showed (`torch_probe`).
"""

from __future__ import annotations

import ast
import inspect
import re
import typing
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch


class Parameter(NamedTuple):
    """One parameter; `kind` is a letter of the module's docstring."""

    name: str
    kind: str
    keyword_only: bool = False
    variadic: bool = False
    optional: bool = False


Signature = tuple[tuple[Parameter, ...], str]

# Python functions of torch that are written without annotations, and dispatchers that hide their parameters.
UNANNOTATED: dict[str, str] = {
    "torch.asarray": "obj:X *dtype:Y= device:D= copy:N= requires_grad:N=>T",
    "torch.atleast_1d": "tensors:T+>X",
    "torch.atleast_2d": "tensors:T+>X",
    "torch.atleast_3d": "tensors:T+>X",
    "torch.block_diag": "tensors:T+>T",
    "torch.broadcast_shapes": "shapes:N+>H",
    "torch.broadcast_tensors": "tensors:T+>T*",
    "torch.cartesian_prod": "tensors:T+>T",
    "torch.cdist": "x1:T x2:T p:N= compute_mode:X=>T",
    "torch.chain_matmul": "matrices:T+ *out:O=>T",
    "torch.einsum": "equation:X operands:T+>T",
    "torch.lu": "A:T pivot:N= get_infos:N= out:X=>T*",
    "torch.matrix_rank": "input:T tol:N= symmetric:N= *out:O=>T",
    "torch.meshgrid": "tensors:T+ *indexing:X=>T*",
    "torch.nonzero": "input:T *out:O=>T|input:T *as_tuple:N>X",
    "torch.norm": "input:T p:N= dim:N= keepdim:N= out:O= dtype:Y=>T",
    "torch.tensordot": "a:T b:T dims:N= out:O=>T",
    "torch.unique": "input:T sorted:N= return_inverse:N= return_counts:N= dim:N=>X",
    "torch.unique_consecutive": "input:T return_inverse:N= return_counts:N= dim:N=>X",
    "torch.nn.functional.sigmoid": "input:T>T",
    "torch.nn.functional.softsign": "input:T>T",
    "torch.nn.functional.tanh": "input:T>T",
    "torch.nn.functional.tanhshrink": "input:T>T",
    "torch.nn.functional.upsample": "input:T size:N= scale_factor:N= mode:X= align_corners:N=>T",
    "torch.nn.functional.upsample_bilinear": "input:T size:N= scale_factor:N=>T",
    "torch.nn.functional.upsample_nearest": "input:T size:N= scale_factor:N=>T",
    "Tensor.__array__": "dtype:X=>A",
    "Tensor.__contains__": "element:S>H",
    "Tensor.__getitem__": "indices:X>T",
    "Tensor.__len__": ">H",
    "Tensor.backward": "gradient:O= retain_graph:N= create_graph:N= inputs:L=>0",
    "Tensor.dim_order": "*ambiguity_check:X=>H",
    "Tensor.is_shared": ">H",
    "Tensor.istft": "n_fft:N hop_length:N= win_length:N= window:O= center:N= normalized:N= onesided:N= "
    "length:N= return_complex:N=>T",
    "Tensor.item": ">H",
    "Tensor.lu": "pivot:N= get_infos:N=>T*",
    "Tensor.nonzero": ">T|*as_tuple:N>X",
    "Tensor.norm": "p:N= dim:N= keepdim:N= dtype:Y=>T",
    "Tensor.numpy": "*force:N=>A",
    "Tensor.register_hook": "hook:X>X",
    "Tensor.resize": "sizes:N+>T",
    "Tensor.resize_as": "tensor:T>T",
    "Tensor.share_memory_": ">T",
    "Tensor.split": "split_size:N dim:N=>T*",
    "Tensor.stft": "n_fft:N hop_length:N= win_length:N= window:O= center:N= pad_mode:X= normalized:N= "
    "onesided:N= return_complex:N= align_to_window:N=>T",
    "Tensor.storage": ">X",
    "Tensor.to": "device:D dtype:Y= non_blocking:N= copy:N= *memory_format:X=>T|dtype:Y non_blocking:N= "
    "copy:N= *memory_format:X=>T|other:T non_blocking:N= copy:N= *memory_format:X=>T",
    "Tensor.to_sparse_coo": ">T",
    "Tensor.tolist": ">H",
    "Tensor.type": ">H|dtype:Y non_blocking:N=>T",
    "Tensor.unflatten": "dim:N sizes:N>T",
    "Tensor.unique": "sorted:N= return_inverse:N= return_counts:N= dim:N=>X",
    "Tensor.unique_consecutive": "return_inverse:N= return_counts:N= dim:N=>X",
}
_RESULT_OF_NAME = {"None": "0", "NoneType": "0"}
_HOST = {
    "int", "float", "bool", "str", "complex", "Number", "Size", "_int", "_float", "_bool", "_size",
    "_dtype", "dtype", "_device", "device", "_layout", "layout", "_complex", "torch.Size", "torch.dtype",
    "torch.device", "torch.layout", "SymInt", "torch.SymInt", "_qscheme", "memory_format",
    "torch.memory_format",
}  # fmt: skip
_ARRAY = {"numpy.ndarray", "np.ndarray", "ndarray"}


def kind_of_annotation(text: str) -> str:
    """The kind letter of a parameter from the text of its annotation."""
    text = text.replace("torch.Tensor", "Tensor").replace("typing.", "").strip("'\" ")
    several = re.search(r"(?:[Ss]equence|[Tt]uple|[Ll]ist|Iterable|_TensorOrTensors)", text)
    if "Tensor" in text:
        bare = re.sub(r"(?:[Ss]equence|[Tt]uple|[Ll]ist|Iterable)\[[^\]]*\]", "", text)
        if "Tensor" not in bare or (several and "_TensorOrTensors" in text):
            return "L"
        return "O" if "None" in text or "Optional" in text else "T"
    if re.search(r"[Dd]evice(?!_)", text):
        return "D"
    if "dtype" in text:
        return "Y"
    if "Generator" in text:
        return "G"
    if "Number" in text or "_complex" in text:
        return "S"
    if re.search(r"\b_?(?:int|float|bool|size|SymInt|Size)\b|BroadcastingList|_size_\w+_t|_ratio_\w+", text):
        return "N"
    return "X"


def result_of_annotation(text: str | None) -> str:
    """The result letter from the text of a return annotation."""
    if text is None:
        return "X"
    text = text.replace("torch.Tensor", "Tensor").replace("typing.", "").strip("'\" ")
    if text in ("Tensor", "Self"):
        return "T"
    if text in _RESULT_OF_NAME:
        return _RESULT_OF_NAME[text]
    if match := re.fullmatch(r"torch\.return_types\.(\w+)", text):
        fields = getattr(getattr(torch.return_types, match[1]), "n_fields", 0)
        return f"T{fields}"
    if match := re.fullmatch(r"(?:[Tt]uple|[Ll]ist|Sequence)\[(.*)\]", text):
        parts = [p.strip() for p in match[1].split(",")]
        if parts[0] == "Tensor" and (parts[-1] == "..." or len(parts) == 1):
            return "T*"
        if all(p == "Tensor" for p in parts):
            return f"T{len(parts)}"
        if all(p in _HOST or p == "..." for p in parts):
            return "H"
        return "X"
    if text in _ARRAY:
        return "A"
    if text.replace(" ", "").split("|")[0] in _HOST and all(p.strip() in _HOST for p in text.split("|")):
        return "H"
    return "X"


def from_stub(path: Path, owner: str | None = None) -> dict[str, list[Signature]]:
    """The signatures in a stub file, of its functions or of the methods of its class `owner`, by name."""
    body = ast.parse(path.read_text()).body
    if owner is not None:
        body = next(n for n in body if isinstance(n, ast.ClassDef) and n.name == owner).body
    found: dict[str, list[Signature]] = {}
    for node in body:
        if isinstance(node, ast.FunctionDef):
            found.setdefault(node.name, []).append(_from_node(node, method=owner is not None))
    return found


def _from_node(node: ast.FunctionDef, *, method: bool) -> Signature:
    args = node.args
    positional = [*args.posonlyargs, *args.args]
    required = len(positional) - len(args.defaults)
    parameters = [
        Parameter(a.arg, _kind(a.annotation), optional=place >= required)
        for place, a in enumerate(positional)
    ][1 if method else 0 :]
    if args.vararg is not None:
        parameters.append(Parameter(args.vararg.arg, _kind(args.vararg.annotation), variadic=True))
    parameters += [
        Parameter(a.arg, _kind(a.annotation), keyword_only=True, optional=default is not None)
        for a, default in zip(args.kwonlyargs, args.kw_defaults, strict=True)
    ]
    return tuple(parameters), result_of_annotation(
        None if node.returns is None else ast.unparse(node.returns)
    )


def _kind(annotation: ast.expr | None) -> str:
    return "X" if annotation is None else kind_of_annotation(ast.unparse(annotation))


_SCHEMA_KINDS = (
    ("Tensor?", "O"),
    ("Tensor[", "L"),
    ("Tensor", "T"),
    ("Optional[Tensor]", "O"),
    ("List[Tensor]", "L"),
    ("Device", "D"),
    ("Generator", "G"),
    ("str", "X"),
    ("number", "S"),
    ("Scalar", "S"),
)


def from_schemas(operator: str, *, method: bool = False) -> list[Signature]:
    """The signatures of a native operator such as `linalg_norm`, variants with `out=` merged into one."""
    found: list[Signature] = []
    for schema in torch._C._jit_get_schemas_for_operator(f"aten::{operator}"):
        parameters: list[Parameter] = []
        for argument in schema.arguments:
            name = "input" if argument.name == "self" else argument.name
            kind = _kind_of_schema_type(name, str(argument.type))
            only = bool(argument.kwarg_only)
            parameters.append(Parameter(name, kind, only, optional=only or argument.has_default_value()))
        if method:
            parameters = parameters[1:]
        found.append((tuple(parameters), _result_of_schema([str(r.type) for r in schema.returns])))
    return found


def _kind_of_schema_type(name: str, text: str) -> str:
    if "dtype" in name:
        return "Y"
    if "generator" in name:
        return "G"
    if text.startswith("Optional[") and "Tensor" not in text:
        text = text[len("Optional[") : -1]
    for start, kind in _SCHEMA_KINDS:
        if text.startswith(start):
            return kind
    return "N" if re.search(r"int|float|bool", text) else "X"


def _result_of_schema(types: list[str]) -> str:
    if types == ["Tensor"]:
        return "T"
    if types == ["List[Tensor]"]:
        return "T*"
    if types and all(t == "Tensor" for t in types):
        return f"T{len(types)}"
    if types and all(t in ("int", "float", "bool", "str", "number") for t in types):
        return "H"
    return "0" if not types else "X"


def from_python(function: Callable[..., Any], *, method: bool = False) -> Signature | None:
    """The signature of a function or class written in Python, or None if it has none or hides it."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return None
    parameters: list[Parameter] = []
    for parameter in list(signature.parameters.values())[1 if method else 0 :]:
        if parameter.kind is parameter.VAR_KEYWORD:
            continue
        annotation = parameter.annotation
        kind = "X" if annotation is parameter.empty else kind_of_annotation(_text(annotation))
        if annotation is parameter.empty:
            kind = _kind_by_name_or_default(parameter)
        parameters.append(
            Parameter(
                parameter.name,
                kind,
                keyword_only=parameter.kind is parameter.KEYWORD_ONLY,
                variadic=parameter.kind is parameter.VAR_POSITIONAL,
                optional=parameter.default is not parameter.empty,
            )
        )
    returns = signature.return_annotation
    return tuple(parameters), result_of_annotation(None if returns is signature.empty else _text(returns))


def _text(annotation: object) -> str:
    if annotation is None:
        return "None"
    if isinstance(annotation, str):
        return annotation
    if isinstance(annotation, type) and not typing.get_args(annotation):
        return (
            annotation.__name__
            if annotation.__module__ == "builtins"
            else f"{annotation.__module__}.{annotation.__name__}"
        )
    return str(annotation)


def _kind_by_name_or_default(parameter: inspect.Parameter) -> str:
    if parameter.name == "device":
        return "D"
    if parameter.name == "dtype":
        return "Y"
    return "N" if isinstance(parameter.default, (bool, int, float)) else "X"


def merge(signatures: Iterable[Signature]) -> list[Signature]:
    """One signature for each set of positional parameters and result; of differing kinds the widest stands.

    Keyword-only parameters are united. Variants over named dimensions are dropped: they take the same places.
    """
    merged: dict[tuple[object, ...], tuple[dict[str, Parameter], str]] = {}
    for parameters, result in signatures:
        if any(p.name in ("names", "self") for p in parameters):
            continue
        key = (tuple((p.name, p.variadic) for p in parameters if not p.keyword_only), result)
        known = merged.setdefault(key, ({}, result))[0]
        for p in parameters:
            old = known.get(p.name, p)
            optional = old.optional or p.optional or p.keyword_only
            known[p.name] = p._replace(kind=_wider(old.kind, p.kind), optional=optional)
    ordered = [
        (tuple(sorted(p.values(), key=lambda q: q.keyword_only)), result) for p, result in merged.values()
    ]
    return [s for s in ordered if not any(o is not s and _covers(o, s) for o in ordered)]


def _wider(first: str, second: str) -> str:
    return next((kind for kind in "OTLSN" if kind in (first, second)), first)


def _covers(wide: Signature, narrow: Signature) -> bool:
    """Whether `wide` takes all that `narrow` takes: optional parameters of the wide one were left out."""
    first, second = [p for p in wide[0] if not p.keyword_only], [p for p in narrow[0] if not p.keyword_only]
    rest = first[len(second) :]
    same = [(p.name, p.kind) for p in first[: len(second)]] == [(p.name, p.kind) for p in second]
    taken = {p.name for p in narrow[0]} <= {p.name for p in wide[0]}
    return wide[1] == narrow[1] and bool(rest) and same and taken and all(p.optional for p in rest)


def write(signatures: Iterable[Signature], flags: Sequence[str] = ()) -> str:
    """The text of a callable's overloads (see the module's docstring)."""
    texts = [_write_one(s) for s in signatures]
    marks = [f":{f}" if f else "" for f in flags] + [""] * len(texts)
    return "|".join(text + mark for text, mark in zip(texts, marks))


def _write_one(signature: Signature) -> str:
    words: list[str] = []
    starred = False
    for p in signature[0]:
        star = "*" if p.keyword_only and not starred else ""
        starred = starred or p.keyword_only
        words.append(f"{star}{p.name}:{p.kind}{'+' if p.variadic else '=' if p.optional else ''}")
    return " ".join(words) + ">" + signature[1]


def read(text: str) -> list[Signature]:
    """The signatures that a text written by `write` stands for."""
    found: list[Signature] = []
    for part in text.split("|"):
        words, _, result = part.rpartition(">")
        parameters: list[Parameter] = []
        starred = False
        for word in words.split():
            starred = starred or word.startswith("*")
            name, _, kind = word.lstrip("*").partition(":")
            parameters.append(Parameter(name, kind[0], starred, kind.endswith("+"), kind.endswith("=")))
        found.append((tuple(parameters), result))
    return found


def with_flag(plain: Signature | None, flagged: Signature | None, flag: str) -> list[Signature]:
    """The overloads of a function whose result depends on the value of `flag`: without it, and with it."""
    assert plain is not None
    assert flagged is not None
    given = tuple(p._replace(optional=p.optional and p.name != flag) for p in flagged[0])
    return [(tuple(p for p in plain[0] if p.name != flag), plain[1]), (given, "X")]
