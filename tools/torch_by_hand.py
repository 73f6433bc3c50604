"""What an installed torch can't be asked, since it needs a device, a file or a reader; with sources."""

from __future__ import annotations

# What shares memory with data of the host stays there
# (https://docs.pytorch.org/docs/stable/generated/torch.set_default_device.html); the legacy constructors
# never look at the default device: a test calls them all under one.
LEGACY_TYPES = (
    "Tensor", "BFloat16Tensor", "BoolTensor", "ByteTensor", "CharTensor", "DoubleTensor", "FloatTensor",
    "HalfTensor", "IntTensor", "LongTensor", "ShortTensor",
)  # fmt: skip
CREATES_ON_HOST = (
    *(f"torch.{name}" for name in LEGACY_TYPES),
    "torch.from_file",
    "torch.from_numpy",
    "torch.frombuffer",
    "torch.get_rng_state",
    "torch.random.get_rng_state",
)

# The parameters of callables whose signature torch hides altogether.
EXTRA_FUNCTIONS = {f"torch.{name}": "data:X+ *device:D=>T" for name in LEGACY_TYPES}

# Draws that happen only with arguments a probe does not give, or inside a fused kernel.
# https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.scaled_dot_product_attention.html
# (dropout_p)
RANDOM = (
    "torch.nn.functional.alpha_dropout",
    "torch.nn.functional.feature_alpha_dropout",
    "torch.nn.functional.scaled_dot_product_attention",
    "torch.nn.functional.multi_head_attention_forward",
)

# The host waits where data comes from a device, to the CPU, to Python, to NumPy
# (https://docs.pytorch.org/docs/stable/notes/cuda.html#asynchronous-execution):
EXPLICIT_SYNC_METHODS = ("cpu", "item", "numpy", "tolist", "__array__")
# Python asks a tensor for a number or a truth value:
CONVERSION_SYNC_METHODS = (
    "__bool__", "__complex__", "__contains__", "__float__", "__format__", "__index__", "__int__", "__repr__",
    "__str__",
)  # fmt: skip
# `repeat_interleave` computes its output size on the host unless `output_size` says it
# (https://docs.pytorch.org/docs/stable/generated/torch.repeat_interleave.html).
SYNC_UNLESS = {
    "torch.repeat_interleave": "output_size",
    "repeat_interleave": "output_size",
    # https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.one_hot.html: num_classes=-1 is
    # inferred from the data.
    "torch.nn.functional.one_hot": "num_classes",
    # https://docs.pytorch.org/docs/stable/generated/torch.where.html: with the condition alone it is nonzero.
    "torch.where": "input",
}
# istft makes sure that its windows overlap, and looks at the sum of them on the host
# (https://docs.pytorch.org/docs/stable/generated/torch.istft.html).
SYNCS = (
    "torch.accelerator.synchronize", "torch.cuda.synchronize", "torch.istft", "torch.mps.synchronize",
    "torch.nn.functional.one_hot", "torch.repeat_interleave", "torch.xpu.synchronize",
)  # fmt: skip
HIDDEN_SYNC_METHODS = ("istft", "repeat_interleave")

# What a move changes; https://docs.pytorch.org/docs/stable/tensors.html and tensor_attributes.html.
MOVES = {
    "to": "both", "type": "both", "type_as": "both", "cpu": "device", "cuda": "device", "xpu": "device",
    "ipu": "device", "mtia": "device", "hpu": "device", "npu": "device", "bfloat16": "dtype",
    "bool": "dtype", "byte": "dtype", "cdouble": "dtype", "cfloat": "dtype", "chalf": "dtype",
    "char": "dtype", "double": "dtype", "float": "dtype", "half": "dtype", "int": "dtype", "long": "dtype",
    "short": "dtype",
}  # fmt: skip

# Created where their data lives, if that is a tensor already
# (https://docs.pytorch.org/docs/stable/generated/torch.tensor.html, parameter `device`; likewise as_tensor,
# asarray, and the sparse constructors with `values`).
FOLLOWS_DATA = (
    "torch.as_tensor", "torch.asarray", "torch.sparse_bsc_tensor", "torch.sparse_bsr_tensor",
    "torch.sparse_compressed_tensor", "torch.sparse_coo_tensor", "torch.sparse_csc_tensor",
    "torch.sparse_csr_tensor", "torch.tensor", "torch.nested.as_nested_tensor",
    "torch.nested.nested_tensor",
)  # fmt: skip
FOLLOWS_RECEIVER = (
    "new",
    "new_empty",
    "new_empty_strided",
    "new_full",
    "new_ones",
    "new_tensor",
    "new_zeros",
)

