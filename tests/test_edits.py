"""Fixes said in terms of nodes become text edits that do what they say, or are only shown."""

from __future__ import annotations

from collections.abc import Callable

import libcst as cst
import pytest
from hypothesis import assume, given, settings
from made_up import check, fix, fixing
from programs import programs

from torchlint.findings import Safety
from torchlint.rule import NodeEdit, NodeFix
from torchlint.source import Unreadable, parse

Make = Callable[[cst.Call], list[tuple[cst.CSTNode, str, str]]]


def marked(make: Make, safety: Safety = Safety.SAFE) -> type:
    """A rule that fixes each call of `cuda` with edits (node, how, text)."""
    return fixing(
        "cuda", 900, lambda call: NodeFix("fix", safety, tuple(NodeEdit(*edit) for edit in make(call)))
    )


def fixed(text: str, make: Make) -> str:
    """The text after one round of the fix of its only call of `cuda`."""
    (finding,) = check(text, marked(make), only=["DEV900"]).findings
    assert finding.fix is not None
    assert finding.fix.safety is Safety.SAFE
    for edit in reversed(finding.fix.edits):
        text = text[: edit.start] + edit.text + text[edit.end :]
    parse(text)
    return text


def safety_of(text: str, make: Make) -> Safety:
    (finding,) = check(text, marked(make), only=["DEV900"]).findings
    assert finding.fix is not None
    return finding.fix.safety


def replace(call: cst.Call) -> list[tuple[cst.CSTNode, str, str]]:
    return [(call, "replace", "new")]


def argument(call: cst.Call) -> list[tuple[cst.CSTNode, str, str]]:
    return [(call, "argument", "k=1")]


def line_before(call: cst.Call) -> list[tuple[cst.CSTNode, str, str]]:
    return [(call, "line-before", "import a")]


def delete(call: cst.Call) -> list[tuple[cst.CSTNode, str, str]]:
    return [(call, "delete-statement", "")]


def import_os(call: cst.Call) -> list[tuple[cst.CSTNode, str, str]]:
    return [(call, "import", "import os")]


# ---- expressions


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("y = x.cuda()\n", "y = new\n"),
        ("y = (x.cuda())\n", "y = (new)\n"),
        ("f(x.cuda( a,\n  b), c)", "f(new, c)"),
        ("é = 數.cuda()\r\n", "é = new\r\n"),
        ("\fif 1:\n\ty = x.cuda()  # c\n", "\fif 1:\n\ty = new  # c\n"),
    ],
)
def test_a_node_is_replaced(text: str, expected: str) -> None:
    assert fixed(text, replace) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("y = x.cuda()\n", "y = <(x.cuda()).a\n"),
        ("y = (x.cuda())\n", "y = <((x.cuda())).a\n"),
        ("y = ( (  # c\n x.cuda() ) )\n", "y = <(( (  # c\n x.cuda() ) )).a\n"),
    ],
)
def test_text_goes_around_a_node_and_its_parentheses(text: str, expected: str) -> None:
    result = fixed(text, lambda call: [(call, "before", "g("), (call, "after", ").a")])
    assert result == expected.replace("<", "g")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("cuda()\n", "cuda(k=1)\n"),
        ("cuda( )\n", "cuda( k=1)\n"),
        ("cuda(\n    # none\n)\n", "cuda(\n    # none\nk=1)\n"),
        ("cuda(a)\n", "cuda(a, k=1)\n"),
        ("cuda(a )\n", "cuda(a, k=1 )\n"),
        ("cuda(a,)\n", "cuda(a, k=1)\n"),
        ("cuda(a, )\n", "cuda(a, k=1 )\n"),
        ("cuda(*a, b=(2))\n", "cuda(*a, b=(2), k=1)\n"),
        ("cuda(**a)\n", "cuda(**a, k=1)\n"),
        ("cuda(y for y in z)\n", "cuda((y for y in z), k=1)\n"),
        ("cuda((y for y in z))\n", "cuda((y for y in z), k=1)\n"),
        ("cuda(\n    a,\n    b,\n)\n", "cuda(\n    a,\n    b,\n    k=1,\n)\n"),
        ("cuda(\r\n\ta,  # why\r\n)\r\n", "cuda(\r\n\ta,  # why\r\n\tk=1,\r\n)\r\n"),
        ("cuda(\n    a  # why\n)\n", "cuda(\n    a, k=1  # why\n)\n"),
        ("cuda(\n    a, b,\n)\n", "cuda(\n    a, b, k=1,\n)\n"),
        ("cuda(a,\n    b\n    ,\n)\n", "cuda(a,\n    b\n    ,\n    k=1,\n)\n"),
        ("cuda(a,\n     b)(c)\n", "cuda(a,\n     b, k=1)(c)\n"),
    ],
)
def test_an_argument_is_added_in_the_calls_own_layout(text: str, expected: str) -> None:
    assert fixed(text, argument) == expected


