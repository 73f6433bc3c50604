"""Findings → verdicts: each is replayed as its rule's probe asks, piece after piece, until something is decided."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from torchlint import cache as store
from torchlint.check import in_short, read
from torchlint.findings import Finding, Verdict
from torchlint.rule import Rule
from torchlint.source import Program, Unreadable
from torchlint.verify.plan import Piece, Source
from torchlint.verify.plan.scope import interval
from torchlint.verify.pool import Interpreter, Pool
from torchlint.verify.probes import INCONCLUSIVE, REFUTED, Ask, Probe, Said, Site, probe_of, reached
from torchlint.verify.protocol import Answer, Request

#: Where Linux shows accelerators to a process.
_DEVICE_FILES = ("/dev/nvidiactl", "/dev/kfd", "/dev/dri", "/dev/dxg")
#: Of the words on what was assumed, as many are kept.
_MOST_ASSUMED = 8

Progress = Callable[[int, int], None]
#: Files by path and content; None for one that can't be read.
_Sources = dict[tuple[str, bytes], "tuple[Source, Program] | None"]


@dataclass
class _Case:
    """A finding under way: the pieces that are left to try, and the answers of the piece that is being tried."""

    finding: Finding
    probe: Probe
    source: Source
    site: Site
    pieces: list[Piece]
    key: str = ""
    asks: tuple[Ask, ...] = ()
    piece: Piece | None = None
    answers: tuple[Answer, ...] = ()
    best: Verdict | None = None
    #: A replay came to the line and ended without an error.
    ran: bool = False

    def next_request(self) -> Request | None:
        """The next replay of it; None where nothing is left to try."""
        if self.piece is None or len(self.answers) >= len(self.asks):
            if not self.pieces:
                return None
            self.piece, self.answers = self.pieces.pop(0), ()
        request = self.source.request(self.piece, self.asks[len(self.answers)], self.site)
        if self.piece.real and request.device.how == "simulated":
            return replace(request, device=replace(request.device, how="real"))
        return request


class Verifier:
    """Replays findings; a context manager that ends its workers. They start with the first replay.

    rules: by code; those without a probe have no verdict. cache: where verdicts are kept, or None.
    Raises NoInterpreter, from `verify`, where no worker starts.
    """

    def __init__(
        self,
        interpreter: Interpreter,
        rules: Mapping[str, type[Rule]],
        *,
        root: Path,
        jobs: int = 2,
        cache: store.Cache | None = None,
    ) -> None:
        self._interpreter = interpreter
        self._pool = Pool(interpreter, jobs=jobs)
        self._rules, self._root, self._cache = rules, root, cache
        self._asked = False
        self._found: str | None = None
        self._identity: str | None = None

    def __enter__(self) -> Verifier:
        return self

    def __exit__(self, *error: object) -> None:
        self._pool.close()

    def verify(
        self, findings: Sequence[tuple[Finding, bytes]], progress: Progress | None = None
    ) -> list[Finding]:
        """The findings, each with its verdict. The bytes are those of its file, which its place refers to."""
        done: dict[int, Finding] = {}
        cases: dict[int, _Case] = {}
        sources: _Sources = {}
        for i, (finding, data) in enumerate(findings):
            try:
                case = self._case(finding, data, sources)
            except Exception as error:  # a fault of ours costs this finding its verdict, and no more
                case = replace(
                    finding, verdict=Verdict(INCONCLUSIVE, "none", f"not replayed: {in_short(error)}")
                )
            if isinstance(case, _Case):
                known = self._recall(case)
                if known is None:
                    cases[i] = case
                    continue
                case = replace(finding, verdict=known)
            done[i] = case
        while cases:
            requests = {i: case.next_request() for i, case in cases.items()}
            for i in [i for i, request in requests.items() if request is None]:
                done[i] = self._conclude(cases.pop(i))
            indices = [i for i in requests if i in cases]
            batch = [request for i in indices if (request := requests[i]) is not None]
            for position, answer in self._pool.replay(batch):
                i = indices[position]
                if self._settles(cases[i], answer):
                    done[i] = self._conclude(cases.pop(i))
                if progress is not None:
                    progress(len(done), len(findings))
        return [done[i] for i in sorted(done)]

    def is_free(self, finding: Finding, data: bytes) -> bool:
        """Whether replays of the place of a finding run, and show no fault: for what a fix has changed."""
        case = self._case(finding, data, {})
        if not isinstance(case, _Case):
            return False
        while (request := case.next_request()) is not None:
            for _, answer in self._pool.replay([request]):
                if self._settles(case, answer):
                    return case.best is not None and case.best.status == REFUTED
        return case.ran

    def _accelerator(self) -> str | None:
        """The kind of accelerator that torch finds here; asked only where the system has one at all."""
        if not self._asked:
            self._asked = True
            if sys.platform == "darwin" or any(map(os.path.exists, _DEVICE_FILES)):
                self._found = self._pool.accelerator()
        return self._found

    # ---- one finding ---------------------------------------------------------------------------------------

    def _case(self, finding: Finding, data: bytes, sources: _Sources) -> _Case | Finding:
        rule = self._rules.get(finding.code)
        probe = None if rule is None else probe_of(rule)
        if probe is None:
            return finding
        place = finding.path, data
        if place not in sources:
            try:
                program = read(data, finding.path)
                sources[place] = Source(program.text, finding.path, self._root), program
            except Unreadable:
                sources[place] = None
        known = sources[place]
        if known is None or known[0].tree is None:
            verdict = Verdict(
                INCONCLUSIVE, "none", "the file can't be read by the Python that runs torchlint"
            )
            return replace(finding, verdict=verdict)
        source, program = known
        site = site_of(finding, source, program)
        asks = probe.asks(site)
        pieces = [*source.pieces(site), *(source.statement(site) if probe.alone else ())]
        if (kind := self._accelerator()) is not None and all(a.device.kind in (kind, "none") for a in asks):
            pieces = [*(replace(piece, real=True) for piece in pieces), *pieces]
        case = _Case(finding, probe, source, site, pieces, asks=asks)
        case.key = self._key(case)
        return case

    def _settles(self, case: _Case, answer: Answer) -> bool:
        """Take an answer in; whether the finding is decided."""
        case.answers = (*case.answers, answer)
        try:
            said = case.probe.judge(case.answers, case.site)
        except (LookupError, TypeError, ValueError, AttributeError) as error:
            said = Said(INCONCLUSIVE, f"not judged: {in_short(error)}")
        more = len(case.answers) < len(case.asks)
        case.ran = case.ran or (reached(answer) and answer.status == "ran" and answer.exception is None)
        if said.status == INCONCLUSIVE and more:
            return False
        assert case.piece is not None
        verdict = _verdict(said, case.piece, case.answers)
        if said.status != INCONCLUSIVE:
            case.best = verdict
            return True
        if case.best is None or "never came" in case.best.evidence:
            case.best = verdict
        return False

    def _conclude(self, case: _Case) -> Finding:
        nothing = Verdict(INCONCLUSIVE, "none", "nothing here can be run by itself")
        verdict = case.best or nothing
        if self._cache is not None:
            self._cache.put(
                case.key, [verdict.status, verdict.device, verdict.evidence, list(verdict.assumed)]
            )
        return replace(case.finding, verdict=verdict)

    # ---- the cache -----------------------------------------------------------------------------------------

    def _key(self, case: _Case) -> str:
        """All that a verdict depends on: the code, the probe, torch and the device."""
        if self._cache is None:
            return ""
        if self._identity is None:
            self._identity = store.key(store.program(()), self._interpreter.path, self._pool.torch_version())
        modules = [f"{m.name} {m.source}" for m in case.source.imports.modules]
        return store.key(
            "verdict",
            self._identity,
            case.finding.code,
            case.probe.key(),
            repr(case.site),
            case.source.text,
            *modules,
        )

    def _recall(self, case: _Case) -> Verdict | None:
        entry: Any = self._cache.get(case.key) if self._cache is not None else None
        try:
            status, device, evidence, assumed = entry
            return Verdict(str(status), str(device), str(evidence), tuple(map(str, assumed)))
        except (TypeError, ValueError):
            return None


def _verdict(said: Said, piece: Piece, answers: Sequence[Answer]) -> Verdict:
    assumed: dict[str, None] = {piece.how: None}
    for answer in answers:
        assumed.update(dict.fromkeys(answer.assumed))
    device = next((a.device for a in answers if a.device), "none")
    if device == "none":
        device = "no accelerator"
    return Verdict(said.status, device, said.evidence, tuple(assumed)[:_MOST_ASSUMED])


def site_of(finding: Finding, source: Source, program: Program) -> Site:
    """The place of a finding in the program's text."""
    line = _line(finding.cell, finding.range.start.line, program)
    end = _line(finding.cell, finding.range.end.line, program)
    rows = program.text.splitlines()
    code = rows[line - 1][finding.range.start.column - 1 :] if 0 < line <= len(rows) else ""
    if end == line:
        code = code[: finding.range.end.column - finding.range.start.column]
    also: dict[str, tuple[int, ...]] = {}
    for related in finding.related:
        if related.path == finding.path:
            place = _line(related.cell, related.range.start.line, program)
            also[related.role] = (*also.get(related.role, ()), place)
    scope = source.scope(line)
    assert source.tree is not None
    told = " ".join([finding.message, *(r.message for r in finding.related)])
    return Site(
        path=source.path,
        line=line,
        end=max(line, end),
        column=finding.range.start.column - 1,
        code=code.strip(),
        message=finding.message,
        told=told,
        also=also,
        row=rows[line - 1] if 0 < line <= len(rows) else "",
        interval=interval(scope, source.tree),
    )


def _line(cell: int | None, line: int, program: Program) -> int:
    """The line of the program's text; findings in a notebook count within their cell."""
    if cell is None:
        return line
    lines = program.lines
    for number in range(1, len(lines) + 1):
        start = lines.start(number)
        found, place = program.locate(start, start)
        if found == cell and place.start.line == line:
            return number
    return line
