"""Comments that silence findings."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from made_up import brief, check, fix, rule
from programs import programs

from torchlint.findings import Confidence, FileResult, Finding, Safety
from torchlint.source import Source, Unreadable, parse
from torchlint.suppressions import find_suppressions, may_suppress

CUDA = rule("cuda", 900)
ITEM = rule("item", 901)


def found(text: str) -> list[tuple[str, int]]:
    return brief(check(text, CUDA, ITEM))


def unused(text: str, **options: Any) -> list[Finding]:
    return [f for f in check(text, CUDA, ITEM, **options).findings if f.code == "DEV002"]


# ---- what is silenced


@pytest.mark.parametrize(
    "comment",
    [
        "# torchlint: ignore",
        "# torchlint: ignore only on the CPU",
        "# torchlint: ignore[DEV900]",
        "# torchlint: ignore[DEV900] only on the CPU",
        "# torchlint: ignore[no-cuda]",
        "# torchlint: ignore[ no-cuda ]: why",
        "# torchlint: ignore[DEV9]",
        "#torchlint:ignore[dev900]",
        "# TorchLint: Ignore[DEV900]",
        "# type: ignore  # torchlint: ignore[DEV900]",
        "# torchlint: ignore[DEV900]  # type: ignore",
        "# noqa: DEV900",
        "# NOQA:DEV900 why",
        "# noqa: E501, DEV900",
        "# noqa: E501 DEV900",
        "# torchlint: ignore-file[DEV900]",
        "# torchlint: ignore-file",
    ],
)
def test_a_comment_at_the_end_of_the_line_silences_it(comment: str) -> None:
    result = check(f"x.cuda()  {comment}\n", CUDA, ITEM)
    assert brief(result) == []
    assert result.suppressed == 1


@pytest.mark.parametrize(
    "comment",
    [
        "# noqa",
        "# noqa: E501",
        "# ignore[DEV900]",
        "# run torchlint: it ignores nothing",
        "# torchlint: see the manual",
        "# torchlint is here: ignore",
    ],
)
def test_other_comments_silence_nothing_and_draw_nothing(comment: str) -> None:
    assert found(f"x.cuda()  {comment}\n") == [("DEV900", 1)]


def test_only_what_is_named_is_silenced() -> None:
    text = "x.cuda(y.item())  # torchlint: ignore[DEV900]\n"
    assert found(text) == [("DEV901", 1)]
    assert found(text.replace("DEV900", "DEV900, no-item")) == []
    assert found(text.replace("[DEV900]", "")) == []


@pytest.mark.parametrize(
    "text",
    [
        "x = '# torchlint: ignore[DEV900]'; y.cuda()\n",
        'x = """\n# torchlint: ignore-file[DEV900]\n"""\ny.cuda()\n',
        "x = f'{y.cuda()}# torchlint: ignore[DEV900]'\n",
        "y.cuda(\n    '''\n    # torchlint: ignore[DEV900]\n    ''')\n",
    ],
)
def test_a_string_is_no_comment(text: str) -> None:
    assert [code for code, _ in found(text)] == ["DEV900"]


