"""What other libraries' classes and functions do with devices: facts that torch can't tell, each with its source.

`fact(name)` takes the qualified name of a class (`transformers.BatchEncoding`), of a function
(`torchvision.io.read_image`) or of a method of a class (`accelerate.Accelerator.prepare`). A name may be public or
spell the module that defines it: only the library and the last parts count. What is not listed is not known.

Known gaps: names that a star import brings (fastai) can't be resolved; which of `from_pretrained`'s arguments place a
model (`device_map`, quantisation) is for the caller to look at; image processors may work on the GPU, so that the
place of what they return is not said; libraries that are not listed.
"""

from __future__ import annotations

import enum
import functools
from collections.abc import Iterator
from dataclasses import dataclass, replace
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

    kind: of a class, what its instances are; FUNCTION for functions and methods.
    source: where that is written.
    what: a word for messages and for callers that tell sorts apart (`tokenizer`, `pipeline`, `trainer`, …).
    in_place_to: whether `to`, `cuda` and `cpu` change the object itself; None where that is not known.
    returns_self: whether they also return it, so that chaining works; where not, they return None.
    moves_inputs: moves what it is given or hands out to its device by itself, or has moved it before its hooks run.
    owns_scaler: scales the loss of fp16 training itself.
    returns: what calling the function or method gives.
    instance: calling it gives an instance of the class it belongs to (`from_pretrained`).
    arity: how many values a returned tuple holds.
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
    arity: int | None = None
    lives: Lives | None = None
    only_with: tuple[str, str] | None = None
    not_with: tuple[str, ...] = ()
    certainty: Certainty = Certainty.KNOWN


#: Hooks of a LightningModule or LightningDataModule whose batch is on the module's device when they are called
#: (https://lightning.ai/docs/pytorch/stable/common/lightning_module.html#hooks, the pseudocode of `fit_loop`), and
#: those that run before it is moved.
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
        inside = not within or module == within or module.startswith(f"{within}.")
        if inside and fnmatchcase(tail, pattern) and ("." in pattern) == method:
            return found
    return None


@functools.cache
def _entries() -> dict[str, list[tuple[str, str, Fact]]]:
    """Entries by library: the module they are in (empty: any), a pattern for the name, and the fact."""
    by_root: dict[str, list[tuple[str, str, Fact]]] = {}
    for table in (
        _torch,
        _transformers,
        _diffusers,
        _accelerate,
        _lightning,
        _vision,
        _graphs,
        _trainers,
        _models,
        _host,
    ):
        for where, patterns, found in table():
            root, _, within = where.partition(".")
            by_root.setdefault(root, []).extend((within, pattern, found) for pattern in patterns.split())
    return by_root


Entry = tuple[str, str, Fact]


def _function(source: str, returns: Kind | None, lives: Lives | None = None, what: str = "") -> Fact:
    return Fact(Kind.FUNCTION, source, what, returns=returns, lives=lives)


def _module(source: str, what: str = "") -> Fact:
    return Fact(Kind.MODULE, source, what, in_place_to=True)


def _making_instances(source: str) -> Fact:
    return Fact(Kind.FUNCTION, source, returns=None, instance=True)


def _torch() -> Iterator[Entry]:
    nn = "https://docs.pytorch.org/docs/stable/generated/torch.nn."
    packed = nn + "utils.rnn.PackedSequence.html"
    # `to`: "Perform dtype and/or device conversion on `self.data`… If self already has the correct dtype and device,
    # then self is returned. Otherwise, returns a copy."
    yield "torch", "PackedSequence", Fact(Kind.OBJECT, packed, "packed sequence", in_place_to=False)
    to_packed = _function(packed, Kind.OBJECT, Lives.ARGUMENTS, "packed sequence")
    yield "torch", "pack_padded_sequence pack_sequence", to_packed
    data = "https://docs.pytorch.org/docs/stable/data.html#memory-pinning"
    # "When a tensor is returned in CUDA … not recommended": a loader hands out what dataset and collate made.
    loader = Fact(Kind.LOADER, data, "loader", lives=Lives.CREATED, certainty=Certainty.INFERRED)
    yield "torch", "DataLoader StatefulDataLoader", loader
    yield "torch.utils.data", "*Dataset Subset", Fact(Kind.DATASET, data, "dataset")
    parallel = nn + "parallel.DistributedDataParallel.html"
    wrapper = replace(_module(parallel, "wrapper"), moves_inputs=True)
    yield "torch", "DistributedDataParallel DataParallel", wrapper
    fsdp = replace(wrapper, source="https://docs.pytorch.org/docs/stable/fsdp.html")
    yield "torch", "FullyShardedDataParallel", fsdp
    averaged = "https://docs.pytorch.org/docs/stable/optim.html#weight-averaging-swa-and-ema"
    yield "torch", "AveragedModel", _module(averaged, "average")
    scaler = "https://docs.pytorch.org/docs/stable/amp.html#gradient-scaling"
    yield "torch", "GradScaler ShardedGradScaler", Fact(Kind.SCALER, scaler, "scaler", owns_scaler=True)
    # "Returns a new tensordict … unless inplace=True" where the device changes.
    tensordict = (
        "https://docs.pytorch.org/tensordict/stable/reference/generated/tensordict.TensorDictBase.to.html"
    )
    yield (
        "tensordict",
        "*TensorDict TensorDictBase",
        Fact(Kind.OBJECT, tensordict, "tensordict", in_place_to=False),
    )
    yield "tensordict", "*Module *Sequential", _module(tensordict)


