"""Many files: skipped, remembered, shared out to processes, and none of them spoils the others."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from torchlint.files import Source
from torchlint.run import Mode, Outcome, Plan, check_files
from torchlint.settings import Selection, Settings

HOUSE = Path(__file__).with_name("house_rules.py")


@pytest.fixture
def house(tmp_path: Path) -> Settings:
    shutil.copy(HOUSE, tmp_path / "house_rules.py")
    return Settings(
        root=str(tmp_path),
        rule_paths=(str(tmp_path / "house_rules.py"),),
        selections=(Selection(("HSE",)),),
    )


def write(root: Path, **texts: str) -> list[Source]:
    for name, text in texts.items():
        (root / f"{name}.py").write_text(text)
    return [Source(f"{name}.py", str(root / f"{name}.py")) for name in texts]


def check(settings: Settings, sources: list[Source], **options: object) -> Outcome:
    folder = os.path.join(settings.root, "cache") if options.pop("cache", False) else None
    return check_files(sources, Plan(settings, folder), **options)  # type: ignore[arg-type]


def found(outcome: Outcome) -> list[str]:
    return [f"{f.path}:{f.range.start.line} {f.code}" for c in outcome.checked for f in c.result.findings]


@pytest.mark.parametrize("jobs", [1, 3])
def test_results_come_in_the_order_of_the_files(house: Settings, tmp_path: Path, jobs: int) -> None:
    texts = {f"f{i:02}": "x = 1\n" * (37 * i % 23) + "banned = risky\n" for i in range(24)}
    outcome = check(house, write(tmp_path, **texts), jobs=jobs)
    assert [c.result.path for c in outcome.checked] == [f"{name}.py" for name in texts]
    assert found(outcome)[:2] == ["f00.py:1 HSE001", "f00.py:1 HSE002"]
    assert outcome.processes == jobs


@pytest.mark.parametrize("jobs", [2, 4])
def test_a_process_that_dies_is_one_files_error(house: Settings, tmp_path: Path, jobs: int) -> None:
    texts = {f"f{i:02}": "banned\n" for i in range(20)}
    texts["f07"] = texts["f15"] = "die\n"
    outcome = check(house, write(tmp_path, **texts), jobs=jobs)
    errors = {e.path: e for c in outcome.checked for e in c.result.errors}
    assert set(errors) == {"f07.py", "f15.py"}
    assert all(e.internal and "the process that checked it died" in e.message for e in errors.values())
    assert len(found(outcome)) == 18


def test_processes_fix_files_too(house: Settings, tmp_path: Path) -> None:
    sources = write(tmp_path, a="banned\n", b="risky\n", c="x\n")
    outcome = check(house, sources, jobs=2, mode=Mode.FIX)
    assert [c.fixed for c in outcome.checked] == [1, 0, 0]
    assert (tmp_path / "a.py").read_text() == "allowed\n"
    assert (tmp_path / "b.py").read_text() == "risky\n"


def test_small_runs_start_no_processes(house: Settings, tmp_path: Path) -> None:
    assert check(house, write(tmp_path, a="banned\n", b="x\n")).processes == 1


def test_progress_is_told_to_the_end(house: Settings, tmp_path: Path) -> None:
    told: list[tuple[int, int]] = []
    sources = write(tmp_path, a="banned\n", b="x\n", c="y\n")
    check(house, sources, progress=lambda done, total: told.append((done, total)))
    assert told == [(1, 3), (2, 3), (3, 3)]


# ---- what is not even checked


def test_a_file_without_torch_loads_neither_rules_nor_libcst(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("import os\n")
    (tmp_path / "pyproject.toml").write_text("[tool.torchlint]\nconfidence = 'certain'\n")
    code = (
        "import sys; from torchlint.cli import main; code = main(['a.py'])\n"
        "late = {'libcst', 'torchlint.rule', 'torchlint.check', 'torchlint.findings', 'torchlint.cache',"
        " 'json', 'hashlib', 'difflib', 'multiprocessing', 'concurrent.futures', 'importlib.metadata'}\n"
        "print(code, sorted(late & set(sys.modules)))"
    )
    process = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, timeout=60
    )
    assert (process.stdout, process.stderr) == ("No problems in 1 file.\n0 []\n", "")


def test_what_is_skipped_is_counted(tmp_path: Path) -> None:
    outcome = check(Settings(root=str(tmp_path)), write(tmp_path, a="x = 1\n", b="import torch\n"))
    assert (outcome.files, outcome.skipped, len(outcome.checked)) == (2, 1, 1)


# ---- what is remembered


def test_a_file_that_has_not_changed_is_not_checked_again(house: Settings, tmp_path: Path) -> None:
    sources = write(tmp_path, a="banned\n", b="x\n")
    first = check(house, sources, cache=True)
    again = check(house, sources, cache=True)
    assert (first.cached, again.cached) == (0, 2)
    assert again.checked == first.checked
    write(tmp_path, a="risky\n")
    assert found(check(house, sources, cache=True)) == ["a.py:1 HSE002"]


def test_a_run_that_remembers_everything_loads_no_libcst(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("import torch\n")
    (tmp_path / "torchlint.toml").write_text('select = ["DEV1"]\n')
    code = "import sys; from torchlint.cli import main; main(['a.py', '-q']); print('libcst' in sys.modules)"
    told = [
        subprocess.run(
            [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, timeout=60
        ).stdout
        for _ in range(2)
    ]
    assert told == ["True\n", "False\n"]


def test_other_settings_rules_or_names_are_checked_anew(house: Settings, tmp_path: Path) -> None:
    sources = write(tmp_path, a="banned\n")
    check(house, sources, cache=True)
    fewer = Settings(root=house.root, rule_paths=house.rule_paths, selections=(Selection(("HSE002",)),))
    assert found(check(fewer, sources, cache=True)) == []
    moved = [Source("b.py", sources[0].file)]
    assert found(check(house, moved, cache=True)) == ["b.py:1 HSE001"]
    other = tmp_path / "other_rules.py"
    other.write_text(HOUSE.read_text().replace('"banned"', '"x"'))
    changed = Settings(root=house.root, rule_paths=(str(other),), selections=house.selections)
    assert found(check(changed, sources, cache=True)) == []


def test_fixes_are_applied_although_the_findings_are_remembered(house: Settings, tmp_path: Path) -> None:
    sources = write(tmp_path, a="banned\n", b="x\n", c="risky\n")
    check(house, sources, cache=True)
    fixed = check(house, sources, cache=True, mode=Mode.FIX)
    assert (tmp_path / "a.py").read_text() == "allowed\n"
    assert fixed.cached == 2
    assert [c.fixed for c in fixed.checked] == [1, 0, 0]


def test_a_change_in_an_imported_file_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    sources = write(
        tmp_path,
        a="import torch\nfrom lib import make\n\n\ndef f(device):\n    x = make()\n    x.to(device)\n",
        lib="from base import make\n",
        base="import torch\n\n\ndef make():\n    return torch.zeros(3)\n",
    )
    settings = Settings(root=str(tmp_path))
    assert found(check(settings, sources, cache=True)) == ["a.py:7 DEV101"]
    again = check(settings, sources, cache=True)
    assert (again.cached, found(again)) == (2, ["a.py:7 DEV101"])  # lib.py knows nothing of torch
    write(tmp_path, base="import torch\n\n\ndef make():\n    return torch.nn.Linear(3, 3)\n")
    assert check(settings, sources, cache=True).cached == 0


def test_errors_are_not_remembered(house: Settings, tmp_path: Path) -> None:
    sources = write(tmp_path, a="die\n", b="x\n", c="die\n")
    for _ in range(2):
        outcome = check(house, sources, cache=True, jobs=2)
        assert [len(c.result.errors) for c in outcome.checked] == [1, 0, 1]


def test_a_damaged_memory_only_costs_time(house: Settings, tmp_path: Path) -> None:
    sources = write(tmp_path, a="banned\n")
    check(house, sources, cache=True)
    for entry in (tmp_path / "cache").glob("??/*"):
        entry.write_bytes(entry.read_bytes()[:-3])
    outcome = check(house, sources, cache=True)
    assert outcome.cached == 0
    assert found(outcome) == ["a.py:1 HSE001"]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no named pipes here")
def test_a_pipe_is_read_once(house: Settings, tmp_path: Path) -> None:
    pipe = tmp_path / "pipe.py"
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_text, args=("banned\n",), daemon=True)
    writer.start()
    assert found(check(house, [Source("pipe.py", str(pipe))])) == ["pipe.py:1 HSE001"]
    writer.join(10)
