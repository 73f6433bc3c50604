"""One replay: from a request to its answer, in a process that already has its guard rails on."""

from __future__ import annotations

import ast
import builtins
import collections
import contextlib
import gc
import os
import random
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from types import CodeType
from typing import Any

import torch

from ..guard import policy
from ..simdevice import RealDevice, Recorder, SimDevice, find_accelerator
from ..simdevice.events import Event
from ..simdevice.observer import Unobserved
from ..simdevice.reports import Reports
from ..standins.stage import Stage
from . import elastic
from .imports import RequestFinder
from .precision import Precision
from .probe import Enough, Probe
from .source import PROBE, compile_text

_TAIL = 4000
#: What torch says where a call got through to the real device that is not there.
_GAPS = (
    "not compiled with CUDA enabled",
    "not compiled with XPU enabled",
    "not linked with support for",
    "raw Tensor object is already associated",
    "Cannot access accelerator device",
    "not implemented for 'Half'",
    "module 'torch._C' has no attribute '_cuda",
    "'Stream' object has no attribute",
    "'Event' object has no attribute",
)
_OWN = __name__.partition(".worker.")[0] + "."


class TimeUp(BaseException):
    """The wall clock of a replay ran out."""


class Refused(Exception):
    """The policy has something against a module."""

    def __init__(self, refusals: list[policy.Refusal]) -> None:
        super().__init__("; ".join(r.reason for r in refusals))
        self.refusals = refusals


class Tail:
    """A text stream that keeps the end of what was written."""

    encoding = "utf-8"

    def __init__(self) -> None:
        self._parts: collections.deque[str] = collections.deque()
        self._held = 0

    def write(self, text: str) -> int:
        self._parts.append(text[-_TAIL:])
        self._held += len(self._parts[-1])
        while self._held > _TAIL and len(self._parts) > 1:
            self._held -= len(self._parts.popleft())
        return len(text)

    def flush(self) -> None:
        return None

    def isatty(self) -> bool:
        return False

    def getvalue(self) -> str:
        return "".join(self._parts)[-_TAIL:]


def _untrusted() -> AbstractContextManager[Any]:
    return contextlib.nullcontext()


class Replay:
    """Runs a request. `trusted`: a context in which the worker may do what the guard rails forbid the code."""

    def __init__(
        self, request: Mapping[str, Any], trusted: Callable[[], AbstractContextManager[Any]] = _untrusted
    ) -> None:
        self._request = request
        self._trusted = trusted
        self._path = str(request.get("path") or "<replay>")
        self._unmatched: list[str] = []
        modules = request.get("modules") or []
        files = [self._path, *(str(m.get("path") or m["name"]) for m in modules)]
        limit = int((request.get("limits") or {}).get("events", 4000))
        self._recorder = Recorder(files, request.get("record"), limit)
        self._device, self._observer = _observer(request.get("device") or {}, self._recorder)
        self._observer.lenient = bool(request.get("lenient"))
        self._simulates = isinstance(self._observer, SimDevice)
        self._probe = Probe(
            self._observer,
            request.get("loops") or [],
            request.get("watch") or [],
            int(request.get("cap", 200)),
            trusted,
        )
        self._stage: Stage | None = None
        if request.get("stage") is not None:
            device = request.get("device") or {}
            kind = "cpu" if device.get("how") == "absent" else str(device.get("kind") or "cuda")
            self._stage = Stage(request["stage"], self._observer, kind, self._recorder.files)
            self._probe.bridge = self._stage.bridge
            self._stage.bridge.probe = self._probe
        wanted = request.get("precision")
        underflow = int(wanted.get("underflow", 0)) if isinstance(wanted, Mapping) else 0
        self._precision = Precision(self._observer, underflow) if wanted else None

    def run(self) -> dict[str, Any]:
        """Run it and give the answer, whatever the code does short of ending the process."""
        out, err = Tail(), Tail()
        started = time.perf_counter()
        outcome: dict[str, Any] = {"status": "ran", "stopped": "", "exception": None, "refusals": []}
        try:
            with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
                self._execute()
        except Enough as enough:
            outcome["stopped"] = enough.loop
        except SystemExit:
            outcome["stopped"] = "exit"
        except TimeUp:
            outcome["status"] = "timed out"
        except Refused as refused:
            outcome["status"] = "refused"
            outcome["refusals"] = [{"line": r.line, "reason": r.reason} for r in refused.refusals]
        except BaseException as error:
            outcome.update(status="raised", exception=self._exception(error))
        seconds = round(time.perf_counter() - started, 4)
        return {
            **outcome,
            **self._seen(),
            "stdout": out.getvalue(),
            "stderr": err.getvalue(),
            "seconds": seconds,
        }

    def _execute(self) -> None:
        request = self._request
        main = {
            "name": "__main__",
            "source": request["source"],
            "path": self._path,
            "lines": request.get("lines"),
        }
        code = self._compile(main)
        given = {PROBE: self._probe}
        finder = RequestFinder(list(request.get("modules") or []), self._compile, given)
        namespace = {
            "__name__": request.get("name") or "__main__",
            "__file__": self._path,
            "__builtins__": builtins,
            **given,
        }
        stage = self._stage
        with _fresh_state(request), finder, self._observer, self._precision or contextlib.nullcontext():
            if stage is None:
                exec(code, namespace)
                return
            with stage.set():
                namespace.update(stage.namespace(ast.parse(request["source"])))
                exec(code, namespace)
                stage.calls(namespace)

    def _compile(self, module: Mapping[str, Any]) -> CodeType:
        """The code of the text or of one of its modules. Raises Refused, SyntaxError."""
        request, name = self._request, module["name"]
        here = None if name == "__main__" else name
        source = str(module["source"])
        path = str(module.get("path") or name)
        if not module.get("trusted"):
            names = {m["name"].partition(".")[0] for m in request.get("modules") or []}
            found = policy.refusals(ast.parse(source, path), names | set(request.get("imports") or []))
            if found:
                raise Refused(found)
        loops = [p for p in request.get("loops") or [] if p.get("module") == here]
        watch = [p for p in request.get("watch") or [] if p.get("module") == here]
        stretch = None if self._stage is None or module.get("trusted") else elastic.stretch
        code, unmatched = compile_text(source, path, module.get("lines"), loops, watch, stretch)
        self._unmatched += unmatched
        return code

    def _exception(self, error: BaseException) -> dict[str, Any]:
        """What was raised, and through which lines of the user's files."""
        lines: list[list[Any]] = []
        trace, module = error.__traceback__, ""
        while trace is not None:
            code = trace.tb_frame.f_code
            module = str(trace.tb_frame.f_globals.get("__name__", ""))
            if code.co_filename in self._recorder.files:
                lines.append([code.co_filename, trace.tb_lineno])
            trace = trace.tb_next
        if isinstance(error, SyntaxError) and error.filename in self._recorder.files:
            lines.append([error.filename, error.lineno or 0])
        path, line = lines[-1] if lines else ("", 0)
        return {
            "type": type(error).__name__,
            "message": str(error)[:2000],
            "path": path,
            "line": line,
            "lines": lines,
            "gap": self._simulates and not getattr(error, "simulated", False) and _is_gap(error, module),
        }

    def _seen(self) -> dict[str, Any]:
        """What was observed, in JSON."""
        if self._stage is not None and self._stage.called and not self._request.get("loops"):
            self._probe.iterations["calls"] = self._stage.called
            self._probe.graphs["calls"] = []
        indices = {event: i for i, event in enumerate(self._recorder.counts)}
        precision = self._precision
        return {
            "events": [_event(e, counts) for e, counts in self._recorder.counts.items()],
            "dropped": self._recorder.dropped,
            "sequence": [[i, indices[e]] for i, e in self._recorder.sequence if e in indices],
            "watched": self._probe.watched,
            "unmatched": self._unmatched,
            "loops": {
                id: {"iterations": n, "graph": self._probe.graphs[id]}
                for id, n in self._probe.iterations.items()
            },
            "precision": {"steps": precision.steps, "underflow": precision.underflow} if precision else None,
            "state": {**self._stage.state, "blame": self._stage.bridge.blame} if self._stage else {},
            "assumed": list(self._stage.maker.assumed) if self._stage else [],
            "skipped": self._stage.bridge.skips if self._stage else [],
            "device": self._device,
            "torch": torch.__version__,
        }


