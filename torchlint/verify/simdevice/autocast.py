"""Autocast as an accelerator does it, carried out by the CPU's autocast: which calls run in which precision.

torch keeps the state itself (`torch.autocast("cuda")` works on a build without CUDA); it only has no effect
on CPU
tensors. The lists follow PyTorch's "Autocast Op Reference" for CUDA, where it differs from the CPU's own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.utils._pytree import tree_map_only

from ..words import words
from . import errors, hooks

_FLOAT32 = frozenset(
    words(
        "__pow__ __rdiv__ __rpow__ __rtruediv__ acos asin binary_cross_entropy_with_logits cosh "
        "cosine_embedding_loss "
        "cdist cosine_similarity cumprod cumsum dist erfinv exp expm1 group_norm hinge_embedding_loss kl_div "
        "l1_loss "
        "layer_norm log log10 log_softmax log1p log2 margin_ranking_loss mse_loss multilabel_margin_loss "
        "multi_margin_loss native_layer_norm nll_loss nll_loss_nd norm normalize pdist poisson_nll_loss pow "
        "prod reciprocal rsqrt sinh smooth_l1_loss soft_margin_loss softmax softmin softplus sum renorm tan "
        "triplet_margin_loss cross_entropy_loss huber_loss"
    )
)
_WIDEST = frozenset(
    words("addcdiv addcmul atan2 bilinear cross dot grid_sampler index_put scatter_add tensordot")
)
_LOW = frozenset(words("mv addmv addr prelu lstm_cell gru_cell rnn_tanh_cell rnn_relu_cell linalg_multi_dot"))
_RECURRENT = frozenset(("lstm", "gru", "rnn_tanh", "rnn_relu"))


def call(func: Callable[..., Any], args: Any, kwargs: Any, kind: str) -> Any:
    """Call a torch function on tensors of an accelerator of this kind, under its autocast state."""
    dtype = hooks.autocast_dtype(kind)
    if dtype is None:
        if not torch.is_autocast_enabled("cpu"):
            return func(*args, **kwargs)
        with hooks.cpu_autocast(None):
            return func(*args, **kwargs)
    name = getattr(func, "__name__", "")
    if name == "binary_cross_entropy":
        raise errors.banned_under_autocast()
    target = _target(name, args, kwargs, dtype)
    if target is None:
        with hooks.cpu_autocast(dtype):
            return func(*args, **kwargs)
    with hooks.cpu_autocast(None):
        args, kwargs = _cast((args, kwargs), target)
        if name in _RECURRENT:
            # The CPU's fused kernels know no half precision with float32 weights.
            with hooks.without_mkldnn():
                return func(*args, **kwargs)
        return func(*args, **kwargs)


def _target(name: str, args: Any, kwargs: Any, dtype: torch.dtype) -> torch.dtype | None:
    """The type to cast to before the call; None: leave it to the CPU's autocast, which has the same rule."""
    if name in _FLOAT32:
        return torch.float32
    if name in _LOW or name in _RECURRENT:
        return dtype
    if name in _WIDEST:
        found = {
            t.dtype for t in torch.utils._pytree.tree_leaves((args, kwargs)) if isinstance(t, torch.Tensor)
        }
        return torch.float32 if torch.float32 in found else dtype
    return None


def _cast(tree: Any, dtype: torch.dtype) -> Any:
    narrow = (torch.float16, torch.bfloat16, torch.float32)
    return tree_map_only(torch.Tensor, lambda t: t.to(dtype) if t.dtype in narrow else t, tree)
