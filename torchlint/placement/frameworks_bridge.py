"""Calls of frameworks around torch, by the hand-written facts of `frameworks`."""

from __future__ import annotations

import libcst as cst

from torchlint.placement.arguments import Arguments
from torchlint.placement.interpreter import Env, Interpreter
from torchlint.placement.values import Value


def framework_call(run: Interpreter, name: str, node: cst.Call, arguments: Arguments, env: Env) -> Value | None:
    """What a call of a framework gives; None where nothing is known of it."""
    return None
