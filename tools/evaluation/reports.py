"""Runs torchlint as its users do, and reads what it reports."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

Finding = dict[str, Any]


def findings_in(folder: Path, arguments: list[str]) -> list[Finding]:
    """What torchlint reports in a folder with its default settings; errors go to stderr. Exits where it fails."""
    command = [sys.executable, "-m", "torchlint", "--isolated", "--exit-zero", "--output-format", "json"]
    ran = subprocess.run([*command, *arguments, "."], cwd=folder, capture_output=True, text=True, check=False)
    try:
        report = json.loads(ran.stdout)
    except ValueError:
        sys.exit(f"{folder.name}: no report (exit {ran.returncode}): {ran.stderr[-400:]}")
    for error in report["errors"]:
        print(f"{folder.name}: {error['path']}: {error['message']}", file=sys.stderr)
    found: list[Finding] = report["findings"]
    return [f for f in found if not f["code"].startswith("DEV0")]


def places_of(finding: Finding) -> list[tuple[str, int, int]]:
    """The path, first and last line of a finding and of what was merged into it; a notebook's cell is in the path."""
    places = [finding, *(r for r in finding["related"] if r["role"] == "also")]
    return [
        (path_of(place), place["range"]["start"]["line"], place["range"]["end"]["line"]) for place in places
    ]


def path_of(place: dict[str, Any]) -> str:
    """`file.ipynb#c3` for the fourth cell of a notebook, else the path."""
    cell = "" if place.get("cell") is None else f"#c{place['cell']}"
    return f"{place['path']}{cell}"
