"""The worker's two ways to serve: a fork of a warmed process for each replay, or all in this one, in turn."""

from __future__ import annotations

import contextlib
import gc
import json
import os
import platform
import shutil
import signal
import sys
import sysconfig
import tempfile
import time
from collections.abc import Iterator, Mapping
from typing import Any

_STARTED = time.perf_counter()
#: Longer than the replay's own clock by this, the server ends it by force. Seconds.
GRACE = 2.0


def main(arguments: list[str]) -> None:
    """Serve until standard input ends.

    `--jobs N`: replays at a time; `--real`: leave the accelerator to them; `--no-fork`: run them here, in turn.
    """
    jobs = int(arguments[arguments.index("--jobs") + 1]) if "--jobs" in arguments else 1
    real = "--real" in arguments
    if not real:
        hide_accelerators()
    # The answers keep the channel to themselves: what anything prints goes elsewhere.
    channel = os.dup(1)
    os.dup2(2, 1)
    from . import warm

    warm.load()
    forks = can_fork() and "--no-fork" not in arguments
    if not (real and forks):
        from .forking import survives_fork

        with_backward = not forks or survives_fork(warm.backward)
        warm.train(with_backward)
        warm.rehearse(with_backward)
    # Children share these pages until they write to them, and the collector writes to what it looks at.
    gc.collect()
    gc.freeze()
    if forks:
        from .forking import ForkServer, in_child

        accelerator = in_child(_accelerator) if real else None
        _write(channel, _greeting(accelerator, forks))
        ForkServer(channel, jobs).serve()
    else:
        _write(channel, _greeting(_accelerator() if real else None, forks))
        serve_in_turn(channel)


def hide_accelerators() -> None:
    """Before torch is imported: let it find no device, as on a machine without one."""
    for name in ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES"):
        os.environ[name] = ""
    os.environ["ONEAPI_DEVICE_SELECTOR"] = "opencl:cpu"


def can_fork() -> bool:
    """Forking a process with torch in it is sound on Linux; macOS' frameworks do not survive it."""
    return hasattr(os, "fork") and sys.platform.startswith("linux")


def _accelerator() -> str | None:
    from ..simdevice import find_accelerator

    return find_accelerator()


def _greeting(accelerator: str | None, forks: bool) -> dict[str, Any]:
    import torch

    return {
        "ready": True,
        "torch": torch.__version__,
        "python": platform.python_version(),
        "accelerator": accelerator,
        "forks": forks,
        "seconds": round(time.perf_counter() - _STARTED, 3),
    }


def _write(channel: int, message: Mapping[str, Any]) -> None:
    data = encode(message)
    while data:
        data = data[os.write(channel, data) :]


def encode(message: Mapping[str, Any]) -> bytes:
    return json.dumps(message, default=str, allow_nan=False).encode() + b"\n"


def answer(request: Mapping[str, Any], directory: str, *, guarded: Any = None) -> dict[str, Any]:
    """Put the guard rails up, unless they are (`guarded`: their hook and layers), and run one request."""
    from ..guard import Limits, install
    from .replay import Replay

    limits = request.get("limits") or {}
    os.environ.update(TMPDIR=directory, HOME=directory, TEMP=directory, TMP=directory)
    tempfile.tempdir = None
    allowed = {k: limits[k] for k in ("wall", "cpu", "memory") if k in limits}
    if (request.get("device") or {}).get("how") == "real":
        wake_accelerator()
        # Drivers reserve address space by the terabyte.
        allowed["memory"] = 0
    hook, layers = guarded or install(directory, readable_folders(), (), Limits(**allowed))
    hook.allow(
        [
            *(request.get("imports") or []),
            *(m["name"].partition(".")[0] for m in request.get("modules") or []),
        ]
    )
    before = len(hook.refused)
    try:
        with wall_clock(float(limits.get("wall", Limits.wall))):
            answered = Replay(request, hook.trusted).run()
    except BaseException as error:
        message = f"{type(error).__name__}: {error}"
        answered = {"status": "raised", "exception": {"type": "WorkerError", "message": message, "gap": True}}
    answered.update(id=request.get("id"), denied=hook.refused[before:], layers=layers, megabytes=_megabytes())
    return answered


def wake_accelerator() -> None:
    """Use the accelerator once: its driver opens devices and loads libraries, which the guard rails would not let."""
    import torch

    kind = _accelerator()
    if kind is not None:
        x = torch.ones(1, 1, 4, 4, device=kind, requires_grad=True)
        loss: Any = torch.nn.functional.conv2d(x, x).matmul(torch.ones(1, 1, device=kind)).sum()
        loss.backward()


def readable_folders() -> list[str]:
    """Where Python and torch keep the code that they read while they run."""
    import torch

    folders = {sys.prefix, sys.base_prefix, *sysconfig.get_paths().values(), os.path.dirname(torch.__file__)}
    folders.update(p for p in sys.path if os.path.isdir(p))
    folders.add(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    return sorted(f for f in folders if f and os.path.realpath(f) != os.sep)


@contextlib.contextmanager
def wall_clock(seconds: float) -> Iterator[None]:
    """Raise TimeUp in the code when its time is over, so that what was seen until then is kept."""
    from .replay import TimeUp

    if not hasattr(signal, "setitimer"):
        yield
        return

    def over(number: int, frame: Any) -> None:
        raise TimeUp

    before = signal.signal(signal.SIGALRM, over)
    # Again and again, in case the code swallows it.
    signal.setitimer(signal.ITIMER_REAL, seconds, 0.2)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def serve_in_turn(channel: int) -> None:
    """One replay after the other in this process; the parent starts a new one now and then, and after a crash."""
    from ..guard import Limits, install

    root = tempfile.mkdtemp(prefix="torchlint-")
    guarded: Any = None
    try:
        for line in sys.stdin.buffer:
            request = json.loads(line)
            if guarded is None:
                guarded = install(root, readable_folders(), (), Limits(cpu=600))
            directory = tempfile.mkdtemp(dir=root)
            os.chdir(directory)
            _write(channel, answer(request, directory, guarded=guarded))
            os.chdir(root)
            shutil.rmtree(directory, ignore_errors=True)
    finally:
        shutil.rmtree(root, ignore_errors=True)


def _megabytes() -> float:
    """Peak resident memory of this process; 0 where the system does not tell."""
    try:
        import resource
    except ImportError:
        return 0.0
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return round(peak / (1 << 20 if sys.platform == "darwin" else 1 << 10), 1)
