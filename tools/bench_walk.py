"""What checking costs beside parsing: process times over the files of folders, and the largest memory.

    python -m tools.bench_walk FOLDER [FOLDER …]

Prints, over all files that hold a trigger, the process time of `libcst.parse_module`, of the observer with all rules
(positions and fixes of findings included), and their ratio: with garbage collected as seldom as the command does, which
makes parsing faster as well, and with parsing as it is by default. The first look at a file, which reads what it
imports, is told apart. And the peak memory of the process.
"""

from __future__ import annotations

import gc
import resource
import sys
import time
from collections.abc import Callable
from pathlib import Path

import libcst as cst

from torchlint.check import CheckOptions, check_source
from torchlint.relevance import is_relevant
from torchlint.rule import find_rules
from torchlint.run import collect_seldom


def main(folders: list[str]) -> None:
    """Measure each folder's Python files and print the sums."""
    options = CheckOptions(frozenset(find_rules()))
    files = [p for folder in folders for p in sorted(Path(folder).rglob("*.py"))]
    warm_up = b"import torch\n\nx = torch.zeros(3)\nx.to('cuda')\n"
    check_source(warm_up, "warm_up.py", options)  # imports rules and reads the data files, once a process
    default = gc.get_threshold()
    collect_seldom()
    seldom = gc.get_threshold()
    plain = parse = first = check = 0.0
    lines = counted = findings = 0
    for file in files:
        data = file.read_bytes()
        if not is_relevant(data):
            continue
        try:
            cst.parse_module(data)
        except Exception:
            continue
        gc.set_threshold(*default)
        plain += _least(lambda data=data: cst.parse_module(data))
        gc.set_threshold(*seldom)
        parse += _least(lambda data=data: cst.parse_module(data))
        start = time.process_time()
        findings += len(check_source(data, str(file), options).findings)
        first += time.process_time() - start
        check += _least(lambda data=data, file=file: check_source(data, str(file), options))
        lines += data.count(b"\n")
        counted += 1
    walk = check - parse
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"{counted} files, {lines} lines, {findings} findings")
    print(f"parse_module {parse:.2f} s; check without its parse {walk:.2f} s; ratio {walk / parse:.3f}")
    print(f"parse_module by default {plain:.2f} s; what the check takes beyond it: ratio {(check - plain) / plain:.3f}")
    print(f"the first look at each file: ratio {(first - parse) / parse:.3f}")
    print(f"peak memory {peak:.0f} MB")


def _least(step: Callable[[], object]) -> float:
    """The least process time of three runs: what the work costs where nothing else disturbs it."""
    times = []
    for _ in range(3):
        start = time.process_time()
        step()
        times.append(time.process_time() - start)
    return min(times)


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    main(sys.argv[1:])
