"""Rules of a made-up house, for tests of the command: they need nothing but the syntax tree."""

from __future__ import annotations

import os
from collections.abc import Iterator

import libcst as cst

from torchlint.findings import Safety, Severity
from torchlint.rule import NodeEdit, NodeFix, Report, Rule


class _Names(cst.CSTVisitor):
    def __init__(self, word: str) -> None:
        self.word = word
        self.found: list[cst.Name] = []

    def visit_Name(self, node: cst.Name) -> None:
        if node.value == self.word:
            self.found.append(node)


class _Word(Rule):
    options = {"word": ""}
    word = ""
    better: str | None = None
    safety = Safety.SAFE

    def finish(self) -> Iterator[Report]:
        names = _Names(self.context.options.get("word", self.word))
        self.context.module.visit(names)
        for node in names.found:
            edits = (NodeEdit(node, "replace", self.better or ""),)
            fix = NodeFix(f"write `{self.better}`", self.safety, edits) if self.better else None
            yield self.finding(node, f"`{node.value}` is banned", fix=fix)


class Banned(_Word):
    """A banned word."""

    code, name, word, better = "HSE001", "banned-word", "banned", "allowed"
    triggers = (b"banned",)


class Risky(_Word):
    """A risky word."""

    code, name, word, better, safety = "HSE002", "risky-word", "risky", "bold", Safety.UNSAFE
    severity = Severity.ERROR
    triggers = (b"risky",)


class Doubtful(_Word):
    """A doubtful word."""

    code, name, word, severity = "HSE003", "doubtful-word", "hm", Severity.INFO
    triggers = (b"hm",)


class Deadly(_Word):
    """A word that ends the process which checks it, as a fault in native code would."""

    code, name, word = "HSE666", "deadly-word", "die"
    triggers = (b"die",)

    def finish(self) -> Iterator[Report]:
        if any(True for _ in super().finish()):
            os._exit(11)
        return iter(())
