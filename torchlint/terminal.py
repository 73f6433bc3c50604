"""What the command says to people: results, chatter, failures, and how far it is."""

from __future__ import annotations

import os
import sys
import time
from typing import IO

import click


class Failure(click.ClickException):
    """Wrong use, or what else stops a run; shown as one line."""

    exit_code = 2


def say(text: str) -> None:
    """Chatter: to standard error, so that findings stay alone on standard output."""
    click.echo(f"torchlint: {text}", err=True)


def write(text: str, stream: IO[str] | None = None) -> None:
    """Write to standard output (or `stream`); quietly gives up where nobody reads it any more."""
    target = sys.stdout if stream is None else stream
    encoding = getattr(target, "encoding", None) or "utf-8"
    try:
        text.encode(encoding)
    except UnicodeError:
        text = text.encode(encoding, "backslashreplace").decode(encoding)
    try:
        # Whether there are colours has been decided; click must not take them away again.
        click.echo(text, file=target, nl=False, color=True)
        target.flush()
    except BrokenPipeError:
        _discard_stdout()


def write_bytes(data: bytes) -> None:
    """Write bytes to standard output as they are; gives up like `write`."""
    stream = sys.stdout.buffer
    try:
        stream.write(data)
        stream.flush()
    except BrokenPipeError:
        _discard_stdout()


def _discard_stdout() -> None:
    """Let what Python still flushes at its end go nowhere."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def write_file(file: str, text: str) -> None:
    """Write the report to a file, in UTF-8. Raises Failure."""
    try:
        with open(file, "w", encoding="utf-8", errors="backslashreplace", newline="") as opened:
            opened.write(text)
    except OSError as error:
        raise Failure(f"--output-file {file}: {error.strerror or error}") from error


class Progress:
    """How far a run is, on one line of standard error, if that is a terminal and the run takes a while."""

    _AFTER = 1.0
    _EVERY = 0.1

    def __init__(self, wanted: bool, words: str = "checked {} of {} files") -> None:
        self._words = words
        self._wanted = wanted and sys.stderr.isatty()
        self._next = time.monotonic() + self._AFTER
        self._shown = False

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *exception: object) -> None:
        if self._shown:
            click.echo("\r\x1b[K", nl=False, err=True)

    def __call__(self, done: int, total: int) -> None:
        if self._wanted and time.monotonic() >= self._next:
            self._next = time.monotonic() + self._EVERY
            self._shown = True
            click.echo(f"\r\x1b[K{self._words.format(done, total)}", nl=False, err=True)
