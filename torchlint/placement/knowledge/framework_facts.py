"""Facts of training frameworks: who moves what, who scales the loss, whose `to` works in place."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from torchlint.placement.knowledge.frameworks import Entry, Fact, Lives, function, made_by, module
from torchlint.placement.values import Certainty, Kind


def torch_facts() -> Iterator[Entry]:
    nn = "https://docs.pytorch.org/docs/stable/generated/torch.nn."
    packed = nn + "utils.rnn.PackedSequence.html"
    # `to` returns a copy, unless nothing changes.
    yield "torch", "PackedSequence", Fact(Kind.OBJECT, packed, "packed sequence", in_place_to=False)
    to_packed = function(packed, Kind.OBJECT, Lives.ARGUMENTS, "packed sequence")
    yield "torch", "pack_padded_sequence pack_sequence", to_packed
    data = "https://docs.pytorch.org/docs/stable/data.html#memory-pinning"
    # A loader hands out what dataset and collate made, mostly tensors of the host.
    loader = Fact(Kind.LOADER, data, "loader", lives=Lives.CREATED, certainty=Certainty.INFERRED)
    yield "torch", "DataLoader", loader
    yield "torchdata", "StatefulDataLoader", loader
    yield "torch.utils.data", "*Dataset Subset", Fact(Kind.DATASET, data, "dataset")
    parallel = nn + "parallel.DistributedDataParallel.html"
    wrapper = replace(module(parallel, "wrapper"), moves_inputs=True)
    yield "torch", "DistributedDataParallel DataParallel", wrapper
    fsdp = replace(wrapper, source="https://docs.pytorch.org/docs/stable/fsdp.html")
    yield "torch", "FullyShardedDataParallel", fsdp
    averaged = "https://docs.pytorch.org/docs/stable/optim.html#weight-averaging-swa-and-ema"
    yield "torch", "AveragedModel", module(averaged, "average")
    scaler = "https://docs.pytorch.org/docs/stable/amp.html#gradient-scaling"
    yield "torch", "GradScaler ShardedGradScaler", Fact(Kind.SCALER, scaler, "scaler", owns_scaler=True)
    # Where the device changes, `to` returns a new one (unless `inplace=True`).
    tensordict = (
        "https://docs.pytorch.org/tensordict/stable/reference/generated/tensordict.TensorDictBase.to.html"
    )
    yield (
        "tensordict",
        "*TensorDict TensorDictBase",
        Fact(Kind.OBJECT, tensordict, "tensordict", in_place_to=False),
    )
    yield "tensordict", "*Module *Sequential", module(tensordict)


def transformers_facts() -> Iterator[Entry]:
    docs = "https://huggingface.co/docs/transformers/main/en/"
    tokens = docs + "main_classes/tokenizer"
    batch = Fact(Kind.OWNED, tokens + "#transformers.BatchEncoding.to", "batch", in_place_to=True)
    yield "transformers", "BatchEncoding BatchFeature", batch

    called = function(tokens, Kind.OWNED, Lives.CREATED, "batch")
    called = replace(called, in_place_to=True, only_with=("return_tensors", "pt"))
    methods = "__call__ encode_plus batch_encode_plus pad prepare_for_model"
    for pattern in ("*Tokenizer", "*TokenizerFast", "PreTrainedTokenizerBase"):
        yield "transformers", " ".join(f"{pattern}.{m}" for m in methods.split()), called
        encoded = replace(called, returns=Kind.TENSOR, what="", in_place_to=None)
        yield "transformers", f"{pattern}.encode", encoded
        text = function(tokens, Kind.STRING)
        yield "transformers", f"{pattern}.decode {pattern}.convert_tokens_to_string", text
        ids = function(tokens, Kind.SEQUENCE)
        yield "transformers", f"{pattern}.batch_decode {pattern}.tokenize", ids
    # Feature extractors compute in NumPy and convert at the end; image processors may be told a device.
    features = docs + "main_classes/feature_extractor"
    yield "transformers", "*FeatureExtractor.__call__ *FeatureExtractor.pad", replace(called, source=features)
    processed = replace(called, source=docs + "main_classes/processors", not_with=("device",))
    processors = "*Processor *ImageProcessor *ImageProcessorFast *VideoProcessor"
    yield "transformers", " ".join(f"{p}.__call__" for p in processors.split()), processed
    yield "transformers", "*Processor.decode", function(docs + "main_classes/processors", Kind.STRING)

    yield (
        "transformers",
        "*.from_pretrained *.from_config *.from_dict",
        made_by(docs + "model_doc/auto"),
    )
    generate = function(docs + "main_classes/text_generation", Kind.TENSOR, Lives.MODULE)
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
        function(docs + "main_classes/data_collator", Kind.MAPPING, Lives.CREATED), what="batch"
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
    model = module(docs + "main_classes/model", "model")
    yield (
        "transformers",
        "AutoModel* *Model PreTrainedModel *For[A-Z]* *ModelWithHeads *LMHeadModel *DoubleHeadsModel",
        model,
    )
    yield "transformers", "*ModelWith* AutoBackbone *Backbone", model
    yield "transformers.models.*.modeling_*", "[A-Z]*", model
    schedules = docs + "main_classes/optimizer_schedules"
    yield "transformers", "get_*schedule* get_scheduler", function(schedules, Kind.SCHEDULER)
    yield "transformers", "AdamW Adafactor", Fact(Kind.OPTIMIZER, schedules)
    yield "transformers", "set_seed", function(docs + "internal/trainer_utils", Kind.NONE)
    adapters = "https://huggingface.co/docs/peft/main/en/package_reference/peft_model"
    yield "peft", "get_peft_model inject_adapter_in_model", function(adapters, Kind.MODULE)
    yield "peft", "prepare_model_for_kbit_training", function(adapters, Kind.MODULE)
    yield "peft", "*.from_pretrained", made_by(adapters)
    yield "peft", "*.generate", replace(generate, source=adapters, not_with=not_with)
    yield "peft", "*Config", Fact(Kind.OBJECT, adapters, "config")
    yield "peft", "*Model PeftModel* AutoPeftModel*", module(adapters, "model")
    sentences = "https://sbert.net/docs/package_reference/sentence_transformer/SentenceTransformer.html"
    # The constructor puts the model on the best device it finds; `encode` moves its inputs there.
    sentence = replace(module(sentences, "model"), moves_inputs=True)
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
    yield "datasets", "load_dataset load_from_disk concatenate_datasets", function(data_sets, Kind.DATASET)
    yield "datasets", "*Dataset", Fact(Kind.DATASET, data_sets)


def diffusers_facts() -> Iterator[Entry]:
    docs = "https://huggingface.co/docs/diffusers/main/en/api/"
    yield (
        "diffusers",
        "*.from_pretrained *.from_single_file *.from_config *.from_pipe",
        made_by(docs + "loaders/single_file"),
    )
    # `to` moves the modules of the pipeline and returns it:
    # https://github.com/huggingface/diffusers/blob/main/src/diffusers/pipelines/pipeline_utils.py
    pipeline = Fact(
        Kind.OWNED,
        docs + "pipelines/overview#diffusers.DiffusionPipeline.to",
        "pipeline",
        in_place_to=True,
        moves_inputs=True,
    )
    yield "diffusers", "*Pipeline AutoPipelineFor*", pipeline
    yield "diffusers", "*Output", Fact(Kind.OBJECT, docs + "outputs", "output")
    yield "diffusers", "*Scheduler", Fact(Kind.OBJECT, docs + "schedulers/overview", "noise scheduler")
    noised = function(docs + "schedulers/overview", Kind.TENSOR, Lives.ARGUMENTS)
    # `set_timesteps(..., device=)` puts them where it is told, on the CPU by default.
    yield (
        "diffusers",
        "*Scheduler.timesteps *Scheduler.sigmas *Scheduler.alphas_cumprod *Scheduler.betas",
        Fact(Kind.TENSOR, docs + "schedulers/overview", certainty=Certainty.INFERRED),
    )
    yield "diffusers", "*Scheduler.add_noise *Scheduler.get_velocity *Scheduler.scale_model_input", noised
    ema = "https://github.com/huggingface/diffusers/blob/main/src/diffusers/training_utils.py"
    yield "diffusers", "EMAModel", Fact(Kind.OBJECT, ema, "average", in_place_to=True, returns_self=False)
    schedules = "https://github.com/huggingface/diffusers/blob/main/src/diffusers/optimization.py"
    yield "diffusers", "get_*schedule* get_scheduler", function(schedules, Kind.SCHEDULER)
    yield (
        "diffusers",
        "*Model *Model3D *Adapter Autoencoder* Asymmetric* UNet* *UNet VQModel *VAE *Transformer*",
        module(docs + "models/overview", "model"),
    )


def accelerate_facts() -> Iterator[Entry]:
    docs = "https://huggingface.co/docs/accelerate/main/en/package_reference/"
    accelerator = docs + "accelerator"
    prepared = Fact(
        Kind.FUNCTION,
        accelerator,
        "prepare",
        moves_inputs=True,
        lives=Lives.FRAMEWORK,
        returns_arguments=True,
    )
    yield "accelerate", "Accelerator.prepare", prepared
    yield "accelerate", "Accelerator.prepare_model", replace(prepared, returns=Kind.MODULE)
    yield "accelerate", "Accelerator.prepare_data_loader", replace(prepared, returns=Kind.LOADER)
    yield "accelerate", "Accelerator.prepare_optimizer", replace(prepared, returns=Kind.OPTIMIZER)
    yield "accelerate", "Accelerator.prepare_scheduler", replace(prepared, returns=Kind.SCHEDULER)
    yield (
        "accelerate",
        "Accelerator.unwrap_model",
        replace(function(accelerator, Kind.MODULE), returns_arguments=True),
    )
    gathered = function(accelerator, None, Lives.FRAMEWORK)
    yield "accelerate", "Accelerator.gather Accelerator.gather_for_metrics Accelerator.reduce", gathered
    yield "accelerate", "Accelerator.pad_across_processes", function(accelerator, None, Lives.ARGUMENTS)
    yield (
        "accelerate",
        "Accelerator.autocast Accelerator.accumulate Accelerator.no_sync",
        function(accelerator, Kind.CONTEXT),
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
        Fact(Kind.NUMBER, accelerator),
    )
    yield (
        "accelerate",
        "Accelerator.device PartialState.device AcceleratorState.device",
        Fact(Kind.DEVICE, accelerator, lives=Lives.FRAMEWORK),
    )
    yield (
        "accelerate",
        "Accelerator",
        Fact(Kind.OBJECT, accelerator, "accelerator", moves_inputs=True, owns_scaler=True),
    )
    big = docs + "big_modeling"
    placed = Fact(Kind.FUNCTION, big, returns=Kind.MODULE, moves_inputs=True, lives=Lives.FRAMEWORK)
    yield "accelerate", "dispatch_model load_checkpoint_and_dispatch cpu_offload disk_offload", placed
    yield "accelerate", "init_empty_weights init_on_device", function(big, Kind.CONTEXT)
    # `send_to_device` returns moved copies; dropping its result is a discarded move.
    yield (
        "accelerate",
        "send_to_device",
        replace(function(docs + "utilities", None, what="move helper"), returns_arguments=True),
    )


def lightning_facts() -> Iterator[Entry]:
    docs = "https://lightning.ai/docs/pytorch/stable/common/"
    hooks = docs + "lightning_module.html"
    yield (
        "lightning",
        "LightningModule",
        replace(module(hooks, "trained module"), moves_inputs=True, owns_scaler=True),
    )
    yield "lightning", "*.load_from_checkpoint", made_by(hooks)
    yield (
        "lightning",
        "LightningModule.manual_backward LightningModule.clip_gradients",
        Fact(Kind.FUNCTION, hooks, owns_scaler=True),
    )
    yield "lightning", "LightningModule.device", Fact(Kind.DEVICE, hooks, lives=Lives.MODULE)
    yield "lightning", "LightningModule.all_gather", function(hooks, None, Lives.FRAMEWORK)
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
        Fact(
            Kind.OBJECT,
            "https://lightning.ai/docs/pytorch/stable/extensions/callbacks.html",
            "callback",
            moves_inputs=True,
        ),
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
        returns_arguments=True,
    )
    yield "lightning", "Fabric.setup Fabric.setup_optimizers", ready
    yield "lightning", "Fabric.setup_module", replace(ready, returns=Kind.MODULE)
    yield "lightning", "Fabric.setup_dataloaders", replace(ready, returns=Kind.LOADER)
    yield "lightning", "Fabric.backward Fabric.clip_gradients", Fact(Kind.FUNCTION, fabric, owns_scaler=True)
    yield (
        "lightning",
        "Fabric.to_device",
        replace(function(fabric, None, Lives.FRAMEWORK, "move helper"), returns_arguments=True),
    )
    yield (
        "lightning",
        "Fabric.all_gather Fabric.all_reduce Fabric.broadcast",
        function(fabric, None, Lives.FRAMEWORK),
    )
    yield (
        "lightning",
        "Fabric.autocast Fabric.no_backward_sync Fabric.init_module Fabric.init_tensor",
        function(fabric, Kind.CONTEXT),
    )
    yield "lightning", "Fabric.device", Fact(Kind.DEVICE, fabric, lives=Lives.FRAMEWORK)
    yield "lightning", "Fabric", Fact(Kind.OBJECT, fabric, "fabric", moves_inputs=True, owns_scaler=True)
    yield "lightning", "seed_everything", function(fabric, Kind.NUMBER)
    # A Metric is a Module, its states move as parameters do; `float`, `half` and `double` do nothing:
    # https://github.com/Lightning-AI/torchmetrics/blob/master/src/torchmetrics/metric.py
    metrics = "https://lightning.ai/docs/torchmetrics/stable/pages/overview.html#metrics-and-devices"
    yield "torchmetrics.functional", "[a-z]*", function(metrics, None, Lives.ARGUMENTS)
    yield (
        "torchmetrics",
        "[A-Z]*.compute [A-Z]*.forward [A-Z]*.__call__",
        function(metrics, None, Lives.MODULE),
    )
    yield "torchmetrics", "[A-Z]*.update", function(metrics, Kind.NONE)
    yield "torchmetrics", "[A-Z]*", module(metrics, "metric")


def trainers_facts() -> Iterator[Entry]:
    engine = "https://deepspeed.readthedocs.io/en/latest/training.html"
    # The module is moved to the engine's device, what `forward` gets is not:
    # https://github.com/deepspeedai/DeepSpeed/blob/master/deepspeed/runtime/engine.py
    start = Fact(
        Kind.FUNCTION,
        engine,
        "engine",
        returns=Kind.SEQUENCE,
        items=(Kind.MODULE, Kind.OPTIMIZER, Kind.LOADER, Kind.SCHEDULER),
        lives=Lives.FRAMEWORK,
        owns_scaler=True,
    )
    yield "deepspeed", "initialize", start
    yield "deepspeed", "init_inference", replace(start, returns=Kind.MODULE, items=(), owns_scaler=False)
    yield "deepspeed", "DeepSpeedEngine PipelineEngine", replace(module(engine, "engine"), owns_scaler=True)
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
        Fact(Kind.FUNCTION, apex, "amp", returns_arguments=True, owns_scaler=True),
    )
    yield "apex.amp", "scale_loss", Fact(Kind.FUNCTION, apex, "amp", returns=Kind.CONTEXT, owns_scaler=True)
    yield "apex", "DistributedDataParallel", module("https://nvidia.github.io/apex/parallel.html", "wrapper")
    yield (
        "apex",
        "FusedLayerNorm FusedRMSNorm SyncBatchNorm",
        module("https://nvidia.github.io/apex/layernorm.html"),
    )
    yield (
        "apex",
        "FusedAdam FusedLAMB FusedSGD FusedNovoGrad LARC",
        Fact(Kind.OPTIMIZER, "https://nvidia.github.io/apex/optimizers.html"),
    )
    ignite = "https://docs.pytorch.org/ignite/generated/ignite.engine.create_supervised_trainer.html"
    ready = Fact(Kind.FUNCTION, ignite, "trainer", returns=Kind.OBJECT, moves_inputs=True, owns_scaler=True)
    yield "ignite", "create_supervised_trainer create_supervised_evaluator", ready
    yield (
        "ignite",
        "convert_tensor",
        replace(function(ignite, None, what="move helper"), returns_arguments=True),
    )
    auto = "https://docs.pytorch.org/ignite/distributed.html"
    yield (
        "ignite.distributed",
        "auto_model",
        Fact(Kind.FUNCTION, auto, returns=Kind.MODULE, lives=Lives.FRAMEWORK),
    )
    yield "ignite.distributed", "auto_dataloader", function(auto, Kind.LOADER)
    yield "ignite.distributed", "auto_optim", function(auto, Kind.OPTIMIZER)
    yield "ignite.distributed", "device", replace(function(auto, Kind.DEVICE), lives=Lives.FRAMEWORK)
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
        yield f"monai.{part}", "[A-Z]*", module(monai + "networks.html")
    yield (
        "monai.engines",
        "*Trainer *Evaluator",
        Fact(Kind.OBJECT, monai + "engines.html", "trainer", moves_inputs=True, owns_scaler=True),
    )
    yield "monai.data", "*DataLoader", Fact(Kind.LOADER, monai + "data.html", "loader")
    yield "monai.data", "*Dataset", Fact(Kind.DATASET, monai + "data.html", "dataset")
    # `to` moves its copies and returns None.
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
        module("https://github.com/lucidrains/ema-pytorch/blob/main/ema_pytorch/ema_pytorch.py", "average"),
    )


#: The tables of this module; each entry is (library and module, patterns of names, fact).
TABLES = (torch_facts, transformers_facts, diffusers_facts, accelerate_facts, lightning_facts, trainers_facts)