# ---- statements


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("x.cuda()\n", "import a\nx.cuda()\n"),
        ("if 1:\n\tx.cuda()\n", "if 1:\n\timport a\n\tx.cuda()\n"),
        ("if 1:\r\n  y = f(\r\n    x.cuda())", "if 1:\r\n  import a\r\n  y = f(\r\n    x.cuda())"),
        ("# about it\nx.cuda()\n", "# about it\nimport a\nx.cuda()\n"),
        ("a = 1; x.cuda(); b\n", "a = 1; import a; x.cuda(); b\n"),
        ("if 1: x.cuda()\n", "if 1: import a; x.cuda()\n"),
        ("if 1:\n    y\nelse: x.cuda()\n", "if 1:\n    y\nelse: import a; x.cuda()\n"),
        ("if 1:\n    y\nelse:\n    x.cuda()\n", "if 1:\n    y\nelse:\n    import a\n    x.cuda()\n"),
        ("if x.cuda():\n    y\n", "import a\nif x.cuda():\n    y\n"),
        ("for y in x.cuda(): pass\n", "import a\nfor y in x.cuda(): pass\n"),
        ("while x.cuda(): pass\n", "import a\nwhile x.cuda(): pass\n"),
        ("with x.cuda() as y: pass\n", "import a\nwith x.cuda() as y: pass\n"),
        ("@d\n# c\n@e\ndef f(a=x.cuda()): pass\n", "import a\n@d\n# c\n@e\ndef f(a=x.cuda()): pass\n"),
        (
            "async def f():\n  async with x.cuda(): y\n",
            "async def f():\n  import a\n  async with x.cuda(): y\n",
        ),
        ("class A(x.cuda()): y\n", "import a\nclass A(x.cuda()): y\n"),
        ("try:\n    x.cuda()\nexcept E: pass\n", "try:\n    import a\n    x.cuda()\nexcept E: pass\n"),
        ("match y:\n    case 1: x.cuda()\n", "match y:\n    case 1: import a; x.cuda()\n"),
        ("f = lambda: x.cuda()\n", "import a\nf = lambda: x.cuda()\n"),
        ("y = [\n    x.cuda()\n    for x in z\n]\n", "import a\ny = [\n    x.cuda()\n    for x in z\n]\n"),
    ],
)
def test_a_line_goes_before_the_statement(text: str, expected: str) -> None:
    assert fixed(text, line_before) == expected


def test_a_line_does_not_part_a_suppression_from_its_statement() -> None:
    text = "if 1:\n    # torchlint: ignore[DEV001]\n    x.cuda()\n"
    assert fixed(text, line_before) == text.replace("if 1:\n", "if 1:\n    import a\n")


def test_several_lines_go_before_a_statement_each_indented() -> None:
    two = [("line-before", "a = 1\nb = 2")]
    result = fixed("if 1:\r\n  x.cuda()\r\n", lambda call: [(call, how, text) for how, text in two])
    assert result == "if 1:\r\n  a = 1\r\n  b = 2\r\n  x.cuda()\r\n"


