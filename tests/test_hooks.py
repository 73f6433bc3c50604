"""The hooks for pre-commit, run by pre-commit itself in a scratch repository."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
MANIFEST = ROOT / ".pre-commit-hooks.yaml"
HOUSE = Path(__file__).with_name("house_rules.py")

pytestmark = pytest.mark.skipif(
    shutil.which("git") is None or importlib.util.find_spec("pre_commit") is None,
    reason="git or pre-commit is not installed",
)


def hooks() -> list[dict[str, Any]]:
    import yaml

    loaded: list[dict[str, Any]] = yaml.safe_load(MANIFEST.read_text())
    return loaded


class Repository:
    """A git repository with one of the hooks in its configuration, its command being the one under test."""

    def __init__(self, folder: Path, hook: str) -> None:
        self.folder = folder
        self.git("init", "-q")
        (hook_settings,) = (h for h in hooks() if h["id"] == hook)
        arguments = hook_settings["entry"].removeprefix("torchlint ")
        # The folder of the checkout may have spaces in its name; pre-commit splits `entry` as a shell would.
        entry = f'"{sys.executable}" -m torchlint {arguments}'
        local = {**hook_settings, "language": "system", "entry": entry}
        # JSON is YAML.
        self.write(".pre-commit-config.yaml", json.dumps({"repos": [{"repo": "local", "hooks": [local]}]}))

    def write(self, path: str, text: str) -> None:
        (self.folder / path).parent.mkdir(parents=True, exist_ok=True)
        (self.folder / path).write_text(text)
        self.git("add", path)

    def read(self, path: str) -> str:
        return (self.folder / path).read_text()

    def git(self, *arguments: str) -> None:
        subprocess.run(["git", *arguments], cwd=self.folder, check=True, env=self.environ)

    def run(self) -> tuple[int, str]:
        """The exit code and the output of `pre-commit run` on what is staged."""
        process = subprocess.run(
            [sys.executable, "-m", "pre_commit", "run", "--color", "never"],
            cwd=self.folder,
            env=self.environ,
            capture_output=True,
            text=True,
            timeout=120,
        )
        return process.returncode, process.stdout + process.stderr

    @property
    def environ(self) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
        return {**kept, "PRE_COMMIT_HOME": str(self.folder / ".home"), "GIT_CONFIG_GLOBAL": os.devnull}


@pytest.fixture
def checked(tmp_path: Path) -> Repository:
    return Repository(tmp_path, "torchlint")


@pytest.fixture
def fixed(tmp_path: Path) -> Repository:
    repository = Repository(tmp_path, "torchlint-fix")
    repository.write(
        "torchlint.toml", 'rule-paths = ["house_rules.py"]\nselect = ["HSE"]\nexclude = ["house_rules.py"]'
    )
    repository.write("house_rules.py", HOUSE.read_text())
    return repository


DROPPED = "import torch\n\n\ndef f(device):\n    x = torch.zeros(3)\n    x.to(device)\n    return x\n"


def test_the_manifest_is_valid() -> None:
    subprocess.run([sys.executable, "-m", "pre_commit", "validate-manifest", MANIFEST], check=True)


def test_both_hooks_check_python_and_notebooks_in_one_process() -> None:
    assert [hook["id"] for hook in hooks()] == ["torchlint", "torchlint-fix"]
    for hook in hooks():
        assert hook["language"] == "python"
        assert hook["types_or"] == ["python", "pyi", "jupyter"]
        assert hook["require_serial"] is True
        assert "--force-exclude" in hook["entry"].split()


def test_a_commit_without_torch_passes(checked: Repository) -> None:
    checked.write("a.py", "import os\n")
    code, output = checked.run()
    assert (code, "Passed" in output) == (0, True), output


def test_a_commit_with_nothing_to_check_skips_the_hook(checked: Repository) -> None:
    checked.write("notes.md", "# torch\n")
    code, output = checked.run()
    assert (code, "Skipped" in output) == (0, True), output


def test_a_commit_with_a_finding_fails_and_shows_it(checked: Repository) -> None:
    checked.write("a.py", DROPPED)
    checked.write("b.py", "import torch\n")
    code, output = checked.run()
    assert code == 1
    assert "error[DEV101 discarded-move]" in output
    assert "--> a.py:6:5" in output


def test_excluded_files_are_left_out_although_they_are_named(checked: Repository) -> None:
    checked.write("pyproject.toml", '[tool.torchlint]\nextend-exclude = ["old"]\n')
    checked.write("old/a.py", DROPPED)
    checked.write("build/a.py", DROPPED)
    code, output = checked.run()
    assert (code, "Passed" in output) == (0, True), output


def test_the_fix_hook_fails_once_and_leaves_the_file_fixed(fixed: Repository) -> None:
    fixed.write("a.py", "banned = 1\n")
    code, output = fixed.run()
    assert code == 1
    assert "files were modified by this hook" in output
    assert fixed.read("a.py") == "allowed = 1\n"
    fixed.git("add", "a.py")
    code, output = fixed.run()
    assert (code, "Passed" in output) == (0, True), output


def test_the_fix_hook_fails_for_what_it_cannot_fix(fixed: Repository) -> None:
    fixed.write("a.py", "risky = 1\n")
    for _ in range(2):
        code, output = fixed.run()
        assert code == 1
        assert "error[HSE002 risky-word]" in output
    assert fixed.read("a.py") == "risky = 1\n"
