"""The parent's side of the worker: finds an interpreter with torch, keeps servers running, hands out replays."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from torchlint.verify.protocol import Answer, Request

_WORKER = Path(__file__).resolve().parent / "worker" / "__main__.py"
#: Importing torch from a cold disk can take long; what takes longer than this is broken. Seconds.
_START_TIMEOUT = 120.0
#: Added to a replay's own wall clock before the parent gives it up, so that the server's clock strikes
#: first. Seconds.
_PATIENCE = 6.0
#: Replays that one process runs where there is no fork, before a fresh one takes over.
_BATCH = 8
#: All that a worker is told of the environment, where it is set.
_ENVIRONMENT = (
    "PATH LD_LIBRARY_PATH DYLD_LIBRARY_PATH SYSTEMROOT SYSTEMDRIVE WINDIR CONDA_PREFIX VIRTUAL_ENV LANG "
    "LC_ALL "
    "TZ CUDA_HOME ROCM_PATH OPENBLAS_CORETYPE"
)
_DEVICES = (
    "CUDA_VISIBLE_DEVICES HIP_VISIBLE_DEVICES ROCR_VISIBLE_DEVICES ZE_AFFINITY_MASK NVIDIA_VISIBLE_DEVICES"
)


class NoInterpreter(Exception):
    """No interpreter with torch was found, or the one found does not work; says so for a user."""


@dataclass(frozen=True)
class Interpreter:
    """A Python that can import torch. `source`: how it was found, in words."""

    path: str
    source: str


def find_interpreter(project_root: Path | str, explicit: str | None = None) -> Interpreter:
    """The interpreter in which to verify: the one asked for, else the current one, else the project's own.

    Raises NoInterpreter where none of them can import torch.
    """
    if explicit:
        if not _imports_torch(explicit):
            raise NoInterpreter(
                f"{explicit} can't import torch; --verify-python needs an interpreter that can"
            )
        return Interpreter(explicit, "--verify-python")
    if importlib.util.find_spec("torch") is not None:
        return Interpreter(sys.executable, "the interpreter that runs torchlint")
    for name in (".venv", "venv"):
        for part in ("bin/python", "Scripts/python.exe"):
            python = Path(project_root) / name / part
            if python.exists() and _imports_torch(str(python)):
                return Interpreter(str(python), f"the project's {name}")
    raise NoInterpreter(
        "--verify runs code under torch, and no torch was found, neither here nor in the project's .venv. "
        "Install torch beside torchlint, or name an interpreter with --verify-python"
    )


def _imports_torch(python: str) -> bool:
    check = "import importlib.util, sys; sys.exit(importlib.util.find_spec('torch') is None)"
    try:
        # In a folder of its own, lest a torch.py beside the user's files be taken for torch.
        result = subprocess.run(
            [python, "-E", "-B", "-c", check],
            capture_output=True,
            timeout=60,
            cwd=os.path.dirname(_WORKER),
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return result.returncode == 0


class Pool:
    """Runs replays in worker processes; a context manager. Workers start with the first replay that needs them.

    jobs: replays at a time where the worker can fork (elsewhere one). Answers come as they end.
    fork: False to run one replay after the other in a process, as where there is no fork.
    """

    def __init__(
        self, interpreter: Interpreter | str | None = None, jobs: int = 2, fork: bool = True
    ) -> None:
        python = interpreter.path if isinstance(interpreter, Interpreter) else interpreter or sys.executable
        self._command = [python, "-E", "-B", str(_WORKER), "--jobs", str(max(1, jobs))]
        if not fork:
            self._command.append("--no-fork")
        self._jobs = max(1, jobs)
        self._servers: dict[bool, _Server] = {}

    def __enter__(self) -> Pool:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """End all workers, and what they are running."""
        for server in self._servers.values():
            server.stop()
        self._servers.clear()

    def accelerator(self) -> str | None:
        """The kind of accelerator that torch finds on this machine, `cuda`, `xpu` or `mps`; starts a worker."""
        kind = self._server(real=True).greeting["accelerator"]
        return None if kind is None else str(kind)

    def torch_version(self) -> str:
        """The version of torch in the workers; starts one."""
        return str(self._server(real=False).greeting["torch"])

    def replay(self, requests: Sequence[Request]) -> Iterator[tuple[int, Answer]]:
        """Run them all; gives (index of the request, answer) in the order in which they end.

        Every request gets an answer, also one whose process died. Raises NoInterpreter where no worker
        starts.
        """
        for real in (False, True):
            chosen = [i for i, r in enumerate(requests) if (r.device.how == "real") == real]
            if chosen:
                for i, message in self._server(real).run([(i, requests[i]) for i in chosen]):
                    yield i, Answer.from_json(message)

    def _server(self, real: bool) -> _Server:
        server = self._servers.get(real)
        if server is None:
            server = self._servers[real] = _Server(self._command, self._jobs, real)
        return server


class _Server:
    """One worker process, restarted when it dies, and between batches where it can't fork."""

    def __init__(self, command: Sequence[str], jobs: int, real: bool) -> None:
        self._command = [*command, *(["--real"] if real else [])]
        self._jobs, self._real = jobs, real
        self._process: subprocess.Popen[bytes] | None = None
        self._lines: queue.Queue[bytes | None] = queue.Queue()
        self._served = 0
        self._last_id = 0
        self.greeting: dict[str, Any] = {}
        self._start()

    def _start(self) -> None:
        environment = {n: os.environ[n] for n in _ENVIRONMENT.split() if n in os.environ}
        if self._real:
            environment.update({n: os.environ[n] for n in _DEVICES.split() if n in os.environ})
        environment.update(OMP_NUM_THREADS="1", MKL_NUM_THREADS="1", TOKENIZERS_PARALLELISM="false")
        try:
            process = subprocess.Popen(
                self._command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env=environment,
                cwd=os.path.dirname(_WORKER),
            )
        except OSError as error:
            raise NoInterpreter(f"can't start {self._command[0]}: {error}") from error
        self._process, self._lines, self._served = process, queue.Queue(), 0
        assert process.stdout is not None
        threading.Thread(target=_read_lines, args=(process.stdout, self._lines), daemon=True).start()
        line = self._next_line(_START_TIMEOUT)
        if line is None:
            self.stop()
            raise NoInterpreter(
                f"the verifier's worker does not start in {self._command[0]}: can it import torch?"
            )
        self.greeting = json.loads(line)

    def _next_line(self, timeout: float) -> bytes | None:
        try:
            return self._lines.get(timeout=max(0.0, timeout))
        except queue.Empty:
            return None

    def stop(self) -> None:
        """End the process; one that does not go by itself is killed."""
        process, self._process = self._process, None
        if process is None:
            return
        with contextlib.suppress(OSError):
            if process.stdin is not None:
                process.stdin.close()
        try:
            process.wait(timeout=1.0 if self._served else 0.2)
        except subprocess.TimeoutExpired:
            process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(timeout=1.0)
            process.kill()
            process.wait()
        if process.stdout is not None:
            process.stdout.close()

    def run(self, requests: Sequence[tuple[int, Request]]) -> Iterator[tuple[int, dict[str, Any]]]:
        """Answers by index. A request that was under way when the worker died is not tried again."""
        waiting = list(requests)
        while waiting:
            if self._process is None:
                self._start()
            if self.greeting["forks"]:
                yield from self._run_forking(waiting)
            else:
                yield self._run_one(*waiting.pop(0))

    def _run_forking(self, waiting: list[tuple[int, Request]]) -> Iterator[tuple[int, dict[str, Any]]]:
        """Keep as many under way as the server takes, until none waits or the server dies."""
        under_way: dict[int, tuple[int, float]] = {}
        while waiting or under_way:
            while waiting and len(under_way) < self._jobs and self._process is not None:
                index, request = waiting.pop(0)
                deadline = time.monotonic() + request.limits.wall + _PATIENCE
                under_way[self._send(request)] = (index, deadline)
            line = self._next_line(min(deadline for _, deadline in under_way.values()) - time.monotonic())
            if line is None:
                status = "crashed" if self._dead() else "timed out"
                self._kill()
                for index, _ in under_way.values():
                    yield index, {"status": status, "stderr": "the worker itself had to be ended"}
                return
            message = json.loads(line)
            # What a caller did not wait for is nobody's answer any more.
            awaited = under_way.pop(int(message["id"]), None)
            if awaited is not None:
                self._served += 1
                yield awaited[0], message

    def _run_one(self, index: int, request: Request) -> tuple[int, dict[str, Any]]:
        self._send(request)
        line = self._next_line(request.limits.wall + _PATIENCE)
        if line is None:
            status = "crashed" if self._dead() else "timed out"
            self._kill()
            return index, {"status": status}
        self._served += 1
        if self._served >= _BATCH:
            self.stop()
        message: dict[str, Any] = json.loads(line)
        return index, message

    def _send(self, request: Request) -> int:
        """Hand a request to the process; gives the id that its answer will have."""
        assert self._process is not None
        assert self._process.stdin is not None
        self._last_id += 1
        data = json.dumps(request.to_json(self._last_id)).encode() + b"\n"
        with contextlib.suppress(OSError):
            self._process.stdin.write(data)
            self._process.stdin.flush()
        return self._last_id

    def _dead(self) -> bool:
        """Whether the process has ended, or is about to: its output has."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            if self._process is not None:
                self._process.wait(timeout=0.5)
        return self._process is None or self._process.poll() is not None

    def _kill(self) -> None:
        if self._process is not None:
            self._process.kill()
        self.stop()


def _read_lines(stream: BinaryIO, lines: queue.Queue[bytes | None]) -> None:
    """Put each line that a worker writes into a queue, and None at its end."""
    with contextlib.suppress(OSError, ValueError):
        for line in stream:
            lines.put(line)
    lines.put(None)