@pytest.mark.parametrize(
    "text",
    [
        "if 1:\n    y\nelif x.cuda():\n    z\n",
        "try:\n    y\nexcept x.cuda():\n    z\n",
        "match y:\n    case 1 if x.cuda():\n        z\n",
        "@x.cuda()\ndef f(): pass\n",
    ],
)
def test_a_line_that_could_not_stand_where_the_node_is_evaluated_is_only_shown(text: str) -> None:
    assert safety_of(text, line_before) is Safety.DISPLAY
    assert safety_of(text, delete) is Safety.DISPLAY


def test_two_lines_cannot_go_before_a_one_line_suite() -> None:
    make = [("line-before", "a = 1\nb = 2")]
    assert safety_of("if 1: x.cuda()\n", lambda c: [(c, how, t) for how, t in make]) is Safety.DISPLAY


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a\nx.cuda()\nb\n", "a\nb\n"),
        ("a\r\nx.cuda(\r\n  1)\r\nb", "a\r\nb"),
        ("x.cuda()\n", ""),
        ("a\nx.cuda()", "a"),
        ("a\n\n\nif 1:\n    x.cuda()\n    b\n", "a\n\n\nif 1:\n    b\n"),
        ("if 1:\n    x.cuda()\n", "if 1:\n    pass\n"),
        ("if 1: x.cuda()\n", "if 1: pass\n"),
        ("a; x.cuda(); b\n", "a; b\n"),
        ("a; x.cuda()\n", "a\n"),
        ("x.cuda() ; b;\n", "b;\n"),
        ("if 1: x.cuda(); b\n", "if 1: b\n"),
        ("if 1:\n    # about it\n    x.cuda()\n    b\n", "if 1:\n    # about it\n    b\n"),
        ("if x.cuda():\n    a\nelse:\n    b\nc\n", "c\n"),
        ("def f():\n    @d(\n     1)\n    class A(x.cuda()):\n        pass\n    a\n", "def f():\n    a\n"),
    ],
)
def test_a_statement_is_deleted(text: str, expected: str) -> None:
    assert fixed(text, delete) == expected


# ---- imports


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("cuda()\n", "import os\n\ncuda()\n"),
        ("import sys\ncuda()\n", "import sys\nimport os\ncuda()\n"),
        ("import a; import b  # c\n\ncuda()\n", "import a; import b  # c\nimport os\n\ncuda()\n"),
        ("from a import (\r\n  b)\r\ncuda()\r\n", "from a import (\r\n  b)\r\nimport os\r\ncuda()\r\n"),
        ('"""Doc."""\n\ncuda()\n', '"""Doc."""\n\nimport os\n\ncuda()\n'),
        (
            '"""Doc."""\nfrom __future__ import annotations\ncuda()\n',
            '"""Doc."""\nfrom __future__ import annotations\nimport os\ncuda()\n',
        ),
        ("#!/bin/python\n\n# About it.\ncuda()\n", "#!/bin/python\n\nimport os\n\n# About it.\ncuda()\n"),
        ("# Licence\ncuda()\n", "# Licence\nimport os\n\ncuda()\n"),
        ("@d\ndef f():\n    cuda()\nimport sys\n", "import os\n\n@d\ndef f():\n    cuda()\nimport sys\n"),
        ("try:\n    import os\nexcept E: cuda()\n", "import os\n\ntry:\n    import os\nexcept E: cuda()\n"),
        ("import os as o\ncuda()", "import os as o\nimport os\ncuda()"),
    ],
)  # fmt: skip
def test_an_import_is_added_where_imports_stand(text: str, expected: str) -> None:
    assert fixed(text, import_os) == expected


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("import os", "import os\n"),
        ("import os", "import sys, os\n"),
        ("import os", "import os.path\n"),
        ("import os", "x = 1\nimport os\n"),
        ("from a.b import c", "from a.b import (d, c)\n"),
        ("from a.b import c as d", "from a.b import c as d\n"),
        ("import torch.nn as nn", "import torch.nn as nn\n"),
        ("from . import a", "from . import a\n"),
    ],
)
def test_an_import_that_is_there_is_not_added(line: str, text: str) -> None:
    whole = f"{text}cuda()\n"
    result = fixed(whole, lambda call: [(call, "import", line), (call, "replace", "new")])
    assert result == f"{text}new\n"


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("from a import b", "from a import c\n"),
        ("from a import b", "from .a import b\n"),
        ("from a import b", "from a import b as c\n"),
        ("import a.b", "import a\n"),
        ("import a as b", "import a\n"),
        ("from a import b", "from a import *\n"),
    ],
)
def test_an_import_of_something_else_does_not_do(line: str, text: str) -> None:
    assert fixed(f"{text}cuda()\n", lambda call: [(call, "import", line)]) == f"{text}{line}\ncuda()\n"


