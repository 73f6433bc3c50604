"""The picture in the README: a real run of torchlint over the example, drawn as an SVG.

python -m tools.picture            writes docs/output.svg
python -m tools.picture --check    exits with 1 where the picture is not what a run shows now
"""

from __future__ import annotations

import re
import subprocess
import sys
from html import escape
from pathlib import Path

TOP = Path(__file__).resolve().parent.parent
PICTURE = TOP / "docs" / "output.svg"
COMMAND = ("torchlint", "examples/digits/model.py", "examples/digits/train.py")
#: Lines of the run that the picture holds; the rest is told by a line of dots.
MOST_LINES = 46
_COLUMN, _LINE, _MARGIN = 8.05, 18, 18
_COLORS = {
    "31": "#ff7b72", "32": "#7ee787", "33": "#e3b341", "34": "#79c0ff", "36": "#76e3ea",
    "2": "#8b949e", "1": "#f0f6fc",
}  # fmt: skip
_PLAIN = "#c9d1d9"


def run() -> str:
    """What the command prints in colour."""
    command = [
        sys.executable,
        "-m",
        "torchlint",
        "--isolated",
        "--no-cache",
        "--color",
        "always",
        *COMMAND[1:],
    ]
    return subprocess.run(command, cwd=TOP, capture_output=True, text=True, check=False).stdout


def draw(output: str) -> str:
    """An SVG of a terminal that shows the command and its output."""
    lines = [f"\x1b[1m$ {' '.join(COMMAND)}\x1b[0m", *output.rstrip("\n").split("\n")]
    if len(lines) > MOST_LINES:
        lines = [*lines[: MOST_LINES - 3], "\x1b[2m  ⋮\x1b[0m", "", lines[-1]]
    widest = max(len(re.sub("\x1b\\[[0-9;]*m", "", line)) for line in lines)
    width, height = round(widest * _COLUMN + 2 * _MARGIN), len(lines) * _LINE + 2 * _MARGIN
    rows = "\n".join(
        f'<text x="{_MARGIN}" y="{_MARGIN + 13 + number * _LINE}">{_spans(line)}</text>'
        for number, line in enumerate(lines)
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" '
        f'role="img" aria-label="torchlint reports the faults in the example">\n'
        f'<rect width="100%" height="100%" rx="8" fill="#0d1117"/>\n'
        f'<g font-family="ui-monospace,SFMono-Regular,Menlo,Consolas,DejaVu Sans Mono,monospace" font-size="13.4" '
        f'xml:space="preserve" fill="{_PLAIN}">\n{rows}\n</g>\n</svg>\n'
    )


def _spans(line: str) -> str:
    out, style = [], ""
    for part in re.split("(\x1b\\[[0-9;]*m)", line):
        if part.startswith("\x1b["):
            codes = part[2:-1].split(";")
            color = next((_COLORS[c] for c in reversed(codes) if c in _COLORS), "")
            weight = ' font-weight="600"' if "1" in codes else ""
            style = f' fill="{color}"{weight}' if color else ""
        elif part:
            text = escape(part).replace(" ", "\u00a0")
            out.append(f"<tspan{style}>{text}</tspan>" if style else text)
    return "".join(out)


def main() -> None:
    picture = draw(run())
    if "--check" in sys.argv[1:]:
        if PICTURE.read_text(encoding="utf-8") != picture:
            sys.exit("docs/output.svg is old: run python -m tools.picture")
        return
    PICTURE.write_text(picture, encoding="utf-8")
    print(f"wrote {PICTURE.relative_to(TOP)}")


if __name__ == "__main__":
    main()
