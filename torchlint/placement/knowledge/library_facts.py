"""Facts of libraries of models, data and graphs, and of libraries whose data lives on the host."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from torchlint.placement.knowledge.frameworks import Entry, Fact, Lives, function, module
from torchlint.placement.values import Certainty, Kind


def vision_facts() -> Iterator[Entry]:
    docs = "https://docs.pytorch.org/vision/stable/"
    yield "torchvision.models", "list_models get_model_*", function(docs + "models.html", None)
    yield "torchvision.models", "[a-z]*", function(docs + "models.html", Kind.MODULE, Lives.CREATED)
    yield "torchvision.models", "*_Weights *Weights", Fact(Kind.OBJECT, docs + "models.html", "weights")
    yield "torchvision.models", "[A-Z]*", module(docs + "models.html", "model")
    # Both convert a PIL image or an array of the host with `torch.from_numpy`.
    from_host = function(docs + "transforms.html", Kind.TENSOR, Lives.HOST)
    yield "torchvision.transforms", "to_tensor pil_to_tensor", from_host
    yield "torchvision.transforms", "ToTensor.__call__ PILToTensor.__call__", from_host
    yield (
        "torchvision.transforms",
        "ToPILImage.__call__ to_pil_image",
        function(docs + "transforms.html", Kind.OBJECT, what="image"),
    )
    to_tensor = Fact(Kind.OBJECT, docs + "transforms.html", "transform to tensor")
    yield "torchvision.transforms", "ToTensor PILToTensor ToPILImage Compose Lambda", to_tensor
    yield (
        "torchvision.transforms",
        "[A-Z]*",
        Fact(Kind.OBJECT, docs + "transforms.html", "transform", in_place_to=True),
    )
    yield "torchvision.transforms", "[a-z]*", function(docs + "transforms.html", None, Lives.ARGUMENTS)
    yield "torchvision.datasets", "[A-Z]*", Fact(Kind.DATASET, docs + "datasets.html", "dataset")
    beside = function(docs + "ops.html", Kind.TENSOR, Lives.ARGUMENTS)
    yield "torchvision.ops", "[a-z]*", beside
    yield "torchvision.ops", "[A-Z]*", module(docs + "ops.html")
    read = replace(function(docs + "io.html", Kind.TENSOR, Lives.HOST), not_with=("device",))
    yield "torchvision.io", "read_image decode_image decode_png decode_jpeg read_file", read
    yield "torchvision.utils", "make_grid draw_* flow_to_image", replace(beside, source=docs + "utils.html")
    yield "torchvision.utils", "save_image", function(docs + "utils.html", Kind.NONE)
    audio = "https://docs.pytorch.org/audio/stable/"
    yield (
        "torchaudio",
        "load",
        replace(
            function(audio + "torchaudio.html", Kind.SEQUENCE, Lives.HOST), items=(Kind.TENSOR, Kind.NUMBER)
        ),
    )
    yield (
        "torchaudio.functional",
        "[a-z]*",
        function(audio + "functional.html", Kind.TENSOR, Lives.ARGUMENTS),
    )
    yield "torchaudio.transforms", "[A-Z]*", module(audio + "transforms.html", "transform")
    yield "torchaudio.models", "[A-Z]*", module(audio + "models.html", "model")
    yield "torchaudio.models", "[a-z]*", function(audio + "models.html", Kind.MODULE)
    yield "torchaudio.datasets", "[A-Z]*", Fact(Kind.DATASET, audio + "datasets.html", "dataset")
    timm = "https://huggingface.co/docs/timm/reference/"
    yield "timm", "create_model", function(timm + "models", Kind.MODULE, Lives.CREATED)
    # `use_prefetcher=True` and `device=cuda` are the defaults: batches arrive on the device.
    loads = Fact(Kind.FUNCTION, timm + "data", returns=Kind.LOADER, moves_inputs=True, lives=Lives.FRAMEWORK)
    yield "timm.data", "create_loader", replace(loads, not_with=("use_prefetcher",))
    yield "timm.data", "create_dataset", function(timm + "data", Kind.DATASET)
    yield "timm.data", "create_transform", function(timm + "data", Kind.OBJECT, what="transform")
    yield "timm", "create_optimizer create_optimizer_v2", function(timm + "optimizers", Kind.OPTIMIZER)
    yield (
        "timm",
        "create_scheduler create_scheduler_v2",
        Fact(Kind.FUNCTION, timm + "schedulers", returns=Kind.SEQUENCE, items=(Kind.SCHEDULER, Kind.NUMBER)),
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
        module(
            "https://github.com/huggingface/pytorch-image-models/blob/main/timm/utils/model_ema.py", "average"
        ),
    )
    yield "timm.optim", "[A-Z]*", Fact(Kind.OPTIMIZER, timm + "optimizers")
    yield "timm.scheduler", "[A-Z]*", Fact(Kind.SCHEDULER, timm + "schedulers")
    for part in ("models", "layers", "loss"):
        yield f"timm.{part}", "[A-Z]*", module(timm + "models")
    yield (
        "timm.models",
        "*[0-9]*",
        replace(function(timm + "models", Kind.MODULE), certainty=Certainty.INFERRED),
    )
    masks = "https://smp.readthedocs.io/en/latest/models.html"
    yield "segmentation_models_pytorch", "create_model from_pretrained", function(masks, Kind.MODULE, Lives.CREATED)
    yield (
        "segmentation_models_pytorch",
        "Unet UnetPlusPlus MAnet Linknet FPN PSPNet DeepLabV3* PAN UPerNet Segformer DPT",
        module(masks, "model"),
    )
    yield (
        "segmentation_models_pytorch.losses",
        "[A-Z]*Loss",
        module("https://smp.readthedocs.io/en/latest/losses.html", "loss"),
    )
    kornia = "https://kornia.readthedocs.io/en/latest/"
    for part in ("augmentation", "color", "enhance", "feature", "filters", "losses"):
        yield f"kornia.{part}", "[A-Z]*", replace(module(kornia), certainty=Certainty.INFERRED)


def graphs_facts() -> Iterator[Entry]:
    docs = "https://pytorch-geometric.readthedocs.io/en/latest/"
    # `to` changes the stores of the object and returns it:
    # https://github.com/pyg-team/pytorch_geometric/blob/master/torch_geometric/data/data.py
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
        yield f"torch_geometric.{part}", "[A-Z]*", module(docs + "modules/nn.html")
    yield (
        "torch_geometric.nn",
        "global_*_pool *_pool radius_graph knn_graph",
        function(docs + "modules/nn.html", None, Lives.ARGUMENTS),
    )
    yield "torch_geometric.utils", "[a-z]*", function(docs + "modules/utils.html", None, Lives.ARGUMENTS)
    # `to` builds a new one.
    sparse = Fact(
        Kind.OBJECT,
        "https://github.com/rusty1s/pytorch_sparse/blob/master/torch_sparse/tensor.py",
        "sparse tensor",
        in_place_to=False,
    )
    yield "torch_sparse", "SparseTensor", sparse
    yield "torch_geometric", "SparseTensor", sparse
    scatter = "https://pytorch-scatter.readthedocs.io/en/latest/functions/scatter.html"
    yield "torch_scatter", "scatter* segment* gather_csr", function(scatter, None, Lives.ARGUMENTS)
    # `to` returns a copy, the graph itself stays where it is.
    dgl = "https://www.dgl.ai/dgl_docs/generated/dgl.DGLGraph.to.html"
    yield "dgl", "DGLGraph DGLHeteroGraph", Fact(Kind.OBJECT, dgl, "graph", in_place_to=False)
    yield (
        "dgl",
        "graph heterograph batch",
        replace(function(dgl, Kind.OBJECT, what="graph"), in_place_to=False),
    )
    yield "dgl.nn", "[A-Z]*", module("https://www.dgl.ai/dgl_docs/api/python/nn-pytorch.html")


def models_facts() -> Iterator[Entry]:
    clip = "https://github.com/openai/CLIP/blob/main/clip/clip.py"
    # The model goes to `device`, by default to CUDA where there is any.
    yield (
        "clip",
        "load",
        Fact(
            Kind.FUNCTION,
            clip,
            returns=Kind.SEQUENCE,
            items=(Kind.MODULE, Kind.OBJECT),
            lives=Lives.FRAMEWORK,
        ),
    )
    yield "clip", "tokenize", function(clip, Kind.TENSOR, Lives.CREATED)
    open_clip = "https://github.com/mlfoundations/open_clip/blob/main/src/open_clip/"
    yield "open_clip", "create_model", function(open_clip + "factory.py", Kind.MODULE)
    yield (
        "open_clip",
        "create_model_and_transforms",
        Fact(
            Kind.FUNCTION,
            open_clip + "factory.py",
            returns=Kind.SEQUENCE,
            items=(Kind.MODULE, Kind.OBJECT, Kind.OBJECT),
        ),
    )
    yield (
        "open_clip",
        "create_model_from_pretrained",
        Fact(
            Kind.FUNCTION, open_clip + "factory.py", returns=Kind.SEQUENCE, items=(Kind.MODULE, Kind.OBJECT)
        ),
    )
    yield "open_clip", "tokenize", function(open_clip + "tokenizer.py", Kind.TENSOR, Lives.CREATED)
    yield (
        "open_clip",
        "*Tokenizer.__call__",
        function(open_clip + "tokenizer.py", Kind.TENSOR, Lives.CREATED),
    )
    whisper = "https://github.com/openai/whisper/blob/main/whisper/"
    yield (
        "whisper",
        "load_model",
        Fact(Kind.FUNCTION, whisper + "__init__.py", returns=Kind.MODULE, lives=Lives.FRAMEWORK),
    )
    yield "whisper", "load_audio", function(whisper + "audio.py", Kind.ARRAY)
    yield "whisper", "pad_or_trim", function(whisper + "audio.py", None, Lives.ARGUMENTS)
    einops = "https://einops.rocks/api/rearrange/"
    yield "einops", "rearrange repeat", function(einops, None, Lives.ARGUMENTS, "of one kind")
    yield "einops", "reduce einsum pack unpack", function(einops, None, Lives.ARGUMENTS)
    yield "einops.layers", "Rearrange Reduce EinMix", module("https://einops.rocks/api/")
    bits = "https://huggingface.co/docs/bitsandbytes/main/en/"
    yield "bitsandbytes.optim", "[A-Z]*", Fact(Kind.OPTIMIZER, bits + "optimizers")
    yield "bitsandbytes.nn", "Linear* Embedding* StableEmbedding", module(bits + "reference/nn/linear8bit")
    attention = "https://github.com/Dao-AILab/flash-attention"
    yield "flash_attn", "flash_attn*func", function(attention, None, Lives.ARGUMENTS)
    yield (
        "xformers",
        "memory_efficient_attention",
        function(
            "https://facebookresearch.github.io/xformers/components/ops.html", Kind.TENSOR, Lives.ARGUMENTS
        ),
    )
    gauss = "https://docs.gpytorch.ai/en/stable/"
    for part in ("models", "kernels", "means", "likelihoods", "mlls", "variational"):
        yield f"gpytorch.{part}", "[A-Z]*", module(gauss + "models.html")


def host_facts() -> Iterator[Entry]:
    """Libraries whose values are always data of the host."""
    numpy = "https://numpy.org/doc/stable/reference/routines.html"
    yield "numpy", "pi e inf nan newaxis ndim prod_ isscalar", Fact(Kind.NUMBER, numpy)
    dtypes = "int int_ int? int?? uint? uint?? float float?? complex?? complex128 bool_ dtype finfo iinfo"
    yield "numpy", dtypes, Fact(Kind.OBJECT, numpy, "dtype")
    yield "numpy", "seed allclose array_equal shape size save savez* savetxt", function(numpy, Kind.NUMBER)
    yield "numpy.random", "default_rng RandomState Generator", function(numpy, Kind.OBJECT, what="generator")
    yield "numpy", "ndarray matrix", Fact(Kind.ARRAY, numpy, "array")
    yield "numpy", "[a-z]*", function(numpy, Kind.ARRAY)
    pillow = "https://pillow.readthedocs.io/en/stable/reference/Image.html"
    yield "PIL", "[a-zA-Z]*", Fact(Kind.OBJECT, pillow, "image")
    yield "PIL", "Image*.*", function(pillow, Kind.OBJECT, what="image")
    opencv = "https://docs.opencv.org/4.x/d3/df2/tutorial_py_basic_ops.html"
    yield "cv2", "VideoCapture VideoWriter CascadeClassifier", Fact(Kind.OBJECT, opencv, "video")
    array = (
        "imread resize cvtColor GaussianBlur blur flip rotate warpAffine warpPerspective addWeighted "
        "copyMakeBorder imdecode"
    )
    yield "cv2", array, function(opencv, Kind.ARRAY)
    pandas = "https://pandas.pydata.org/docs/reference/index.html"
    yield "pandas", "[A-Z]*", Fact(Kind.OBJECT, pandas, "table")
    yield "pandas", "read_* concat merge to_* get_dummies", function(pandas, Kind.OBJECT, what="table")
    manuals = {
        "librosa": "https://librosa.org/doc/latest/",
        "scipy": "https://docs.scipy.org/doc/scipy/",
        "skimage": "https://scikit-image.org/docs/stable/",
        "soundfile": "https://python-soundfile.readthedocs.io/",
    }
    for root, manual in manuals.items():
        yield root, "[a-z]*", function(manual, None, Lives.HOST, "host data")
    scores = "https://scikit-learn.org/stable/api/sklearn.metrics.html"
    yield (
        "sklearn.metrics",
        "*_score *_error mean_* accuracy_* roc_auc_* log_loss auc",
        function(scores, Kind.NUMBER),
    )
    yield "sklearn.metrics", "confusion_matrix *_curve", function(scores, None, Lives.HOST, "host data")
    yield "sklearn", "[A-Z]*", Fact(Kind.OBJECT, scores, "estimator")
    bar = Fact(Kind.FUNCTION, "https://tqdm.github.io/docs/tqdm/", "progress bar", returns_arguments=True)
    yield "tqdm", "tqdm", bar
    yield "tqdm", "trange", function(bar.source, Kind.SEQUENCE)
    albumentations = "https://albumentations.ai/docs/"
    yield "albumentations", "ToTensorV2", Fact(Kind.OBJECT, albumentations, "transform to tensor")
    yield "albumentations", "[A-Z]*", Fact(Kind.OBJECT, albumentations, "transform")
    for root in ("gym", "gymnasium"):
        yield (
            root,
            "make make_vec",
            function("https://gymnasium.farama.org/api/env/", Kind.OBJECT, what="environment"),
        )


#: Metrics of torchmetrics whose states are tensors from the start, which `update` adds to: a Metric that was not moved
#: raises for inputs from elsewhere. (Those that keep lists of what they got, and aggregations, which convert it, do
#: not.) https://lightning.ai/docs/torchmetrics/stable/pages/overview.html#metrics-and-devices
METRICS_WITH_STATES = frozenset(
    f"{task}{name}"
    for task in ("", "Binary", "Multiclass", "Multilabel")
    for name in "Accuracy Precision Recall F1Score F1 FBetaScore FBeta Specificity StatScores ConfusionMatrix"
    " JaccardIndex IoU CohenKappa MatthewsCorrCoef HammingDistance ExactMatch".split()
) | frozenset(
    "MeanSquaredError MeanAbsoluteError MeanSquaredLogError MeanAbsolutePercentageError R2Score PearsonCorrCoef"
    " ExplainedVariance Dice".split()
)

#: Transforms of torchaudio that keep a window or a filter bank as a buffer
#: (https://docs.pytorch.org/audio/stable/transforms.html).
TRANSFORMS_WITH_STATES = frozenset(
    "Spectrogram InverseSpectrogram MelSpectrogram MelScale InverseMelScale GriffinLim MFCC LFCC PitchShift Resample"
    " TimeStretch SpectralCentroid".split()
)

#: Datasets of torchvision whose items are a picture and a number.
CLASSIFICATION = frozenset(
    "MNIST FashionMNIST KMNIST EMNIST QMNIST USPS CIFAR10 CIFAR100 SVHN STL10 ImageFolder ImageNet Caltech101"
    " Caltech256"
    " DTD EuroSAT Flowers102 Food101 GTSRB OxfordIIITPet StanfordCars FGVCAircraft SUN397 Places365 FakeData".split()
)

#: The tables of this module; each entry is (library and module, patterns of names, fact).
TABLES = (vision_facts, graphs_facts, models_facts, host_facts)
