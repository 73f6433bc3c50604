"""Random Python programs in every layout that the grammar allows, for Hypothesis."""

from __future__ import annotations

from hypothesis import strategies as st

_ATOMS = st.sampled_from(
    [
        "x", "größe", "數", "self.weight", "0", "1_000", "1e-3j", "None", "...", "''", "'#'", '"é\\n"', "b'\\x00'",
        "r'\\d'", "'''a\n  # not a comment\nb'''", '"""\\\n"""', "'a' \"b\"",
        "f'{x!r:>{w}} {{}}'", "f'''{\nx\n}'''",
        *["torch.zeros(3).cuda()"] * 9,  # often, for tests that look for it
    ]
)  # fmt: skip
_GAPS = st.sampled_from(["", " ", "  ", "\t"])
#: White space where brackets allow line breaks.
_LOOSE = st.sampled_from(["", " ", "\n", "\n    ", "  # why, (or not\n", "\n\n\t# é ]\n "])


@st.composite
def _combined(draw: st.DrawFn, inner: st.SearchStrategy[str]) -> str:
    one, two = draw(inner), draw(inner)
    gap, loose, other = draw(_GAPS), draw(_LOOSE), draw(_LOOSE)
    return draw(
        st.sampled_from(
            [
                f"({loose}{one}{other})",
                f"(({one}))",
                f"({one}{loose}+{other}{two})",
                f"({one}{loose}if {two} else{other} {one})",
                f"f({loose}{one}{other},{loose}k{gap}={gap}{two}{other})",
                f"f({loose}{one},{other})",
                f"f({gap})",
                f"f(*{one},{loose}**{two})",
                f"f(y for y in {one})",
                f"({one}).a{gap}.b",
                f"x[{gap}{one}:{two},{gap}::2]",
                f"[{loose}{one},{other}{two}{loose}]",
                f"{{{loose}{one}:{gap}{two},{other}}}",
                f"[y{gap} for y in {one} if {two}]",
                f"(lambda a,{gap}b={one}:{gap}{two})",
                f"(not {one})",
                f"({one} <{gap}{two} is{loose} not {one})",
                f"({one},)",
                f"(z{gap}:={one})",
                f"(yield {one})",
                f"-{gap}{two}",
            ]
        )
    )


expressions = st.recursive(_ATOMS, _combined, max_leaves=5)


@st.composite
def _small(draw: st.DrawFn) -> str:
    one, two, gap = draw(expressions), draw(expressions), draw(_GAPS)
    return draw(
        st.sampled_from(
            [
                one,
                f"x{gap}={gap}{one}",
                f"x = \\\n  {one}",
                f"x, y = {one}, {two}",
                f"x: int{gap}= {one}",
                f"x +={gap}{one}",
                f"assert {one},{gap}{two}",
                f"del x{gap},{gap}y",
                "pass",
                "import a.b as c, d",
                "from . import (a,\n  b as c, # why\n)",
                f"return {one}",
                f"raise E({one}) from {two}",
                "global x",
            ]
        )
    )


@st.composite
def _line(draw: st.DrawFn) -> str:
    parts = draw(st.lists(_small(), min_size=1, max_size=3))
    end = draw(st.sampled_from(["", ";", " ; ", "  # why", "\t# é", "  "]))
    return draw(st.sampled_from([";", " ; ", "; "])).join(parts) + end


def _blocks(statements: st.SearchStrategy[list[str]]) -> st.SearchStrategy[list[str]]:
    """Compound statements, as lists of lines."""

    @st.composite
    def compound(draw: st.DrawFn) -> list[str]:
        one, gap = draw(expressions), draw(_GAPS)
        indent = draw(st.sampled_from(["    ", "  ", "\t"]))

        def suite(header: str) -> list[str]:
            if draw(st.booleans()):
                return [f"{header}{gap}{draw(_line())}"]
            note = draw(st.sampled_from(["", "  # why"]))
            return [header + note, *(_indented(line, indent) for line in draw(statements))]

        shapes = [
            lambda: suite(f"if {one}{gap}:"),
            lambda: suite(f"if {one}:") + suite(f"elif{gap} {draw(expressions)}:") + suite(f"else{gap}:"),
            lambda: suite(f"for x in {one}:") + suite("else:"),
            lambda: suite(f"while {one}:"),
            lambda: suite(f"with {one} as y,{gap} {one}:"),
            lambda: suite("try:") + suite(f"except ({one}) as e:") + suite("finally :"),
            lambda: [f"@d({one})", "@é  # why", "# and", *suite(f"def f(a,{gap} *b, c={one})->{gap}int:")],
            lambda: suite(f"async def f(a{gap}: int = 3, /, **k):"),
            lambda: suite(f"class A(B,{gap}m={one}):"),
        ]
        return draw(st.sampled_from(shapes))()

    return compound()


def _indented(line: str, indent: str) -> str:
    """A line of a suite; the lines inside of brackets and strings stay where they are."""
    return indent + line if line.strip() else line


@st.composite
def _body(draw: st.DrawFn, inner: st.SearchStrategy[list[str]] | None) -> list[str]:
    lines: list[str] = []
    choices = [_line().map(lambda line: [line]), st.just([""]), st.just(["  "]), st.just(["# alone"])]
    if inner is not None:
        choices.append(_blocks(inner))
    for chosen in draw(st.lists(st.one_of(choices), max_size=4)):
        lines += chosen
    return [*lines, draw(_line())]


_flat = _body(None)
_nested = _body(_flat)


@st.composite
def programs(draw: st.DrawFn) -> str:
    """The text of a module. Most parse; some don't (such as `return` in brackets)."""
    heads = ["", "#!/usr/bin/env python\n", "# -*- coding: utf-8 -*-\n\n", "'''doc'''\n", "\n"]
    head = draw(st.sampled_from(heads))
    text = head + "\n".join(draw(_body(_nested))) + draw(st.sampled_from(["", "\n", "\n\n  # end", "\n    "]))
    ends = draw(st.sampled_from([["\n"], ["\r\n"], ["\r"], ["\n", "\r\n", "\r"]]))
    pieces = text.split("\n")
    last = len(pieces) - 1
    return "".join(piece + (ends[i % len(ends)] if i < last else "") for i, piece in enumerate(pieces))