# ---- whole fixes


@pytest.mark.parametrize(
    "text",
    [
        "y = f(x.cuda(  # why\n))\n",
        "y = f(x.cuda(\n    # why\n    1,\n))\n",
        'y = x.cuda("""\n""",  # why\n  1)\n',
    ],
)
def test_a_fix_that_would_drop_a_comment_is_only_shown(text: str) -> None:
    (finding,) = check(text, marked(replace), only=["DEV900"]).findings
    assert finding.fix is not None
    assert finding.fix.safety is Safety.DISPLAY
    assert [edit.text for edit in finding.fix.edits] == ["new"]
    assert fix(text, marked(replace)).data == text.encode()


def test_deleting_a_statement_does_not_take_its_comment_along() -> None:
    assert safety_of("a\nx.cuda()  # why\n", delete) is Safety.DISPLAY


@pytest.mark.parametrize(
    "text", ["x.cuda('# no comment')\n", 'x.cuda("""\n# no comment\n""")\n', "x.cuda(f'#{y}')\n"]
)
def test_what_only_looks_like_a_comment_may_go(text: str) -> None:
    assert fixed(text, replace) == "new\n"


def test_a_comment_may_be_moved() -> None:
    text = "y = x.cuda(\n    1  # why\n)\n"
    assert (
        fixed(text, lambda call: [(call, "replace", "new(\n    1  # why\n)")])
        == "y = new(\n    1  # why\n)\n"
    )


def test_edits_of_one_fix_that_overlap_are_only_shown() -> None:
    text = "x.cuda(a)\n"
    both = [("replace", "new"), ("argument", "k=1")]
    assert safety_of(text, lambda call: [(call, how, new) for how, new in both]) is Safety.DISPLAY


def test_a_fix_of_a_node_from_nowhere_is_only_shown() -> None:
    assert safety_of("x.cuda()\n", lambda call: [(cst.Name("x"), "replace", "new")]) is Safety.DISPLAY


def test_an_unsafe_fix_stays_unsafe() -> None:
    (finding,) = check("x.cuda()\n", marked(replace, Safety.UNSAFE), only=["DEV900"]).findings
    assert finding.fix is not None
    assert finding.fix.safety is Safety.UNSAFE


def test_an_unknown_way_to_edit_is_a_fault_of_the_rule() -> None:
    result = check("x.cuda()\n", marked(lambda call: [(call, "repalce", "new")]), only=["DEV900"])
    assert "'repalce' is no way to edit" in result.errors[0].message


def renaming(make: Make) -> Make:
    return lambda call: [*make(call), (call.func, "replace", "done")]


@settings(max_examples=40, deadline=None)
@given(programs())
def test_every_edit_leaves_a_program_that_parses(text: str) -> None:
    try:
        parse(text)
    except Unreadable:
        assume(False)
    assume("cuda" in text)
    for make in (argument, line_before, delete, import_os):
        outcome = fix(text, marked(renaming(make)))
        if make is not delete:
            assert outcome.errors == ()
        parse(outcome.data.decode())