@pytest.mark.parametrize(
    ("text", "left"),
    [
        # on its own line: the statement below, all of it
        ("# torchlint: ignore[DEV900]\nx.cuda()\ny.cuda()\n", [3]),
        ("# torchlint: ignore[DEV900]\nf(\n    x.cuda(),\n    y.cuda(),\n)\nz.cuda()\n", [6]),
        ("# torchlint: ignore[DEV900]\n\n# more\n\nx.cuda()\ny.cuda()\n", [6]),
        ("# torchlint: ignore[DEV900]\nx.cuda(); y.cuda()\n", []),
        # of a compound statement, the header
        ("# torchlint: ignore[DEV900]\nif x.cuda() and (\n    y.cuda()\n):\n    z.cuda()\n", [5]),
        ("if 1:\n    # torchlint: ignore[DEV900]\n    x.cuda()\n    y.cuda()\n", [4]),
        ("if 1:\n    x\n# torchlint: ignore[DEV900]\nelif x.cuda():\n    y.cuda()\n", [5]),
        ("# torchlint: ignore[DEV900]\n@x.cuda()\n@y.cuda()\ndef f(a=z.cuda()):\n    x.cuda()\n", [5]),
        ("# torchlint: ignore[DEV900]\nclass A(x.cuda()): y = x.cuda()\nz.cuda()\n", [3]),
        # inside of brackets: the line below
        ("f(\n    x.cuda(),\n    # torchlint: ignore[DEV900]\n    y.cuda(),\n    z.cuda(),\n)\n", [2, 5]),
        ("f(\n    # torchlint: ignore[DEV900]\n    # why\n\n    y.cuda(),\n    z.cuda(),\n)\n", [6]),
        # at the end of a statement's first or last line: all of it
        ("f(  # torchlint: ignore[DEV900]\n    x.cuda(),\n    y.cuda(),\n)\nz.cuda()\n", [5]),
        ("f(\n    x.cuda(),\n    y.cuda(),\n)  # torchlint: ignore[DEV900]\nz.cuda()\n", [5]),
        ("x = '''\n''', y.cuda(), \\\n    z.cuda()  # torchlint: ignore[DEV900]\n", []),
        # at the end of another line of it: that line
        ("f(\n    x.cuda(),  # torchlint: ignore[DEV900]\n    y.cuda(),\n)\n", [3]),
        ("f(\n    x.cuda(\n        1\n    ),  # torchlint: ignore[DEV900]\n    y.cuda(),\n)\n", [5]),
        # at the end of a header: the header
        ("for x in y.cuda():  # torchlint: ignore[DEV900]\n    z.cuda()\n", [2]),
        ("if 1: x.cuda()  # torchlint: ignore[DEV900]\ny.cuda()\n", [2]),
        ("@x.cuda()  # torchlint: ignore[DEV900]\ndef f(a=y.cuda()): pass\n", [2]),
        # whole files, wherever it stands
        ("x.cuda()\ny.cuda()\n# torchlint: ignore-file[DEV900]", []),
        # the file's own line ends
        ("# torchlint: ignore[DEV900]\r\nx.cuda()\r\ny.cuda()  # torchlint: ignore[DEV900]\r\nz.cuda()", [4]),
        ("\ufeffx.cuda()  # torchlint: ignore[DEV900]\n", []),
        ("é = '數'; x.cuda()  # torchlint: ignore[DEV900]\n", []),
        ("\fif 1:\n\t x.cuda()  # torchlint: ignore[DEV900]\n", []),
    ],
)
def test_where_a_comment_reaches(text: str, left: list[int]) -> None:
    assert [line for code, line in found(text) if code == "DEV900"] == left
    assert not unused(text)


def test_a_finding_on_a_whole_block_is_silenced_at_its_header() -> None:
    import libcst as cst

    def block(self, event):  # type: ignore[no-untyped-def]
        loop = next(each for each in self.context.module.body if isinstance(each, cst.For))
        return [self.finding(loop, "this loop")]

    loops = rule("item", 902, block)
    text = "for x in y:\n    x.item()\n"
    assert brief(check(text, loops)) == [("DEV902", 1)]
    assert brief(check(text.replace(":\n", ":  # torchlint: ignore[DEV902]\n", 1), loops)) == []
    assert brief(check("# torchlint: ignore[DEV902]\n" + text, loops)) == []
    at_the_end = check(text.replace("()\n", "()  # torchlint: ignore[DEV902]\n"), loops)
    assert [f.code for f in at_the_end.findings] == ["DEV902", "DEV002"]


def test_an_unreadable_file_is_silenced_as_a_whole_or_not_at_all() -> None:
    assert found("import torch  # torchlint: ignore-file[DEV001]\nx = (\n") == []
    assert found("import torch  # torchlint: ignore\nx = (\n") == [("DEV001", 2)]


# ---- DEV002


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        # the whole comment, with its reason
        ("x = torch  # torchlint: ignore[DEV900] why\n", "x = torch\n"),
        ("x = torch# torchlint: ignore[DEV900]", "x = torch"),
        ("x = torch  # torchlint: ignore[no-cuda, DEV901]\ny\n", "x = torch\ny\n"),
        ("x = torch  # torchlint: ignore[DEV9]\n", "x = torch\n"),
        ("x = torch  # noqa: DEV900\n", "x = torch\n"),
        # with its line, if it stands alone
        ("import torch\n# torchlint: ignore[DEV900] why\nx\n", "import torch\nx\n"),
        ("import torch\r\n  # torchlint: ignore-file[DEV900]", "import torch"),
        ("# torchlint: ignore[DEV900]", ""),
        ("if 1:\n\t# torchlint: ignore[DEV900]\n\tx\n", "if 1:\n\tx\n"),
        # other text stays
        ("x = torch  # type: ignore  # torchlint: ignore[DEV900] why\n", "x = torch  # type: ignore\n"),
        ("x = torch  # torchlint: ignore[DEV900] why  # type: ignore\n", "x = torch  # type: ignore\n"),
        ("x = torch  # a # torchlint: ignore[DEV900]  # b\n", "x = torch  # a # b\n"),
        # one of several codes
        (
            "x.cuda()  # torchlint: ignore[DEV900, DEV901] why\n",
            "x.cuda()  # torchlint: ignore[DEV900] why\n",
        ),
        ("x.item()  # torchlint: ignore[DEV900,DEV901]\n", "x.item()  # torchlint: ignore[DEV901]\n"),
        ("x = torch  # noqa: E501, DEV900, F401\n", "x = torch  # noqa: E501, F401\n"),
        ("x = torch  # noqa: E501,DEV900,F401 why\n", "x = torch  # noqa: E501,F401 why\n"),
    ],
)
def test_a_suppression_of_nothing_is_reported_and_removed(text: str, expected: str) -> None:
    outcome = fix(text, CUDA, ITEM)
    assert {finding.code for finding in outcome.fixed} == {"DEV002"}
    assert outcome.data.decode() == expected
    assert outcome.errors == ()
    assert unused(text)[0].fix.safety is Safety.SAFE  # type: ignore[union-attr]


