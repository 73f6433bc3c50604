"""The example project: the planted faults are found, nothing else is, and fixing them leaves a project that works."""

from __future__ import annotations

import ast
import json
import re
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from torchlint.cli import command

EXAMPLES = Path(__file__).parents[1] / "examples"

#: The planted faults: file, code, and what is accused.
PLANTED = [
    ("digits/model.py", "DEV201", "torch.linspace(0.0, 1.0, strokes.size(1))"),
    ("digits/train.py", "DEV501", '"cuda"'),
    ("digits/train.py", "DEV101", "weights.to(device)"),
    ("digits/train.py", "DEV202", "torch.randn(strokes.shape)"),
    ("digits/train.py", "DEV401", "torch.autocast(device.type, dtype=torch.float16)"),
    ("digits/train.py", "DEV301", "loss.item()"),
    ("digits/train.py", "DEV302", "logits.argmax(-1).cpu()"),
]
#: What fixes can't do for the reader: to choose where a number is read, and where gradients are scaled.
LEFT = {"DEV302", "DEV401"}


@pytest.fixture
def example(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the example, in a folder of its own, which is the current one."""
    shutil.copytree(EXAMPLES, tmp_path / "examples", ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.chdir(tmp_path / "examples")
    return tmp_path / "examples"


def torchlint(*arguments: str) -> Result:
    return CliRunner().invoke(command, ["--isolated", "--no-cache", *arguments, "."])


def findings(*arguments: str) -> list[dict[str, Any]]:
    result = torchlint("--output-format", "json", *arguments)
    report = json.loads(result.stdout)
    assert report["errors"] == []
    found: list[dict[str, Any]] = report["findings"]
    return found


def accused(folder: Path, finding: dict[str, Any]) -> str:
    """The code that a finding points at."""
    start, end = finding["range"]["start"], finding["range"]["end"]
    assert start["line"] == end["line"]
    line = (folder / finding["path"]).read_text().split("\n")[start["line"] - 1]
    return line[start["column"] - 1 : end["column"] - 1]


def test_the_planted_faults_are_found_and_nothing_else(example: Path) -> None:
    found = [(f["path"], f["code"], accused(example, f)) for f in findings()]
    assert sorted(found) == sorted(PLANTED)


def test_no_rule_that_is_off_or_less_sure_finds_more_than_what_is_planted(example: Path) -> None:
    assert len(findings("--select", "ALL", "--confidence", "possible")) == len(PLANTED)


def test_the_examples_page_lists_the_planted_faults() -> None:
    rows = re.findall(r"^\| `(.+?)` \|.*\| (DEV\d+) \|$", (EXAMPLES / "README.md").read_text(), re.MULTILINE)
    assert sorted(rows) == sorted((path, code) for path, code, _ in PLANTED)


def test_a_diff_shows_the_fixes_and_writes_nothing(example: Path) -> None:
    before = {file: file.read_bytes() for file in example.rglob("*.py")}
    diff = torchlint("--diff", "--unsafe-fixes").stdout
    assert "+        order = torch.linspace(0.0, 1.0, strokes.size(1), device=strokes.device)" in diff
    assert "+            noise = torch.randn(strokes.shape, device=device)" in diff
    assert before == {file: file.read_bytes() for file in example.rglob("*.py")}


def test_fix_applies_the_safe_fix_alone(example: Path) -> None:
    train = (example / "digits/train.py").read_text()
    torchlint("--fix")
    assert "device=strokes.device" in (example / "digits/model.py").read_text()
    assert (example / "digits/train.py").read_text() == train
    assert Counter(f["code"] for f in findings()) == Counter(c for _, c, _ in PLANTED if c != "DEV201")


def test_all_fixes_leave_what_only_the_reader_can_decide(example: Path) -> None:
    torchlint("--fix", "--unsafe-fixes")
    for file in example.rglob("*.py"):
        ast.parse(file.read_text())
    assert {f["code"] for f in findings()} == LEFT


def test_a_second_fix_changes_nothing(example: Path) -> None:
    torchlint("--fix", "--unsafe-fixes")
    once = {file: file.read_bytes() for file in example.rglob("*.py")}
    torchlint("--fix", "--unsafe-fixes")
    assert once == {file: file.read_bytes() for file in example.rglob("*.py")}
