"""The table of rules in README.md, written from the rules themselves.

python -m tools.readme             writes the table
python -m tools.readme --check     exits with 1 where the table is not what the rules say
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from torchlint.explain import sections, summary
from torchlint.rule import Rule, find_rules

README = Path(__file__).resolve().parent.parent / "README.md"
_MARKED = re.compile(r"(<!-- rules -->\n).*?(<!-- /rules -->)", re.DOTALL)


def table() -> str:
    """A row a rule: code, name, what it finds, whether it fixes, and what is not on by default."""
    rows = ["| code | name | finds | fix |", "| --- | --- | --- | --- |"]
    for rule in find_rules().values():
        finds = summary(rule).rstrip(".")
        rows.append(f"| {rule.code} | {rule.name} | {finds}{_remark(rule)} | {_fix(rule)} |")
    return "\n".join(rows) + "\n"


def _remark(rule: type[Rule]) -> str:
    remarks = [] if rule.default else ["off by default"]
    if rule.severity.value == "info":
        remarks.append("info")
    return f" ({', '.join(remarks)})" if remarks else ""


def _fix(rule: type[Rule]) -> str:
    word = sections(rule).get("Fix", "None").split(maxsplit=1)[0].strip(".,:").lower()
    return {"none": "", "display": "shown"}.get(word, word)


def main() -> None:
    text = README.read_text(encoding="utf-8")
    new = _MARKED.sub(lambda m: f"{m.group(1)}{table()}{m.group(2)}", text)
    if "--check" in sys.argv[1:]:
        if new != text:
            sys.exit("the table of rules in README.md is old: run python -m tools.readme")
        return
    README.write_text(new, encoding="utf-8")


if __name__ == "__main__":
    main()