def _is_gap(error: BaseException, module: str) -> bool:
    """Whether an error tells of what the simulator lacks: raised by its own code, or by the absent device."""
    if module.startswith(_OWN) and isinstance(
        error, (AttributeError, LookupError, NameError, AssertionError)
    ):
        return not isinstance(error, IndexError)
    return any(text in str(error) for text in _GAPS)


def _observer(device: Mapping[str, Any], recorder: Recorder) -> tuple[str, Reports]:
    """Where a replay runs, in words, and who watches it. Raises ValueError where there is no such device."""
    how, kind = device.get("how", "simulated"), str(device.get("kind") or "cuda")
    if how == "simulated":
        return f"simulated {kind}:0", SimDevice(kind, int(device.get("count") or 1), recorder=recorder)
    found = find_accelerator()
    if how == "absent":
        # Environment variables hide the accelerators that they can; another one is simulated away.
        return "none", Unobserved(recorder) if found is None else SimDevice("none", recorder=recorder)
    if found is None:
        raise ValueError("torch finds no accelerator here")
    name = torch.cuda.get_device_name() if found == "cuda" else found
    return str(name), RealDevice(recorder=recorder)


def _event(event: Event, counts: Mapping[int, int]) -> dict[str, Any]:
    described = {
        name: getattr(event, name)
        for name in ("kind", "api", "path", "line", "via", "source", "target", "origins", "marks")
    }
    described["detail"] = dict(event.detail)
    described["count"] = sum(counts.values())
    described["by_iteration"] = {str(k): v for k, v in counts.items()}
    return described


@contextlib.contextmanager
def _fresh_state(request: Mapping[str, Any]) -> Iterator[None]:
    """What the code can see of the process and change for good: set, and set back afterwards."""
    seed = int(request.get("seed") or 0)
    torch.manual_seed(seed)
    random.seed(seed)
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        numpy.random.seed(seed)
    argv, environment, path = sys.argv[:], dict(os.environ), sys.path[:]
    grad, dtype = torch.is_grad_enabled(), torch.get_default_dtype()
    sys.argv = [str(request.get("path") or "replay.py"), *(request.get("argv") or [])]
    os.environ.update(request.get("environment") or {})
    # What is there already is none of the replay's: `graph.size` looks at the rest.
    gc.freeze()
    try:
        yield
    finally:
        torch.set_grad_enabled(grad)
        torch.set_default_dtype(dtype)
        sys.argv, sys.path[:] = argv, path
        os.environ.clear()
        os.environ.update(environment)