def test_an_unused_suppression_names_what_is_unused_and_where() -> None:
    (finding,) = unused("x.cuda()  # torchlint: ignore[DEV900, no-item, DEV001] why\n")
    assert finding.message == "Nothing here is reported as `no-item`, `DEV001`"
    start, end = finding.range.start, finding.range.end
    assert (start.column, end.column) == (39, 54)
    (bare,) = unused("torch.f()  # torchlint: ignore\n")
    assert bare.message == "This comment suppresses nothing"
    assert (bare.range.start.column, bare.range.end.column) == (12, 31)


@pytest.mark.parametrize(
    "text",
    [
        "torch.f()  # torchlint: ignore-file\n",
        "torch.f()  # torchlint: ignore[DEV002]\n",
        "torch.f()  # noqa: E501\n",
        "torch.f()  # noqa\n",
        "torch.f()  # torchlint: ignore[DEV900, DEV002]\n",
        "x.cuda()  # torchlint: ignore[DEV900]  # noqa: DEV900\n",
    ],
)
def test_what_is_not_called_unused(text: str) -> None:
    assert unused(text) == []


def test_only_codes_of_rules_that_ran_are_called_unused() -> None:
    text = "torch.f()  # torchlint: ignore[DEV900]\n"
    assert unused(text, only=["DEV002", "DEV901"]) == []
    assert unused(text, ignore=frozenset({"DEV900"})) == []
    assert len(unused(text, only=["DEV002", "DEV900"])) == 1
    assert unused(text, only=["DEV900"]) == []
    bare = "torch.f()  # torchlint: ignore\n"
    assert unused(bare, ignore=frozenset({"DEV900"})) == []


def test_nothing_is_called_unused_where_a_part_could_not_be_checked() -> None:
    def fail(self, event):  # type: ignore[no-untyped-def]
        raise ValueError

    result = check("x.item()  # torchlint: ignore[DEV900]\n", CUDA, rule("item", 901, fail))
    assert result.findings == ()
    assert result.errors != ()


def test_a_suppression_of_what_is_hidden_is_of_use() -> None:
    unsure = rule("cuda", 902, lambda self, e: [self.finding(e, "m", confidence=Confidence.POSSIBLE)])
    result = check("x.cuda()  # torchlint: ignore[DEV902]\n", unsure)
    assert result.findings == ()
    assert result.suppressed == 0


def test_a_suppression_of_what_another_finding_explains_is_of_use() -> None:
    mixed = rule("mix", 902, lambda self, e: [self.finding(e, "m", cause=e.node.args[0].value)])
    made = rule("zeros", 903, explains=("DEV902",))
    text = "torch.mix(  # torchlint: ignore[DEV902]\n    zeros(),\n)\n"
    assert brief(check(text, mixed, made)) == [("DEV903", 2)]


# ---- DEV003


def unknown(text: str) -> list[str]:
    return [f.message for f in check(text, CUDA, ITEM).findings if f.code == "DEV003"]