def _transformers() -> Iterator[Entry]:
    docs = "https://huggingface.co/docs/transformers/main/en/"
    tokens = docs + "main_classes/tokenizer"
    batch = Fact(Kind.OWNED, tokens + "#transformers.BatchEncoding.to", "batch", in_place_to=True)
    yield "transformers", "BatchEncoding BatchFeature", batch

    called = _function(tokens, Kind.OWNED, Lives.CREATED, "batch")
    called = replace(called, in_place_to=True, only_with=("return_tensors", "pt"))
    methods = "__call__ encode_plus batch_encode_plus pad prepare_for_model"
    for pattern in ("*Tokenizer", "*TokenizerFast", "PreTrainedTokenizerBase"):
        yield "transformers", " ".join(f"{pattern}.{m}" for m in methods.split()), called
        encoded = replace(called, returns=Kind.TENSOR, what="", in_place_to=None)
        yield "transformers", f"{pattern}.encode", encoded
        text = _function(tokens, Kind.STRING)
        yield "transformers", f"{pattern}.decode {pattern}.convert_tokens_to_string", text
        ids = _function(tokens, Kind.SEQUENCE)
        yield "transformers", f"{pattern}.batch_decode {pattern}.tokenize", ids
    # Feature extractors compute in NumPy and convert at the end; image processors may be given a device.
    features = docs + "main_classes/feature_extractor"
    yield "transformers", "*FeatureExtractor.__call__ *FeatureExtractor.pad", replace(called, source=features)
    processed = replace(called, source=docs + "main_classes/processors", lives=None)
    processors = "*Processor *ImageProcessor *ImageProcessorFast *VideoProcessor"
    yield "transformers", " ".join(f"{p}.__call__" for p in processors.split()), processed
    yield "transformers", "*Processor.decode", _function(docs + "main_classes/processors", Kind.STRING)

    yield (
        "transformers",
        "*.from_pretrained *.from_config *.from_dict",
        _making_instances(docs + "model_doc/auto"),
    )
    generate = _function(docs + "main_classes/text_generation", Kind.TENSOR, Lives.MODULE)
    not_with = ("return_dict_in_generate", "generation_config", "assistant_model")
    yield "transformers", "*.generate", replace(generate, not_with=not_with)

    yield "transformers", "TF* Flax* *Config *Output", Fact(Kind.OBJECT, docs + "index", "no torch module")
    yield (
        "transformers",
        "*Tokenizer *TokenizerFast PreTrainedTokenizerBase",
        Fact(Kind.OBJECT, tokens, "tokenizer"),
    )
    yield (
        "transformers",
        f"{processors} *FeatureExtractor",
        Fact(Kind.OBJECT, docs + "main_classes/processors", "processor"),
    )
    collated = replace(
        _function(docs + "main_classes/data_collator", Kind.MAPPING, Lives.CREATED), what="batch"
    )
    yield "transformers", "DataCollator*.__call__", collated
    yield "transformers", "default_data_collator", collated
    yield "transformers", "DataCollator*", Fact(Kind.OBJECT, docs + "main_classes/data_collator", "collator")
    trainer = Fact(Kind.OBJECT, docs + "main_classes/trainer", "trainer", moves_inputs=True, owns_scaler=True)
    yield "transformers", "*Trainer", trainer
    yield "trl", "*Trainer", replace(trainer, source="https://huggingface.co/docs/trl/main/en/trainer")
    yield "transformers", "*TrainingArguments", Fact(Kind.OBJECT, docs + "main_classes/trainer", "arguments")
    pipeline = Fact(Kind.OWNED, docs + "main_classes/pipelines", "pipeline", moves_inputs=True)
    yield "transformers", "*Pipeline", pipeline
    yield "transformers", "pipeline", replace(pipeline, kind=Kind.FUNCTION, returns=Kind.OWNED)
    model = _module(docs + "main_classes/model", "model")
    yield (
        "transformers",
        "AutoModel* *Model PreTrainedModel *For[A-Z]* *ModelWithHeads *LMHeadModel *DoubleHeadsModel",
        model,
    )
    yield "transformers", "*ModelWith* AutoBackbone *Backbone", model
    schedules = docs + "main_classes/optimizer_schedules"
    yield "transformers", "get_*schedule* get_scheduler", _function(schedules, Kind.SCHEDULER)
    yield "transformers", "AdamW Adafactor", Fact(Kind.OPTIMIZER, schedules)
    yield "transformers", "set_seed", _function(docs + "internal/trainer_utils", Kind.NONE)
    adapters = "https://huggingface.co/docs/peft/main/en/package_reference/peft_model"
    yield "peft", "get_peft_model inject_adapter_in_model", _function(adapters, Kind.MODULE)
    yield "peft", "prepare_model_for_kbit_training", _function(adapters, Kind.MODULE)
    yield "peft", "*.from_pretrained", _making_instances(adapters)
    yield "peft", "*.generate", replace(generate, source=adapters, not_with=not_with)
    yield "peft", "*Config", Fact(Kind.OBJECT, adapters, "config")
    yield "peft", "*Model PeftModel* AutoPeftModel*", _module(adapters, "model")
    sentences = "https://sbert.net/docs/package_reference/sentence_transformer/SentenceTransformer.html"
    # The constructor puts the model on the best device it finds; `encode` moves its inputs there.
    sentence = replace(_module(sentences, "model"), moves_inputs=True)
    yield "sentence_transformers", "SentenceTransformer SparseEncoder", sentence
    as_array = Fact(
        Kind.FUNCTION,
        sentences,
        returns=Kind.ARRAY,
        not_with=("convert_to_tensor", "convert_to_numpy", "output_value"),
    )
    yield "sentence_transformers", "SentenceTransformer.encode CrossEncoder.predict", as_array
    yield "sentence_transformers", "CrossEncoder", Fact(Kind.OWNED, sentences, "model", moves_inputs=True)
    data_sets = "https://huggingface.co/docs/datasets/main/en/package_reference/loading_methods"
    yield "datasets", "load_dataset load_from_disk concatenate_datasets", _function(data_sets, Kind.DATASET)
    yield "datasets", "*Dataset", Fact(Kind.DATASET, data_sets)


