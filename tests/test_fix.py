"""Edits → new text: all or nothing, in rounds, and whatever is outside of them stays."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from made_up import FunctionCall, fix, fixing, rule
from programs import programs

from torchlint.check import CheckOptions
from torchlint.findings import Confidence, Edit, FileResult, Finding, Fix, Position, Range, Safety, Severity
from torchlint.fix import FixOutcome, apply_fixes, fix_source, unified_diff, write_atomically
from torchlint.rule import NodeEdit, NodeFix, Report, Rule
from torchlint.source import Lines, Unreadable, parse
from torchlint.splice import rewrite, without_line

START = Range(Position(1, 1), Position(1, 1))


def finding(*edits: tuple[int, int, str], safety: Safety = Safety.SAFE, code: str = "DEV900") -> Finding:
    made = Fix("fix", safety, tuple(Edit(*edit) for edit in edits))
    return Finding(code, "n", "m", Severity.WARNING, Confidence.CERTAIN, "a.py", START, fix=made)


def applied(text: str, *findings: Finding, unsafe: bool = False) -> tuple[str, int, int]:
    new, done, left = apply_fixes(text, findings, unsafe)
    return new, len(done), len(left)


# ---- one round


def test_edits_are_applied_in_the_order_of_the_text() -> None:
    assert applied("abcdef", finding((4, 5, "E"), (0, 1, "A")), finding((2, 2, "_"))) == ("Ab_cdEf", 2, 0)


def test_a_fix_is_applied_whole_or_not_at_all() -> None:
    first, second = finding((1, 3, "x")), finding((0, 1, "y"), (2, 4, "z"))
    assert applied("abcd", first, second) == ("axd", 1, 1)
    assert applied("abcd", second, first) == ("ybz", 1, 1)


@pytest.mark.parametrize(
    ("one", "other", "both"),
    [
        ((0, 2, "x"), (1, 3, "y"), False),
        ((0, 3, "x"), (1, 2, "y"), False),
        ((0, 2, "x"), (2, 4, "y"), True),  # side by side
        ((1, 1, "x"), (1, 1, "y"), False),  # which comes first?
        ((0, 2, "x"), (2, 2, "y"), False),
        ((0, 2, "x"), (0, 0, "y"), False),
        ((0, 2, "x"), (1, 1, "y"), False),
        ((0, 1, "x"), (2, 2, "y"), True),
        ((1, 1, "x"), (1, 1, "x"), True),  # the same, such as one import that two fixes need
        ((0, 2, "x"), (0, 2, "x"), True),
    ],
)
def test_fixes_in_each_others_way_wait(
    one: tuple[int, int, str], other: tuple[int, int, str], both: bool
) -> None:
    assert applied("abcd", finding(one), finding(other))[1:] == ((2, 0) if both else (1, 1))
    assert applied("abcd", finding(other), finding(one))[1:] == ((2, 0) if both else (1, 1))


def test_an_edit_that_fixes_share_is_made_once() -> None:
    one, other = finding((0, 0, "import os\n"), (4, 5, "A")), finding((0, 0, "import os\n"), (6, 7, "B"))
    assert applied("foo(a,b)", one, other) == ("import os\nfoo(A,B)", 2, 0)


def test_edits_of_one_fix_may_touch_but_not_overlap() -> None:
    assert applied("abcd", finding((1, 1, "("), (1, 2, "B"), (2, 2, ")"))) == ("a(B)cd", 1, 0)
    assert applied("abcd", finding((0, 2, "x"), (1, 3, "y"))) == ("abcd", 0, 1)


def test_safety_decides_what_is_applied() -> None:
    safe, unsafe, shown = (finding((i, i + 1, "x"), safety=s) for i, s in enumerate(Safety))
    assert applied("abc", safe, unsafe, shown) == ("xbc", 1, 0)
    assert applied("abc", safe, unsafe, shown, unsafe=True) == ("xxc", 2, 0)


def test_findings_without_a_fix_are_neither_applied_nor_skipped() -> None:
    bare = Finding("DEV900", "n", "m", Severity.WARNING, Confidence.CERTAIN, "a.py", START)
    assert applied("abc", bare, finding()) == ("abc", 0, 0)


texts = st.text(st.sampled_from("ab\r\n\f\u2028é"), max_size=12)


@st.composite
def with_fixes(draw: st.DrawFn) -> tuple[str, list[Finding]]:
    text = draw(texts)
    spans = st.tuples(st.integers(0, len(text)), st.integers(0, len(text))).map(sorted)
    edits = st.tuples(spans, st.text("XY", max_size=2)).map(lambda e: (e[0][0], e[0][1], e[1]))
    fixes = st.lists(edits, min_size=1, max_size=3).map(lambda each: finding(*each))
    return text, draw(st.lists(fixes, max_size=4))


@given(with_fixes())
def test_nothing_outside_of_the_edits_is_touched(case: tuple[str, list[Finding]]) -> None:
    text, findings = case
    new, done, left = apply_fixes(text, findings)
    assert len(done) + len(left) == len(findings)
    edits = {edit for each in done if each.fix is not None for edit in each.fix.edits}
    touched = {offset for edit in edits for offset in range(edit.start, edit.end)}
    kept = "".join(char for offset, char in enumerate(text) if offset not in touched)
    assert "".join(char for char in new if char not in "XY") == kept
    assert len(new) == len(kept) + sum(len(edit.text) for edit in edits)
    assert sum(edit.end - edit.start for edit in edits) == len(touched)


@given(st.text("ab\n\f\u2028", max_size=12), st.sampled_from(["\n", "\r\n", "\r"]), st.data())
def test_a_line_taken_away_leaves_the_others(text: str, ending: str, data: st.DataObject) -> None:
    text = text.replace("\n", ending)
    lines = Lines(text)
    number = data.draw(st.integers(1, len(lines)))
    start, end = without_line(lines, number, (0, len(text)))
    others = [lines.line(n) for n in range(1, len(lines) + 1) if n != number]
    left = Lines(rewrite(text, [Edit(start, end, "")]))
    assert [left.line(n) for n in range(1, len(left) + 1)] == (others or [""])


# ---- rounds


def to(
    name: str, *more: tuple[str, str], called: str = "cuda", safety: Safety = Safety.SAFE, number: int = 900
) -> type:
    """A rule that renames calls, and makes further edits (how, text)."""
    return fixing(
        called,
        number,
        lambda call: NodeFix(
            "rename",
            safety,
            (NodeEdit(call.func, "replace", name), *(NodeEdit(call, how, text) for how, text in more)),
        ),
    )


def test_fixes_that_wait_are_applied_in_a_later_round() -> None:
    whole = fixing(
        "cuda", 900, lambda call: NodeFix("f", Safety.SAFE, (NodeEdit(call, "replace", "gpu(item())"),))
    )
    outcome = fix("torch.f(cuda(item(1), item(2)))\n", to("get", called="item", number=901), whole)
    assert outcome.data == b"torch.f(gpu(get()))\n"
    assert outcome.applied == len(outcome.fixed) == 2
    assert outcome.result.findings == ()


def test_fixing_again_changes_nothing() -> None:
    rules = (to("gpu", ("import", "import os"), ("argument", "k=1")), to("get", called="item", number=901))
    once = fix("def f():\n    return cuda(item(), cuda())\n", *rules)
    assert once.data == b"import os\n\ndef f():\n    return gpu(get(), gpu(k=1), k=1)\n"
    again = fix(once.data, *rules)
    assert (again.data, again.applied) == (once.data, 0)


def test_findings_of_one_cause_are_fixed_together() -> None:
    def reply(self: Rule, event: FunctionCall) -> list[Report]:
        edits = (NodeEdit(event.node.func, "replace", "gpu"), NodeEdit(event.node, "import", "import os"))
        return [self.finding(event, "m", cause=self.context.module, fix=NodeFix("f", Safety.SAFE, edits))]

    outcome = fix("import torch\n" + "cuda()\n" * 15 + "cuda(cuda())\n", rule("cuda", 900, reply))
    assert outcome.errors == ()
    assert outcome.data == b"import torch\nimport os\n" + b"gpu()\n" * 15 + b"gpu(gpu())\n"
    assert outcome.applied == 1


def test_unsafe_fixes_are_applied_on_demand_alone() -> None:
    unsafe = to("gpu", safety=Safety.UNSAFE)
    kept = fix("cuda()\n", unsafe)
    assert (kept.data, kept.applied, len(kept.result.findings)) == (b"cuda()\n", 0, 1)
    assert fix("cuda()\n", unsafe, unsafe=True).data == b"gpu()\n"


def test_a_suppressed_finding_is_not_fixed() -> None:
    assert fix("cuda()  # torchlint: ignore[DEV900]\ncuda()\n", to("gpu")).data == (
        b"cuda()  # torchlint: ignore[DEV900]\ngpu()\n"
    )


def test_a_fix_that_breaks_the_file_is_taken_back() -> None:
    outcome = fix("cuda()\nitem()\n", to("g(u", number=900), to("get", called="item", number=901))
    assert outcome.data == b"cuda()\nitem()\n"
    assert outcome.applied == 0
    assert len(outcome.result.findings) == 2
    (error,) = outcome.errors
    assert error.message == "the fix of DEV900, DEV901 would break the file; it was left as it was"
    assert error.internal


def test_fixes_that_undo_each_other_are_taken_back() -> None:
    outcome = fix("torch.cuda()\n", to("torch.item"), to("torch.cuda", called="item", number=901))
    assert outcome.data == b"torch.cuda()\n"
    assert [error.message for error in outcome.errors] == [
        "the fixes of DEV901 undo each other; the file was left as it was"
    ]


def test_fixes_without_an_end_stop() -> None:
    outcome = fix(
        "cuda()\n", fixing("cuda", 900, lambda c: NodeFix("f", Safety.SAFE, (NodeEdit(c, "argument", "1"),)))
    )
    assert outcome.data == b"cuda(1, 1, 1, 1, 1, 1, 1, 1, 1, 1)\n"
    assert [error.message for error in outcome.errors] == ["fixes are left after 10 rounds"]


def test_a_fix_that_changes_nothing_ends_it() -> None:
    outcome = fix("cuda()\n", to("cuda"))
    assert (outcome.data, outcome.applied) == (b"cuda()\n", 0)


def test_what_the_encoding_cannot_hold_is_not_written() -> None:
    data = b"# coding: latin-1\nx = '\xe9'\ncuda()\n"
    outcome = fix(data, to("數"))
    assert (outcome.data, outcome.applied) == (data, 0)
    (error,) = outcome.errors
    assert "DEV900 cannot be written in the file's encoding" in error.message
    assert not error.internal


def test_an_unreadable_file_is_left_alone() -> None:
    data = b"import torch\nx = (\n"
    outcome = fix(data, to("gpu"))
    assert (outcome.data, outcome.applied, outcome.errors) == (data, 0, ())
    assert [f.code for f in outcome.result.findings] == ["DEV001"]


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"\xef\xbb\xbfcuda()\r\nx\r\n", b"\xef\xbb\xbfgpu()\r\nx\r\n"),
        (b"# coding: latin-1\rx = '\xe9'\rcuda()", b"# coding: latin-1\rx = '\xe9'\rgpu()"),
        (b"# -*- coding: cp1252 -*-\n\ncuda('\x80')\n", b"# -*- coding: cp1252 -*-\n\ngpu('\x80')\n"),
        (b"x\r\ncuda()\nx\r\n\x0c\ncuda()", b"x\r\ngpu()\nx\r\n\x0c\ngpu()"),
        (b"\x0cdef f():\n\t\x0c\n\tcuda()  \n\n\n\x0c", b"\x0cdef f():\n\t\x0c\n\tgpu()  \n\n\n\x0c"),
        (b"cuda()\n\n  # end", b"gpu()\n\n  # end"),
        (b"\\\ncuda()\n", b"\\\ngpu()\n"),
        ("x = '\u2028\x85'; cuda()\n".encode(), "x = '\u2028\x85'; gpu()\n".encode()),
        ("數 = '🙂'; cuda()\n".encode(), "數 = '🙂'; gpu()\n".encode()),
    ],
)
def test_how_a_file_is_written_stays(data: bytes, expected: bytes) -> None:
    outcome = fix(data, to("gpu"))
    assert outcome.data == expected
    assert outcome.errors == ()


def test_inserted_lines_end_as_their_neighbours_do() -> None:
    rules = to("gpu", ("import", "import os"), ("line-before", "a = 1\nb = 2"))
    assert fix(b"import a\r\nif 1:\r\n\tcuda()\n", rules).data == (
        b"import a\r\nimport os\r\nif 1:\r\n\ta = 1\n\tb = 2\n\tgpu()\n"
    )


@settings(max_examples=60, deadline=None)
@given(programs(), st.sampled_from(["utf-8", "utf-8-sig", "gbk"]))
def test_a_fixed_program_differs_in_what_was_fixed_alone(text: str, encoding: str) -> None:
    if encoding == "gbk":
        text = "# coding: gbk\n" + text.replace("é", "e").replace("ö", "o").replace("ß", "s")
    assume("cuda" in text)
    try:
        parse(text)
    except Unreadable:
        assume(False)
    outcome = fix(text.encode(encoding), to("gpu_"))
    assert outcome.errors == ()
    assert outcome.data.decode(encoding).replace("gpu_", "torch.zeros(3).cuda") == text
    again = fix(outcome.data, to("gpu_"))
    assert (again.data, again.applied) == (outcome.data, 0)


def test_the_first_check_can_be_handed_in() -> None:
    calls: list[bytes] = []

    def check(data: bytes, path: str, options: CheckOptions) -> FileResult:
        calls.append(data)
        return FileResult(path)

    known = FileResult("a.py", (finding((0, 1, "y")),))
    outcome = fix_source(b"x\n", "a.py", CheckOptions(frozenset()), check=check, known=known)
    assert outcome.data == b"y\n"
    assert calls == [b"y\n"]


# ---- files


def test_a_file_is_replaced_and_keeps_its_mode(tmp_path: Path) -> None:
    file = tmp_path / "a.py"
    file.write_bytes(b"old")
    file.chmod(0o754)
    write_atomically(file, b"new\r\n")
    assert file.read_bytes() == b"new\r\n"
    assert stat.S_IMODE(file.stat().st_mode) == 0o754
    assert os.listdir(tmp_path) == ["a.py"]


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    target, link = tmp_path / "real" / "a.py", tmp_path / "b.py"
    target.parent.mkdir()
    target.write_bytes(b"old")
    link.symlink_to(Path("real") / "a.py")
    write_atomically(link, b"new")
    assert link.is_symlink()
    assert target.read_bytes() == b"new"


def test_a_file_that_cannot_be_written_stays_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "a.py"
    file.write_bytes(b"old")

    def fail(*arguments: object) -> None:
        raise OSError("no space left")

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(OSError, match="no space left"):
        write_atomically(str(file), b"new")
    assert file.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["a.py"]


def test_a_missing_file_is_not_made(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        write_atomically(tmp_path / "a.py", b"new")
    assert os.listdir(tmp_path) == []


# ---- differences


def test_a_difference_reads_as_diff_prints_it() -> None:
    assert (
        unified_diff(b"a\nb\n", b"a\nc\n", "x/y.py")
        == "--- x/y.py\n+++ x/y.py\n@@ -1,2 +1,2 @@\n a\n-b\n+c\n"
    )
    assert unified_diff(b"a\n", b"a\n", "y.py") == ""


def test_a_missing_final_newline_is_said() -> None:
    assert unified_diff(b"a", b"b\n", "y.py").endswith("-a\n\\ No newline at end of file\n+b\n")


def test_bytes_in_another_encoding_are_shown_as_they_read() -> None:
    assert "+é\n" in unified_diff(b"# coding: latin-1\n", b"# coding: latin-1\n\xe9\n", "y.py")


lines_of_bytes = st.lists(
    st.sampled_from([b"a\n", b"b\n", b"\n", b"c\r\n", b"\x0c\n", b"d\r", b"\xe2\x80\xa8\n"]), max_size=8
)


@settings(max_examples=25, deadline=None)
@given(lines_of_bytes, lines_of_bytes, st.booleans())
@pytest.mark.skipif(sys.platform == "win32", reason="needs patch")
def test_patch_takes_a_difference(old: list[bytes], new: list[bytes], final: bool) -> None:
    import shutil
    import tempfile

    if shutil.which("patch") is None:
        pytest.skip("needs patch")
    before, after = b"".join(old), b"".join(new) + (b"" if final else b"z")
    diff = unified_diff(before, after, "y.py")
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "y.py").write_bytes(before)
        if diff:
            command = ["patch", "--binary", "-p0", "-s"]
            subprocess.run(command, input=diff.encode(), cwd=folder, check=True, capture_output=True)
            remaining = Path(folder, "y.py")
            assert (remaining.read_bytes() if remaining.exists() else b"") == after
        else:
            assert before == after


def test_an_outcome_says_what_it_did() -> None:
    outcome = fix("cuda()\n", to("gpu"))
    assert isinstance(outcome, FixOutcome)
    assert [f.code for f in outcome.fixed] == ["DEV900"]
    assert (outcome.path, outcome.applied, outcome.errors) == ("train.py", 1, ())
    assert rule("x", 1).code == "DEV1"
