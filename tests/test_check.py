"""One file, from bytes to findings."""

from __future__ import annotations

import gc
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import libcst as cst
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from made_up import OWN, FunctionCall, Seen, brief, check, observe, rule
from programs import programs

from torchlint.check import CheckOptions, check_source
from torchlint.findings import Confidence, FileError, Position, Range, Severity
from torchlint.relevance import is_relevant
from torchlint.rule import Note, Report, Rule, find_rules

CUDA = rule("cuda", 900)


# ---- whether to look at all


@pytest.mark.parametrize(
    "data", [b"", b"x = 1\n", b"import numpy\n\ndef f(x):\n    return x + 1\n", b"backwards"]
)
def test_a_file_without_a_trigger_is_not_relevant(data: bytes) -> None:
    assert not is_relevant(data)


@pytest.mark.parametrize(
    "data", [b"import torch", b"x.to(d)", b"loss.item()", b"loss.backward()", b"m.cuda()", b"\0"]
)
def test_a_file_with_a_trigger_is_relevant(data: bytes) -> None:
    assert is_relevant(data)


def test_a_users_rule_can_add_a_trigger() -> None:
    jax = rule("jit", 901, triggers=(b"jax",))
    assert is_relevant(b"import jax", jax.triggers)
    assert brief(check("import jax\njit()\n", jax)) == [("DEV901", 2)]


def test_a_file_without_a_trigger_costs_no_import_of_libcst() -> None:
    code = (
        "import sys; from torchlint.check import CheckOptions, check_source;"
        "check_source(b'x = (', 'a.py', CheckOptions(frozenset({'DEV001', 'DEV101'})));"
        "sys.exit('libcst' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_rules_in_rule_paths_are_used(tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text(
        "from torchlint.rule import Rule\n"
        "class Own(Rule):\n"
        "    code, name, triggers = 'OWN001', 'own-rule', (b'jax',)\n"
        "    def finish(self):\n"
        "        yield self.finding(self.context.module.body[0], 'seen')\n"
    )
    options = CheckOptions(frozenset({"OWN001"}), rule_paths=(tmp_path,))
    result = check_source(b"import jax\n", "a.py", options, observe=observe)
    assert brief(result) == [("OWN001", 1)]
    assert check_source(b"import numpy\n", "a.py", options, observe=observe).findings == ()


# ---- files that cannot be read


@pytest.mark.parametrize(
    ("data", "message", "line"),
    [
        (b"import torch\nx = (\n", "Syntax error: '(' was never closed", 2),
        (b"import torch\nx = '\xff'\n", "Byte 0xff is no UTF-8, and no other encoding is declared", 2),
        (b"import torch\n\0", "A null byte: this is a binary file, not Python source", 2),
        (
            "import torch".encode("utf-16"),
            "UTF-16 is no encoding for Python source; save the file as UTF-8",
            1,
        ),
    ],
)
def test_a_file_that_cannot_be_read_is_one_finding(data: bytes, message: str, line: int) -> None:
    result = check(data, CUDA)
    (finding,) = result.findings
    assert (finding.code, finding.name, finding.message) == ("DEV001", "unreadable-file", message)
    assert (finding.severity, finding.confidence) == (Severity.ERROR, Confidence.CERTAIN)
    assert finding.range.start.line == line
    assert result.errors == ()


def test_an_unreadable_file_is_silent_where_its_rule_is_off() -> None:
    assert check("import torch(\n", CUDA, only=["DEV900"]).findings == ()


def test_a_file_that_only_the_parser_cannot_read_is_an_error_of_the_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Panic(BaseException):
        pass

    def fail(text: str) -> cst.Module:
        raise Panic("index out of bounds")

    monkeypatch.setattr(cst, "parse_module", fail)
    result = check("import torch\n", CUDA)
    assert result.findings == ()
    (error,) = result.errors
    assert "valid Python that LibCST cannot parse: Panic: index out of bounds" in error.message
    assert not error.internal


@pytest.mark.parametrize("text", ["x = " + "[" * 9000 + "]" * 9000, "x = a" + " + b" * 30_000])
def test_a_file_that_would_crash_the_parser_is_an_error_of_the_run(text: str) -> None:
    (error,) = check(f"import torch\n{text}\n", CUDA).errors
    assert "not checked: too deep for the parser" in error.message
    assert not error.internal