def _diffusers() -> Iterator[Entry]:
    docs = "https://huggingface.co/docs/diffusers/main/en/api/"
    yield (
        "diffusers",
        "*.from_pretrained *.from_single_file *.from_config *.from_pipe",
        _making_instances(docs + "loaders/single_file"),
    )
    # https://github.com/huggingface/diffusers/blob/main/src/diffusers/pipelines/pipeline_utils.py: `to` moves the
    # modules of the pipeline and returns it.
    pipeline = Fact(
        Kind.OWNED,
        docs + "pipelines/overview#diffusers.DiffusionPipeline.to",
        "pipeline",
        in_place_to=True,
        moves_inputs=True,
    )
    yield "diffusers", "*Pipeline AutoPipelineFor*", pipeline
    yield "diffusers", "*Scheduler", Fact(Kind.OBJECT, docs + "schedulers/overview", "noise scheduler")
    noised = _function(docs + "schedulers/overview", Kind.TENSOR, Lives.ARGUMENTS)
    yield "diffusers", "*Scheduler.add_noise *Scheduler.get_velocity *Scheduler.scale_model_input", noised
    ema = "https://github.com/huggingface/diffusers/blob/main/src/diffusers/training_utils.py"
    yield "diffusers", "EMAModel", Fact(Kind.OBJECT, ema, "average", in_place_to=True, returns_self=False)
    schedules = "https://github.com/huggingface/diffusers/blob/main/src/diffusers/optimization.py"
    yield "diffusers", "get_*schedule* get_scheduler", _function(schedules, Kind.SCHEDULER)
    yield (
        "diffusers",
        "*Model *Model3D *Adapter Autoencoder* Asymmetric* UNet* *UNet VQModel *VAE *Transformer*",
        _module(docs + "models/overview", "model"),
    )


def _accelerate() -> Iterator[Entry]:
    docs = "https://huggingface.co/docs/accelerate/main/en/package_reference/"
    accelerator = docs + "accelerator"
    prepared = Fact(Kind.FUNCTION, accelerator, "prepare", moves_inputs=True, lives=Lives.FRAMEWORK)
    yield "accelerate", "Accelerator.prepare", prepared
    yield "accelerate", "Accelerator.prepare_model", replace(prepared, returns=Kind.MODULE)
    yield "accelerate", "Accelerator.prepare_data_loader", replace(prepared, returns=Kind.LOADER)
    yield "accelerate", "Accelerator.prepare_optimizer", replace(prepared, returns=Kind.OPTIMIZER)
    yield "accelerate", "Accelerator.prepare_scheduler", replace(prepared, returns=Kind.SCHEDULER)
    yield "accelerate", "Accelerator.unwrap_model", _function(accelerator, Kind.MODULE)
    gathered = _function(accelerator, None, Lives.FRAMEWORK)
    yield "accelerate", "Accelerator.gather Accelerator.gather_for_metrics Accelerator.reduce", gathered
    yield "accelerate", "Accelerator.pad_across_processes", _function(accelerator, None, Lives.ARGUMENTS)
    yield (
        "accelerate",
        "Accelerator.autocast Accelerator.accumulate Accelerator.no_sync",
        _function(accelerator, Kind.CONTEXT),
    )
    owned = Fact(Kind.FUNCTION, accelerator, owns_scaler=True)
    yield "accelerate", "Accelerator.backward", replace(owned, returns=Kind.NONE)
    # Unscales the gradients first (`unscale_gradients`), so it is right between backward and step.
    yield (
        "accelerate",
        "Accelerator.clip_grad_norm_ Accelerator.clip_grad_value_ Accelerator.unscale_gradients",
        owned,
    )
    yield (
        "accelerate",
        "Accelerator.is_main_process Accelerator.sync_gradients Accelerator.num_processes",
        _function(accelerator, Kind.NUMBER),
    )
    yield (
        "accelerate",
        "Accelerator.device PartialState.device AcceleratorState.device",
        _function(accelerator, Kind.DEVICE, Lives.FRAMEWORK),
    )
    yield (
        "accelerate",
        "Accelerator",
        Fact(Kind.OBJECT, accelerator, "accelerator", moves_inputs=True, owns_scaler=True),
    )
    big = docs + "big_modeling"
    placed = Fact(Kind.FUNCTION, big, returns=Kind.MODULE, moves_inputs=True, lives=Lives.FRAMEWORK)
    yield "accelerate", "dispatch_model load_checkpoint_and_dispatch cpu_offload disk_offload", placed
    yield "accelerate", "init_empty_weights init_on_device", _function(big, Kind.CONTEXT)
    # `send_to_device` returns moved copies; dropping its result is a discarded move.
    yield "accelerate", "send_to_device", _function(docs + "utilities", None, what="move helper")