@pytest.mark.parametrize(
    ("comment", "message"),
    [
        ("ignore[DEV909]", "No rule has the code or name `DEV909`; `DEV901` is the nearest"),
        ("ignore[no-cude]", "No rule has the code or name `no-cude`; `no-cuda` is the nearest"),
        ("ignore[E501]", "No rule has the code or name `E501`"),
        ("ignore[DEV]", "No rule has the code or name `DEV`"),
        ("ignore-file[everything]", "No rule has the code or name `everything`"),
        ("ignore[DEV900", "The list of codes has no end: write `# torchlint: ignore[CODE]`"),
        ("ignore[]", "The list of codes is empty: write `# torchlint: ignore[CODE]`"),
        ("ignroe", "`ignroe` is nothing that torchlint knows: write `# torchlint: ignore[CODE]`"),
        ("disable=DEV900", "`disable` is nothing that torchlint knows: write `# torchlint: ignore[CODE]`"),
        (
            "skip-file[DEV900]",
            "`skip-file` is nothing that torchlint knows: write `# torchlint: ignore[CODE]`",
        ),
    ],
)
def test_a_suppression_that_is_not_understood_is_reported(comment: str, message: str) -> None:
    result = check(f"x.cuda()  # torchlint: {comment}\n", CUDA, ITEM)
    codes = [f.code for f in result.findings]
    assert codes[-1] == "DEV003"
    assert result.findings[-1].message == message
    assert codes[:1] == ["DEV900"]


def test_the_place_of_an_unknown_code_is_the_code() -> None:
    (finding,) = list(check("x.cuda()  # torchlint: ignore[DEV900, E1]\n", CUDA).findings)
    assert (finding.code, finding.range.start.column, finding.range.end.column) == ("DEV003", 39, 41)


def test_codes_of_other_linters_are_theirs() -> None:
    assert unknown("torch.f()  # noqa: E501, DEV999, ABC123\n") == []


def test_a_complaint_about_a_comment_can_be_silenced_by_name_alone() -> None:
    assert found("torch.f()  # torchlint: ignore[E501, DEV003]\n") == []
    assert found("# torchlint: ignore-file[DEV002]\ntorch.f()  # torchlint: ignore[DEV900]\n") == []
    assert unknown("torch.f()  # torchlint: ignore  # torchlint: ignore[E501]\n") != []


# ---- for all programs


@settings(max_examples=40, deadline=None)
@given(programs())
def test_suppressing_every_line_leaves_nothing(text: str) -> None:
    before = checked(text)
    lines = {finding.range.start.line for finding in before.findings}
    whole = f"{text}\n# torchlint: ignore-file[DEV900]\n"
    assume(parses(whole))
    after = checked(whole)
    assert [f for f in after.findings if f.code == "DEV900"] == []
    assert after.suppressed == len(before.findings)
    assert [f.code for f in after.findings] == ([] if lines else ["DEV002"])


def checked(text: str) -> FileResult:
    assume("torch" in text and parses(text))
    return check(text, CUDA)


def parses(text: str) -> bool:
    try:
        parse(text)
    except Unreadable:
        return False
    return True


words = st.text(st.sampled_from("#[],: DEV90torchlint-ignorefilenoqa\t\"'"), max_size=30)


@settings(deadline=None)
@given(
    st.lists(
        st.one_of(words, st.sampled_from(["# torchlint: ignore[", "# noqa: DEV900", "DEV901]", "ignore"]))
    )
)
def test_whatever_a_comment_says_its_parts_are_in_it(parts: list[str]) -> None:
    comment = "#" + "".join(parts)
    source = Source(f"x = 1  {comment}\n")
    for suppression in find_suppressions(source, {"DEV900": CUDA, "DEV901": ITEM}).found:
        assert source.text[slice(*suppression.comment)] == comment
        assert suppression.comment[0] <= suppression.start < suppression.end <= suppression.comment[1]
        for mention in suppression.mentions:
            assert source.text[mention.start : mention.end] == mention.word
            assert (
                suppression.codes[0] <= mention.start < mention.end <= suppression.codes[1] <= suppression.end
            )


@settings(max_examples=200, deadline=None)
@given(st.lists(st.one_of(words, st.sampled_from(["# torchlint: ignore[DEV900]", " # noqa: DEV900,E501"]))))
def test_removing_unused_suppressions_leaves_none(parts: list[str]) -> None:
    text = f"import torch  # {''.join(parts)}\nx.cuda()\n"
    outcome = fix(text, CUDA, ITEM)
    assert outcome.errors == ()
    assert [f for f in outcome.result.findings if f.code == "DEV002"] == []
    assert outcome.data.decode().splitlines()[0].startswith("import torch")
    assert outcome.data.decode().endswith("\nx.cuda()\n")
    assert fix(outcome.data, CUDA, ITEM).data == outcome.data


@pytest.mark.parametrize("comment", ["# noqa: F401", "# noqa: E501, W503", "# NOQA", "# noqa: F401\nDEV = 900"])
def test_what_other_linters_are_told_costs_no_look_at_comments(comment: str) -> None:
    assert not may_suppress(f"import torch  {comment}\n", {"DEV900": CUDA})
