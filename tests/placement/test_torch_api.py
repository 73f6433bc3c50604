"""Facts of torch: the data file agrees with the installed torch, and calls are bound as torch binds them."""

from __future__ import annotations

import inspect
import json
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from torchlint.placement.knowledge import torch_api
from torchlint.placement.knowledge.torch_api import (
    Kind,
    Rank,
    Result,
    bind,
    canonical,
    method_overloads,
    overloads,
)

ROOT = Path(__file__).parents[2]
DATA = ROOT / "torchlint" / "placement" / "knowledge" / "torch_api.json"
FACTS: dict[str, Any] = json.loads(DATA.read_text(encoding="ascii"))


@pytest.fixture(scope="module")
def torch() -> Any:
    return pytest.importorskip("torch")


def test_the_data_file_is_what_the_installed_torch_says(torch: Any) -> None:
    if torch.__version__.partition("+")[0] != torch_api.TORCH_VERSION or torch.backends.cuda.is_built():
        pytest.skip("the data file was made from another build of torch")
    check = subprocess.run(
        [sys.executable, "-m", "tools.torch_api", "--check"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert check.returncode == 0, check.stdout + check.stderr


def test_the_data_file_is_small() -> None:
    assert DATA.stat().st_size < 150_000


def test_importing_the_facts_reads_nothing() -> None:
    code = "import torchlint.placement.knowledge.torch_api as t; assert not t._data.cache_info().currsize"
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False).returncode == 0


def test_names_that_are_no_facts_are_attribute_errors() -> None:
    with pytest.raises(AttributeError):
        torch_api.NO_SUCH_FACT  # noqa: B018
    assert not hasattr(torch_api, "no_such_function")


# ------------------------------------------------------------------ names


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("torch.functional.einsum", "torch.einsum"),
        ("torch.nn.modules.linear.Linear", "torch.nn.Linear"),
        ("torch.nn.parameter.Parameter", "torch.nn.Parameter"),
        ("torch.optim.adamw.AdamW", "torch.optim.AdamW"),
        ("torch.utils.data.dataloader.DataLoader", "torch.utils.data.DataLoader"),
        ("torch.amp.grad_scaler.GradScaler", "torch.amp.GradScaler"),
        ("torch.nn.utils.clip_grad.clip_grad_norm_", "torch.nn.utils.clip_grad_norm_"),
        ("torch._C._nn.gelu", "torch.nn.functional.gelu"),
        ("torch.cuda.memory.empty_cache", "torch.cuda.empty_cache"),
        # Others of the same name, that must not be taken for them.
        ("torch.cuda.FloatTensor", "torch.cuda.FloatTensor"),
        ("torch.nn.quantized.Linear", "torch.nn.quantized.Linear"),
        ("torch.cuda.amp.GradScaler", "torch.cuda.amp.GradScaler"),
        ("mytorch.nn.modules.linear.Linear", "mytorch.nn.modules.linear.Linear"),
    ],
)
def test_names_are_found_by_any_spelling(name: str, expected: str) -> None:
    assert canonical(name) == expected


@given(st.sampled_from([*FACTS["functions"], *FACTS["classes"], *FACTS["vendor"]]))
def test_canonical_names_are_their_own(name: str) -> None:
    assert canonical(name) == name


def test_the_module_that_defines_a_class_leads_to_it(torch: Any) -> None:
    for name in torch_api.CLASSES:
        value = _resolve(torch, name)
        assert canonical(f"{value.__module__}.{value.__qualname__}") == name


@given(st.text(max_size=30))
def test_any_text_may_be_asked_about(text: str) -> None:
    assert canonical("torch." + text).startswith("torch")
    overloads(text)
    method_overloads(text)


# ------------------------------------------------------------------ what is created, and where