def _lightning() -> Iterator[Entry]:
    docs = "https://lightning.ai/docs/pytorch/stable/common/"
    module = docs + "lightning_module.html"
    yield (
        "lightning",
        "LightningModule",
        replace(_module(module, "trained module"), moves_inputs=True, owns_scaler=True),
    )
    yield "lightning", "*.load_from_checkpoint", _making_instances(module)
    yield (
        "lightning",
        "LightningModule.manual_backward LightningModule.clip_gradients",
        Fact(Kind.FUNCTION, module, owns_scaler=True),
    )
    yield "lightning", "LightningModule.all_gather", _function(module, None, Lives.FRAMEWORK)
    data = "https://lightning.ai/docs/pytorch/stable/data/datamodule.html"
    yield "lightning", "LightningDataModule", Fact(Kind.OBJECT, data, "data module", moves_inputs=True)
    yield (
        "lightning",
        "Trainer",
        Fact(Kind.OBJECT, docs + "trainer.html", "trainer", moves_inputs=True, owns_scaler=True),
    )
    yield (
        "lightning",
        "Callback *Callback",
        Fact(Kind.OBJECT, docs + "../extensions/callbacks.html", "callback", moves_inputs=True),
    )
    fabric = "https://lightning.ai/docs/fabric/stable/api/fabric_methods.html"
    # `setup` moves the module (`move_to_device=True`); loaders move their batches (`move_to_device=True`).
    ready = Fact(
        Kind.FUNCTION,
        fabric,
        "prepare",
        moves_inputs=True,
        lives=Lives.FRAMEWORK,
        not_with=("move_to_device",),
    )
    yield "lightning", "Fabric.setup Fabric.setup_optimizers", ready
    yield "lightning", "Fabric.setup_module", replace(ready, returns=Kind.MODULE)
    yield "lightning", "Fabric.setup_dataloaders", replace(ready, returns=Kind.LOADER)
    yield "lightning", "Fabric.backward Fabric.clip_gradients", Fact(Kind.FUNCTION, fabric, owns_scaler=True)
    yield "lightning", "Fabric.to_device", _function(fabric, None, Lives.FRAMEWORK, "move helper")
    yield (
        "lightning",
        "Fabric.all_gather Fabric.all_reduce Fabric.broadcast",
        _function(fabric, None, Lives.FRAMEWORK),
    )
    yield (
        "lightning",
        "Fabric.autocast Fabric.no_backward_sync Fabric.init_module Fabric.init_tensor",
        _function(fabric, Kind.CONTEXT),
    )
    yield "lightning", "Fabric.device", _function(fabric, Kind.DEVICE, Lives.FRAMEWORK)
    yield "lightning", "Fabric", Fact(Kind.OBJECT, fabric, "fabric", moves_inputs=True, owns_scaler=True)
    yield "lightning", "seed_everything", _function(fabric, Kind.NUMBER)
    # https://github.com/Lightning-AI/torchmetrics/blob/master/src/torchmetrics/metric.py: `Metric(Module)`; its states
    # move with `_apply`, as parameters do; `float`, `half` and `double` do nothing.
    metrics = "https://lightning.ai/docs/torchmetrics/stable/pages/overview.html#metrics-and-devices"
    yield "torchmetrics.functional", "[a-z]*", _function(metrics, None, Lives.ARGUMENTS)
    yield (
        "torchmetrics",
        "[A-Z]*.compute [A-Z]*.forward [A-Z]*.__call__",
        _function(metrics, None, Lives.MODULE),
    )
    yield "torchmetrics", "[A-Z]*.update", _function(metrics, Kind.NONE)
    yield "torchmetrics", "[A-Z]*", _module(metrics, "metric")


