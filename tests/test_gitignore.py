"""Patterns answer as git does; git itself is asked where it is there."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from torchlint.gitignore import Patterns


def excluded(path: str, *lines: str) -> bool:
    """Whether a walk that goes down from the top would leave out the file."""
    patterns = Patterns(lines)
    parts = path.split("/")
    return any(patterns.excludes("/".join(parts[:i]), i < len(parts)) for i in range(1, len(parts) + 1))


@pytest.mark.parametrize(
    "path, lines",
    [
        ("a.py", ["a.py"]),
        ("deep/down/a.py", ["a.py"]),
        ("build/lib/a.py", ["build/"]),
        ("src/build/a.py", ["build/"]),
        ("src/gen/a.py", ["src/gen"]),
        ("a.py", ["/a.py"]),
        ("a/x/y/b.py", ["a/**/b.py"]),
        ("a/b.py", ["a/**/b.py"]),
        ("x/y/b.py", ["**/b.py"]),
        ("a/x.py", ["a/**"]),
        ("a1.py", ["a[0-9].py"]),
        ("ab.py", ["a[!0-9].py"]),
        ("a.pyc", ["*.py[cod]"]),
        ("!a.py", ["\\!a.py"]),
        ("#a.py", ["\\#a.py"]),
        ("a ", ["a\\ "]),
        ("a.py", ["a.py   "]),
        ("a.py", ["!a.py", "*.py"]),
        ("keep/a.py", ["keep/", "!a.py"]),
        ("x7", ["x[[:digit:]]"]),
    ],
)
def test_excluded(path: str, lines: list[str]) -> None:
    assert excluded(path, *lines)


@pytest.mark.parametrize(
    "path, lines",
    [
        ("b.py", ["a.py"]),
        ("build", ["build/"]),
        ("src/a.py", ["/a.py"]),
        ("x/src/gen/a.py", ["src/gen"]),
        ("a.py", ["# a.py", "", "#a.py"]),
        ("a/b.py", ["/*.py"]),
        ("a.py", ["*.py", "!a.py"]),
        ("a/x/b.py", ["a/*.py"]),
        ("a", ["a/**"]),
        ("[a", ["[a"]),
        ("a\\", ["a\\"]),
        ("x/y", ["x[/]y"]),
        ("b/a.py", ["?", "!b"]),
    ],
)
def test_not_excluded(path: str, lines: list[str]) -> None:
    assert not excluded(path, *lines)


_NAMES = ("a", "b", "ab", "a.py", "b.py", "a]b", "a-b")
_PATHS = [
    *(f"{x}/{y}/{z}" for x in ("a", "b", "ab") for y in ("a", "b", "a-b") for z in ("a.py", "b.py", "a]b")),
    *(f"{x}/{z}" for x in ("a", "b", "ab") for z in ("a.py", "b.py")),
    "a.py",
    "a]b",
    "a-b",
]
_PIECES = st.sampled_from(
    [
        "a",
        "b",
        "ab",
        ".py",
        "*",
        "**",
        "?",
        "/",
        "/**/",
        "[ab]",
        "[!a]",
        "[^b",
        "[a-b]",
        "[]]",
        "[]-b]",
        "\\",
        " ",
        "-",
    ]
)
_LINES = st.lists(
    st.builds(
        lambda mark, pieces, end: mark + "".join(pieces) + end,
        st.sampled_from(["", "", "!"]),
        st.lists(_PIECES, min_size=1, max_size=5),
        st.sampled_from(["", "", "/", " ", "\\ "]),
    ),
    min_size=1,
    max_size=4,
)


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if shutil.which("git") is None:
        pytest.skip("git is not installed")
    folder = tmp_path_factory.mktemp("repository")
    subprocess.run(["git", "init", "-q", folder], check=True)
    for path in _PATHS:
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).touch()
    return folder


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(lines=_LINES)
def test_git_agrees(repository: Path, lines: list[str]) -> None:
    (repository / ".gitignore").write_text("\n".join(lines) + "\n")
    asked = subprocess.run(
        ["git", "check-ignore", "--no-index", "-z", "--stdin"],
        cwd=repository,
        input="\0".join(_PATHS),
        capture_output=True,
        text=True,
    )
    assert {p for p in _PATHS if excluded(p, *lines)} == set(asked.stdout.split("\0")) - {""}


@given(st.lists(st.text(max_size=12), max_size=4), st.text(min_size=1, max_size=12), st.booleans())
def test_no_pattern_fails(lines: list[str], path: str, folder: bool) -> None:
    assert Patterns(lines).excludes(path, folder) in (True, False, None)
