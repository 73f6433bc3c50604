"""The documentation of a rule, read from its class docstring, and how `--explain` and `--rules` show it.

A docstring opens with a one-line summary. Then come sections: a heading on a line of its own, from
`HEADINGS` and in their order, and its text below, indented by four spaces:

    class DiscardedMove(Rule):
        \"\"\"A tensor is moved and the result is dropped.

        What it does
            Finds …

        Example
            import torch

            x = torch.zeros(3)
            x.to("cuda")  # <-

        Use instead
            import torch

            x = torch.zeros(3)
            x = x.to("cuda")

        Fix
            Safe. Binds the result to the name.
        \"\"\"

*Example* and *Use instead* are whole modules. A finding of the rule starts on each line that ends in `# <-`,
and on no other. *Fix* opens with one word: `Safe`, `Unsafe`, `Display` (shown, never applied) or `None`;
where it is safe or unsafe, applying the fixes turns *Example* into *Use instead*, comments aside.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from inspect import cleandoc
from textwrap import dedent
from typing import NamedTuple

from torchlint.findings import Safety
from torchlint.rule import Rule

HEADINGS = (
    "What it does",
    "Why it matters",
    "Example",
    "Use instead",
    "Fix",
    "Options",
    "Verification",
    "References",
)

_MARK = re.compile(r"[ \t]*# <-[ \t]*$", re.MULTILINE)
_LINK = re.compile(r"https?://\S+")


class Example(NamedTuple):
    """Code from a docstring, without its marks, and the lines (from 1) that were marked."""

    code: str
    lines: tuple[int, ...]


def summary(rule: type[Rule]) -> str:
    """What the rule finds, in one line."""
    return cleandoc(rule.__doc__ or "").partition("\n")[0].strip()


def sections(rule: type[Rule]) -> dict[str, str]:
    """The texts of the sections, by heading, in the order they are written, without their indentation.

    Raises ValueError where the docstring breaks the convention.
    """
    lines = cleandoc(rule.__doc__ or "").split("\n")[1:]
    found: dict[str, list[str]] = {}
    current: list[str] | None = None
    for line in lines:
        if not line.strip() or line.startswith("    "):
            if current is not None:
                current.append(line)
            elif line.strip():
                raise ValueError(f"{rule.__name__}: text before the first heading: {line.strip()!r}")
            continue
        heading = line.strip()
        if heading not in HEADINGS:
            raise ValueError(f"{rule.__name__}: {heading!r} is none of the headings {', '.join(HEADINGS)}")
        if heading in found:
            raise ValueError(f"{rule.__name__}: the heading {heading!r} stands twice")
        current = found[heading] = []
    return {heading: dedent("\n".join(body)).strip("\n") for heading, body in found.items()}


def example(rule: type[Rule]) -> Example:
    """The code that the rule reports, and the lines it reports. Raises KeyError if there is none."""
    return _example(sections(rule)["Example"])


def use_instead(rule: type[Rule]) -> Example:
    """The code to write in its place; nothing is reported there. Raises KeyError if there is none."""
    return _example(sections(rule)["Use instead"])


def _example(text: str) -> Example:
    marked = tuple(i for i, line in enumerate(text.split("\n"), 1) if _MARK.search(line))
    return Example(_MARK.sub("", text) + "\n", marked)


def fix_safety(rule: type[Rule]) -> Safety | None:
    """How safe the rule's fix is, as its *Fix* section says; None where it has none.

    Raises ValueError where the section opens with none of the words that say so.
    """
    text = sections(rule).get("Fix", "None")
    word = re.split(r"\W", text, maxsplit=1)[0].lower()
    if word == "none":
        return None
    try:
        return Safety(word)
    except ValueError:
        raise ValueError(
            f"{rule.__name__}: *Fix* must open with Safe, Unsafe, Display or None, not {word!r}"
        ) from None


def explain(rule: type[Rule], color: bool = False) -> str:
    """The documentation of a rule as `--explain` prints it."""

    def bold(text: str) -> str:
        return f"\x1b[1m{text}\x1b[0m" if color else text

    try:
        texts = sections(rule)
        parts = [f"{bold(f'{rule.code} {rule.name}')} ({_nature(rule)})", "", summary(rule)]
    except ValueError:  # a rule of the user's, documented in a way of its own
        return f"{bold(f'{rule.code} {rule.name}')}\n\n{cleandoc(rule.__doc__ or '')}\n"
    for heading, body in texts.items():
        parts += ["", bold(heading), *(f"    {line}" if line else "" for line in body.split("\n"))]
    return "\n".join(parts) + "\n"


def _nature(rule: type[Rule]) -> str:
    fixes = {
        None: "no fix",
        Safety.SAFE: "safe fix",
        Safety.UNSAFE: "unsafe fix",
        Safety.DISPLAY: "fix only shown",
    }
    default = "on by default" if rule.default else "off by default"
    return f"{rule.severity.value}, {default}, {fixes[fix_safety(rule)]}"


def table(rules: Mapping[str, type[Rule]]) -> str:
    """All rules, a line each, as `--rules` prints them."""
    rows = [("code", "name", "severity", "default", "fix", "what it finds")]
    for record in records(rules.values()):
        rows.append(
            (
                str(record["code"]),
                str(record["name"]),
                str(record["severity"]),
                "on" if record["default"] else "off",
                str(record["fix"] or "-"),
                str(record["summary"]),
            )
        )
    widths = [max(len(row[i]) for row in rows) for i in range(5)]
    return "".join("  ".join([*map(str.ljust, row[:5], widths), row[5]]).rstrip() + "\n" for row in rows)


def records(rules: Iterable[type[Rule]]) -> Iterator[dict[str, object]]:
    """What there is to know about each rule, as `--rules --output-format json` prints it."""
    for rule in rules:
        try:
            texts, safety = sections(rule), fix_safety(rule)
        except ValueError:  # documented in a way of its own
            texts, safety = {}, None
        yield {
            "code": rule.code,
            "name": rule.name,
            "severity": rule.severity.value,
            "default": rule.default,
            "fix": safety.value if safety else None,
            "summary": summary(rule),
            "sections": texts,
            "references": _LINK.findall(texts.get("References", "")),
        }
