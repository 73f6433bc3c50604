"""Starts the worker from its path alone: `python -E -B …/worker/__main__.py [--jobs N] [--real] [--no-fork]`."""

from __future__ import annotations

import os
import sys
import types

#: The package under which the worker's own folder is imported, so that nothing beside it comes onto
#: `sys.path`.
PACKAGE = "torchlint_replay"


def _bootstrap() -> None:
    here = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [p for p in sys.path if p and os.path.abspath(p) != here]
    package = types.ModuleType(PACKAGE)
    package.__path__ = [os.path.dirname(here)]
    sys.modules[PACKAGE] = package


if __name__ == "__main__":
    _bootstrap()
    from torchlint_replay.worker.serve import main  # type: ignore[import-not-found]

    main(sys.argv[1:])
