"""Makes stand-ins by kind: tensors, modules, loaders, optimizers, numbers; every one is marked and recorded."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import torch
from torch import nn

from .unknown import Unknown

BATCH, WIDTH, CLASSES = 4, 8, 8
#: A mark that starts so says what the finding itself assumes; evidence may rest on it.
CALLER = "caller: "
_LABELS = re.compile(r"^y$|^ys$|^t$|label|target|^truth|answer", re.IGNORECASE)
_INDICES = re.compile(
    r"(^|_)(ids?|idx|index|indices|tokens?|lengths?|lens?|words?|steps?|timesteps?|t)$", re.IGNORECASE
)
_MASKS = re.compile(r"mask|blocked|^is_|^has_|keep|valid", re.IGNORECASE)
_SCALARS = re.compile(r"loss", re.IGNORECASE)


class Maker:
    """Makes stand-ins for one replay.

    observer: marks what is made. kind: of the accelerator; where the code says `device`, it means that.
    """

    def __init__(self, observer: Any, kind: str) -> None:
        self._observer = observer
        self.kind = kind
        self.bridge: Any = None
        #: Where checkpoints that are not at hand say that they were saved.
        self.saved_on = "cuda:0" if kind == "cpu" else f"{kind}:0"
        self._models: list[nn.Module] = []
        self._layers: list[nn.Module] = []
        self._made: set[int] = set()
        self.elements_on_device = False
        #: Something has been stood in for.
        self.touched = False
        self.assumed: dict[str, None] = {}

    def note(self, words: str) -> None:
        """Record an assumption in words."""
        self.touched = True
        if len(self.assumed) < 24:
            self.assumed[words] = None

    def is_ours(self, value: Any) -> bool:
        """Whether a value may be a stand-in, or rest on one: any tensor may, once one has been made."""
        if isinstance(value, Unknown) or id(value) in self._made:
            return True
        if isinstance(value, (torch.Tensor, nn.Module)):
            return self.touched
        if isinstance(value, (list, tuple)):
            return any(self.is_ours(v) for v in value[:4])
        if isinstance(value, dict):
            return any(self.is_ours(v) for v in list(value.values())[:4])
        return False

    def _mark(self, value: Any, mark: str) -> Any:
        return self._observer.mark(value, mark)

    def _keep(self, value: Any) -> Any:
        self._made.add(id(value))
        self._models.append(value) if isinstance(value, nn.Module) else None
        return value

    # Kinds, by the names that a plan uses.

    def make(self, name: str, kind: str, detail: Any = None) -> Any:
        """A stand-in of a kind for the caller's `name`. Kinds: those of the methods below."""
        maker = getattr(self, f"_make_{kind}", None)
        return Unknown(name, self) if maker is None else maker(name, detail)

    def _make_unknown(self, name: str, detail: Any) -> Any:
        self.note(f"`{name}` is unknown, and stood in for by its use")
        return Unknown(name, self)

    def _make_tensor(self, name: str, detail: Any) -> Any:
        self.note(f"the caller's `{name}` is a tensor on the accelerator")
        return self.tensor(name, on=self.kind, mark=f"{CALLER}{name}", shape=detail)

    def _make_host_tensor(self, name: str, detail: Any) -> Any:
        self.note(f"the caller's `{name}` is a tensor on the CPU")
        return self.tensor(name, on="cpu", mark=f"host: {name}", shape=detail)

    def _make_device(self, name: str, detail: Any) -> Any:
        return self.device(name, caller=True)

    def _make_module(self, name: str, detail: Any) -> Any:
        self.note(f"the caller's `{name}` is a module on the accelerator")
        return self.module(name)

    def _make_host_module(self, name: str, detail: Any) -> Any:
        self.note(f"`{name}` is a module, made on the CPU")
        module = self.module(name, on="cpu")
        return module

    def _make_criterion(self, name: str, detail: Any) -> Any:
        self.note(f"the caller's `{name}` computes a loss where its inputs are")
        return self._keep(StandInLoss())

    def _make_optimizer(self, name: str, detail: Any) -> Any:
        modules = [m for m in self._models if any(True for _ in m.parameters())]
        parameters = [p for m in modules for p in m.parameters()] or list(self.module("model").parameters())
        self.note(f"the caller's `{name}` is an optimizer over its model")
        return self._keep(torch.optim.SGD(list(dict.fromkeys(parameters)), lr=0.01))

    def _make_parameters(self, name: str, detail: Any) -> Any:
        self.note(f"the caller's `{name}` are parameters on the accelerator")
        parameters = list(self.module(name).parameters())
        for p in parameters:
            p.grad = self._mark(torch.ones_like(p), f"{CALLER}{name}")
        return parameters

    def _make_scaler(self, name: str, detail: Any) -> Any:
        self.note(f"the caller's `{name}` is a GradScaler")
        return self._keep(torch.amp.GradScaler(self.kind))

    def _make_scheduler(self, name: str, detail: Any) -> Any:
        return Unknown(name, self)

    def _make_loader(self, name: str, detail: Any) -> Any:
        where = "on the accelerator" if self.elements_on_device else "on the CPU"
        self.note(f"the caller's `{name}` gives batches {where}")
        return self._keep(StandInLoader(name, self))

    def _make_int(self, name: str, detail: Any) -> Any:
        value = int(detail) if detail is not None else _number(name)
        self.note(f"`{name}` is {value}")
        return value

    def _make_float(self, name: str, detail: Any) -> Any:
        self.note(f"`{name}` is 0.1")
        return 0.1

    def _make_bool(self, name: str, detail: Any) -> Any:
        return True

    def _make_str(self, name: str, detail: Any) -> Any:
        return "stand-in" if detail is None else str(detail)

    def _make_value(self, name: str, detail: Any) -> Any:
        return detail

    def _make_tensors(self, name: str, detail: Any) -> Any:
        self.note(f"the caller's `{name}` are tensors on the CPU")
        return [self.tensor(name, on="cpu", mark=name) for _ in range(3)]

    def _make_mapping(self, name: str, detail: Any) -> Any:
        self.note(f"the caller's `{name}` holds tensors on the CPU")
        keys = detail or ["input_ids", "labels"]
        return {key: self.tensor(key, on="cpu", mark=name) for key in keys}

    def _make_array(self, name: str, detail: Any) -> Any:
        import numpy

        if re.search(r"prob|^p$|weight", name):
            self.note(f"`{name}` is an array of {WIDTH} shares")
            return self._keep(numpy.full(WIDTH, 1.0 / WIDTH))
        self.note(f"`{name}` is an array of {BATCH} x {WIDTH} random numbers")
        return self._keep(numpy.random.rand(BATCH, WIDTH))

    # Values.

    def device(self, name: str, caller: bool = False) -> Any:
        self.note(f"`{name}` is the accelerator")
        return self._mark(torch.device(self.kind), f"{CALLER}{name}" if caller else name)

    def tensor(
        self, name: str, on: str | None = None, mark: str | None = None, shape: Any = None, part: bool = False
    ) -> torch.Tensor:
        """A tensor as its name suggests: labels and ids are whole numbers, masks bool, all else random numbers.

        part: one of those that a batch consists of.
        """
        if mark is None:
            mark = f"{CALLER}{name}" if self.elements_on_device else f"host: {name}" if part else name
        weights = [p for m in self._models for p in m.parameters()]
        if _SCALARS.search(name) and weights and shape is None:
            return weights[0].sum() * 0.1
        on = on or (self.kind if self.elements_on_device else "cpu")
        with self._observer.quiet():
            made = self._values(name.rpartition(".")[2], shape)
        if on != "cpu":
            with self._observer.quiet():
                made = made.to(on)
            self._place(made, on)
        return self._mark(made, mark)  # type: ignore[no-any-return]

    def _place(self, tensor: torch.Tensor, on: str) -> None:
        place = self._observer.places.of(tensor)
        if place.device.type != on:
            device = torch.device(on, 0) if on != "mps" else torch.device("mps", 0)
            self._observer.places.put(tensor, type(place)(device, True, (), place.marks))

    def _values(self, name: str, shape: Any) -> torch.Tensor:
        first = self._first_layer()
        if shape is not None:
            return torch.rand(tuple(shape))
        if _SCALARS.search(name):
            return torch.rand((), requires_grad=True) * 1.0
        if _MASKS.search(name):
            return torch.rand(BATCH, WIDTH) > 0.5
        if _LABELS.search(name):
            return torch.randint(0, CLASSES, (BATCH,))
        if isinstance(first, (nn.Embedding, nn.EmbeddingBag)):
            return torch.randint(0, first.num_embeddings, (BATCH, WIDTH))
        if _INDICES.search(name):
            return torch.randint(0, BATCH, (BATCH,))
        return torch.rand(_input_shape(first))

    def _first_layer(self) -> nn.Module | None:
        """The first layer with parameters of the module that the code defines or is given."""
        for model in [*self._models, *self._layers]:
            for part in model.modules():
                if (
                    not list(part.children())
                    and list(part.parameters(recurse=False))
                    and not isinstance(part, StandInModule)
                ):
                    return part
        return None

    def know(self, model: nn.Module) -> None:
        """A module that the code made: batches are shaped for the last of its own classes, else for the first layer."""
        if type(model).__module__.startswith("torch."):
            self._layers.append(model)
        elif not isinstance(model, (StandInModule, StandInLoss)):
            self._models = [model, *(m for m in self._models if m is not model)]

    def module(self, name: str, on: str | None = None) -> nn.Module:
        with self._observer.quiet():
            made = StandInModule(name, self)
            weights = list(made.parameters())
            if (on or self.kind) != "cpu":
                made.to(on or self.kind)
        for p in weights if (on or self.kind) != "cpu" else ():
            self._place(p, on or self.kind)
        return self._mark(self._keep(made), f"{CALLER}{name}" if on is None else name)  # type: ignore[no-any-return]

    def called(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """What a call of something unknown gives: where tensors go in, one comes out beside them."""
        short = name.rpartition(".")[2]
        values = [*args, *kwargs.values()]
        modules = [
            v
            for v in values
            if isinstance(v, (nn.Module, torch.optim.Optimizer, StandInLoader, torch.utils.data.DataLoader))
        ]
        if modules and len(modules) == len(args):
            self.note(f"`{name}` hands back what it is given")
            return args[0] if len(args) == 1 else args
        if any(isinstance(leaf, torch.Tensor) for leaf in torch.utils._pytree.tree_leaves(values)):
            return self.bridge.derive(f"{name}(…)", values, f"{name}()")
        if re.search(r"device", short, re.IGNORECASE):
            return self.device(f"{name}()")
        self.note(f"`{name}` is unknown, and stood in for by its use")
        return Unknown(f"{name}()", self, tuple(values))


class StandInModule(nn.Module):
    """A module that computes something from all that it is given; operands in different places don't mix."""

    def __init__(self, name: str, maker: Maker) -> None:
        self.__dict__.update(_own_name=name, _maker=maker)
        super().__init__()
        self.weight = nn.Parameter(torch.rand(CLASSES) + 0.5)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        leaves = torch.utils._pytree.tree_leaves([*args, *kwargs.values()])
        tensors = [t._as_tensor() if isinstance(t, Unknown) else t for t in leaves]
        result = None
        for tensor in tensors:
            if isinstance(tensor, torch.Tensor) and tensor.numel():
                one = tensor.reshape(1, -1)[:, :1]
                one = one if one.is_floating_point() else one.to(self.weight.dtype)
                part = nn.functional.linear(one, self.weight.to(one.dtype).unsqueeze(1))[0]
                result = part if result is None else result + part
        rows = next((t.shape[0] for t in tensors if isinstance(t, torch.Tensor) and t.dim()), 1)
        result = self.weight * 1.0 if result is None else result
        return result.unsqueeze(0).expand(rows, CLASSES) * 1.0

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            if name.startswith("_") or name == "weight":
                raise
            if name == "device":
                return self.weight.device
            return Unknown(f"{self._own_name}.{name}", self._maker)


class StandInLoss(nn.Module):
    """A loss that takes anything; operands in different places don't mix."""

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        tensors = [
            t
            for t in torch.utils._pytree.tree_leaves([*args, *kwargs.values()])
            if isinstance(t, torch.Tensor)
        ]
        result: Any = None
        for tensor in tensors:
            flat = tensor.reshape(-1)[:1] * 1.0
            result = flat if result is None else result - 0.1 * flat
        return torch.ones(()) if result is None else result.pow(2).mean()


class StandInLoader:
    """Gives batches of which nothing is known until they are used."""

    def __init__(self, name: str, maker: Maker) -> None:
        self._name, self._maker = name, maker
        self.batch_size = BATCH
        self.dataset = [0] * 64

    def __iter__(self) -> Iterator[Any]:
        for _ in range(400):
            yield Unknown(f"an item of {self._name}", self._maker)

    def __len__(self) -> int:
        return 400


def _number(name: str) -> int:
    if re.search(
        r"layers?$|heads?$|depth|groups?$|accum|every|interval|freq|epochs?$|kernel|stride",
        name,
        re.IGNORECASE,
    ):
        return 2
    return 0 if re.search(r"^i$|idx|index|rank|seed|step$|iteration$", name, re.IGNORECASE) else WIDTH


def _input_shape(layer: nn.Module | None) -> tuple[int, ...]:
    """A shape that a first layer takes."""
    if isinstance(layer, nn.Conv2d):
        return (BATCH, layer.in_channels, 32, 32)
    if isinstance(layer, nn.Conv1d):
        return (BATCH, layer.in_channels, 32)
    if isinstance(layer, nn.Conv3d):
        return (BATCH, layer.in_channels, 8, 8, 8)
    if isinstance(layer, nn.Linear):
        return (BATCH, layer.in_features)
    if isinstance(layer, (nn.LSTM, nn.GRU, nn.RNN)):
        return (BATCH, 7, layer.input_size)
    if isinstance(layer, (nn.LSTMCell, nn.GRUCell, nn.RNNCell)):
        return (BATCH, layer.input_size)
    return (BATCH, WIDTH)
