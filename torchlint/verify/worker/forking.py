"""The fork server: a warmed process that forks one guarded child for each replay, several at a time."""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import shutil
import signal
import tempfile
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from .serve import GRACE, _write, answer, encode

_STDERR_TAIL = 4000
_MAX_ANSWER = 32 << 20


@dataclass
class _Child:
    """A replay under way: its process, its folder, when it must be over, and what it has written so far."""

    request: dict[str, Any]
    pid: int
    directory: str
    deadline: float
    out: int
    err: int
    data: bytearray = field(default_factory=bytearray)
    stderr: bytearray = field(default_factory=bytearray)
    overdue: bool = False


class ForkServer:
    """Reads requests from standard input, writes answers to `channel`, runs `jobs` replays at a time."""

    def __init__(self, channel: int, jobs: int) -> None:
        self._channel = channel
        self._jobs = max(1, jobs)
        self._waiting: deque[dict[str, Any]] = deque()
        self._running: dict[int, _Child] = {}
        self._selector = selectors.DefaultSelector()
        self._buffer = b""
        self._open = True

    def serve(self) -> None:
        """Until standard input has ended and the last replay is over."""
        self._selector.register(0, selectors.EVENT_READ)
        while self._open or self._waiting or self._running:
            while self._waiting and len(self._running) < self._jobs:
                self._start(self._waiting.popleft())
            for key, _ in self._selector.select(self._patience()):
                if key.fd == 0:
                    self._read_requests()
                else:
                    self._read_child(key.fd, key.data)
            self._end_overdue()

    def _patience(self) -> float | None:
        if not self._running:
            return None
        return max(0.0, min(c.deadline for c in self._running.values()) - time.monotonic())

    def _read_requests(self) -> None:
        data = os.read(0, 1 << 20)
        if not data:
            self._open = False
            self._selector.unregister(0)
            return
        *lines, self._buffer = (self._buffer + data).split(b"\n")
        self._waiting.extend(json.loads(line) for line in lines if line.strip())

    def _start(self, request: dict[str, Any]) -> None:
        directory = tempfile.mkdtemp(prefix="torchlint-")
        out, out_end = os.pipe()
        err, err_end = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.close(out)
            os.close(err)
            self._become_child(request, directory, out_end, err_end)
        os.close(out_end)
        os.close(err_end)
        wall = float((request.get("limits") or {}).get("wall", 10.0))
        child = _Child(request, pid, directory, time.monotonic() + wall + GRACE, out, err)
        self._running[pid] = child
        for fd in (out, err):
            os.set_blocking(fd, False)
            self._selector.register(fd, selectors.EVENT_READ, child)

    def _become_child(self, request: dict[str, Any], directory: str, out: int, err: int) -> None:
        """Run the replay and leave, never to return to the server's loop."""
        try:
            os.setsid()
            self._selector.close()
            os.close(self._channel)
            for fd in [fd for child in self._running.values() for fd in (child.out, child.err) if fd >= 0]:
                os.close(fd)
            os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
            os.dup2(err, 1)
            os.dup2(err, 2)
            os.chdir(directory)
            _write(out, answer(request, directory))
        except BaseException as error:
            with contextlib.suppress(BaseException):
                _write(2, {"worker": f"{type(error).__name__}: {error}"})
        finally:
            os._exit(0)

    def _read_child(self, fd: int, child: _Child) -> None:
        data = os.read(fd, 1 << 16)
        if fd == child.err:
            child.stderr = (child.stderr + data)[-_STDERR_TAIL:]
        else:
            child.data += data
        if len(child.data) > _MAX_ANSWER:
            self._kill(child)
        if not data:
            self._selector.unregister(fd)
            os.close(fd)
            if fd == child.out:
                child.out = -1
            else:
                child.err = -1
        if child.out < 0 and child.err < 0:
            self._finish(child)

    def _end_overdue(self) -> None:
        now = time.monotonic()
        for child in list(self._running.values()):
            if child.deadline <= now:
                child.overdue = True
                child.deadline = now + GRACE
                self._kill(child)

    def _kill(self, child: _Child) -> None:
        """The child and whatever it may have started in its session."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(child.pid, signal.SIGKILL)
        with contextlib.suppress(ProcessLookupError):
            os.kill(child.pid, signal.SIGKILL)

    def _finish(self, child: _Child) -> None:
        self._kill(child)
        _, status = os.waitpid(child.pid, 0)
        del self._running[child.pid]
        shutil.rmtree(child.directory, ignore_errors=True)
        _write_raw(
            self._channel, bytes(child.data) if child.data.endswith(b"\n") else encode(_died(child, status))
        )


def _died(child: _Child, status: int) -> dict[str, Any]:
    """The answer for a child that gave none."""
    number = os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0
    timed_out = child.overdue or number == getattr(signal, "SIGXCPU", -1)
    reason = signal.Signals(number).name if number else f"exit status {os.WEXITSTATUS(status)}"
    return {
        "id": child.request.get("id"),
        "status": "timed out" if timed_out else "crashed",
        "signal": reason,
        "stderr": child.stderr.decode(errors="replace"),
    }


def _write_raw(channel: int, data: bytes) -> None:
    while data:
        data = data[os.write(channel, data) :]


def in_child(function: Callable[[], Any]) -> Any:
    """What a function answers in a forked process, so that nothing it touches stays in this one; None if it dies."""
    out, end = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.write(end, json.dumps(function()).encode())
        finally:
            os._exit(0)
    os.close(end)
    data = b""
    while chunk := os.read(out, 1 << 16):
        data += chunk
    os.close(out)
    os.waitpid(pid, 0)
    return json.loads(data) if data else None


def survives_fork(function: Callable[[], bool]) -> bool:
    """Whether a function still works in a child forked from a process that has run it; tried out in children."""
    return in_child(lambda: function() and in_child(function) is True) is True
