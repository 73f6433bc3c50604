"""What classes and functions of other libraries do with devices: facts that torch can't tell, with sources.

`fact(name)` takes the qualified name of a class (`transformers.BatchEncoding`), of a function
(`torchvision.io.read_image`) or of a method of a class (`accelerate.Accelerator.prepare`). A name may be
public or spell the module that defines it: only the library and the last parts count. What is not listed is
not known.

Known gaps: names that a star import brings (fastai) can't be resolved; which of `from_pretrained`'s
arguments place a model (`device_map`, quantisation) is for the caller to look at; image processors may work
on the GPU, so that the place of what they return is not said; libraries that are not listed.
"""

from __future__ import annotations

import enum
import functools
from dataclasses import dataclass
from fnmatch import fnmatchcase

from torchlint.placement.values import Certainty, Kind


class Lives(enum.Enum):
    """Where the tensors in a result live."""

    #: On the CPU, whatever the default device is.
    HOST = "host"
    #: Where `torch.tensor(...)` would put them: on the CPU, or on the default device where code sets one.
    CREATED = "created"
    #: Where the tensors are that it is given.
    ARGUMENTS = "arguments"
    #: Where the module is whose method it is.
    MODULE = "module"
    #: On the device that the library chose, which may be an accelerator: not known to be the host.
    FRAMEWORK = "framework"


@dataclass(frozen=True)
class Fact:
    """What is known of a class, of a function, or of a method.

    kind: of a class, what its instances are; FUNCTION for functions and methods; of an attribute, what it is.
    source: where that is written.
    what: a word for messages and for callers that tell sorts apart (`tokenizer`, `pipeline`, `trainer`, …).
    in_place_to: whether `to`, `cuda` and `cpu` change the object itself; None where that is not known.
    returns_self: whether they also return it, so that chaining works; where not, they return None.
    moves_inputs: moves what it is given or hands out to its device by itself, or before its hooks run.
    owns_scaler: scales the loss of fp16 training itself.
    returns: what calling the function or method gives.
    instance: calling it gives an instance of the class it belongs to (`from_pretrained`).
    items: what the items of a returned tuple are, if it is fixed.
    returns_arguments: calling it gives its arguments back, perhaps moved or wrapped, as a tuple if there are
        several (`Accelerator.prepare`, `tqdm`).
    lives: where the tensors in what it returns live.
    only_with: `returns` holds only where this keyword has this value: `("return_tensors", "pt")`.
    not_with: `returns` and `lives` hold only where none of these keywords is given.
    certainty: INFERRED where it is the usual case.
    """

    kind: Kind
    source: str
    what: str = ""
    in_place_to: bool | None = None
    returns_self: bool = True
    moves_inputs: bool = False
    owns_scaler: bool = False
    returns: Kind | None = None
    instance: bool = False
    items: tuple[Kind, ...] = ()
    returns_arguments: bool = False
    lives: Lives | None = None
    only_with: tuple[str, str] | None = None
    not_with: tuple[str, ...] = ()
    certainty: Certainty = Certainty.KNOWN


#: Hooks of a LightningModule or LightningDataModule whose batch is on the module's device when they are
#: called (https://lightning.ai/docs/pytorch/stable/common/lightning_module.html#hooks, the pseudocode of
#: `fit_loop`), and those that run before it is moved.
LIGHTNING_HOOKS_ON_DEVICE = frozenset(
    f"{head}{stage}{tail}"
    for stage, head, tail in (
        *((s, "", "_step") for s in ("training", "validation", "test", "predict")),
        *((s, "on_", "_batch_start") for s in ("train", "validation", "test", "predict")),
        *((s, "on_", "_batch_end") for s in ("train", "validation", "test", "predict")),
    )
) | {"on_after_batch_transfer"}
LIGHTNING_HOOKS_BEFORE_TRANSFER = frozenset(("on_before_batch_transfer", "transfer_batch_to_device"))

_ALIASES = {
    "pytorch_lightning": "lightning",
    "lightning_fabric": "lightning",
    "lightning_pytorch": "lightning",
}


def fact(name: str) -> Fact | None:
    """What is known of a qualified name, or None. The first entry that matches holds."""
    root, _, rest = name.partition(".")
    return _find(_ALIASES.get(root, root), rest) if rest else None


def owns_scaler(name: str) -> bool:
    """Whether an instance of that class, or what that function returns, scales fp16 losses itself."""
    found = fact(name)
    return found is not None and found.owns_scaler


@functools.lru_cache(maxsize=2048)
def _find(root: str, rest: str) -> Fact | None:
    parts = rest.split(".")
    # `Class.method`, or the bare name of a class or function; what is before is the module.
    method = len(parts) > 1 and parts[-2][:1].isupper()
    tail = ".".join(parts[-2:]) if method else parts[-1]
    module = ".".join(parts[: -2 if method else -1])
    for within, pattern, found in _entries().get(root, ()):
        if ("." in pattern) == method and fnmatchcase(tail, pattern) and _is_within(module, within):
            return found
    return None


def _is_within(module: str, pattern: str) -> bool:
    return not pattern or fnmatchcase(module, pattern) or fnmatchcase(module, f"{pattern}.*")


@functools.cache
def _entries() -> dict[str, list[tuple[str, str, Fact]]]:
    """Entries by library: the module they are in (empty: any), a pattern for the name, and the fact."""
    from torchlint.placement.knowledge import framework_facts, library_facts

    by_root: dict[str, list[tuple[str, str, Fact]]] = {}
    for table in (*framework_facts.TABLES, *library_facts.TABLES):
        for where, patterns, found in table():
            root, _, within = where.partition(".")
            by_root.setdefault(root, []).extend((within, pattern, found) for pattern in patterns.split())
    return by_root


#: A library, perhaps with a module in it; patterns of names of classes, functions or methods; what holds of
#: them.
Entry = tuple[str, str, Fact]


def function(source: str, returns: Kind | None, lives: Lives | None = None, what: str = "") -> Fact:
    """The fact of a function or method that returns this."""
    return Fact(Kind.FUNCTION, source, what, returns=returns, lives=lives)


def module(source: str, what: str = "") -> Fact:
    """The fact of a class of Modules; `to` of a Module works in place."""
    return Fact(Kind.MODULE, source, what, in_place_to=True)


def made_by(source: str) -> Fact:
    """The fact of a class method that returns an instance of its class."""
    return Fact(Kind.FUNCTION, source, instance=True)
