"""Check real files before and after the commit that fixed a placement bug in them.

    python -m tools.evaluation.pairs [--kinds ABCEF] [--shown-by local,class] [--missed] FOLDER

FOLDER holds git directories, one a folder named OWNER+NAME, with the commits that docs/evaluation/pairs.tsv names; what
is missing is named and left out. *Hit*: a finding stands within one line of a line that the fix mended. *Cleared*: no
finding with a code that hit is left there after the fix. *Chance*: the share that as many findings on random lines of
the same file would hit. A linter that reports much hits much; only what the fix clears was understood.
"""

from __future__ import annotations

import argparse
import csv
import difflib
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import NamedTuple

from tools.evaluation.reports import Finding, findings_in, places_of

PAIRS = Path(__file__).parents[2] / "docs" / "evaluation" / "pairs.tsv"
NEAR = 1

Row = dict[str, str]
#: The lines of one file on which findings start, each with its code.
Found = list[tuple[int, str]]


class Judged(NamedTuple):
    """One pair: whether it was hit, whether the fix cleared that, and the probability to hit it by chance."""

    hit: bool
    cleared: bool
    chance: float


def main() -> None:
    """Print a table by kind and one by what shows the bug."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--kinds", default="ABCDEFGHIJKLMNOP")
    parser.add_argument("--shown-by", default="local,class,module,project,no")
    parser.add_argument("--missed", action="store_true", help="name the pairs that are not hit")
    parser.add_argument("--arguments", default="", help="more arguments for torchlint")
    options = parser.parse_args()
    with PAIRS.open(encoding="utf-8", newline="") as file:
        rows = [
            row
            for row in csv.DictReader(file, delimiter="\t")
            if row["kind"] in options.kinds and row["shown_by"] in options.shown_by.split(",")
        ]
    by: dict[str, dict[str, list[Judged]]] = {"kind": defaultdict(list), "shown by": defaultdict(list)}
    with tempfile.TemporaryDirectory() as temporary:
        for row, judged in judge_all(rows, options.folder, Path(temporary), options.arguments.split()):
            by["kind"][row["kind"]].append(judged)
            by["shown by"][row["shown_by"]].append(judged)
            if options.missed and not judged.hit:
                print(f"missed {row['kind']} {row['repository']} {row['before'][:10]} {row['path']}:{row['lines']}")
    for column, groups in by.items():
        print(f"\n{column:<12}{'pairs':>6}{'hit':>5}{'recall':>8}{'chance':>8}{'cleared':>9}")
        everything = [j for group in groups.values() for j in group]
        for name, group in [*sorted(groups.items()), ("all", everything)]:
            print(f"{name:<12}{table_row(group)}")


def judge_all(
    rows: Iterable[Row], folder: Path, temporary: Path, arguments: list[str]
) -> Iterable[tuple[Row, Judged]]:
    """Lay out both sides, each pair's file in a folder of its own, check them, and judge each pair."""
    laid: list[tuple[str, Row, str, str]] = []
    for number, row in enumerate(rows):
        sides = [_show(folder, row["repository"], row[side], row["path"]) for side in ("before", "after")]
        if None in sides:
            print(f"missing: {row['repository']} {row['before']} {row['path']}", file=sys.stderr)
            continue
        for side, data in zip(("before", "after"), sides):
            file = temporary / side / str(number) / row["path"]
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(data or b"")
        before, after = ((data or b"").decode("utf-8", "replace") for data in sides)
        laid.append((f"{number}/{row['path']}", row, before, after))
    found = {side: _by_path(findings_in(temporary / side, arguments)) for side in ("before", "after")}
    for path, row, before, after in laid:
        yield row, judge(row, before, after, found["before"][path], found["after"][path])


def judge(row: Row, before: str, after: str, found_before: Found, found_after: Found) -> Judged:
    """One pair, by the lines that its findings start on."""
    lines = [int(n) for n in row["lines"].split(",")]
    codes = {code for line, code in found_before if _near(line, lines)}
    kept = _kept_lines(before, after)
    mended = {int(n) for n in row["fixed_lines"].split(",") if n} | {kept[n] for n in lines if n in kept}
    left = {code for line, code in found_after if _near(line, mended)} & codes
    length = before.count("\n") + 1
    covered = {n for line, _ in found_before for n in range(line - NEAR, line + NEAR + 1) if 1 <= n <= length}
    groups = 1 + sum(b - a > 2 * NEAR for a, b in zip(sorted(lines), sorted(lines)[1:]))
    chance = 1 - (1 - len(covered) / length) ** groups
    return Judged(bool(codes), bool(codes) and not left, chance)


def table_row(group: Collection[Judged]) -> str:
    """Pairs, hits, recall, chance and the share cleared of a group."""
    hit, cleared = sum(j.hit for j in group), sum(j.cleared for j in group)
    chance = sum(j.chance for j in group) / max(1, len(group))
    share = f"{cleared / hit:.1%}" if hit else "-"
    return f"{len(group):>6}{hit:>5}{hit / max(1, len(group)):>8.1%}{chance:>8.1%}{share:>9}"


def _near(line: int, lines: Iterable[int]) -> bool:
    return any(abs(line - n) <= NEAR for n in lines)


def _kept_lines(before: str, after: str) -> dict[int, int]:
    """Where each line that the commit left alone stands afterwards."""
    matcher = difflib.SequenceMatcher(None, before.split("\n"), after.split("\n"), autojunk=False)
    return {b + k + 1: a + k + 1 for b, a, size in matcher.get_matching_blocks() for k in range(size)}


def _by_path(findings: Iterable[Finding]) -> dict[str, Found]:
    found: dict[str, Found] = defaultdict(list)
    for finding in findings:
        for path, line, _ in places_of(finding):
            found[path].append((line, finding["code"]))
    return found


def _show(folder: Path, repository: str, commit: str, path: str) -> bytes | None:
    place = folder / repository.replace("/", "+")
    command = ["git", "-C", str(place), "show", f"{commit}:{path}"]
    ran = subprocess.run(command, capture_output=True, check=False) if place.is_dir() else None
    return ran.stdout if ran is not None and ran.returncode == 0 else None


if __name__ == "__main__":
    main()
