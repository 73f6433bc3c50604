"""Which function reads a call of which torch API."""

from __future__ import annotations

from collections.abc import Callable

import libcst as cst

from torchlint.placement.calls.arguments import Arguments
from torchlint.placement.interpreter import Env, Interpreter
from torchlint.placement.values import (
    Value,
)

Handler = Callable[[Interpreter, str, cst.Call, Arguments, Env], "Value | None"]


HANDLERS: dict[str, Handler] = {}


def api(*names: str) -> Callable[[Handler], Handler]:
    def register(handler: Handler) -> Handler:
        for name in names:
            HANDLERS[name] = handler
        return handler

    return register
