"""Facts of other libraries: names are found however they are spelt, and the facts are coherent."""

from __future__ import annotations

import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from torchlint.placement.knowledge import framework_facts, library_facts
from torchlint.placement.knowledge.frameworks import (
    LIGHTNING_HOOKS_BEFORE_TRANSFER,
    LIGHTNING_HOOKS_ON_DEVICE,
    Lives,
    fact,
    owns_scaler,
)
from torchlint.placement.values import Certainty, Kind

ENTRIES = [entry for table in (*framework_facts.TABLES, *library_facts.TABLES) for entry in table()]


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("transformers.BertModel", Kind.MODULE),
        ("transformers.AutoModelForCausalLM", Kind.MODULE),
        ("transformers.models.bert.modeling_bert.BertLayer", Kind.MODULE),
        ("transformers.CLIPTextModelWithProjection", Kind.MODULE),
        ("transformers.AutoTokenizer", Kind.OBJECT),
        ("transformers.DataCollatorForLanguageModeling", Kind.OBJECT),
        ("transformers.BertConfig", Kind.OBJECT),
        ("transformers.TFBertModel", Kind.OBJECT),
        ("transformers.BatchEncoding", Kind.OWNED),
        ("diffusers.StableDiffusionPipeline", Kind.OWNED),
        ("diffusers.UNet2DConditionModel", Kind.MODULE),
        ("diffusers.AutoencoderKL", Kind.MODULE),
        ("diffusers.DDPMScheduler", Kind.OBJECT),
        ("lightning.LightningModule", Kind.MODULE),
        ("torchmetrics.Accuracy", Kind.MODULE),
        ("torchvision.datasets.CIFAR10", Kind.DATASET),
        ("torch_geometric.data.Data", Kind.OWNED),
        ("torch_geometric.nn.GCNConv", Kind.MODULE),
        ("torch.utils.data.DataLoader", Kind.LOADER),
        ("torch.nn.parallel.DistributedDataParallel", Kind.MODULE),
        ("segmentation_models_pytorch.Unet", Kind.MODULE),
        ("accelerate.Accelerator.device", Kind.DEVICE),
        ("numpy.random.randint", Kind.FUNCTION),
        ("numpy.int64", Kind.OBJECT),
    ],
)
def test_classes_are_told_apart(name: str, kind: Kind) -> None:
    found = fact(name)
    assert found is not None
    assert found.kind is kind


@pytest.mark.parametrize(
    ("name", "returns", "lives"),
    [
        ("transformers.BertTokenizerFast.__call__", Kind.OWNED, Lives.CREATED),
        ("transformers.AutoTokenizer.encode", Kind.TENSOR, Lives.CREATED),
        ("transformers.CLIPProcessor.__call__", Kind.OWNED, Lives.CREATED),
        ("transformers.AutoModelForCausalLM.generate", Kind.TENSOR, Lives.MODULE),
        ("torchvision.transforms.functional.to_tensor", Kind.TENSOR, Lives.HOST),
        ("torchvision.transforms.v2.functional.pil_to_tensor", Kind.TENSOR, Lives.HOST),
        ("torchvision.ops.nms", Kind.TENSOR, Lives.ARGUMENTS),
        ("torchvision.models.resnet18", Kind.MODULE, Lives.CREATED),
        ("torchvision.models.detection.fasterrcnn_resnet50_fpn", Kind.MODULE, Lives.CREATED),
        ("timm.create_model", Kind.MODULE, Lives.CREATED),
        ("timm.models.create_model", Kind.MODULE, Lives.CREATED),
        ("clip.tokenize", Kind.TENSOR, Lives.CREATED),
        ("numpy.random.randint", Kind.ARRAY, None),
        ("torch.nn.utils.rnn.pack_padded_sequence", Kind.OBJECT, Lives.ARGUMENTS),
        ("accelerate.Accelerator.prepare_data_loader", Kind.LOADER, Lives.FRAMEWORK),
    ],
)
def test_what_calls_return(name: str, returns: Kind, lives: Lives | None) -> None:
    found = fact(name)
    assert found is not None
    assert (found.returns, found.lives) == (returns, lives)


def test_a_tokenizer_gives_tensors_only_when_asked_for_them() -> None:
    found = fact("transformers.BertTokenizer.__call__")
    assert found is not None
    assert found.only_with == ("return_tensors", "pt")


