"""Which files a run checks."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from torchlint.files import DEFAULT_EXCLUDES, Excludes, MissingPath, find_files


def make(root: Path, *paths: str) -> None:
    for path in paths:
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).touch()


def found(root: Path, *paths: str, exclude: tuple[str, ...] = (), **options: object) -> list[str]:
    groups = [(str(root), DEFAULT_EXCLUDES), (str(root), exclude)]
    sources = find_files(paths or (".",), Excludes(groups), cwd=str(root), root=str(root), **options)  # type: ignore[arg-type]
    return [source.path for source in sources]


def test_a_folder_gives_its_python_files_and_notebooks_sorted(tmp_path: Path) -> None:
    make(tmp_path, "b.py", "a/z.pyi", "a/n.ipynb", "a/notes.txt", "setup.cfg")
    assert found(tmp_path) == ["a/n.ipynb", "a/z.pyi", "b.py"]


def test_folders_of_tools_and_other_peoples_code_are_left_out(tmp_path: Path) -> None:
    make(tmp_path, "a.py", *(f"x/{name}/b.py" for name in DEFAULT_EXCLUDES))
    assert found(tmp_path) == ["a.py"]


def test_a_virtual_environment_is_left_out_whatever_its_name(tmp_path: Path) -> None:
    make(tmp_path, "a.py", "my-env/pyvenv.cfg", "my-env/lib/b.py")
    assert found(tmp_path) == ["a.py"]


def test_a_path_that_is_named_is_checked_although_excluded(tmp_path: Path) -> None:
    make(tmp_path, "build/a.py", "build/build/b.py", "skip/c.py", ".gitignore")
    (tmp_path / ".gitignore").write_text("*.py\n")
    assert found(tmp_path, "build/a.py") == ["build/a.py"]
    (tmp_path / ".gitignore").write_text("build/\n")
    assert found(tmp_path, "build", "skip", exclude=("skip/",)) == ["build/a.py", "skip/c.py"]


def test_force_exclude_leaves_out_named_paths_too(tmp_path: Path) -> None:
    make(tmp_path, "build/a.py", "src/gen/b.py", "src/c.py")
    named = ("build/a.py", "src/gen/b.py", "src/c.py")
    assert found(tmp_path, *named, exclude=("/src/gen",), force_exclude=True) == ["src/c.py"]
    assert found(tmp_path, "build", force_exclude=True) == []


def test_force_exclude_does_not_mind_where_the_project_itself_lies(tmp_path: Path) -> None:
    project = tmp_path / "build" / "venv"
    make(project, "a.py")
    assert found(project, "a.py", ".", force_exclude=True) == ["a.py"]


def test_a_named_file_needs_no_suffix(tmp_path: Path) -> None:
    make(tmp_path, "train", "notes.txt")
    assert found(tmp_path, "train") == ["train"]
    assert found(tmp_path) == []


def test_exclude_patterns_are_those_of_gitignore(tmp_path: Path) -> None:
    make(tmp_path, "a/x.py", "a/gen_1.py", "b/gen_2.py", "b/keep_gen_3.py", "docs/conf.py", "a/docs/d.py")
    assert found(tmp_path, exclude=("gen_*.py", "/docs")) == ["a/docs/d.py", "a/x.py", "b/keep_gen_3.py"]
    assert found(tmp_path, exclude=("*.py", "!x.py")) == ["a/x.py"]


def test_a_later_exclude_may_take_back_a_default_one(tmp_path: Path) -> None:
    make(tmp_path, "build/a.py", "dist/b.py")
    assert found(tmp_path, exclude=("!build",)) == ["build/a.py"]


def test_gitignore_files_hold_below_their_folder(tmp_path: Path) -> None:
    make(tmp_path, ".git/HEAD", "a.py", "gen.py", "sub/gen.py", "sub/own.py", "sub/x/own.py", "own.py")
    (tmp_path / ".gitignore").write_text("gen.py\n")
    (tmp_path / "sub" / ".gitignore").write_text("!gen.py\n/own.py\n")
    expected = ["a.py", "own.py", "sub/gen.py", "sub/x/own.py"]
    assert found(tmp_path) == expected
    assert found(tmp_path, "sub") == ["sub/gen.py", "sub/x/own.py"]


def test_gitignore_above_the_repository_does_not_count(tmp_path: Path) -> None:
    make(tmp_path, "repo/.git/HEAD", "repo/a.py", "repo/sub/.git", "repo/sub/b.py", "repo/c.py")
    (tmp_path / ".gitignore").write_text("a.py\n")
    (tmp_path / "repo" / ".gitignore").write_text("b.py\nc.py\n")
    assert found(tmp_path / "repo") == ["a.py", "sub/b.py"]


def test_what_git_is_told_to_exclude_locally_counts(tmp_path: Path) -> None:
    make(tmp_path, ".git/info/exclude", "a.py", "scratch.py")
    (tmp_path / ".git" / "info" / "exclude").write_text("scratch.py\n")
    assert found(tmp_path) == ["a.py"]


def test_git_lists_the_same_files(tmp_path: Path) -> None:
    make(tmp_path, "a.py", "b/a.py", "b/c/d.py", "b/c/e.py", "f/g.py", "f/keep/h.py", "f/keep/i/j.py")
    (tmp_path / ".gitignore").write_text("/a.py\nf/*\n!f/keep/\ne.py\n")
    (tmp_path / "b" / ".gitignore").write_text("!e.py\nc/d.py\n")
    (tmp_path / "f" / "keep" / ".gitignore").write_text("i\n")
    try:
        subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    except OSError:
        pytest.skip("git is not installed")
    listed = subprocess.run(
        ["git", "ls-files", "--others", "--exclude-standard", "*.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert found(tmp_path) == sorted(listed.stdout.split())


def test_links_to_folders_are_not_followed_and_links_to_files_are(tmp_path: Path) -> None:
    make(tmp_path, "real/a.py", "elsewhere/b.py", "top/c.py")
    (tmp_path / "top" / "folder").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "top" / "file.py").symlink_to(tmp_path / "elsewhere" / "b.py")
    assert found(tmp_path, "top") == ["top/c.py", "top/file.py"]
    (tmp_path / "top" / "round").symlink_to(tmp_path)
    assert found(tmp_path, "top") == ["top/c.py", "top/file.py"]


def test_each_file_is_checked_once_however_it_is_reached(tmp_path: Path) -> None:
    make(tmp_path, "src/a.py")
    (tmp_path / "link").symlink_to(tmp_path / "src")
    (tmp_path / "src" / "b.py").symlink_to(tmp_path / "src" / "a.py")
    assert len(found(tmp_path, "src/a.py", "src", "./src/../src/a.py", "link", "link/a.py")) == 1


def test_paths_are_shown_from_the_current_folder_or_whole(tmp_path: Path) -> None:
    make(tmp_path, "here/a.py", "there/b.py")
    shown = found(tmp_path / "here", "a.py", "../there")
    assert shown == sorted([(tmp_path / "there" / "b.py").as_posix(), "a.py"])


def test_a_missing_path_is_named(tmp_path: Path) -> None:
    with pytest.raises(MissingPath, match=r"nowhere\.py: no such file"):
        found(tmp_path, "nowhere.py")


def test_a_dangling_link_is_left_to_the_reader_if_named(tmp_path: Path) -> None:
    (tmp_path / "gone.py").symlink_to(tmp_path / "nothing.py")
    assert found(tmp_path) == []
    assert found(tmp_path, "gone.py") == ["gone.py"]


def test_a_folder_that_may_not_be_listed_is_left_to_the_reader_to_tell_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make(tmp_path, "a.py", "locked/b.py")
    real = os.scandir

    def scandir(folder: str) -> object:
        if folder.endswith("locked"):
            raise PermissionError(13, "Permission denied", folder)
        return real(folder)

    monkeypatch.setattr(os, "scandir", scandir)
    assert found(tmp_path) == ["a.py", "locked"]
    assert found(tmp_path, exclude=("locked/",)) == ["a.py"]
