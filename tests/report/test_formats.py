"""The formats for programs and logs, the closing sentence, and when there is colour."""

from __future__ import annotations

import io
import json
from dataclasses import replace

import pytest
from samples import CODE, DROPPED, MIXED, PATH, PORTABLE, UNREADABLE, run_of

from torchlint import __version__
from torchlint.findings import Edit, FileResult, Verdict
from torchlint.report import Run, closing, render
from torchlint.report.paint import wants_color


def test_concise_is_one_line_a_finding() -> None:
    run = Run((FileResult(PATH, (MIXED, replace(DROPPED, cell=2, message="two\nlines"))), UNREADABLE))
    assert render(run, "concise") == (
        "src/net.py:9:16: DEV102 [*] `x` is where the caller put it, `self.mask` on the CPU (mixed-devices)\n"
        "src/net.py:cell 3:11:9: DEV101 two lines (discarded-move)\n"
        "b.py: error: can't be read: Permission denied\n"
    )


def test_statistics_count_by_rule() -> None:
    findings = [MIXED] * 2 + [DROPPED] * 10 + [PORTABLE]
    assert render(run_of(*findings), "statistics") == (
        "10  DEV101  discarded-move, 10 fixable\n"
        " 2  DEV102  mixed-devices, 2 fixable\n"
        " 1  DEV503  cuda-or-cpu\n"
    )


def test_nothing_found_says_nothing() -> None:
    for kind in ("full", "concise", "statistics"):
        assert render(run_of(), kind) == ""


def test_json_version_1() -> None:
    finding = replace(MIXED, verdict=Verdict("confirmed", "simulated cuda:0", "it was", ("a batch",)))
    run = Run((FileResult(PATH, (finding,), suppressed=2), UNREADABLE), {PATH: CODE.encode()}, 5, 0.12345)
    assert json.loads(render(run, "json")) == {
        "version": 1,
        "torchlint": __version__,
        "findings": [
            {
                "code": "DEV102",
                "name": "mixed-devices",
                "message": "`x` is where the caller put it, `self.mask` on the CPU",
                "severity": "error",
                "confidence": "certain",
                "path": "src/net.py",
                "cell": None,
                "range": {"start": {"line": 9, "column": 16}, "end": {"line": 9, "column": 29}},
                "related": [
                    {
                        "role": "origin",
                        "path": "src/net.py",
                        "cell": None,
                        "range": {"start": {"line": 6, "column": 21}, "end": {"line": 6, "column": 36}},
                        "message": "`self.mask` is created on the CPU here",
                    }
                ],
                "fix": {
                    "safety": "safe",
                    "message": "make it a buffer",
                    "edits": [
                        {
                            "cell": None,
                            "range": {"start": {"line": 6, "column": 9}, "end": {"line": 6, "column": 36}},
                            "text": 'self.register_buffer("mask", …)',
                        }
                    ],
                },
                "verdict": {
                    "status": "confirmed",
                    "device": "simulated cuda:0",
                    "evidence": "it was",
                    "assumed": ["a batch"],
                },
                "fingerprint": "f00d",
            }
        ],
        "errors": [{"path": "b.py", "message": "can't be read: Permission denied"}],
        "summary": {"files": 5, "findings": 1, "fixable": 1, "suppressed": 2, "seconds": 0.123},
    }


def test_json_of_nothing_is_whole() -> None:
    document = json.loads(render(Run(files=3), "json"))
    assert document["findings"] == []
    assert document["errors"] == []
    assert document["summary"]["files"] == 3


def test_json_is_ascii_whatever_the_message() -> None:
    assert render(run_of(replace(MIXED, message="日本 \udc80")), "json").isascii()


def test_json_places_edits_in_their_own_cell() -> None:
    notebook = b'{"cells": [{"source": "import torch"}, {"source": "a\\nbc"}]}'
    fix = replace(MIXED.fix, edits=(Edit(2, 4, "x", cell=1), Edit(0, 0, "y", cell=0)))  # type: ignore[type-var]
    document = json.loads(render(run_of(replace(MIXED, cell=1, fix=fix), code=notebook), "json"))
    places = [
        (e["cell"], e["range"]["start"], e["range"]["end"]) for e in document["findings"][0]["fix"]["edits"]
    ]
    assert places == [
        (1, {"line": 2, "column": 1}, {"line": 2, "column": 3}),
        (0, {"line": 1, "column": 1}, {"line": 1, "column": 1}),
    ]


def test_fixable_means_by_what_was_asked_for() -> None:
    for unsafe, number in ((False, 1), (True, 2)):
        document = json.loads(render(run_of(MIXED, DROPPED, unsafe_fixes=unsafe), "json"))
        assert document["summary"]["fixable"] == number


@pytest.mark.parametrize(
    "run, sentence",
    [
        (Run(files=1), "No problems in 1 file."),
        (Run((UNREADABLE,), files=7), "No problems in 7 files, 1 error."),
        (run_of(PORTABLE), "Found 1 problem in 1 file."),
        (run_of(MIXED, files=9), "Found 1 problem (1 fixable with --fix) in 1 of 9 files."),
        (
            run_of(MIXED, MIXED, DROPPED),
            "Found 3 problems (2 fixable with --fix, 1 more with --unsafe-fixes) in 1 file.",
        ),
        (run_of(DROPPED), "Found 1 problem (1 fixable with --fix --unsafe-fixes) in 1 file."),
        (
            run_of(MIXED, DROPPED, unsafe_fixes=True),
            "Found 2 problems (2 fixable with --fix --unsafe-fixes) in 1 file.",
        ),
        (Run(files=3, fixed=2, fixed_files=1), "Fixed 2 problems in 1 file; none left."),
        (
            run_of(PORTABLE, files=3, fixed=1, fixed_files=1),
            "Fixed 1 problem in 1 file; 1 left in 1 of 3 files.",
        ),
    ],
)
def test_the_closing_sentence(run: Run, sentence: str) -> None:
    assert closing(run) == sentence


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    "choice, terminal, environ, wanted",
    [
        ("auto", True, {}, True),
        ("auto", False, {}, False),
        ("auto", True, {"NO_COLOR": "1"}, False),
        ("auto", True, {"NO_COLOR": ""}, True),
        ("auto", False, {"FORCE_COLOR": "1"}, True),
        ("auto", True, {"FORCE_COLOR": "1", "NO_COLOR": "1"}, False),
        ("auto", True, {"TERM": "dumb"}, False),
        ("always", False, {"NO_COLOR": "1"}, True),
        ("never", True, {"FORCE_COLOR": "1"}, False),
    ],
)
def test_colour(choice: str, terminal: bool, environ: dict[str, str], wanted: bool) -> None:
    assert wants_color(choice, _Terminal() if terminal else io.StringIO(), environ) is wanted
    assert wants_color(choice, None, environ) is (choice == "always")
