"""Bytes ↔ text, and characters ↔ lines and columns."""

from __future__ import annotations

import sys

import libcst as cst
import pytest
from hypothesis import given
from hypothesis import strategies as st

from torchlint.findings import Edit, Position, Range
from torchlint.source import Lines, Source, Unreadable, decode, parse

texts = st.text(st.sampled_from("ab é數\t\f\v\x1c\u2028\r\n"), max_size=30)


def place(line: int, column: int, last: int | None = None) -> Range:
    return Range(Position(line, column), Position(line, column if last is None else last))


# ---- lines


@given(texts)
def test_every_offset_has_a_place_of_its_own(text: str) -> None:
    lines = Lines(text)
    places = [lines.position(offset) for offset in range(len(text) + 1)]
    assert sorted(set(places)) == places
    assert [lines.offset(at) for at in places] == list(range(len(text) + 1))


@given(texts)
def test_lines_with_their_ends_are_the_text(text: str) -> None:
    lines = Lines(text)
    numbers = range(1, len(lines) + 1)
    assert "".join(map(lines.with_end, numbers)) == text
    assert [lines.line(n).strip("\r\n") for n in numbers] == [lines.line(n) for n in numbers]
    assert all(text[lines.start(n) : lines.end(n)] == lines.line(n) for n in numbers)


def test_only_what_python_takes_for_a_line_end_ends_a_line() -> None:
    lines = Lines("a\fb\u2028c\r\nd\re\n")
    assert [lines.line(n) for n in range(1, len(lines) + 1)] == ["a\fb\u2028c", "d", "e", ""]


@pytest.mark.parametrize(
    ("text", "line", "expected"),
    [
        ("a\r\nb\n", 1, "\r\n"),
        ("a\r\nb\n", 2, "\n"),
        ("a\r\nb", 2, "\r\n"),
        ("a", 1, "\n"),
        ("a\rb", 2, "\r"),
    ],
)
def test_inserted_lines_end_as_their_neighbour_does(text: str, line: int, expected: str) -> None:
    assert Lines(text).newline(line) == expected


# ---- bytes


@given(texts, st.sampled_from(["utf-8", "utf-8-sig", "latin-1", "cp1252", "iso8859-15", "gbk", "shift_jis"]))
def test_a_file_is_written_back_as_it_was_read(text: str, encoding: str) -> None:
    declared = text if encoding.startswith("utf-8") else f"# -*- coding: {encoding} -*-\n{text}"
    data = declared.encode(encoding, "replace")
    source = decode(data)
    assert source.text == data.decode(encoding)
    assert source.rewritten([]) == data


def test_edits_keep_the_mark_the_encoding_and_the_line_ends() -> None:
    assert decode(b"\xef\xbb\xbfx\r\ny").rewritten([Edit(0, 1, "é")]) == b"\xef\xbb\xbf\xc3\xa9\r\ny"
    assert decode(b"#coding:latin1\rx\r").rewritten([Edit(15, 16, "é")]) == b"#coding:latin1\r\xe9\r"


def test_a_text_that_the_encoding_cannot_hold_is_refused() -> None:
    with pytest.raises(UnicodeEncodeError):
        decode(b"# coding: latin-1\nx").rewritten([Edit(0, 0, "數")])


@pytest.mark.parametrize(
    ("data", "message", "where"),
    [
        (b"x = 1\ny = '\xff'\n", "byte 0xff is no UTF-8, and no other encoding is declared", place(2, 6, 7)),
        (b"'\xc3\xa9' + '\xff'\n", "byte 0xff is no UTF-8", place(1, 8, 9)),
        (b"\xef\xbb\xbf'\xff'\n", "byte 0xff is no UTF-8", place(1, 2, 3)),
        (
            b"# coding: ascii\nx = '\xe9'",
            "byte 0xe9 is no ascii, the encoding that the file declares",
            place(2, 6, 7),
        ),
        (b"x = 1\n\0\0", "a null byte", place(2, 1, 2)),
        ("x = 1".encode("utf-16"), "UTF-16 is no encoding for Python source", place(1, 1)),
        (b"# coding: klingon\n", "unknown encoding: klingon", place(1, 1)),
        (b"# coding: hex\n", "'hex' is not a text encoding", place(1, 1)),
        (b"# coding: utf-16\nx\n", "is no utf-16, the encoding that the file declares", place(2, 2, 3)),
        (b"\xef\xbb\xbf# coding: latin-1\n", "encoding problem: utf-8", place(1, 1)),
    ],
)
def test_bytes_that_are_no_python_source_are_refused_with_a_place(
    data: bytes, message: str, where: Range
) -> None:
    with pytest.raises(Unreadable) as caught:
        decode(data)
    assert message in caught.value.message
    assert caught.value.range == where


@given(st.binary(max_size=40))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    try:
        source = decode(data)
    except Unreadable:
        return
    assert source.rewritten([]) == data


# ---- parsing


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("x = (1,\n", 1, "never closed"),
        ("def f(:\n    pass\n", 1, "invalid syntax"),
        ("print 'a'\n", 1, "print"),
        ("x = 1\n  y = 2\n", 2, "unexpected indent"),
        ("if 1:\n    x\n  y\n", 3, "unindent"),
        ("s = '''a\nb\n", 1, "unterminated triple-quoted"),
        ("x = 1 \x1a\n", 1, "invalid"),
        ("x = $\n", 1, "invalid syntax"),
        ("if 1:\n\tx\n        y\n", 3, "inconsistent use of tabs"),
    ],
)
def test_a_syntax_error_is_told_in_pythons_words_at_its_place(text: str, line: int, words: str) -> None:
    with pytest.raises(Unreadable) as caught:
        parse(text)
    refusal = caught.value
    assert words in refusal.message
    assert refusal.range.start.line == line
    assert refusal.range.start <= refusal.range.end
    assert refusal.range.end.column <= len(Lines(text).line(refusal.range.end.line)) + 1
    assert not refusal.fault


def test_a_null_character_is_refused() -> None:
    with pytest.raises(Unreadable, match="null character"):
        parse("x = '\0'\n")


class Panic(BaseException):
    """As the native parser raises it: no Exception."""


@pytest.mark.parametrize("failure", [Panic("out of range"), ValueError("odd"), RecursionError("too deep")])
def test_a_parser_that_fails_on_good_code_is_at_fault(
    failure: BaseException, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(text: str) -> cst.Module:
        raise failure

    monkeypatch.setattr(cst, "parse_module", fail)
    with pytest.raises(Unreadable) as caught:
        parse("x = 1\n")
    assert caught.value.fault
    assert str(failure) in caught.value.message


@pytest.mark.parametrize("failure", [KeyboardInterrupt(), SystemExit(3)])
def test_who_interrupts_is_heard(failure: BaseException, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(text: str) -> cst.Module:
        raise failure

    monkeypatch.setattr(cst, "parse_module", fail)
    with pytest.raises(type(failure)):
        parse("x = 1\n")


def test_reading_needs_no_libcst() -> None:
    import subprocess

    code = "import sys, torchlint.source, torchlint.check; sys.exit('libcst' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_source_finds_its_places() -> None:
    source = Source("ab\ncd\n")
    assert source.locate(3, 5) == (None, place(2, 1, 3))
    assert source.bounds(4) == (0, 6)
    assert source.edit(3, 5, "x") == Edit(3, 5, "x")
