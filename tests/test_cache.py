"""Results kept between runs: found again when nothing has changed, and never in the way."""

from __future__ import annotations

import json
import os
import shutil
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from torchlint import cache as cache_module
from torchlint.cache import Cache, from_json, key, program, to_json
from torchlint.findings import (
    Confidence,
    Edit,
    FileError,
    FileResult,
    Finding,
    Fix,
    Position,
    Range,
    Related,
    Safety,
    Severity,
    Verdict,
)


def entries(folder: Path) -> list[Path]:
    return [file for file in folder.glob("??/*") if file.is_file()]


def test_what_is_put_is_got(tmp_path: Path) -> None:
    cache = Cache(str(tmp_path / "cache"))
    assert cache.get(key("a")) is None
    cache.put(key("a"), {"x": [1, "é"]})
    assert cache.get(key("a")) == {"x": [1, "é"]}
    assert Cache(str(tmp_path / "cache")).get(key("a")) == {"x": [1, "é"]}
    assert cache.get(key("b")) is None


def test_git_and_backups_leave_it_alone(tmp_path: Path) -> None:
    Cache(str(tmp_path / "cache")).put(key("a"), 1)
    assert "*" in (tmp_path / "cache" / ".gitignore").read_text().splitlines()
    assert (
        (tmp_path / "cache" / "CACHEDIR.TAG")
        .read_text()
        .startswith("Signature: 8a477f597d28d172789f06886806bc55")
    )


@pytest.mark.parametrize("damage", [b"", b"{}", b"\xff\n{}", b"0" * 40 + b"\n[]", b"\n\n\n"])
def test_a_damaged_entry_is_none(tmp_path: Path, damage: bytes) -> None:
    cache = Cache(str(tmp_path))
    cache.put(key("a"), [1])
    (entry,) = entries(tmp_path)
    entry.write_bytes(damage)
    assert cache.get(key("a")) is None
    cache.put(key("a"), [2])
    assert cache.get(key("a")) == [2]


def test_a_cut_entry_is_none(tmp_path: Path) -> None:
    cache = Cache(str(tmp_path))
    cache.put(key("a"), [1, 23])
    (entry,) = entries(tmp_path)
    whole = entry.read_bytes()
    for end in range(len(whole)):
        entry.write_bytes(whole[:end])
        assert cache.get(key("a")) is None


def test_a_folder_that_cannot_be_written_is_no_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    cache = Cache(str(tmp_path / "file" / "cache"))
    cache.put(key("a"), 1)
    assert cache.get(key("a")) is None
    cache.prune()


def test_what_json_cannot_say_is_not_kept(tmp_path: Path) -> None:
    cache = Cache(str(tmp_path))
    cache.put(key("a"), {"x": object()})
    assert cache.get(key("a")) is None
    cache.put(key("b"), 1)
    assert cache.get(key("b")) == 1


def test_runs_at_the_same_time_do_not_disturb_each_other(tmp_path: Path) -> None:
    value = {"x": "y" * 10_000}

    def work(number: int) -> bool:
        cache = Cache(str(tmp_path / "cache"))
        for i in range(20):
            cache.put(key(str(i)), value)
        return all(cache.get(key(str(i))) in (value, None) for i in range(20))

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(work, range(4)))
    assert Cache(str(tmp_path / "cache")).get(key("7")) == value
    assert not list((tmp_path / "cache").glob("**/*.tmp"))


def test_the_entries_used_longest_ago_go_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache_module, "_MOST_BYTES", 5000)
    monkeypatch.setattr(cache_module, "_KEPT_BYTES", 3200)
    cache = Cache(str(tmp_path))
    for i in range(6):
        cache.put(key(str(i)), "x" * 1000)
        os.utime(tmp_path / key(str(i))[:2] / key(str(i))[2:], (10**9 + i, 10**9 + i))
    cache.get(key("0"))  # used again
    cache.prune()
    assert [i for i in range(6) if cache.get(key(str(i)))] == [0, 4, 5]
    for i in range(6):
        cache.put(key(str(i)), "x" * 1000)
    cache.prune()
    assert len(entries(tmp_path)) == 6, "pruned twice on one day"


def test_a_small_cache_is_left_whole(tmp_path: Path) -> None:
    cache = Cache(str(tmp_path))
    cache.put(key("a"), 1)
    cache.prune()
    assert cache.get(key("a")) == 1


@given(st.lists(st.text(max_size=5), max_size=4), st.lists(st.text(max_size=5), max_size=4))
def test_keys_differ_where_parts_differ(one: list[str], other: list[str]) -> None:
    assert (key(*one) == key(*other)) == (one == other)


def test_rules_of_the_user_count_by_content(tmp_path: Path) -> None:
    rules = tmp_path / "rules"
    rules.mkdir()
    (rules / "a.py").write_text("1")
    before = program([str(rules)])
    assert program([str(rules)]) == before
    (rules / "a.py").write_text("2")
    assert program([str(rules)]) != before
    (rules / "a.py").write_text("1")
    assert program([str(rules)]) == before
    (rules / "b.py").write_text("")
    assert program([str(rules)]) != before


def test_a_change_of_torchlint_itself_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    copy = tmp_path / "torchlint"
    shutil.copytree(Path(cache_module.__file__).parent, copy, ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(cache_module, "__file__", str(copy / "cache.py"))
    before = program(())
    assert program(()) == before
    os.utime(copy / "findings.py", (1, 1))
    assert program(()) != before


_PLACE = Range(Position(1, 2), Position(3, 4))
_FINDING = Finding(
    "DEV101",
    "discarded-move",
    "é",
    Severity.INFO,
    Confidence.POSSIBLE,
    "a.py",
    _PLACE,
    (Related("origin", "here", "b.py", _PLACE, 2),),
    Fix("do", Safety.UNSAFE, (Edit(1, 2, "x", 3), Edit(4, 4, "y"))),
    Verdict("confirmed", "simulated cuda:0", "so", ("a", "b")),
    1,
    "f00d",
)


@pytest.mark.parametrize(
    "result",
    [
        FileResult("a.py"),
        FileResult(
            "a.py", (_FINDING, replace(_FINDING, fix=None, verdict=None, cell=None, related=())), suppressed=3
        ),
        FileResult("a.py", errors=(FileError("a.py", "bad", True),), extra={"facts": {"f00d": {"x": [1]}}}),
    ],
)
def test_results_survive_json(result: FileResult) -> None:
    assert from_json(json.loads(json.dumps(to_json(result)))) == result


@given(st.dictionaries(st.text(max_size=3), st.none() | st.integers() | st.lists(st.integers(), max_size=2)))
def test_other_json_is_refused(values: dict[str, object]) -> None:
    with pytest.raises((KeyError, TypeError, ValueError)):
        from_json({**to_json(FileResult("a.py", (_FINDING,))), "findings": [values]})
