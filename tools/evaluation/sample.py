"""Draw findings at random from many repositories, to be read one by one.

    python -m tools.evaluation.sample --seed 1 --count 150 --out sample.tsv FOLDER [FOLDER …]

Each FOLDER holds repositories, one a folder named OWNER+NAME. The draw goes round the codes and, within a code, round
the repositories, so that no code and no repository crowds out the others. The table has the columns repository, commit,
path, line, code, confidence, message, right, why; the last two are for the reader. `--context` prints the code around
each.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import random
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tools.evaluation.reports import findings_in, path_of

_COLUMNS = ("repository", "commit", "path", "line", "code", "confidence", "message", "right", "why")


def draw(found: dict[str, list[dict[str, Any]]], count: int, seed: int) -> list[tuple[str, dict[str, Any]]]:
    """`count` findings, in turns over codes and repositories."""
    chance = random.Random(seed)
    pools: dict[str, dict[str, list[dict[str, Any]]]] = defaultdict(lambda: defaultdict(list))
    for repository in sorted(found):
        for finding in found[repository]:
            pools[finding["code"]][repository].append(finding)
    turns = [_turns(pools[code], chance) for code in sorted(pools)]
    drawn: list[tuple[str, dict[str, Any]]] = []
    while turns and len(drawn) < count:
        for turn in list(turns):
            taken = next(turn, None)
            if taken is None:
                turns.remove(turn)
            elif len(drawn) < count:
                drawn.append(taken)
    return drawn


def _turns(
    pool: dict[str, list[dict[str, Any]]], chance: random.Random
) -> Iterator[tuple[str, dict[str, Any]]]:
    repositories = sorted(pool)
    chance.shuffle(repositories)
    for findings in pool.values():
        chance.shuffle(findings)
    while repositories:
        for repository in list(repositories):
            if pool[repository]:
                yield repository, pool[repository].pop()
            else:
                repositories.remove(repository)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=150)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--context", type=int, default=0, help="lines of code to print around each finding")
    parser.add_argument("--keep", type=Path, help="a JSON file: findings are read from it, or written to it")
    parser.add_argument("--codes", default="", help="only these codes, prefixes, with commas between them")
    parser.add_argument("--arguments", default="", help="more arguments for torchlint")
    options = parser.parse_args()
    places = {p.name: p for folder in options.folders for p in sorted(folder.iterdir()) if p.is_dir()}
    if options.keep is not None and options.keep.exists():
        found = json.loads(options.keep.read_text(encoding="utf-8"))
    else:
        found = {name: findings_in(place, options.arguments.split()) for name, place in places.items()}
        if options.keep is not None:
            options.keep.write_text(json.dumps(found), encoding="utf-8")
    codes = tuple(c for c in options.codes.split(",") if c)
    if codes:
        found = {name: [f for f in some if f["code"].startswith(codes)] for name, some in found.items()}
    total = Counter(f["code"] for some in found.values() for f in some)
    print(f"{len(found)} repositories, {sum(total.values())} findings: ", end="", file=sys.stderr)
    print(", ".join(f"{code} {n}" for code, n in sorted(total.items())), file=sys.stderr)
    drawn = draw(found, options.count, options.seed)
    if options.out is not None:
        with options.out.open("w", encoding="utf-8", newline="") as file:
            table = csv.writer(file, delimiter="\t", lineterminator="\n")
            table.writerow(_COLUMNS)
            for repository, finding in drawn:
                name, commit = repository.replace("+", "/", 1), commit_of(places[repository])
                table.writerow([name, commit, *_row(finding), "", ""])
    if options.context:
        for number, (repository, finding) in enumerate(drawn, 1):
            print(f"\n### {number} {repository}/{' '.join(_row(finding))}")
            for note in finding["related"]:
                print(f"    {note['role']} {note['path']}:{note['range']['start']['line']} {note['message']}")
            _print_context(places[repository], finding, options.context)


def commit_of(place: Path) -> str:
    """The commit that is checked out in a folder; empty where it is no checkout."""
    if not (place / ".git").exists():
        return ""
    ran = subprocess.run(["git", "-C", str(place), "rev-parse", "HEAD"], capture_output=True, text=True, check=False)
    return ran.stdout.strip()


def _row(finding: dict[str, Any]) -> list[str]:
    line = str(finding["range"]["start"]["line"])
    return [path_of(finding), line, finding["code"], finding["confidence"], finding["message"]]


def _print_context(place: Path, finding: dict[str, Any], lines: int) -> None:
    file = place / finding["path"]
    text = file.read_text(encoding="utf-8", errors="replace")
    if finding["cell"] is not None:
        source = json.loads(text)["cells"][finding["cell"]]["source"]
        text = source if isinstance(source, str) else "".join(source)
    rows = text.splitlines()
    at = finding["range"]["start"]["line"]
    for number in range(max(1, at - lines), min(len(rows), at + lines) + 1):
        print(f"{'>' if number == at else ' '}{number:5} {rows[number - 1]}")


if __name__ == "__main__":
    os.environ.setdefault("PYTHONIOENCODING", "utf-8")
    main()