@settings(deadline=None)
@given(
    st.one_of(st.binary(max_size=60), st.text(max_size=60).map(str.encode)),
    st.sampled_from(["a.py", "a.ipynb"]),
)
def test_nothing_in_a_file_makes_it_fail(data: bytes, path: str) -> None:
    result = check(b"torch " + data, CUDA, path=path)
    assert [error for error in result.errors if error.internal] == []


# ---- events to findings


def test_an_event_reaches_the_method_named_after_it() -> None:
    result = check("import torch\nx.cuda()\ny = f(x.cuda())\n", CUDA)
    assert brief(result) == [("DEV900", 2), ("DEV900", 3)]
    finding = result.findings[1]
    assert finding.range == Range(Position(3, 7), Position(3, 15))
    assert (finding.name, finding.message, finding.path) == ("no-cuda", "cuda is called", "train.py")


def test_a_rule_can_gather_and_judge_at_the_end() -> None:
    class Gathering(Rule):
        code, name = "DEV901", "gathering"

        def __init__(self, context: Any) -> None:
            super().__init__(context)
            self.calls: list[FunctionCall] = []

        def on_function_call(self, event: FunctionCall) -> None:
            self.calls.append(event)

        def finish(self) -> list[Report]:
            first, *others = self.calls
            notes = [Note("also", call.node, "here too") for call in others]
            return [self.finding(first, f"{len(self.calls)} calls", notes=notes)]

    (finding,) = check("torch.f()\ng(h())\n", Gathering).findings
    assert finding.message == "3 calls"
    assert [(r.role, r.message, r.range.start) for r in finding.related] == [
        ("also", "here too", Position(2, 1)),
        ("also", "here too", Position(2, 3)),
    ]


def test_rules_that_are_off_are_not_asked() -> None:
    other = rule("cuda", 901)
    assert brief(check("x.cuda()\n", CUDA, other, only=["DEV901"])) == [("DEV901", 1)]
    assert brief(check("x.cuda()\n", CUDA, other, ignore=frozenset({"DEV901"}))) == [("DEV900", 1)]


def test_a_rule_knows_the_file_and_its_options() -> None:
    seen: list[Any] = []
    spy = rule("cuda", 901, lambda self, event: seen.append(self.context) or [])
    check(
        "x.cuda()\n",
        spy,
        path="a/b.py",
        device_expression="dev",
        min_torch=(2, 5),
        rule_options={"DEV901": {"n": 3}},
    )
    (context,) = seen
    assert (context.path, context.device_expression, context.min_torch) == ("a/b.py", "dev", (2, 5))
    assert dict(context.options) == {"n": 3}
    assert context.module.code == "x.cuda()\n"


def test_findings_are_sorted_by_place() -> None:
    late = rule("cuda", 901)
    early = rule("item", 902)
    assert brief(check("x.cuda()\ny.item()\nz.cuda()\n", late, early)) == [
        ("DEV901", 1),
        ("DEV902", 2),
        ("DEV901", 3),
    ]


def test_one_node_is_reported_once_a_rule_and_as_surely_as_can_be() -> None:
    twice = rule(
        "cuda",
        901,
        lambda self, event: [
            self.finding(event, "perhaps", confidence=Confidence.LIKELY),
            self.finding(event, "surely"),
            self.finding(event, "perhaps", confidence=Confidence.LIKELY),
        ],
    )
    assert [finding.message for finding in check("x.cuda()\n", twice).findings] == ["surely"]


def test_what_is_less_sure_than_asked_for_is_left_out() -> None:
    unsure = rule("cuda", 901, lambda self, e: [self.finding(e, "m", confidence=Confidence.POSSIBLE)])
    assert brief(check("x.cuda()\n", unsure)) == []
    assert brief(check("x.cuda()\n", unsure, confidence=Confidence.POSSIBLE)) == [("DEV901", 1)]


# ---- one finding a cause


def first_argument(event: FunctionCall) -> cst.CSTNode:
    return event.node.args[0].value


def by_argument(called: str, number: int, **attributes: Any) -> type[Rule]:
    """A rule whose cause is the first call in the arguments."""
    certainty = attributes.pop("confidence", Confidence.CERTAIN)
    return rule(
        called,
        number,
        lambda self, e: [self.finding(e, called, cause=first_argument(e), confidence=certainty)],
        **attributes,
    )


def at_call(called: str, number: int, **attributes: Any) -> type[Rule]:
    return rule(called, number, lambda self, e: [self.finding(e, called, **attributes)], explains=("DEV901",))


