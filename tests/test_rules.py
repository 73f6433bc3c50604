"""Every rule keeps what its documentation says: its examples are its tests (see torchlint/explain.py)."""

from __future__ import annotations

import io
import re
import tokenize

import pytest
from click.testing import CliRunner

from torchlint.check import CheckOptions, check_source
from torchlint.cli import command
from torchlint.explain import HEADINGS, Example, example, fix_safety, sections, summary, use_instead
from torchlint.findings import FileResult, Safety
from torchlint.fix import fix_source
from torchlint.rule import Rule, find_rules

RULES = find_rules()
ON = [code for code, rule in RULES.items() if rule.default]

each_rule = pytest.mark.parametrize("rule", [pytest.param(rule, id=code) for code, rule in RULES.items()])


def check(code: str, *rules: str) -> FileResult:
    """What the rules find in a file, with all else as it is by default."""
    return check_source(code.encode(), "train.py", CheckOptions(frozenset(rules)))


def lines_of(result: FileResult, rule: type[Rule]) -> list[int]:
    assert result.errors == ()
    return sorted(f.range.start.line for f in result.findings if f.code == rule.code)


def without_comments(code: str) -> list[str]:
    """The lines of code that are not empty once comments are gone."""
    lines = code.splitlines()
    for token in tokenize.generate_tokens(io.StringIO(code).readline):
        if token.type == tokenize.COMMENT:
            row, column = token.start
            lines[row - 1] = lines[row - 1][:column]
    return [line.rstrip() for line in lines if line.strip()]


@each_rule
def test_a_rule_is_named_as_rules_are(rule: type[Rule]) -> None:
    assert re.fullmatch(r"DEV\d{3}", rule.code)
    assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)+", rule.name)
    assert [other.code for other in RULES.values() if other.name == rule.name] == [rule.code]


@each_rule
def test_a_rule_is_documented(rule: type[Rule]) -> None:
    assert re.fullmatch(r"[A-Z`].{10,98}\.", summary(rule))
    texts = sections(rule)
    assert all(texts.values())
    assert list(texts) == [heading for heading in HEADINGS if heading in texts]
    assert {"What it does", "Why it matters", "Example", "Use instead", "Fix"} <= set(texts)
    assert bool(rule.options) == ("Options" in texts)
    assert all(f"`{option}`" in texts["Options"] for option in rule.options)
    assert all(line.startswith("https://") for line in texts.get("References", "").splitlines() if line)


@each_rule
def test_the_example_is_reported_at_its_marks_and_nowhere_else(rule: type[Rule]) -> None:
    code, marked = example(rule)
    assert marked
    assert lines_of(check(code, rule.code, *ON), rule) == list(marked)


@each_rule
def test_what_to_use_instead_is_silent_for_all_rules(rule: type[Rule]) -> None:
    result = check(use_instead(rule).code, *RULES)
    assert result.errors == ()
    assert [(f.code, f.range.start.line, f.message) for f in result.findings] == []


@each_rule
def test_the_fix_does_what_its_section_says(rule: type[Rule]) -> None:
    safety = fix_safety(rule)
    code = example(rule).code
    # Rules about suppressions judge those of other rules, which must run; else one rule's fixes are wanted.
    options = CheckOptions(frozenset(RULES) if rule.code.startswith("DEV0") else frozenset((rule.code,)))
    findings = check_source(code.encode(), "train.py", options).findings
    assert {f.fix.safety if f.fix else None for f in findings if f.code == rule.code} == {safety}
    fixed = fix_source(code.encode(), "train.py", options, unsafe=safety is Safety.UNSAFE)
    assert fixed.errors == ()
    if safety in (Safety.SAFE, Safety.UNSAFE):
        assert without_comments(fixed.data.decode()) == without_comments(use_instead(rule).code)
    else:
        assert fixed.data.decode() == code


@each_rule
def test_explain_prints_the_documentation(rule: type[Rule]) -> None:
    for selector in (rule.code, rule.name, rule.code.lower()):
        printed = CliRunner().invoke(command, ["--isolated", "--explain", selector])
        assert printed.exit_code == 0
        assert printed.stdout.startswith(f"{rule.code} {rule.name} ({rule.severity.value}, ")
        for heading, text in sections(rule).items():
            assert f"\n{heading}\n    {text.splitlines()[0]}\n" in printed.stdout


def test_the_list_of_rules_has_each_with_its_summary() -> None:
    printed = CliRunner().invoke(command, ["--isolated", "--rules"])
    assert printed.exit_code == 0
    for rule in RULES.values():
        assert re.search(
            rf"^{rule.code} +{rule.name} .*{re.escape(summary(rule))}$", printed.stdout, re.MULTILINE
        )


class _Documented(Rule):
    """Something is wrong.

    What it does
        Finds it.

        In two paragraphs.

    Example
        if a:
            b()  # <-

        c()   # <-

    Use instead
        pass

    Fix
        Unsafe. Does it.
    """

    code, name = "DEV999", "made-up"


def test_sections_keep_their_inner_indentation_and_lose_their_own() -> None:
    assert sections(_Documented)["What it does"] == "Finds it.\n\nIn two paragraphs."
    assert example(_Documented) == Example("if a:\n    b()\n\nc()\n", (2, 4))
    assert use_instead(_Documented) == Example("pass\n", ())
    assert fix_safety(_Documented) is Safety.UNSAFE


@pytest.mark.parametrize(
    "documentation, words",
    [
        ("One.\n\nWhat it dose\n    x", "'What it dose' is none of the headings"),
        ("One.\n\nFix\n    x\n\nFix\n    y", "'Fix' stands twice"),
        ("One.\n\n    x\n\nFix\n    None.", "text before the first heading"),
    ],
)
def test_a_docstring_that_breaks_the_convention_is_refused(documentation: str, words: str) -> None:
    rule = type("Broken", (Rule,), {"__doc__": documentation})
    with pytest.raises(ValueError, match=words):
        sections(rule)


def test_a_fix_section_must_open_with_its_safety() -> None:
    rule = type("Broken", (Rule,), {"__doc__": "One.\n\nFix\n    Perhaps. It helps."})
    with pytest.raises(ValueError, match="must open with Safe, Unsafe, Display or None, not 'perhaps'"):
        fix_safety(rule)
