"""Room for deep recursion, which syntax trees of long chains need, and a guard against what has no room."""

from __future__ import annotations

import io
import re
import sys
import threading
import tokenize
from collections.abc import Callable
from typing import TypeVar

_Result = TypeVar("_Result")

_STACK_BYTES = 256 << 20  # reserved, not used: the system gives pages when they are touched
_LIMIT = 50_000


def deeply(work: Callable[[], _Result]) -> _Result:
    """Call `work`, and once more with a large stack if the interpreter's recursion limit stops it.

    Raises what `work` raises, RecursionError included where even that is not enough.
    """
    try:
        return work()
    except RecursionError:
        return _in_large_stack(work)


def _in_large_stack(work: Callable[[], _Result]) -> _Result:
    results: list[_Result] = []
    failures: list[BaseException] = []

    def run() -> None:
        try:
            results.append(work())
        except BaseException as error:  # handed on to the caller below
            failures.append(error)

    limit, size = sys.getrecursionlimit(), threading.stack_size()
    try:
        threading.stack_size(_STACK_BYTES)
        sys.setrecursionlimit(max(limit, _LIMIT))
        thread = threading.Thread(target=run, name="torchlint-deep")
        thread.start()
        thread.join()
    except (RuntimeError, ValueError):  # no such stack to be had here
        raise RecursionError("nested too deeply") from None
    finally:
        sys.setrecursionlimit(limit)
        threading.stack_size(size)
    if failures:
        raise failures[0]
    return results[0]


# ---- what LibCST's parser, which is recursive native code, would crash on ---------------------------------

_BRACKETS = 200  # Python's own tokenizer takes no more
_OPERATORS = 3_000
_BRANCHES = 5_000

_ALL_BUT_BRACKETS = bytes(set(range(256)) - set(b"()[]{}"))
_ALL_BUT_SIGNS = bytes(set(range(256)) - set(b"+-*/%@&|^~<>=([."))
_WORDS = re.compile(r"\b(?:and|or|not|in|is|if|else|lambda|await)\b")
# Lines in a row that go on with an expression.
_CONTINUATIONS = 1_000
_CONTINUED = re.compile(
    r"(?:\n[ \t]*(?:[-+*/%&|^.<>=@~]|and\b|or\b|not\b)[^\n]*){" + str(_CONTINUATIONS) + "}"
)
_CHAINED = frozenset(
    [
        "+",
        "-",
        "*",
        "/",
        "//",
        "%",
        "@",
        "&",
        "|",
        "^",
        "~",
        "<<",
        ">>",
        "**",
        "<",
        ">",
        "==",
        "!=",
        "<=",
        ">=",
    ]
).union(["(", "[", ".", "and", "or", "not", "in", "is", "if", "else", "lambda", "await"])


def too_deep(text: str) -> str | None:
    """Why a module must not be given to the parser: it would overflow the stack and end the process.

    None for nearly all; these are told by a few quick scans.
    """
    if text.count("elif") > _BRANCHES:
        return f"an `if` with more than {_BRANCHES} branches"
    if not _may_nest(text) and not _may_chain(text):
        return None
    depth, operators = _measure(text)
    if depth > _BRACKETS:
        return f"more than {_BRACKETS} brackets within each other"
    if operators > _OPERATORS:
        return f"an expression of more than {_OPERATORS} operators"
    return None


def _may_nest(text: str) -> bool:
    """Whether brackets could be too deep, those in strings and comments counted as well."""
    brackets = text.encode("utf-8", "replace").translate(None, _ALL_BUT_BRACKETS)
    for _ in range(_BRACKETS):
        fewer = brackets.replace(b"()", b"").replace(b"[]", b"").replace(b"{}", b"")
        if len(fewer) == len(brackets):
            return len(brackets) > _BRACKETS
        brackets = fewer
    return bool(brackets)


def _may_chain(text: str) -> bool:
    """Whether an expression could be too long, going by long lines and by what lines begin with."""
    if len(text) < 2 * _OPERATORS:
        return False
    lines = text.split("\n")
    if len(lines) > _CONTINUATIONS and _CONTINUED.search(text) is not None:
        return True
    if max(map(len, lines)) <= _OPERATORS:
        return False
    # Lines so long are data, as a rule: lists of numbers and texts, which hold few operators.
    long = "\n".join(line for line in lines if len(line) > _OPERATORS)
    signs = long.encode("utf-8", "replace").translate(None, _ALL_BUT_SIGNS)
    return len(signs) + len(_WORDS.findall(long)) > _OPERATORS


def _measure(text: str) -> tuple[int, int]:
    """The most brackets within each other, and the most operators in an expression between commas."""
    depth = most = 0
    counts = [0]
    try:
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.string in ")]}" and len(counts) > 1 and token.type == tokenize.OP:
                inner = counts.pop()
                counts[-1] += 0 if inner < _OPERATORS else inner
            elif token.string in _CHAINED:
                counts[-1] += 1
            elif token.type == tokenize.NEWLINE or token.string in (",", ";"):
                counts[-1] = 0
            most = max(most, counts[-1])
            if token.string in ("(", "[", "{") and token.type == tokenize.OP:
                counts.append(0)
                depth = max(depth, len(counts) - 1)
    except (tokenize.TokenError, SyntaxError):  # what came before is measured
        if depth == _BRACKETS:  # from Python 3.12 on the tokenizer gives up at the next one
            depth += 1
    return depth, most
