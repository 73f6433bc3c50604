"""The format for programs, version 1: everything that is known of each finding."""

from __future__ import annotations

import json
from typing import Any

from torchlint import __version__
from torchlint.findings import Finding, Fix, Position, Range, Safety, Verdict
from torchlint.report import Run, fixable
from torchlint.report.text import Texts


def render(run: Run, color: bool = False) -> str:
    """One JSON object, in ASCII, so that no pipe or terminal can spoil it; never coloured."""
    texts = Texts(run.texts)
    findings = [_finding(finding, texts) for finding in run.findings]
    found = list(run.findings)
    document = {
        "version": 1,
        "torchlint": __version__,
        "findings": findings,
        "errors": [
            {"path": error.path, "message": error.message}
            for result in run.results
            for error in result.errors
        ],
        "summary": {
            "files": run.files,
            "findings": len(findings),
            "fixable": fixable(found, Safety.SAFE) + run.unsafe_fixes * fixable(found, Safety.UNSAFE),
            "suppressed": sum(result.suppressed for result in run.results),
            **({"refuted": len(run.hidden)} if run.verified else {}),
            "seconds": round(run.seconds, 3),
        },
    }
    return json.dumps(document, indent=2) + "\n"


def _finding(finding: Finding, texts: Texts) -> dict[str, Any]:
    return {
        "code": finding.code,
        "name": finding.name,
        "message": finding.message,
        "severity": finding.severity.value,
        "confidence": finding.confidence.value,
        "path": finding.path,
        "cell": finding.cell,
        "range": _range(finding.range),
        "related": [
            {
                "role": related.role,
                "path": related.path,
                "cell": related.cell,
                "range": _range(related.range),
                "message": related.message,
            }
            for related in finding.related
        ],
        "fix": None if finding.fix is None else _fix(finding.fix, finding, texts),
        "verdict": None if finding.verdict is None else _verdict(finding.verdict),
        "fingerprint": finding.fingerprint,
    }


def _fix(fix: Fix, finding: Finding, texts: Texts) -> dict[str, Any]:
    return {
        "safety": fix.safety.value,
        "message": fix.message,
        "edits": [
            {
                "cell": edit.cell,
                "range": _range(texts.lines(finding.path, edit.cell).range(edit.start, edit.end)),
                "text": edit.text,
            }
            for edit in fix.edits
        ],
    }


def _verdict(verdict: Verdict) -> dict[str, Any]:
    return {
        "status": verdict.status,
        "device": verdict.device,
        "evidence": verdict.evidence,
        "assumed": list(verdict.assumed),
    }


def _range(place: Range) -> dict[str, Any]:
    return {"start": _position(place.start), "end": _position(place.end)}


def _position(position: Position) -> dict[str, int]:
    return {"line": position.line, "column": position.column}
