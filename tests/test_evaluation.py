"""What counts as reported, hit and cleared in the evaluation, and how findings are drawn."""

from __future__ import annotations

from typing import Any

import pytest

from tools.evaluation.labels import judged
from tools.evaluation.pairs import judge
from tools.evaluation.sample import draw

BEFORE = "a\nb\nbuggy\nc\nd\ne\nf\n"
AFTER = "a\nb\nnew\nmended\nc\nd\ne\nf\n"
PAIR = {"lines": "3", "fixed_lines": "4"}


def finding(
    code: str, path: str, first: int, last: int, cell: int | None = None, also: int = 0
) -> dict[str, Any]:
    related = [{"role": "also", **place(path, also, also)}] if also else []
    return {"code": code, **place(path, first, last), "cell": cell, "related": related}


def place(path: str, first: int, last: int) -> dict[str, Any]:
    return {"path": path, "range": {"start": {"line": first}, "end": {"line": last}}}


@pytest.mark.parametrize(
    "code, path, first, last, cell, also, reported",
    [
        ("DEV301", "m.py", 7, 7, None, 0, True),
        ("DEV303", "m.py", 5, 9, None, 0, True),
        ("DEV301", "m.py", 1, 1, None, 7, True),
        ("DEV301", "m.py", 8, 8, None, 0, False),
        ("DEV101", "m.py", 7, 7, None, 0, False),
        ("DEV301", "other.py", 7, 7, None, 0, False),
        ("DEV301", "n.ipynb", 7, 7, 2, 0, False),
    ],
)
def test_a_labelled_line_is_reported_by_a_finding_of_its_kind_that_covers_it(
    code: str, path: str, first: int, last: int, cell: int | None, also: int, reported: bool
) -> None:
    row = {"kind": "C", "path": "m.py", "line": "7"}
    assert list(judged([row], [finding(code, path, first, last, cell, also)])) == [(row, reported)]


def test_a_labelled_line_of_a_notebook_counts_inside_its_cell() -> None:
    row = {"kind": "A", "path": "n.ipynb#c2", "line": "7"}
    assert list(judged([row], [finding("DEV101", "n.ipynb", 7, 7, 2)])) == [(row, True)]


@pytest.mark.parametrize(
    "before, after, hit, cleared",
    [
        ([(3, "DEV102")], [], True, True),
        ([(4, "DEV102")], [], True, True),
        ([(5, "DEV102")], [], False, False),
        ([(3, "DEV102")], [(4, "DEV102")], True, False),
        ([(3, "DEV102")], [(4, "DEV301")], True, True),
        ([(3, "DEV102")], [(8, "DEV102")], True, True),
        ([], [(4, "DEV102")], False, False),
    ],
)
def test_a_pair_is_hit_near_the_line_and_cleared_when_the_code_is_gone_after_the_fix(
    before: list[tuple[int, str]], after: list[tuple[int, str]], hit: bool, cleared: bool
) -> None:
    result = judge(PAIR, BEFORE, AFTER, before, after)
    assert (result.hit, result.cleared) == (hit, cleared)


def test_a_buggy_line_that_the_fix_left_alone_must_be_clean_afterwards() -> None:
    fixed_elsewhere = {"lines": "3", "fixed_lines": "1"}
    after = "mended\na\nb\nbuggy\nc\nd\ne\nf\n"
    assert not judge(fixed_elsewhere, BEFORE, after, [(3, "DEV102")], [(4, "DEV102")]).cleared


def test_chance_is_the_share_of_lines_near_a_finding() -> None:
    assert judge(PAIR, BEFORE, AFTER, [(1, "DEV301")], []).chance == pytest.approx(2 / 8)
    assert judge(PAIR, BEFORE, AFTER, [], []).chance == 0


def test_a_draw_goes_round_codes_and_repositories_and_repeats_with_its_seed() -> None:
    found = {
        "a+large": [finding("DEV301", "m.py", n, n) for n in range(1, 50)],
        "b+small": [finding("DEV301", "m.py", 1, 1), finding("DEV102", "m.py", 2, 2)],
    }
    drawn = draw(found, 4, seed=3)
    assert [name for name, f in drawn if f["code"] == "DEV102"] == ["b+small"]
    assert {name for name, f in drawn if f["code"] == "DEV301"} == {"a+large", "b+small"}
    assert draw(found, 4, seed=3) == drawn
    assert draw(found, 4, seed=4) != drawn
