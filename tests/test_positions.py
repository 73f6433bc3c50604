"""Where nodes stand: as PositionProvider says, found without it."""

from __future__ import annotations

import libcst as cst
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from libcst.metadata import MetadataWrapper, PositionProvider
from programs import programs

from torchlint import positions
from torchlint.findings import Position
from torchlint.positions import by_codegen, by_provider, places, ranges
from torchlint.source import Lines, Unreadable, parse


def parsed(text: str) -> cst.Module:
    try:
        return parse(text)
    except Unreadable:
        assume(False)
        raise


def all_nodes(module: cst.Module) -> list[cst.CSTNode]:
    found: list[cst.CSTNode] = []

    class Gather(cst.CSTVisitor):
        def on_visit(self, node: cst.CSTNode) -> bool:
            found.append(node)
            return True

    module.visit(Gather())
    return found


@settings(max_examples=100, deadline=None)
@given(programs())
def test_ranges_are_those_of_position_provider(text: str) -> None:
    module = parsed(text)
    nodes = all_nodes(module)
    expected = MetadataWrapper(module, unsafe_skip_copy=True).resolve(PositionProvider)
    lines = Lines(module.code)
    found = ranges(module, nodes)
    for node in nodes:
        # PositionProvider counts a final newline that is not there; `offset` stops at the end of the text.
        ends = (expected[node].start, expected[node].end)
        start, end = (lines.offset(Position(at.line, at.column + 1)) for at in ends)
        assert found[id(node)] == lines.range(start, end), type(node)


@settings(max_examples=60, deadline=None)
@given(programs())
def test_both_ways_give_the_same(text: str) -> None:
    module = parsed(text)
    wanted = {
        id(node) for node in all_nodes(module) if isinstance(node, (cst.BaseExpression, cst.Arg, cst.Comma))
    }
    code, spans, holders = by_codegen(module, wanted, True)
    expected_code, expected_spans, expected_holders = by_provider(module, wanted, True)
    assert code == expected_code
    assert {key: spans[key] for key in expected_spans} == expected_spans
    # A decorator's code is generated before its function is begun, so that only the nearest holder agrees.
    nearest = [{key: around[-1:] for key, around in each.items()} for each in (holders, expected_holders)]
    assert {key: nearest[0][key] for key in wanted} == {key: nearest[1][key] for key in wanted}


@settings(max_examples=60, deadline=None)
@given(programs(), st.integers(0, 1000))
def test_the_statements_around_a_node_suffice_to_find_it(text: str, number: int) -> None:
    module = parsed(text)
    nodes = [node for node in all_nodes(module) if isinstance(node, (cst.Call, cst.Name, cst.Comma))]
    assume(nodes)
    node = nodes[number % len(nodes)]
    _, spans, holders = by_codegen(module, {id(node)}, True)
    found = places(module, [node], text, statements=True)
    if module.code == text:
        assert found.span(node) == spans[id(node)]
        assert found.holders[id(node)] == holders[id(node)]
        assert all(spans[key] == span for key, span in found.spans.items())


@settings(max_examples=60, deadline=None)
@given(programs(), st.integers(0, 1000))
def test_the_line_around_a_node_suffices_to_find_it(text: str, number: int) -> None:
    module = parsed(text)
    assume(text == module.code)
    nodes = [node for node in all_nodes(module) if isinstance(node, cst.BaseExpression)]
    assume(nodes)
    node = nodes[number % len(nodes)]
    assert places(module, [node], text).span(node) == by_codegen(module, {id(node)}, False)[1][id(node)]


@pytest.mark.parametrize("number", range(4))
def test_of_two_equal_lines_within_functions_the_right_one_is_found(number: int) -> None:
    text = "def f(x):\n    if x:\n      x.go()\n    x.go()\n\nclass A:\n    def g(x):\n        x.go()\n        x.go()\n"
    module = cst.parse_module(text)
    calls = [node for node in all_nodes(module) if isinstance(node, cst.Call)]
    starts = [i for i in range(len(text)) if text.startswith("x.go()", i)]
    assert places(module, [calls[number]], text).span(calls[number]) == (starts[number], starts[number] + 6)


def test_of_two_equal_statements_the_right_one_is_found() -> None:
    text = "import torch\nx.cuda()\nif a:\n    x.cuda()\nx.cuda()\n"
    module = parse(text)
    last = cst.ensure_type(cst.ensure_type(module.body[-1], cst.SimpleStatementLine).body[0], cst.Expr).value
    assert places(module, [last], text).span(last) == (text.rindex("x.cuda"), len(text) - 1)


@settings(max_examples=60, deadline=None)
@given(programs())
def test_the_span_of_an_expression_holds_its_code(text: str) -> None:
    module = parsed(text)
    nodes = [
        node for node in all_nodes(module) if isinstance(node, (cst.Name, cst.Integer, cst.SimpleString))
    ]
    found = places(module, nodes, text)
    assert found.faithful
    for node in nodes:
        start, end = found.span(node)
        bare = node.with_changes(lpar=(), rpar=())
        assert text[start:end] == module.code_for_node(bare)


@pytest.mark.parametrize(
    "text",
    [
        "\fx = f(a)\n",
        "x = 1\n\f\ndef g():\n    f(a)\n",
        "def g():\n    1\n\f    f(a)\n",
        "def g():\n    1\n    \f    \nf(a)\n",
        "\\\nf(a)\n",
        "if 1:\n    1\n\n\f\f    f(a)\r\n",
    ],
)
def test_what_libcst_drops_does_not_shift_places(text: str) -> None:
    module = parse(text)
    calls = [node for node in all_nodes(module) if isinstance(node, cst.Call)]
    found = places(module, calls, text)
    assert found.faithful
    assert [text[slice(*found.span(call))] for call in calls] == ["f(a)"]


def test_a_text_that_is_another_is_not_faithful() -> None:
    module = parse("f(a)\nf(b)\n")
    call = module.body[1].body[0].value  # type: ignore[union-attr]
    found = places(module, [call], "g(a)\nf(c)\n")
    assert not found.faithful
    assert found.span(call) == (5, 9)


def test_a_node_from_elsewhere_is_left_out() -> None:
    assert ranges(parse("x\n"), [cst.Name("x")]) == {}


def test_a_long_chain_has_places() -> None:
    text = "x = " + " + ".join(["a"] * 500) + "\n"
    module = parse(text)
    value = module.body[0].body[0].value  # type: ignore[union-attr]
    assert text[slice(*places(module, [value], text).span(value))] == text[4:-1]


def test_position_provider_takes_over_where_libcst_has_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    class Changed:
        def __init__(self, *arguments: object) -> None:
            raise TypeError("unexpected argument")

    module = parse("f(a)\n")
    call = module.body[0].body[0].value  # type: ignore[union-attr]
    expected = ranges(module, [call])
    monkeypatch.setattr(positions, "_Recorder", Changed)
    assert ranges(module, [call]) == expected
