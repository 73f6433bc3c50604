"""What a person sees."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from textwrap import dedent

import pytest
from samples import CODE, DROPPED, MIXED, PATH, UNREADABLE, run_of, span

from torchlint.findings import FileResult, Fix, Related, Safety, Verdict
from torchlint.report import Run, render


def shown(*findings: object, **options: object) -> str:
    return render(run_of(*findings, **options), "full")  # type: ignore[arg-type]


def test_a_finding_with_its_origin_and_fix() -> None:
    assert shown(MIXED) == dedent(
        """\
        error[DEV102 mixed-devices]: `x` is where the caller put it, `self.mask` on the CPU
         --> src/net.py:9:16
          |
        6 |         self.mask = torch.zeros(10)
          |                     --------------- `self.mask` is created on the CPU here
        7 |
        8 |     def forward(self, x):
        9 |         return x + self.mask
          |                ^^^^^^^^^^^^^
          |
          = fix: make it a buffer (safe)
        """
    )


def test_findings_and_errors_stand_apart() -> None:
    run = Run((FileResult(PATH, (MIXED, DROPPED)), UNREADABLE), {PATH: CODE.encode()}, 2)
    blocks = render(run, "full").split("\n\n")
    assert [block.split("\n")[0] for block in blocks] == [
        "error[DEV102 mixed-devices]: `x` is where the caller put it, `self.mask` on the CPU",
        "warning[DEV101 discarded-move]: the result of `cuda` is dropped",
        "error: b.py: can't be read: Permission denied",
    ]


def test_an_unsafe_fix_a_possible_finding_and_a_replay_say_so() -> None:
    verdict = Verdict("confirmed", "simulated cuda:0", "the tensor was still on the CPU")
    assert shown(replace(DROPPED, verdict=verdict)) == dedent(
        """\
        warning[DEV101 discarded-move]: the result of `cuda` is dropped
          --> src/net.py:11:9
           |
        11 | model = Net().cuda()
           |         ^^^^^^^^^^^^
        12 | model(torch.zeros(10))
           |
           = replay: confirmed on simulated cuda:0: the tensor was still on the CPU
           = note: possible, not certain
           = fix: assign it (unsafe: needs --unsafe-fixes)
        """
    )


def test_a_fix_that_is_only_shown_keeps_to_one_line() -> None:
    fix = Fix("write\n  it so", Safety.DISPLAY, ())
    assert shown(replace(MIXED, fix=fix)).endswith("= fix: write it so (by hand)\n")


def test_far_places_are_joined_by_dots_and_same_lines_stacked() -> None:
    related = (
        Related("origin", "born here", PATH, span(3, 1, 3, 6)),
        Related("context", "and this", PATH, span(9, 20, 9, 29)),
    )
    assert shown(replace(MIXED, related=related, fix=None)).split("\n")[2:-1] == [
        "  |",
        "3 | class Net(torch.nn.Module):",
        "  | ----- born here",
        "...",
        "8 |     def forward(self, x):",
        "9 |         return x + self.mask",
        "  |                ^^^^^^^^^^^^^",
        "  |                    --------- and this",
        "  |",
    ]


def test_a_range_of_several_lines_is_underlined_line_by_line() -> None:
    code = "y = f(\n    a,\n\n    b,\n)\nz = 1\n"
    found = replace(MIXED, range=span(1, 5, 5, 2), related=(), fix=None)
    assert shown(found, code=code).split("\n")[2:-1] == [
        "  |",
        "1 | y = f(",
        "  |     ^^",
        "2 |     a,",
        "  |     ^^",
        "3 |",
        "4 |     b,",
        "  |     ^^",
        "5 | )",
        "  | ^",
        "6 | z = 1",
        "  |",
    ]


def test_the_middle_of_a_long_range_is_left_out() -> None:
    code = "".join(f"a{i}\n" for i in range(1, 21))
    found = replace(MIXED, range=span(2, 1, 19, 4), related=(), fix=None)
    lines = [line for line in shown(found, code=code).split("\n")[2:] if "^" not in line]
    assert [line[:2].strip() for line in lines] == ["", "1", "2", "3", "4", "5", "..", "19", "20", "", ""]


def test_a_range_that_ends_at_the_start_of_a_line_leaves_it_out() -> None:
    found = replace(MIXED, range=span(1, 1, 2, 1), related=(), fix=None)
    assert shown(found, code="ab\ncd\n").count("^") == 2


def test_an_empty_range_and_one_behind_the_text_get_one_caret() -> None:
    for place in (span(1, 2, 1, 2), span(1, 40, 1, 50)):
        found = replace(MIXED, range=place, related=(), fix=None)
        assert shown(found, code="ab\n").count("^") == 1


@pytest.mark.parametrize(
    "line, column, length, stroke",
    [
        ("\tx.to(d)", 2, 7, "    ^^^^^^^"),
        ("a\tb", 3, 1, "    ^"),
        ('n = "日本"; x', 11, 1, "            ^"),
        ("日本語", 2, 1, "  ^^"),
        ("e\N{COMBINING ACUTE ACCENT} x", 4, 1, "  ^"),
        ("\x1b[31m x", 7, 1, "      ^"),
        ("\N{RIGHT-TO-LEFT OVERRIDE}x", 2, 1, " ^"),
    ],
)
def test_strokes_stand_under_what_they_mean(line: str, column: int, length: int, stroke: str) -> None:
    found = replace(MIXED, range=span(1, column, 1, column + length), related=(), fix=None)
    output = shown(found, code=f"{line}\n").split("\n")
    assert output[4] == f"  | {stroke}"
    assert "\x1b" not in output[3]
    assert "\N{RIGHT-TO-LEFT OVERRIDE}" not in output[3]


def test_a_very_long_line_is_cut_around_the_place() -> None:
    code = "x = [" + "1, " * 300 + "bad, " + "2, " * 300 + "]\n"
    column = code.index("bad") + 1
    found = replace(MIXED, range=span(1, column, 1, column + 3), related=(), fix=None)
    line, stroke = shown(found, code=code).split("\n")[3:5]
    assert len(line) < 130
    assert line.startswith("1 | ...")
    assert line.endswith("...")
    assert line[stroke.index("^") : stroke.rindex("^") + 1] == "bad"


def test_carriage_returns_and_form_feeds_do_not_shift_lines() -> None:
    found = replace(MIXED, range=span(3, 1, 3, 2), related=(), fix=None)
    assert "3 | c\n  | ^" in shown(found, code=b"a\r\nb\x0c\x0bb\rc\n")


def test_a_place_in_another_file_is_shown_from_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "lib.py").write_text("import torch\nmask = torch.ones(3)\n")
    related = (
        Related("origin", "made here", "lib.py", span(2, 8, 2, 21)),
        Related("origin", "or here", "gone.py", span(1, 1, 1, 2)),
    )
    output = shown(replace(MIXED, related=related, fix=None))
    assert "\n ::: lib.py:2:8\n  |\n2 | mask = torch.ones(3)\n  |        ------------- made here\n" in output
    assert output.endswith(" ::: gone.py:1:1\n  = or here\n")


def test_a_notebooks_cells_are_counted_as_people_do() -> None:
    notebook = b'{"cells": [{"source": "a"}, {"source": ["import torch\\n", "x.to(d)"]}]}'
    found = replace(MIXED, cell=1, range=span(2, 1, 2, 8), related=(), fix=None)
    output = shown(found, code=notebook)
    assert "--> src/net.py:cell 2:2:1\n" in output
    assert "2 | x.to(d)\n  | ^^^^^^^" in output


def test_the_encoding_of_the_file_is_followed() -> None:
    code = "# coding: latin-1\nx = 'é'; y\n".encode("latin-1")
    found = replace(MIXED, range=span(2, 10, 2, 11), related=(), fix=None)
    assert "2 | x = 'é'; y\n  |          ^" in shown(found, code=code)


def test_colour_changes_nothing_but_colour() -> None:
    import re

    run = run_of(MIXED, DROPPED)
    coloured = render(run, "full", color=True)
    assert "\x1b[1;31merror[DEV102 mixed-devices]\x1b[0m" in coloured
    assert re.sub(r"\x1b\[[\d;]*m", "", coloured) == render(run, "full")