@pytest.mark.parametrize(
    ("name", "in_place", "returns_self"),
    [
        ("transformers.BatchFeature", True, True),
        ("torch_geometric.data.HeteroData", True, True),
        ("diffusers.DiffusionPipeline", True, True),
        ("diffusers.training_utils.EMAModel", True, False),
        ("torch_ema.ExponentialMovingAverage", True, False),
        ("torch.nn.utils.rnn.PackedSequence", False, True),
        ("dgl.DGLGraph", False, True),
        ("torch_sparse.SparseTensor", False, True),
        ("detectron2.structures.Instances", False, True),
        ("timm.utils.ModelEma", None, True),
    ],
)
def test_whose_to_works_in_place(name: str, in_place: bool | None, returns_self: bool) -> None:
    found = fact(name)
    assert found is not None
    assert (found.in_place_to, found.returns_self) == (in_place, returns_self)


@pytest.mark.parametrize(
    "name",
    [
        "accelerate.Accelerator",
        "lightning.pytorch.Trainer",
        "pytorch_lightning.LightningModule",
        "lightning_fabric.Fabric",
        "transformers.Seq2SeqTrainer",
        "deepspeed.initialize",
        "apex.amp.scale_loss",
        "timm.utils.NativeScaler",
    ],
)
def test_who_scales_the_loss(name: str) -> None:
    assert owns_scaler(name)


@pytest.mark.parametrize(
    "name", ["diffusers.UNet2DModel", "torch.nn.Linear", "numpy.mean", "somebody.Trainer"]
)
def test_who_does_not_scale_the_loss(name: str) -> None:
    assert not owns_scaler(name)


@pytest.mark.parametrize(
    ("public", "private"),
    [
        ("lightning.LightningModule", "lightning.pytorch.core.module.LightningModule"),
        ("lightning.LightningModule", "pytorch_lightning.LightningModule"),
        ("lightning.fabric.Fabric.setup", "lightning_fabric.fabric.Fabric.setup"),
        ("transformers.BatchEncoding", "transformers.tokenization_utils_base.BatchEncoding"),
        ("torch_geometric.data.Data", "torch_geometric.data.data.Data"),
    ],
)
def test_the_module_that_defines_a_name_does_not_matter(public: str, private: str) -> None:
    assert fact(public) is not None
    assert fact(public) == fact(private)


@pytest.mark.parametrize(
    "name", ["", "torch", "transformers", "torch.nn.Linear", "mylib.BertModel", "a..b", "."]
)
def test_what_is_not_listed_is_not_known(name: str) -> None:
    assert fact(name) is None


@given(st.lists(st.text(string.ascii_letters + "_.", max_size=12), max_size=5))
def test_any_name_may_be_asked_about(parts: list[str]) -> None:
    found = fact("unlisted_" + ".".join(parts))
    assert found is None


@pytest.mark.parametrize(("where", "patterns", "found"), ENTRIES, ids=lambda value: str(value)[:40])
def test_every_entry_can_be_found_and_has_a_source(where: str, patterns: str, found: object) -> None:
    for pattern in patterns.split():
        name = f"{where.replace('*', 'x')}.{_example(pattern)}"
        assert fact(name) is not None, name
    assert getattr(found, "source", "").startswith("https://")


def _example(pattern: str) -> str:
    """A name that a pattern matches."""
    text = pattern.replace("[A-Z]", "X").replace("[a-z]", "x").replace("[0-9]", "1").replace("[a-zA-Z]", "X")
    text = text.replace("?", "8").replace("*", "y")
    head, dot, method = text.partition(".")
    return head[:1].upper() + head[1:] + dot + method if dot else text


@pytest.mark.parametrize(("where", "patterns", "found"), ENTRIES, ids=lambda value: str(value)[:40])
def test_facts_are_coherent(where: str, patterns: str, found: object) -> None:
    from torchlint.placement.knowledge.frameworks import Fact

    assert isinstance(found, Fact)
    if found.items:
        assert found.returns is Kind.SEQUENCE
    if found.only_with or found.not_with:
        assert found.returns is not None or found.returns_arguments
    # What accuses must be sure: an object whose `to` is not in place, tensors that stay on the host.
    if found.in_place_to is False or found.lives is Lives.HOST:
        assert found.certainty is Certainty.KNOWN
    # A method or function has no `to` of its own; what it returns may have.
    if found.kind is Kind.FUNCTION and found.in_place_to is not None:
        assert found.returns in (Kind.OWNED, Kind.OBJECT)


def test_hooks_before_and_after_the_transfer_are_disjoint() -> None:
    assert {"training_step", "validation_step", "on_train_batch_start"} <= LIGHTNING_HOOKS_ON_DEVICE
    assert not LIGHTNING_HOOKS_ON_DEVICE & LIGHTNING_HOOKS_BEFORE_TRANSFER
    assert "configure_optimizers" not in LIGHTNING_HOOKS_ON_DEVICE