def test_creations_obey_the_default_device_but_for_those_that_are_said_not_to(torch: Any) -> None:
    calls: dict[str, tuple[Any, ...]] = {
        "torch.zeros": (2,),
        "torch.arange": (3,),
        "torch.tensor": ([1.0],),
        "torch.as_tensor": ([1.0],),
        "torch.hann_window": (4,),
        "torch.tril_indices": (2, 2),
        "torch.signal.windows.hann": (4,),
        "torch.fft.fftfreq": (4,),
        "torch.randn": (2,),
        "torch.scalar_tensor": (1.0,),
        "torch.Tensor": (2,),
        "torch.FloatTensor": ([1.0],),
        "torch.LongTensor": ([1],),
        "torch.frombuffer": (),
        "torch.get_rng_state": (),
    }
    with torch.device("meta"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, arguments in calls.items():
            assert name in torch_api.CREATES
            named = {"buffer": bytearray(8), "dtype": torch.float32} if name == "torch.frombuffer" else {}
            made = _resolve(torch, name)(*arguments, **named)
            assert made.is_meta != (name in torch_api.IGNORES_DEFAULT_DEVICE), name


def test_every_creation_but_the_legacy_ones_takes_a_device() -> None:
    without = torch_api.CREATES - torch_api.ACCEPTS_DEVICE
    assert without <= torch_api.IGNORES_DEFAULT_DEVICE


def test_templates_say_where_the_result_goes(torch: Any) -> None:
    template = torch.empty(2, device="meta")
    for name, place in torch_api.FOLLOWS_TEMPLATE.items():
        arguments = [template, 1] if name in ("torch.full_like", "torch.randint_like") else [template]
        assert place == 0
        assert _resolve(torch, name)(*arguments).is_meta
    for name in torch_api.FOLLOWS_RECEIVER - {"new", "new_empty_strided"}:
        arguments = [(2,), 1.0] if name == "new_full" else [[1.0]] if name == "new_tensor" else [(2,)]
        assert getattr(template, name)(*arguments).is_meta


def test_data_that_is_a_tensor_decides(torch: Any) -> None:
    data = torch.empty(2, device="meta")
    assert torch.as_tensor(data).is_meta
    assert {"torch.tensor", "torch.as_tensor", "torch.asarray"} <= torch_api.FOLLOWS_DATA <= {
        *torch_api.CREATES, "torch.nested.as_nested_tensor", "torch.nested.nested_tensor"
    }  # fmt: skip


@pytest.mark.parametrize(
    "name", ["torch.normal", "torch.zeros_like", "torch.cat", "torch.add", "torch.complex"]
)
def test_what_depends_on_operands_is_no_creation(name: str) -> None:
    assert name not in torch_api.CREATES


def test_modules_that_take_a_device(torch: Any) -> None:
    assert "torch.nn.Linear" in torch_api.ACCEPTS_DEVICE
    assert "torch.nn.ReLU" not in torch_api.ACCEPTS_DEVICE
    assert torch.nn.Linear(2, 2, device="meta").weight.is_meta


# ------------------------------------------------------------------ methods


def test_in_place_methods_return_their_receiver(torch: Any) -> None:
    tried = 0
    for name in sorted(torch_api.IN_PLACE - {"set_", "apply_", "map_", "map2_"}):
        receiver = torch.full((2, 2), 0.5)
        other = torch.full((2, 2), 0.5)
        parameters = [
            p for p in method_overloads(name)[0].parameters if not p.optional and not p.keyword_only
        ]
        if any(p.kind not in (Kind.TENSOR, Kind.SCALAR) for p in parameters):
            continue
        arguments = [other if p.kind is Kind.TENSOR else 1.0 for p in parameters]
        try:
            result = getattr(receiver, name)(*arguments)
        except (IndexError, NotImplementedError, RuntimeError, TypeError):
            continue
        tried += 1
        assert result is receiver or result.data_ptr() == receiver.data_ptr(), name
    assert tried > 100


@pytest.mark.parametrize("name", ["__int__", "__index__", "__invert__", "__init__", "item", "add", "to"])
def test_what_is_not_in_place(name: str) -> None:
    assert name not in torch_api.IN_PLACE


def test_moves_change_what_they_are_said_to(torch: Any) -> None:
    values = torch.empty(2, dtype=torch.int32, device="meta")
    for name, changes in torch_api.MOVES.items():
        if changes == "dtype":
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                moved = getattr(values, name)()
            assert moved.is_meta
            assert moved.dtype is not values.dtype or name == "int"
    assert torch_api.MOVES["to"] == torch_api.MOVES["type"] == "both"
    assert torch_api.MOVES["cuda"] == torch_api.MOVES["cpu"] == "device"


def test_what_methods_return(torch: Any) -> None:
    tensor = torch.ones(2, 2)
    for name in (
        "item",
        "tolist",
        "size",
        "dim",
        "numel",
        "is_contiguous",
        "stride",
        "data_ptr",
        "get_device",
    ):
        assert name in torch_api.RETURNS_HOST
    for name in ("abs", "sum", "view", "unsqueeze", "to", "softmax", "__add__", "unflatten", "mean"):
        assert name in torch_api.RETURNS_TENSOR
    assert {"numpy", "__array__"} == torch_api.RETURNS_ARRAY
    assert torch_api.RETURNS_TENSORS["sort"] == len(tensor.sort())
    assert torch_api.RETURNS_TENSORS["chunk"] is None
    # What depends on the arguments is in none of them.
    for name in ("max", "type", "unique", "nonzero"):
        assert name not in {*torch_api.RETURNS_TENSOR, *torch_api.RETURNS_HOST, *torch_api.RETURNS_TENSORS}


def test_attributes_of_tensors(torch: Any) -> None:
    assert torch_api.ATTRIBUTES["shape"] is Result.HOST
    assert torch_api.ATTRIBUTES["T"] is torch_api.ATTRIBUTES["grad"] is Result.TENSOR
    for name in torch_api.TENSOR_ATTRIBUTES - torch_api.OF_EVERY_OBJECT:
        assert inspect.getattr_static(torch.Tensor, name) is not None or name == "__hash__"
    public = {name for name in dir(torch.Tensor) if not name.startswith("_")}
    assert public <= torch_api.TENSOR_ATTRIBUTES
    assert {"unsqueeze", "backward", "grad"} <= torch_api.DISTINGUISHING
    assert not {"to", "cuda", "parameters", "requires_grad_", "half"} & torch_api.DISTINGUISHING
    assert {
        "training",
        "state_dict",
        "zero_grad",
    } <= torch_api.MODULE_ATTRIBUTES - torch_api.TENSOR_ATTRIBUTES


# ------------------------------------------------------------------ waits, draws, ranks


def test_waits() -> None:
    assert {"item", "tolist", "cpu", "numpy"} <= torch_api.EXPLICIT_SYNC_METHODS
    hidden = {
        "nonzero",
        "masked_select",
        "unique",
        "equal",
        "allclose",
        "is_nonzero",
        "repeat_interleave",
        "__bool__",
    }
    assert hidden <= torch_api.HIDDEN_SYNC_METHODS
    assert not torch_api.HIDDEN_SYNC_METHODS & torch_api.EXPLICIT_SYNC_METHODS
    assert {"torch.nonzero", "torch.unique", "torch.linalg.inv", "torch.cuda.synchronize"} <= torch_api.SYNCS
    for harmless in ("sum", "size", "to", "backward", "detach", "masked_fill", "clone", "argmax"):
        assert harmless not in torch_api.HIDDEN_SYNC_METHODS
    for harmless in ("torch.add", "torch.topk", "torch.nn.functional.cross_entropy", "torch.cat"):
        assert harmless not in torch_api.SYNCS
    assert torch_api.SYNC_UNLESS["torch.repeat_interleave"] == "output_size"


def test_numbers_that_are_unwrapped_from_tensors() -> None:
    alpha = overloads("torch.sub")[0].parameter("alpha")
    assert alpha is not None
    assert alpha.kind is Kind.SCALAR
    fill = overloads("torch.full")[0].parameter("fill_value")
    assert fill is not None
    assert fill.kind is Kind.SCALAR


def test_draws(torch: Any) -> None:
    drawing = {"torch.rand", "torch.randperm", "torch.nn.functional.dropout", "torch.nn.init.xavier_uniform_"}
    assert drawing <= torch_api.RANDOM
    assert {"bernoulli", "normal_", "multinomial"} <= torch_api.RANDOM_METHODS
    assert not {"torch.zeros", "torch.linalg.svd", "torch.nn.functional.relu"} & torch_api.RANDOM


@pytest.mark.parametrize(
    ("name", "rank"),
    [
        ("torch.add", Rank.SAME),
        ("torch.where", None),
        ("torch.sum", Rank.ZERO),
        ("torch.mean", Rank.ZERO),
        ("torch.nn.functional.cross_entropy", Rank.ZERO),
        ("torch.nn.functional.mse_loss", Rank.ZERO),
        ("torch.nn.functional.relu", Rank.SAME),
        ("torch.nn.functional.softmax", Rank.SAME),
        ("torch.nonzero", Rank.SOME),
        ("torch.stack", Rank.SOME),
        ("torch.squeeze", None),
        ("torch.matmul", None),
        ("torch.reshape", None),
    ],
)
def test_ranks_of_first_overloads(name: str, rank: Rank | None) -> None:
    assert overloads(name)[0].rank is rank or name == "torch.where"


@given(first=st.integers(0, 3), second=st.integers(0, 3), data=st.data())
def test_ranks_hold_for_elementwise_functions(first: int, second: int, data: st.DataObject) -> None:
    torch = pytest.importorskip("torch")
    names = sorted(n for n in torch_api.ELEMENTWISE if n.count(".") == 1)
    name = data.draw(st.sampled_from(names))
    for overload in overloads(name):
        required = [p for p in overload.parameters if not p.optional and not p.keyword_only]
        if overload.rank is not Rank.SAME or [p.kind for p in required] != [Kind.TENSOR, Kind.TENSOR]:
            continue
        try:
            result = getattr(torch, name[6:])(torch.full((2,) * first, 0.5), torch.full((2,) * second, 0.5))
        except (RuntimeError, TypeError):
            continue
        if isinstance(result, torch.Tensor):
            assert result.dim() == max(first, second), name


# ------------------------------------------------------------------ binding


@pytest.mark.parametrize(
    ("name", "positional", "keywords", "result", "rank", "certain"),
    [
        ("torch.max", [True], {}, Result.TENSOR, Rank.ZERO, True),
        ("torch.max", [True, True], {}, Result.TENSOR, Rank.SAME, True),
        ("torch.max", [True, False], {}, Result.TENSORS, None, True),
        ("torch.max", [True], {"dim": False}, Result.TENSORS, None, True),
        ("torch.max", [True], {"axis": False}, Result.TENSORS, None, True),
        ("torch.sum", [True], {"dim": False}, Result.TENSOR, None, True),
        ("torch.add", [True, None], {"alpha": False}, Result.TENSOR, Rank.SAME, True),
        ("torch.where", [True], {}, Result.TENSORS, Rank.SOME, True),
        ("torch.where", [True, True, True], {}, Result.TENSOR, Rank.SAME, True),
        ("torch.nonzero", [True], {"as_tuple": False}, Result.UNKNOWN, None, True),
        ("torch.nn.functional.max_pool2d", [True, False], {}, Result.TENSOR, Rank.SAME, True),
        (
            "torch.nn.functional.max_pool2d",
            [True, False],
            {"return_indices": False},
            Result.UNKNOWN,
            None,
            True,
        ),
        ("torch.nn.functional.mse_loss", [True, True], {}, Result.TENSOR, Rank.ZERO, True),
        ("torch.nn.functional.mse_loss", [True, True], {"reduction": False}, Result.TENSOR, None, True),
    ],
)
def test_calls_are_bound_to_the_overload_that_torch_takes(
    name: str,
    positional: list[bool | None],
    keywords: dict[str, bool | None],
    result: Result,
    rank: Rank | None,
    certain: bool,
) -> None:
    binding = bind(overloads(name), positional, keywords)
    assert binding is not None
    assert binding.overload.result is result
    assert binding.certain is certain
    if rank is not None or result is Result.TENSOR:
        assert binding.rank is rank


def test_an_argument_that_is_not_known_may_leave_the_result_open() -> None:
    binding = bind(overloads("torch.max"), [True, None])
    assert binding is not None
    assert not binding.certain


def test_positional_arguments_get_their_names() -> None:
    binding = bind(overloads("torch.nn.functional.nll_loss"), [True, True, True])
    assert binding is not None
    assert [p.name for p in binding.positional] == ["input", "target", "weight"]
    assert all(p.kind.is_tensor for p in binding.positional)
    variadic = bind(overloads("torch.zeros"), [False, False, False])
    assert variadic is not None
    assert [p.name for p in variadic.positional] == ["size"] * 3


@pytest.mark.parametrize(
    ("name", "positional", "keywords"),
    [("torch.relu", [True, True], {}), ("torch.relu", [True], {"size": False}), ("torch.nothing", [], {})],
)
def test_calls_that_fit_nothing_are_not_bound(
    name: str, positional: list[bool | None], keywords: dict[str, bool | None]
) -> None:
    assert bind(overloads(name), positional, keywords) is None


@given(
    st.sampled_from(sorted(FACTS["functions"])),
    st.lists(st.sampled_from([True, False, None]), max_size=5),
    st.dictionaries(
        st.sampled_from(["dim", "input", "out", "device", "weight"]), st.sampled_from([True, None])
    ),
)
def test_whatever_is_bound_takes_all_the_arguments(
    name: str, positional: list[bool | None], keywords: dict[str, bool | None]
) -> None:
    binding = bind(overloads(name), positional, keywords)
    if binding is not None:
        assert binding.overload in overloads(name)
        assert len(binding.positional) == len(positional)
        assert set(binding.keywords) == set(keywords)


def test_modules_say_how_they_are_called() -> None:
    (forward,) = torch_api.forward_overloads("torch.nn.CrossEntropyLoss")
    assert [p.name for p in forward.parameters] == ["input", "target"]
    assert forward.result is Result.TENSOR
    assert overloads("torch.nn.Linear")[0].result is Result.MODULE
    assert torch_api.parameter_names("torch.nn.Linear")[:2] == ("in_features", "out_features")


# ------------------------------------------------------------------ classes and vendors


def test_classes_are_what_they_are(torch: Any) -> None:
    for name in torch_api.MODULES:
        assert issubclass(_resolve(torch, name), torch.nn.Module)
    for name in torch_api.OPTIMIZERS:
        assert issubclass(_resolve(torch, name), torch.optim.Optimizer)
    assert {
        "torch.nn.CrossEntropyLoss",
        "torch.nn.BCEWithLogitsLoss",
        "torch.nn.TripletMarginLoss",
    } <= torch_api.LOSSES
    assert torch_api.LOSSES <= torch_api.MODULES
    assert "torch.optim.lr_scheduler.ReduceLROnPlateau" in torch_api.SCHEDULERS
    assert not torch_api.SCHEDULERS & torch_api.OPTIMIZERS


@pytest.mark.parametrize(
    "name",
    [
        "torch.cuda.synchronize",
        "torch.cuda.current_device",
        "torch.cuda.FloatTensor",
        "torch.cuda.set_device",
        "torch.mps.empty_cache",
        "torch.cuda.Event",
    ],
)
def test_vendor_calls_that_fail_without_the_vendor(name: str) -> None:
    assert torch_api.VENDOR[name].raises


@pytest.mark.parametrize(
    "name",
    [
        "torch.cuda.is_available",
        "torch.cuda.empty_cache",
        "torch.cuda.manual_seed_all",
        "torch.cuda.device_count",
        "torch.cuda.memory_allocated",
        "torch.mps.manual_seed",
    ],
)
def test_vendor_calls_that_do_no_harm(name: str) -> None:
    assert not torch_api.VENDOR[name].raises


def test_replacements_exist(torch: Any) -> None:
    for call in torch_api.VENDOR.values():
        if call.replacement is not None:
            assert _resolve(torch, call.replacement) is not None
            assert call.since is not None
    assert torch_api.VENDOR["torch.cuda.synchronize"].since == (2, 6)


def test_places_that_parameters_demand_or_allow() -> None:
    for table in (torch_api.ON_CPU, torch_api.CPU_ALLOWED):
        for name, parameters in table.items():
            known = overloads(name) if "." in name else method_overloads(name)
            named = {p.name for overload in known for p in overload.parameters}
            assert not known or named & set(parameters), name
    assert torch_api.ON_CPU["torch.nn.utils.rnn.pack_padded_sequence"] == ("lengths",)


def _resolve(torch: Any, name: str) -> Any:
    found = torch
    for part in name.split(".")[1:]:
        found = getattr(found, part)
    return found


# ------------------------------------------------------------------ the generator


def test_signatures_survive_writing_and_reading(torch: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT))
    from tools import torch_signatures

    for text in [*FACTS["functions"].values(), *FACTS["methods"].values()]:
        plain = "|".join(
            part.rpartition(">")[0] + ">" + part.rpartition(">")[2].split(":")[0] for part in text.split("|")
        )
        assert torch_signatures.write(torch_signatures.read(plain)) == plain


@pytest.mark.parametrize(
    ("annotation", "kind"),
    [
        ("Tensor", "T"),
        ("Tensor | None", "O"),
        ("Optional[torch.Tensor]", "O"),
        ("tuple[Tensor, ...] | list[Tensor] | None", "L"),
        ("Tensor | Number | _complex", "T"),
        ("Number | _complex", "S"),
        ("_int | _size", "N"),
        ("DeviceLikeType | None", "D"),
        ("_dtype | None", "Y"),
        ("Generator | None", "G"),
        ("str", "X"),
    ],
)
def test_kinds_of_annotations(
    torch: Any, monkeypatch: pytest.MonkeyPatch, annotation: str, kind: str
) -> None:
    monkeypatch.syspath_prepend(str(ROOT))
    from tools.torch_signatures import kind_of_annotation

    assert kind_of_annotation(annotation) == kind
