"""How many rewrites of a set of programs keep what torchlint finds in them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import libcst as cst

from tools.metamorphic import expressions, names, places  # noqa: F401  (they register their rewriters)
from tools.metamorphic.rewriting import REWRITERS, dotted
from torchlint.check import CheckOptions, check_source
from torchlint.explain import example, use_instead
from torchlint.findings import Finding
from torchlint.rule import find_rules

#: The rewrites that are known not to keep their findings, a line each.
KNOWN = Path(__file__).parents[2] / "tests" / "data" / "metamorphic_known.txt"

#: A finding as rewrites keep it: its code and what is accused, in a word.
Accused = tuple[str, str]


@dataclass(frozen=True)
class Program:
    """A program under a name, as the code that is checked."""

    name: str
    code: str


@dataclass(frozen=True)
class Outcome:
    """What became of the findings of a program when it was rewritten."""

    program: str
    rewriter: str
    before: Counter[Accused]
    after: Counter[Accused]

    @property
    def kept(self) -> bool:
        return self.before == self.after

    def __str__(self) -> str:
        lost, new = self.before - self.after, self.after - self.before
        parts = [f"lost {c} {what}" for c, what in sorted(lost)] + [
            f"new {c} {what}" for c, what in sorted(new)
        ]
        return f"{self.program} / {self.rewriter}: {', '.join(parts) or 'kept'}"


def examples() -> Iterator[Program]:
    """The examples in the documentation of the rules."""
    for code, rule in find_rules().items():
        for name, get in (("example", example), ("use instead", use_instead)):
            try:
                text = get(rule).code
            except KeyError:
                continue
            if not code.startswith("DEV0"):
                yield Program(f"{code} {name}", text)


def known() -> set[str]:
    """The outcomes that are known to differ."""
    return set(KNOWN.read_text(encoding="utf-8").splitlines()) if KNOWN.exists() else set()


def files(folder: Path) -> Iterator[Program]:
    for path in sorted(folder.glob("*.py")):
        yield Program(path.name, path.read_text(encoding="utf-8"))


def measure(programs: Iterable[Program]) -> Iterator[Outcome]:
    """An outcome for every rewriter that has something to rewrite in a program."""
    for program in programs:
        module = cst.parse_module(program.code)
        before = accused(program.code)
        for name, rewrite in REWRITERS.items():
            new = rewrite(module)
            if new is not None:
                compile(new.code, program.name, "exec")
                yield Outcome(program.name, name, before, accused(new.code))


def accused(code: str) -> Counter[Accused]:
    """What torchlint reports by default, as far as rewriting keeps it."""
    rules = frozenset(c for c, rule in find_rules().items() if rule.default and not c.startswith("DEV0"))
    result = check_source(code.encode(), "program.py", CheckOptions(rules))
    if result.errors:
        raise RuntimeError(f"{result.errors[0].message}\n{code}")
    return Counter((f.code, construct(f, code)) for f in result.findings)


def construct(finding: Finding, code: str) -> str:
    """The accused construct in a word that other names do not change: what is called, or the kind of statement."""
    lines = code.split("\n")
    start, end = finding.range.start, finding.range.end
    if start.line == end.line:
        text = lines[start.line - 1][start.column - 1 : end.column - 1]
    else:
        inner = lines[start.line : end.line - 1]
        text = "\n".join(
            [lines[start.line - 1][start.column - 1 :], *inner, lines[end.line - 1][: end.column - 1]]
        )
    try:
        node: cst.CSTNode = cst.parse_expression(f"({text})")
    except cst.ParserSyntaxError:
        return _statement_kind(text)
    if isinstance(node, cst.Call):
        if isinstance(node.func, cst.Attribute):
            # What hangs on an instance may have any name.
            return "method" if dotted(node.func.value) == "self" else node.func.attr.value
        return (dotted(node.func) or "call").rpartition(".")[2]
    return text if isinstance(node, cst.SimpleString) else type(node).__name__


def _statement_kind(text: str) -> str:
    """The kind of statement that a finding covers, in a word; of others, the first word."""
    try:
        node = cst.parse_statement(text)
    except cst.ParserSyntaxError:
        return (text.split() or [""])[0]
    return type(node.body[0] if isinstance(node, cst.SimpleStatementLine) else node).__name__
