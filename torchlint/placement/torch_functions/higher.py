"""Functions of torch that call a function they are given, or hand it back in another form."""

from __future__ import annotations

import libcst as cst

from torchlint.placement.calls.arguments import Arguments
from torchlint.placement.interpreter import Env, Interpreter
from torchlint.placement.torch_functions.registry import api
from torchlint.placement.values import UNKNOWN, Kind, Value

#: What `checkpoint` takes for itself (torch/utils/checkpoint.py).
_OF_CHECKPOINT = frozenset(
    ["use_reentrant", "preserve_rng_state", "context_fn", "determinism_check", "debug", "early_stop"]
)


@api("torch.utils.checkpoint.checkpoint")
def _checkpoint(run: Interpreter, name: str, node: cst.Call, arguments: Arguments, env: Env) -> Value | None:
    """It calls its first argument with the others."""
    from torchlint.placement.calls.dispatch import call_value

    if not arguments.positional:
        return UNKNOWN
    called, *given = arguments.positional
    named = {k: o for k, o in arguments.named.items() if k not in _OF_CHECKPOINT}
    if called.value.kind not in (Kind.FUNCTION, Kind.MODULE):
        return None
    return call_value(run, called.value, node, Arguments(given, named, arguments.starred, arguments.unpacked), env)


@api("torch.vmap", "torch.func.vmap", "functorch.vmap")
def _vectorised(run: Interpreter, name: str, node: cst.Call, arguments: Arguments, env: Env) -> Value:
    """The function that it is given, which gets slices of what it is called with: they are where the whole is."""
    return arguments.value("func", 0) or UNKNOWN