def test_a_finding_is_dropped_where_another_explains_it() -> None:
    text = "torch.mix(zeros())\nmix(ones())\n"
    assert brief(check(text, by_argument("mix", 901), at_call("zeros", 902))) == [
        ("DEV902", 1),
        ("DEV901", 2),
    ]


def test_what_is_not_shown_explains_nothing() -> None:
    text = "torch.mix(zeros())\n"
    hidden = at_call("zeros", 902, confidence=Confidence.POSSIBLE)
    assert brief(check(text, by_argument("mix", 901), hidden)) == [("DEV901", 1)]
    assert brief(check(text, by_argument("mix", 901), at_call("zeros", 902), only=["DEV901"])) == [
        ("DEV901", 1)
    ]


def test_what_is_suppressed_still_explains() -> None:
    text = "torch.mix(\n    zeros(),  # torchlint: ignore[DEV902]\n)\n"
    result = check(text, by_argument("mix", 901), at_call("zeros", 902))
    assert brief(result) == []
    assert result.suppressed == 1


def test_findings_of_one_rule_and_cause_are_one() -> None:
    class Whole(Rule):
        code, name = "DEV901", "whole"

        def on_function_call(self, event: FunctionCall) -> list[Report]:
            severity = Severity.ERROR if event.name == "bad" else Severity.INFO
            cause = self.context.module
            return [self.finding(event, f"{event.name} is called", cause=cause, severity=severity)]

    (finding,) = check("torch.one()\nbad()\nthree()\n", Whole).findings
    assert (finding.message, finding.range.start.line, finding.severity) == (
        "one is called",
        1,
        Severity.ERROR,
    )
    assert [(r.role, r.message, r.range.start.line) for r in finding.related] == [
        ("also", "bad is called", 2),
        ("also", "three is called", 3),
    ]
    first_gone = check("torch.one()  # torchlint: ignore[DEV901]\nbad()\nthree()\n", Whole)
    assert [(f.message, len(f.related)) for f in first_gone.findings] == [("bad is called", 1)]
    assert first_gone.suppressed == 1


# ---- faults


class Failing(Rule):
    code, name = "DEV901", "failing"

    def on_function_call(self, event: FunctionCall) -> list[Report]:
        if event.name == "bad":
            raise KeyError("no such place")
        return [self.finding(event, "fine")]


def test_a_rule_that_fails_loses_neither_its_other_findings_nor_those_of_others() -> None:
    result = check("torch.f()\n\nx = bad()\ng()\nbad().cuda()\n", Failing, CUDA)
    assert [(f.code, f.range.start.line) for f in result.findings] == [
        ("DEV901", 1),
        ("DEV901", 4),
        ("DEV900", 5),
        ("DEV901", 5),
    ]
    message = "internal error: line 3: DEV901 (failing) failed: KeyError: 'no such place'"
    assert result.errors == (FileError("train.py", message, internal=True),)


def test_reports_made_before_a_fault_count() -> None:
    def reply(self: Rule, event: FunctionCall) -> Any:
        yield self.finding(event, "first")
        raise RecursionError("too deep")

    result = check("x.cuda()\n", rule("cuda", 901, reply))
    assert [finding.message for finding in result.findings] == ["first"]
    assert [error.internal for error in result.errors] == [True]


@pytest.mark.parametrize("where", ["__init__", "finish"])
def test_a_rule_that_fails_elsewhere_is_an_error_too(where: str) -> None:
    def fail(*arguments: object) -> None:
        raise ValueError("odd")

    result = check("x.cuda()\n", CUDA, rule("item", 901, **{where: fail}))
    assert [f.code for f in result.findings] == ["DEV900"]
    assert [e.message for e in result.errors] == ["internal error: DEV901 (no-item) failed: ValueError: odd"]


def test_an_observer_that_fails_is_an_error_and_comments_are_still_judged() -> None:
    def fail(module: cst.Module, path: str) -> Seen:
        raise LookupError("nowhere")

    data = b"import torch  # torchlint: ignore[DEV999]\n"
    result = check_source(data, "a.py", CheckOptions(frozenset(OWN)), rules=OWN, observe=fail)
    assert [f.code for f in result.findings] == ["DEV003"]
    (error,) = result.errors
    assert error == FileError(
        "a.py", "internal error: placement could not be inferred: LookupError: nowhere", True
    )