def _vision() -> Iterator[Entry]:
    docs = "https://docs.pytorch.org/vision/stable/"
    yield "torchvision.models", "[a-z]*", _function(docs + "models.html", Kind.MODULE)
    yield "torchvision.models", "*_Weights *Weights", Fact(Kind.OBJECT, docs + "models.html", "weights")
    yield "torchvision.models", "[A-Z]*", _module(docs + "models.html", "model")
    # Both convert a PIL image or an array of the host with `torch.from_numpy`.
    from_host = _function(docs + "transforms.html", Kind.TENSOR, Lives.HOST)
    yield "torchvision.transforms", "to_tensor pil_to_tensor", from_host
    yield "torchvision.transforms", "ToTensor.__call__ PILToTensor.__call__", from_host
    yield (
        "torchvision.transforms",
        "ToPILImage.__call__ to_pil_image",
        _function(docs + "transforms.html", Kind.OBJECT, what="image"),
    )
    to_tensor = Fact(Kind.OBJECT, docs + "transforms.html", "transform to tensor")
    yield "torchvision.transforms", "ToTensor PILToTensor ToPILImage Compose Lambda", to_tensor
    yield (
        "torchvision.transforms",
        "[A-Z]*",
        Fact(Kind.OBJECT, docs + "transforms.html", "transform", in_place_to=True),
    )
    yield "torchvision.transforms", "[a-z]*", _function(docs + "transforms.html", None, Lives.ARGUMENTS)
    yield "torchvision.datasets", "[A-Z]*", Fact(Kind.DATASET, docs + "datasets.html", "dataset")
    beside = _function(docs + "ops.html", Kind.TENSOR, Lives.ARGUMENTS)
    yield "torchvision.ops", "[a-z]*", beside
    yield "torchvision.ops", "[A-Z]*", _module(docs + "ops.html")
    read = replace(_function(docs + "io.html", Kind.TENSOR, Lives.HOST), not_with=("device",))
    yield "torchvision.io", "read_image decode_image decode_png decode_jpeg read_file", read
    yield "torchvision.utils", "make_grid draw_* flow_to_image", replace(beside, source=docs + "utils.html")
    yield "torchvision.utils", "save_image", _function(docs + "utils.html", Kind.NONE)
    audio = "https://docs.pytorch.org/audio/stable/"
    yield (
        "torchaudio",
        "load",
        replace(_function(audio + "torchaudio.html", Kind.SEQUENCE, Lives.HOST), arity=2),
    )
    yield (
        "torchaudio.functional",
        "[a-z]*",
        _function(audio + "functional.html", Kind.TENSOR, Lives.ARGUMENTS),
    )
    yield "torchaudio.transforms", "[A-Z]*", _module(audio + "transforms.html", "transform")
    yield "torchaudio.models", "[A-Z]*", _module(audio + "models.html", "model")
    yield "torchaudio.models", "[a-z]*", _function(audio + "models.html", Kind.MODULE)
    yield "torchaudio.datasets", "[A-Z]*", Fact(Kind.DATASET, audio + "datasets.html", "dataset")
    timm = "https://huggingface.co/docs/timm/reference/"
    yield "timm", "create_model", _function(timm + "models", Kind.MODULE)
    # `use_prefetcher=True` and `device=cuda` are the defaults: batches arrive on the device.
    loads = Fact(Kind.FUNCTION, timm + "data", returns=Kind.LOADER, moves_inputs=True, lives=Lives.FRAMEWORK)
    yield "timm.data", "create_loader", replace(loads, not_with=("use_prefetcher",))
    yield "timm.data", "create_dataset", _function(timm + "data", Kind.DATASET)
    yield "timm.data", "create_transform", _function(timm + "data", Kind.OBJECT, what="transform")
    yield "timm", "create_optimizer create_optimizer_v2", _function(timm + "optimizers", Kind.OPTIMIZER)
    yield (
        "timm",
        "create_scheduler create_scheduler_v2",
        Fact(Kind.FUNCTION, timm + "schedulers", returns=Kind.SEQUENCE, arity=2),
    )
    yield (
        "timm",
        "NativeScaler ApexScaler",
        Fact(
            Kind.SCALER,
            "https://github.com/huggingface/pytorch-image-models/blob/main/timm/utils/cuda.py",
            owns_scaler=True,
        ),
    )
    yield (
        "timm",
        "ModelEma",
        Fact(
            Kind.OBJECT,
            "https://github.com/huggingface/pytorch-image-models/blob/main/timm/utils/model_ema.py",
            "average",
        ),
    )
    yield (
        "timm",
        "ModelEmaV2 ModelEmaV3",
        _module(
            "https://github.com/huggingface/pytorch-image-models/blob/main/timm/utils/model_ema.py", "average"
        ),
    )
    yield "timm.optim", "[A-Z]*", Fact(Kind.OPTIMIZER, timm + "optimizers")
    yield "timm.scheduler", "[A-Z]*", Fact(Kind.SCHEDULER, timm + "schedulers")
    for part in ("models", "layers", "loss"):
        yield f"timm.{part}", "[A-Z]*", _module(timm + "models")
    yield (
        "timm.models",
        "[a-z]*_[a-z0-9]*",
        replace(_function(timm + "models", Kind.MODULE), certainty=Certainty.INFERRED),
    )
    masks = "https://smp.readthedocs.io/en/latest/models.html"
    yield "segmentation_models_pytorch", "create_model from_pretrained", _function(masks, Kind.MODULE)
    yield (
        "segmentation_models_pytorch",
        "Unet UnetPlusPlus MAnet Linknet FPN PSPNet DeepLabV3* PAN UPerNet Segformer DPT",
        _module(masks, "model"),
    )
    yield (
        "segmentation_models_pytorch.losses",
        "[A-Z]*Loss",
        _module("https://smp.readthedocs.io/en/latest/losses.html", "loss"),
    )
    kornia = "https://kornia.readthedocs.io/en/latest/"
    yield "kornia", "[A-Z]*", replace(_module(kornia), certainty=Certainty.INFERRED)


