"""`--show-placement`: a file with, beside each line, where the values bound there live and what happens to them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING

from torchlint.report.paint import Paint

if TYPE_CHECKING:
    from torchlint.placement.trace import Spot

_STYLES = {"cpu": "blue", "accelerator": "green", "follows": "cyan", "mixed": "yellow", "unknown": "dim"}
_WIDEST = 100


def as_text(
    path: str,
    lines: Sequence[str],
    spots: Mapping[int, Sequence[Spot]],
    only: int | None = None,
    color: bool = False,
) -> str:
    """The code with notes to its right; `only`: that line alone, with three around it."""
    paint = Paint(color)
    chosen = range(1, len(lines) + 1)
    if only is not None:
        chosen = range(max(1, only - 3), min(len(lines), only + 3) + 1)
    width = min(_WIDEST, max((len(lines[n - 1].expandtabs(4)) for n in chosen), default=0))
    digits = len(str(chosen[-1] if len(chosen) else 1))
    out = [paint("bold", path)]
    for number in chosen:
        code = lines[number - 1].expandtabs(4)
        notes = [_note(spot, paint) for spot in spots.get(number, ())]
        mark = paint("bold", ">") if number == only else " "
        left = f"{mark}{paint('dim', f'{number:>{digits}}')} {code}"
        if not notes:
            out.append(left.rstrip())
            continue
        out.append(f"{left}{' ' * max(0, width - len(code))}  {paint('dim', '│')} {'; '.join(notes)}")
    out.append("")
    legend = [paint(_STYLES[d], t) for d, t in _LEGEND.items()]
    out.append(
        f"{', '.join(legend)}; {paint('red', '!!')} values in different places meet; ⏳ the host waits"
    )
    return "\n".join(out) + "\n"


_LEGEND = {
    "cpu": "cpu",
    "accelerator": "accelerator",
    "follows": "wherever a parameter or the module is",
    "mixed": "depends",
    "unknown": "unknown",
}


def _note(spot: Spot, paint: Paint) -> str:
    place = paint(_STYLES[spot.device], spot.place)
    if spot.what == "value":
        return f"{spot.name}: {place}"
    if spot.what == "create":
        return f"new {place}"
    if spot.what == "move":
        device, words = spot.source or ("unknown", "unknown")
        return f"{spot.name}: {paint(_STYLES[device], words)} → {place}"
    if spot.what == "mix":
        return paint("red", f"!! {' with '.join(spot.source or (spot.place,))}")
    return f"⏳ {spot.name}"


def as_html(path: str, lines: Sequence[str], spots: Mapping[int, Sequence[Spot]]) -> str:
    """A page of its own: no script, no file beside it."""
    rows = []
    for number, line in enumerate(lines, 1):
        here = spots.get(number, ())
        wrong = any(s.what == "mix" for s in here)
        notes = " ".join(_badge(s) for s in here)
        rows.append(
            f'<tr id="L{number}"{" class=wrong" if wrong else ""}><td class=n><a href="#L{number}">{number}</a></td>'
            f"<td class=code><pre>{_code(line, here)}</pre></td><td class=notes>{notes}</td></tr>"
        )
    legend = " ".join(f'<span class="place {d}">{escape(t)}</span>' for d, t in _LEGEND.items())
    return _PAGE.format(title=escape(path), rows="\n".join(rows), legend=legend)


def _code(line: str, spots: Sequence[Spot]) -> str:
    """The line with the names that are bound on it in the colour of their device."""
    out, at = [], 0
    for spot in spots:
        start, end = spot.columns[0] - 1, spot.columns[1]
        if spot.what != "value" or start < at:
            continue
        out.append(escape(line[at:start]))
        out.append(f'<span class="{spot.device}">{escape(line[start:end])}</span>')
        at = end
    out.append(escape(line[at:]))
    return "".join(out)


def _place(device: str, words: str) -> str:
    return f'<span class="place {device}">{escape(words)}</span>'


def _badge(spot: Spot) -> str:
    if spot.what == "value":
        return f"<span class=spot><code>{escape(spot.name)}</code> {_place(spot.device, spot.place)}</span>"
    if spot.what == "create":
        return f"<span class=spot>new {_place(spot.device, spot.place)}</span>"
    if spot.what == "move":
        device, words = spot.source or ("unknown", "unknown")
        return (
            f"<span class=spot><code>{escape(spot.name)}</code> {_place(device, words)}{_ARROW}"
            f"{_place(spot.device, spot.place)}</span>"
        )
    if spot.what == "mix":
        return f'<span class="spot mismatch">{escape(" meets ".join(spot.source or (spot.place,)))}</span>'
    return f'<span class="spot sync">host waits: {escape(spot.name)}</span>'


_ARROW = (
    '<svg class=arrow viewBox="0 0 34 10" width="34" height="10" role="img" aria-label="moves to">'
    '<path d="M1 5h28M24 1l6 4-6 4" fill="none" stroke="currentColor" stroke-width="1.6"/></svg>'
)

_PAGE = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>{title}: placement</title>
<style>
:root {{ --cpu: #1f5fbf; --accelerator: #1a7f37; --follows: #6f42c1; --mixed: #9a6700; --unknown: #6e7781; --bg: #fff;
  --fg: #1f2328; --line: #eaeef2; --wrong: #ffebe9; --red: #cf222e; }}
@media (prefers-color-scheme: dark) {{ :root {{ --cpu: #6cb0ff; --accelerator: #56d364; --follows: #c297ff;
  --mixed: #e3b341; --unknown: #8b949e; --bg: #0d1117; --fg: #e6edf3; --line: #21262d; --wrong: #3c1618;
  --red: #ff7b72; }} }}
body {{ background: var(--bg); color: var(--fg); font: 14px/1.5 system-ui, sans-serif; margin: 1.5rem; }}
h1 {{ font-size: 1.1rem; margin: 0 0 .5rem; }}
table {{ border-collapse: collapse; margin-top: 1rem; }}
td {{ padding: 0 .6rem; vertical-align: top; border-bottom: 1px solid var(--line); }}
pre, code {{ font: 12.5px/1.6 ui-monospace, SFMono-Regular, Menlo, monospace; margin: 0; }}
pre {{ white-space: pre; }}
.n a {{ color: var(--unknown); text-decoration: none; font: 12px/1.7 ui-monospace, monospace; }}
.n {{ text-align: right; }}
.notes {{ font-size: 12.5px; white-space: nowrap; }}
.spot {{ margin-right: .8rem; display: inline-flex; align-items: center; gap: .3rem; }}
.place {{ border: 1px solid currentColor; border-radius: 999px; padding: 0 .5rem; font-size: 11.5px; }}
.cpu {{ color: var(--cpu); }} .accelerator {{ color: var(--accelerator); }} .follows {{ color: var(--follows); }}
.mixed {{ color: var(--mixed); }} .unknown {{ color: var(--unknown); }}
.code .cpu, .code .accelerator, .code .follows, .code .mixed {{ font-weight: 600; }}
.wrong {{ background: var(--wrong); }}
.mismatch {{ color: var(--red); font-weight: 600; }}
.sync {{ color: var(--mixed); }}
tr:target {{ outline: 2px solid var(--mixed); }}
</style></head>
<body><h1>{title}</h1>
<p>{legend} <span class="mismatch">values in different places meet</span></p>
<table>
{rows}
</table>
</body></html>
"""