def test_places_where_the_observer_failed_are_named() -> None:
    def partly(module: cst.Module, path: str) -> Seen:
        seen = observe(module, path)
        seen.failures.append((module.body[1], "nested too deeply to follow"))
        return seen

    rules = {"DEV900": CUDA}
    options = CheckOptions(frozenset(rules))
    result = check_source(b"x.cuda()\ny = 1\n", "a.py", options, rules=rules, observe=partly)
    assert [f.code for f in result.findings] == ["DEV900"]
    assert [e.message for e in result.errors] == ["internal error: line 2: nested too deeply to follow"]


def test_a_node_from_nowhere_is_an_error() -> None:
    odd = rule("cuda", 901, lambda self, event: [self.finding(cst.Name("x"), "here")])
    result = check("x.cuda()\n", odd, CUDA)
    assert [f.code for f in result.findings] == ["DEV900"]
    assert [e.message for e in result.errors] == [
        "internal error: DEV901 (no-cuda) reported a node that is not part of the file"
    ]


def test_who_interrupts_is_heard() -> None:
    def interrupt(module: cst.Module, path: str) -> Seen:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        check_source(
            b"torch", "a.py", CheckOptions(frozenset({"DEV900"})), rules={"DEV900": CUDA}, observe=interrupt
        )


def test_a_long_chain_is_checked() -> None:
    text = "import torch\nx = " + " + ".join(["a"] * 700) + "\ny = a.cuda()\n"
    assert brief(check(text, CUDA)) == [("DEV900", 3)]


# ---- fingerprints and facts


def fingerprints(text: str, path: str = "train.py") -> list[str]:
    return [finding.fingerprint for finding in check(text, CUDA, path=path).findings]


def test_a_fingerprint_survives_what_moves_a_line() -> None:
    one = fingerprints("import torch\nif x:\n    y = x.cuda()\n")
    assert fingerprints("import torch\n\n\n# more\nif x:\n  y = x.cuda()\n") == one
    assert fingerprints("import torch\ny  =  x.cuda()\nz.cpu()\n") == one
    assert fingerprints("import torch\ny = x.cuda()  # torchlint: ignore[DEV002] why\n") == one


def test_fingerprints_of_different_findings_differ() -> None:
    found = fingerprints("x.cuda()\nx.cuda()\ny.cuda()\nf(x.cuda(), x.cuda())\n")
    assert len(set(found)) == len(found) == 5
    assert fingerprints("x.cuda()\n", "a.py") != fingerprints("x.cuda()\n", "b.py")
    assert fingerprints("x.cuda()\n", "a\\b.py") == fingerprints("x.cuda()\n", "a/b.py")


def test_a_suppression_changes_no_other_fingerprint() -> None:
    assert (
        fingerprints("x.cuda()  # torchlint: ignore\nx.cuda()\n") == fingerprints("x.cuda()\nx.cuda()\n")[1:]
    )


def test_facts_for_the_verifier_are_kept_by_fingerprint() -> None:
    telling = rule("cuda", 901, lambda self, event: [self.finding(event, "m", facts={"accused": "x"})])
    result = check("x.cuda()\n", telling)
    assert result.extra == {"facts": {result.findings[0].fingerprint: {"accused": "x"}}}


@settings(max_examples=40, deadline=None)
@given(programs())
def test_a_result_depends_on_the_input_alone(text: str) -> None:
    first = check(text, CUDA, Failing)
    assert check(text, CUDA, Failing) == first
    assert replace(first, path="train.py") == first


def test_a_check_leaves_no_tree_behind() -> None:
    """What refers to itself keeps the tree until garbage is collected, and trees are large."""
    code = "\n".join(
        [
            "import torch",
            "class Net(torch.nn.Module):",
            "    def __init__(self):",
            "        super().__init__()",
            "        self.inner = Net()",
            "    def forward(self, x):",
            "        def deeper(y): return deeper(y) + self.forward(x)",
            "        return deeper(x)",
            "def outer(): return lambda: outer()",
            "Net().cuda()(torch.zeros(3))",
        ]
    )
    options = CheckOptions(frozenset(find_rules()))
    check_source(code.encode(), "a.py", options)
    gc.collect()
    gc.disable()
    try:
        before = sum(type(each) is cst.ClassDef for each in gc.get_objects())
        check_source(code.encode(), "a.py", options)
        assert sum(type(each) is cst.ClassDef for each in gc.get_objects()) == before
    finally:
        gc.enable()