def _graphs() -> Iterator[Entry]:
    docs = "https://pytorch-geometric.readthedocs.io/en/latest/"
    # https://github.com/pyg-team/pytorch_geometric/blob/master/torch_geometric/data/data.py: `to` applies to the
    # stores of the object and returns it.
    graph = Fact(
        Kind.OWNED, docs + "modules/data.html#torch_geometric.data.Data.to", "graph", in_place_to=True
    )
    data = "Data HeteroData TemporalData HyperGraphData Batch ClusterData"
    yield "torch_geometric", data, graph
    yield (
        "torch_geometric",
        " ".join(f"{c}.from_data_list" for c in data.split()),
        replace(graph, kind=Kind.FUNCTION, returns=Kind.OWNED),
    )
    loader = Fact(
        Kind.LOADER, docs + "modules/loader.html", "loader", lives=Lives.CREATED, certainty=Certainty.INFERRED
    )
    yield (
        "torch_geometric",
        "PrefetchLoader",
        replace(loader, moves_inputs=True, lives=Lives.FRAMEWORK, certainty=Certainty.KNOWN),
    )
    yield "torch_geometric", "*Loader *NeighborSampler", loader
    yield (
        "torch_geometric",
        "InMemoryDataset",
        Fact(Kind.DATASET, docs + "modules/data.html", "dataset", in_place_to=True),
    )
    yield "torch_geometric.datasets", "[A-Z]*", Fact(Kind.DATASET, docs + "modules/datasets.html", "dataset")
    yield (
        "torch_geometric",
        "Dataset OnDiskDataset",
        Fact(Kind.DATASET, docs + "modules/data.html", "dataset"),
    )
    for part in ("nn", "explain"):
        yield f"torch_geometric.{part}", "[A-Z]*", _module(docs + "modules/nn.html")
    yield (
        "torch_geometric.nn",
        "global_*_pool *_pool radius_graph knn_graph",
        _function(docs + "modules/nn.html", None, Lives.ARGUMENTS),
    )
    yield "torch_geometric.utils", "[a-z]*", _function(docs + "modules/utils.html", None, Lives.ARGUMENTS)
    # https://github.com/rusty1s/pytorch_sparse/blob/master/torch_sparse/tensor.py: `to` builds a new one.
    sparse = Fact(
        Kind.OBJECT,
        "https://github.com/rusty1s/pytorch_sparse/blob/master/torch_sparse/tensor.py",
        "sparse tensor",
        in_place_to=False,
    )
    yield "torch_sparse", "SparseTensor", sparse
    yield "torch_geometric", "SparseTensor", sparse
    scatter = "https://pytorch-scatter.readthedocs.io/en/latest/functions/scatter.html"
    yield "torch_scatter", "scatter* segment* gather_csr", _function(scatter, None, Lives.ARGUMENTS)
    # "The original graph is still on CPU."
    dgl = "https://www.dgl.ai/dgl_docs/generated/dgl.DGLGraph.to.html"
    yield "dgl", "DGLGraph DGLHeteroGraph", Fact(Kind.OBJECT, dgl, "graph", in_place_to=False)
    yield (
        "dgl",
        "graph heterograph batch",
        replace(_function(dgl, Kind.OBJECT, what="graph"), in_place_to=False),
    )
    yield "dgl.nn", "[A-Z]*", _module("https://www.dgl.ai/dgl_docs/api/python/nn-pytorch.html")