# Parameters that must be on the CPU, wherever the other operands are.
# https://docs.pytorch.org/docs/stable/generated/torch.nn.utils.rnn.pack_padded_sequence.html (lengths)
# https://docs.pytorch.org/docs/stable/generated/torch.tensor_split.html (indices_or_sections)
# https://docs.pytorch.org/docs/stable/generated/torch.Generator.html (set_state, also of a CUDA generator)
ON_CPU = {
    "torch.nn.utils.rnn.pack_padded_sequence": ["lengths"],
    "torch.tensor_split": ["indices_or_sections", "tensor_indices_or_sections"],
    "torch.set_rng_state": ["new_state"],
    "torch.cuda.set_rng_state": ["new_state"],
    "tensor_split": ["indices_or_sections", "tensor_indices_or_sections"],
}
# Parameters that may be on the CPU beside operands on an accelerator.
# ctc_loss reads the lengths on the host; its cuDNN path wants CPU targets, too:
# https://docs.pytorch.org/docs/stable/generated/torch.nn.CTCLoss.html
# Indices may be on the CPU or beside what is indexed, not elsewhere:
# https://github.com/pytorch/pytorch/blob/v2.6.0/aten/src/ATen/TensorIndexing.h
# A tensor that fills has no dimensions, and its number is read where it lives:
# https://github.com/pytorch/pytorch/blob/v2.6.0/aten/src/ATen/native/Fill.cpp
# https://github.com/pytorch/pytorch/blob/v2.6.0/aten/src/ATen/native/TensorAdvancedIndexing.cpp
# copy_ copies between devices: https://docs.pytorch.org/docs/stable/generated/torch.Tensor.copy_.html
CPU_ALLOWED = {
    "torch.nn.functional.ctc_loss": ["targets", "input_lengths", "target_lengths"],
    "torch.ctc_loss": ["targets", "input_lengths", "target_lengths"],
    "torch.index_put": ["indices"],
    "torch.index_put_": ["indices"],
    "index_put": ["indices"],
    "index_put_": ["indices"],
    "torch.fill": ["value"],
    "torch.fill_": ["value"],
    "torch.masked_fill": ["value"],
    "torch.index_fill": ["value"],
    "fill_": ["value"],
    "masked_fill": ["value"],
    "masked_fill_": ["value"],
    "index_fill": ["value"],
    "index_fill_": ["value"],
    "__getitem__": ["indices"],
    "__setitem__": ["indices", "value"],
    "copy_": ["src", "other"],
    "to": ["other"],
    "type_as": ["other"],
    "module_load": ["other"],
}

# What replaces an API that names one vendor, and the torch that brought it. torch.accelerator came with
# 2.6, the names with `_index` with 2.7 (https://docs.pytorch.org/docs/2.7/accelerator.html), the context
# manager `device_index` with 2.8 (https://docs.pytorch.org/docs/2.8/accelerator.html), the memory functions
# with 2.9 (https://docs.pytorch.org/docs/stable/accelerator.html); torch.amp.GradScaler with 2.3,
# torch.autocast with 1.10 (https://docs.pytorch.org/docs/1.10/amp.html).
REPLACEMENTS: dict[str, tuple[str, str]] = {
    "is_available": ("torch.accelerator.is_available", "2.6"),
    "device_count": ("torch.accelerator.device_count", "2.6"),
    "current_device": ("torch.accelerator.current_device_index", "2.7"),
    "set_device": ("torch.accelerator.set_device_index", "2.7"),
    "device": ("torch.accelerator.device_index", "2.8"),
    "current_stream": ("torch.accelerator.current_stream", "2.6"),
    "set_stream": ("torch.accelerator.set_stream", "2.6"),
    "synchronize": ("torch.accelerator.synchronize", "2.6"),
    "Stream": ("torch.Stream", "2.6"),
    "Event": ("torch.Event", "2.6"),
    "empty_cache": ("torch.accelerator.empty_cache", "2.9"),
    "memory_allocated": ("torch.accelerator.memory_allocated", "2.9"),
    "max_memory_allocated": ("torch.accelerator.max_memory_allocated", "2.9"),
    "memory_reserved": ("torch.accelerator.memory_reserved", "2.9"),
    "max_memory_reserved": ("torch.accelerator.max_memory_reserved", "2.9"),
    "memory_stats": ("torch.accelerator.memory_stats", "2.9"),
    "reset_peak_memory_stats": ("torch.accelerator.reset_peak_memory_stats", "2.9"),
    "reset_accumulated_memory_stats": ("torch.accelerator.reset_accumulated_memory_stats", "2.9"),
    "manual_seed": ("torch.manual_seed", "1.0"),
    "manual_seed_all": ("torch.manual_seed", "1.0"),
    "amp.GradScaler": ("torch.amp.GradScaler", "2.3"),
    "amp.autocast": ("torch.autocast", "1.10"),
}
