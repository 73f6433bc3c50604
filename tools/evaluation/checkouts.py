"""Bring the repositories that the evaluation names, at their commits, from GitHub.

    python -m tools.evaluation.checkouts labels FOLDER
    python -m tools.evaluation.checkouts pairs FOLDER

`labels` also takes the repositories of the random draw. Needs git and the network. Each goes to FOLDER/OWNER+NAME;
of `pairs`, the git directory with the commits before and after each fix is all that is needed.
"""

from __future__ import annotations

import argparse
import csv
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

FACTS = Path(__file__).parents[2] / "docs" / "evaluation"


def main() -> None:
    """Fetch what is not there yet; name what can't be had."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=["labels", "pairs"])
    parser.add_argument("folder", type=Path)
    options = parser.parse_args()
    wanted: dict[str, list[str]] = defaultdict(list)
    for repository, commit in commits(options.what):
        if commit not in wanted[repository]:
            wanted[repository].append(commit)
    lost = [
        r for r, some in sorted(wanted.items()) if not bring(options.folder, r, some, options.what == "labels")
    ]
    if lost:
        sys.exit("could not be had: " + ", ".join(lost))


def commits(what: str) -> Iterator[tuple[str, str]]:
    """Each repository and commit that a table names."""
    for table in ("labels.tsv", "read.tsv") if what == "labels" else ("pairs.tsv",):
        with (FACTS / table).open(encoding="utf-8", newline="") as file:
            for row in csv.DictReader(file, delimiter="\t"):
                for column in ("commit",) if what == "labels" else ("before", "after"):
                    yield row["repository"], row[column]


def bring(folder: Path, repository: str, wanted: list[str], check_out: bool) -> bool:
    """Whether the commits of a repository are in the folder now."""
    place = folder / repository.replace("/", "+")
    if not (place / ".git").is_dir():
        place.mkdir(parents=True, exist_ok=True)
        if not _git(place, "init", "--quiet"):
            return False
        _git(place, "remote", "add", "origin", f"https://github.com/{repository}.git")
    for commit in wanted:
        if not _git(place, "cat-file", "-e", f"{commit}^{{commit}}") and not _git(
            place, "fetch", "--quiet", "--depth", "1", "origin", commit
        ):
            return False
    return not check_out or _git(place, "checkout", "--quiet", wanted[0])


def _git(place: Path, *arguments: str) -> bool:
    return subprocess.run(["git", "-C", str(place), *arguments], capture_output=True, check=False).returncode == 0


if __name__ == "__main__":
    main()