def _trainers() -> Iterator[Entry]:
    engine = "https://deepspeed.readthedocs.io/en/latest/training.html"
    # https://github.com/deepspeedai/DeepSpeed/blob/master/deepspeed/runtime/engine.py: the module is moved to the
    # engine's device, what `forward` gets is not.
    start = Fact(
        Kind.FUNCTION,
        engine,
        "engine",
        returns=Kind.SEQUENCE,
        arity=4,
        lives=Lives.FRAMEWORK,
        owns_scaler=True,
    )
    yield "deepspeed", "initialize", start
    yield "deepspeed", "init_inference", replace(start, returns=Kind.MODULE, arity=None, owns_scaler=False)
    yield "deepspeed", "DeepSpeedEngine PipelineEngine", replace(_module(engine, "engine"), owns_scaler=True)
    yield (
        "deepspeed",
        "DeepSpeedEngine.backward DeepSpeedEngine.step",
        Fact(Kind.FUNCTION, engine, owns_scaler=True),
    )
    yield "deepspeed", "DeepSpeedCPUAdam FusedAdam FusedLamb", Fact(Kind.OPTIMIZER, engine)
    apex = "https://nvidia.github.io/apex/amp.html"
    yield (
        "apex.amp",
        "initialize",
        Fact(Kind.FUNCTION, apex, "amp", returns=Kind.SEQUENCE, arity=2, owns_scaler=True),
    )
    yield "apex.amp", "scale_loss", Fact(Kind.FUNCTION, apex, "amp", returns=Kind.CONTEXT, owns_scaler=True)
    yield "apex", "DistributedDataParallel", _module("https://nvidia.github.io/apex/parallel.html", "wrapper")
    yield (
        "apex",
        "FusedLayerNorm FusedRMSNorm SyncBatchNorm",
        _module("https://nvidia.github.io/apex/layernorm.html"),
    )
    yield (
        "apex",
        "FusedAdam FusedLAMB FusedSGD FusedNovoGrad LARC",
        Fact(Kind.OPTIMIZER, "https://nvidia.github.io/apex/optimizers.html"),
    )
    ignite = "https://docs.pytorch.org/ignite/generated/ignite.engine.create_supervised_trainer.html"
    ready = Fact(Kind.FUNCTION, ignite, "trainer", returns=Kind.OBJECT, moves_inputs=True, owns_scaler=True)
    yield "ignite", "create_supervised_trainer create_supervised_evaluator", ready
    yield "ignite", "convert_tensor", _function(ignite, None, what="move helper")
    auto = "https://docs.pytorch.org/ignite/distributed.html"
    yield (
        "ignite.distributed",
        "auto_model",
        Fact(Kind.FUNCTION, auto, returns=Kind.MODULE, lives=Lives.FRAMEWORK),
    )
    yield "ignite.distributed", "auto_dataloader", _function(auto, Kind.LOADER)
    yield "ignite.distributed", "auto_optim", _function(auto, Kind.OPTIMIZER)
    yield "ignite.distributed", "device", _function(auto, Kind.DEVICE, Lives.FRAMEWORK)
    fastai = "https://docs.fast.ai/learner.html"
    learner = Fact(Kind.OBJECT, fastai, "trainer", moves_inputs=True, owns_scaler=True)
    yield "fastai", "Learner TabularLearner TextLearner", learner
    yield "fastai", "*_learner", replace(learner, kind=Kind.FUNCTION, returns=Kind.OBJECT)
    loaders = Fact(
        Kind.LOADER,
        "https://docs.fast.ai/data.core.html",
        "loader",
        in_place_to=True,
        moves_inputs=True,
        lives=Lives.FRAMEWORK,
    )
    yield "fastai", "*DataLoaders *DataLoader TfmdDL", loaders
    speech = "https://speechbrain.readthedocs.io/en/latest/API/speechbrain.dataio.batch.html"
    yield "speechbrain", "PaddedBatch", Fact(Kind.OWNED, speech, "batch", in_place_to=True)
    yield (
        "speechbrain",
        "Brain",
        Fact(
            Kind.OBJECT,
            "https://speechbrain.readthedocs.io/en/latest/API/speechbrain.core.html",
            "trainer",
            owns_scaler=True,
        ),
    )
    detectron = "https://detectron2.readthedocs.io/en/latest/modules/structures.html"
    yield (
        "detectron2.structures",
        "Instances *Boxes ImageList BitMasks PolygonMasks Keypoints",
        Fact(Kind.OBJECT, detectron, "structure", in_place_to=False),
    )
    monai = "https://docs.monai.io/en/stable/"
    for part in ("networks.nets", "networks.blocks", "networks.layers", "losses"):
        yield f"monai.{part}", "[A-Z]*", _module(monai + "networks.html")
    yield (
        "monai.engines",
        "*Trainer *Evaluator",
        Fact(Kind.OBJECT, monai + "engines.html", "trainer", moves_inputs=True, owns_scaler=True),
    )
    yield "monai.data", "*DataLoader", Fact(Kind.LOADER, monai + "data.html", "loader")
    yield "monai.data", "*Dataset", Fact(Kind.DATASET, monai + "data.html", "dataset")
    # https://github.com/fadel/pytorch_ema/blob/master/torch_ema/ema.py: `to` moves its copies and returns None.
    ema = Fact(
        Kind.OBJECT,
        "https://github.com/fadel/pytorch_ema/blob/master/torch_ema/ema.py",
        "average",
        in_place_to=True,
        returns_self=False,
    )
    yield "torch_ema", "ExponentialMovingAverage", ema
    yield (
        "ema_pytorch",
        "*EMA",
        _module("https://github.com/lucidrains/ema-pytorch/blob/main/ema_pytorch/ema_pytorch.py", "average"),
    )


