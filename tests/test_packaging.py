"""What an installed torchlint consists of: every folder of the program, its data files, and nothing else."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

TOP = Path(__file__).parents[1]

pytestmark = pytest.mark.skipif(not (TOP / "pyproject.toml").exists(), reason="not run from a checkout")


@pytest.fixture(scope="module")
def project() -> dict[str, Any]:
    return tomllib.loads((TOP / "pyproject.toml").read_text(encoding="utf-8"))


def test_every_package_of_the_program_is_installed(project: dict[str, Any]) -> None:
    folders = {file.parent.relative_to(TOP) for file in (TOP / "torchlint").rglob("*.py")}
    packages = {".".join(folder.parts) for folder in folders} | {"torchlint.rules"}
    assert set(project["tool"]["setuptools"]["packages"]) == packages


def test_every_data_file_of_the_program_is_installed(project: dict[str, Any]) -> None:
    patterns = project["tool"]["setuptools"]["package-data"]
    listed = {f for package, globs in patterns.items() for g in globs for f in TOP.joinpath(*package.split(".")).glob(g)}
    here = (f for f in (TOP / "torchlint").rglob("*") if f.is_file() and "__pycache__" not in f.parts)
    assert {f for f in here if f.suffix not in (".py", ".pyc")} == listed


def test_the_core_needs_no_torch(project: dict[str, Any]) -> None:
    names = {re.split(r"[^\w-]", requirement)[0] for requirement in project["project"]["dependencies"]}
    assert names == {"libcst", "click", "tomli"}


def test_every_python_of_the_classifiers_is_allowed(project: dict[str, Any]) -> None:
    classifiers = project["project"]["classifiers"]
    versions = [c.rsplit(" ", 1)[1] for c in classifiers if re.search(r":: 3\.\d+$", c)]
    assert versions == ["3.10", "3.11", "3.12", "3.13", "3.14"]
    assert project["project"]["requires-python"] == ">=3.10"


def test_a_source_distribution_holds_what_the_tests_need(project: dict[str, Any]) -> None:
    told = (TOP / "MANIFEST.in").read_text(encoding="utf-8").split()
    tops = {file.relative_to(TOP).parts[0] for file in tracked()} - {".gitignore", "MANIFEST.in"}
    of_itself = {"torchlint", "rules", "pyproject.toml", "README.md", "LICENSE"}
    assert tops <= of_itself | set(told)


def tracked() -> list[Path]:
    """The files of the checkout that git knows."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=TOP, capture_output=True, check=False)
    if listed.returncode != 0:
        pytest.skip("not run from a checkout")
    return [TOP / name for name in listed.stdout.decode().split("\0") if name]
