"""Count the labelled lines of real repositories that are reported, truly and falsely.

    python -m tools.evaluation.labels FOLDER [FOLDER …]

Each FOLDER holds checkouts, one a folder named OWNER+NAME, at the commits that docs/evaluation/labels.tsv names; those
that are missing are named and left out. A line counts as reported where a finding of its kind's codes covers it.
"""

from __future__ import annotations

import argparse
import csv
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable
from pathlib import Path

from tools.evaluation.reports import Finding, findings_in, places_of

LABELS = Path(__file__).parents[2] / "docs" / "evaluation" / "labels.tsv"
#: The codes that answer for a kind of bug.
CODES = {"A": r"DEV101|DEV111", "B": r"DEV2\d\d|DEV102", "C": r"DEV3\d\d", "D": r"DEV4\d\d", "E": r"DEV5\d\d"}

Row = dict[str, str]
Count = Counter[tuple[str, str, bool]]


def main() -> None:
    """Print, kind by kind, how many lines that should be reported are, and how many that must not be."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--arguments", default="", help="more arguments for torchlint")
    options = parser.parse_args()
    labels: dict[str, list[Row]] = defaultdict(list)
    with LABELS.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file, delimiter="\t"):
            labels[row["repository"]].append(row)
    count: Count = Counter()
    for repository, rows in sorted(labels.items()):
        name = repository.replace("/", "+")
        place = next((f / name for f in options.folders if (f / name).is_dir()), None)
        if place is None:
            print(f"missing: {repository} {rows[0]['commit']}", file=sys.stderr)
            continue
        for row, reported in judged(rows, findings_in(place, options.arguments.split())):
            count[row["kind"], row["wanted"], reported] += 1
            if (row["wanted"], reported) in (("report", False), ("silent", True)):
                what = "missed" if row["wanted"] == "report" else "false"
                print(f"{what} {row['kind']} {repository} {row['path']}:{row['line']} {row['reason']}")
    for kind in CODES:
        print(f"{kind}  {summary(kind, count)}")


def judged(rows: Iterable[Row], findings: Iterable[Finding]) -> Iterable[tuple[Row, bool]]:
    """Each labelled line, and whether a finding of its kind covers it."""
    lines: dict[tuple[str, int], set[str]] = defaultdict(set)
    for finding in findings:
        for path, first, last in places_of(finding):
            for line in range(first, last + 1):
                lines[path, line].add(finding["code"])
    for row in rows:
        codes = lines.get((row["path"], int(row["line"])), set())
        yield row, any(re.fullmatch(CODES[row["kind"]], code) for code in codes)


def summary(kind: str, count: Count) -> str:
    """One kind's figures in words."""
    found, missed = count[kind, "report", True], count[kind, "report", False]
    false, silent = count[kind, "silent", True], count[kind, "silent", False]
    return f"reported {found} of {found + missed} bugs, and {false} of {false + silent} lines that are right"


if __name__ == "__main__":
    main()