def _models() -> Iterator[Entry]:
    clip = "https://github.com/openai/CLIP/blob/main/clip/clip.py"
    # The model goes to `device`, by default to CUDA where there is any.
    yield "clip", "load", Fact(Kind.FUNCTION, clip, returns=Kind.SEQUENCE, arity=2, lives=Lives.FRAMEWORK)
    yield "clip", "tokenize", _function(clip, Kind.TENSOR, Lives.CREATED)
    open_clip = "https://github.com/mlfoundations/open_clip/blob/main/src/open_clip/"
    yield "open_clip", "create_model", _function(open_clip + "factory.py", Kind.MODULE)
    yield (
        "open_clip",
        "create_model_and_transforms",
        Fact(Kind.FUNCTION, open_clip + "factory.py", returns=Kind.SEQUENCE, arity=3),
    )
    yield (
        "open_clip",
        "create_model_from_pretrained",
        Fact(Kind.FUNCTION, open_clip + "factory.py", returns=Kind.SEQUENCE, arity=2),
    )
    yield "open_clip", "tokenize", _function(open_clip + "tokenizer.py", Kind.TENSOR, Lives.CREATED)
    yield (
        "open_clip",
        "*Tokenizer.__call__",
        _function(open_clip + "tokenizer.py", Kind.TENSOR, Lives.CREATED),
    )
    whisper = "https://github.com/openai/whisper/blob/main/whisper/"
    yield (
        "whisper",
        "load_model",
        Fact(Kind.FUNCTION, whisper + "__init__.py", returns=Kind.MODULE, lives=Lives.FRAMEWORK),
    )
    yield "whisper", "load_audio", _function(whisper + "audio.py", Kind.ARRAY)
    yield "whisper", "pad_or_trim", _function(whisper + "audio.py", None, Lives.ARGUMENTS)
    einops = "https://einops.rocks/api/rearrange/"
    yield "einops", "rearrange reduce repeat einsum pack unpack", _function(einops, None, Lives.ARGUMENTS)
    yield "einops.layers", "Rearrange Reduce EinMix", _module("https://einops.rocks/api/")
    bits = "https://huggingface.co/docs/bitsandbytes/main/en/"
    yield "bitsandbytes.optim", "[A-Z]*", Fact(Kind.OPTIMIZER, bits + "optimizers")
    yield "bitsandbytes.nn", "Linear* Embedding* StableEmbedding", _module(bits + "reference/nn/linear8bit")
    attention = "https://github.com/Dao-AILab/flash-attention"
    yield "flash_attn", "flash_attn*func", _function(attention, None, Lives.ARGUMENTS)
    yield (
        "xformers",
        "memory_efficient_attention",
        _function(
            "https://facebookresearch.github.io/xformers/components/ops.html", Kind.TENSOR, Lives.ARGUMENTS
        ),
    )
    gauss = "https://docs.gpytorch.ai/en/stable/"
    for part in ("models", "kernels", "means", "likelihoods", "mlls", "variational"):
        yield f"gpytorch.{part}", "[A-Z]*", _module(gauss + "models.html")


def _host() -> Iterator[Entry]:
    """Libraries whose values are always data of the host."""
    numpy = "https://numpy.org/doc/stable/reference/routines.html"
    yield "numpy", "pi e inf nan newaxis ndim prod_ isscalar", Fact(Kind.NUMBER, numpy)
    yield "numpy", "*int* *float* *complex* bool_ dtype finfo iinfo", Fact(Kind.OBJECT, numpy, "dtype")
    yield "numpy", "seed allclose array_equal shape size save savez* savetxt", _function(numpy, Kind.NUMBER)
    yield "numpy", "ndarray matrix", Fact(Kind.ARRAY, numpy, "array")
    yield "numpy", "[a-z]*", _function(numpy, Kind.ARRAY)
    pillow = "https://pillow.readthedocs.io/en/stable/reference/Image.html"
    yield "PIL", "[a-zA-Z]*", Fact(Kind.OBJECT, pillow, "image")
    yield "PIL", "Image.*", _function(pillow, Kind.OBJECT, what="image")
    opencv = "https://docs.opencv.org/4.x/d3/df2/tutorial_py_basic_ops.html"
    yield "cv2", "VideoCapture VideoWriter CascadeClassifier", Fact(Kind.OBJECT, opencv, "video")
    array = "imread resize cvtColor GaussianBlur blur flip rotate warpAffine warpPerspective addWeighted copyMakeBorder imdecode"
    yield "cv2", array, _function(opencv, Kind.ARRAY)
    pandas = "https://pandas.pydata.org/docs/reference/index.html"
    yield "pandas", "[A-Z]*", Fact(Kind.OBJECT, pandas, "table")
    yield "pandas", "read_* concat merge to_* get_dummies", _function(pandas, Kind.OBJECT, what="table")
    for root in ("scipy", "skimage", "librosa", "soundfile"):
        yield root, "[a-z]*", replace(_function(f"https://pypi.org/project/{root}/", None), what="host data")
    scores = "https://scikit-learn.org/stable/api/sklearn.metrics.html"
    yield (
        "sklearn.metrics",
        "*_score *_error mean_* accuracy_* roc_auc_* log_loss auc",
        _function(scores, Kind.NUMBER),
    )
    yield "sklearn.metrics", "confusion_matrix *_curve", _function(scores, None, what="host data")
    yield "sklearn", "[A-Z]*", Fact(Kind.OBJECT, scores, "estimator")
    yield "sklearn", "[a-z]*", _function(scores, None, what="host data")
    yield (
        "tqdm",
        "tqdm trange auto",
        replace(_function("https://tqdm.github.io/docs/tqdm/", None, Lives.ARGUMENTS), what="progress bar"),
    )
    albumentations = "https://albumentations.ai/docs/"
    yield "albumentations", "ToTensorV2", Fact(Kind.OBJECT, albumentations, "transform to tensor")
    yield "albumentations", "[A-Z]*", Fact(Kind.OBJECT, albumentations, "transform")
    for root in ("gym", "gymnasium"):
        yield (
            root,
            "make make_vec",
            _function("https://gymnasium.farama.org/api/env/", Kind.OBJECT, what="environment"),
        )
