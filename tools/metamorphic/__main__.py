"""`python -m tools.metamorphic [--write] [FOLDER]…`: how many rewrites keep their findings, and which do not.

Without folders: the examples of the rules and the programs of tests/data/cases; `--write` then lists those that do
not in tests/data/metamorphic_known.txt.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from tools.metamorphic.measuring import KNOWN, Program, examples, files, measure

CASES = KNOWN.parent / "cases"


def main(arguments: Sequence[str]) -> None:
    folders = [Path(a) for a in arguments if a != "--write"]
    programs: list[Program] = [p for folder in folders or [CASES] for p in files(folder)]
    if not folders:
        programs = [*examples(), *programs]
    kept: Counter[str] = Counter()
    total: Counter[str] = Counter()
    lost = []
    for outcome in measure(programs):
        total[outcome.rewriter] += 1
        kept[outcome.rewriter] += outcome.kept
        if not outcome.kept:
            lost.append(str(outcome))
    print("\n".join(sorted(lost)))
    if "--write" in arguments and not folders:
        KNOWN.write_text("".join(f"{line}\n" for line in sorted(lost)), encoding="utf-8")
    for name in total:
        print(f"{kept[name]:4} of {total[name]:4}  {name}")
    share = sum(kept.values()) / max(1, sum(total.values()))
    print(
        f"{sum(kept.values())} of {sum(total.values())} rewrites of {len(programs)} programs keep their findings",
        end="",
    )
    print(f" ({share:.1%})")


if __name__ == "__main__":
    main(sys.argv[1:])
