"""Comments that silence findings: read, matched with findings, and reported where they are of no use."""

from __future__ import annotations

import re
import tokenize
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches

from torchlint.findings import Confidence, Finding, Fix, Safety
from torchlint.rule import Rule
from torchlint.source import Lines, Program
from torchlint.splice import without_line

#: The linter's own codes for comments; a comment that silences them is never called unused.
_ABOUT_COMMENTS = frozenset({"DEV002", "DEV003"})

_DIRECTIVE = re.compile(
    r"#\s*torchlint\s*:\s*(?P<verb>[\w-]*)\s*(?P<list>\[(?P<codes>[^\]#]*)(?P<close>\]?))?(?P<rest>[^#]*)",
    re.IGNORECASE,
)
# As flake8 reads it: codes with commas or blanks between them. A comment without codes is meant for others.
_NOQA = re.compile(
    r"#\s*noqa\s*:\s*(?P<codes>[A-Z]+[0-9]+(?:[\s,]+[A-Z]+[0-9]+)*)(?P<rest>[^#]*)", re.IGNORECASE
)
_MENTION = re.compile(r"[^\s,]+")


@dataclass(frozen=True)
class Mention:
    """One code, name or prefix in a comment: its place in the text, and the codes it stands for."""

    word: str
    start: int
    end: int
    codes: frozenset[str]


@dataclass(frozen=True)
class Reach:
    """Which findings a comment silences: those that start on the lines `first` to `last`.

    at: if it is a line between these, the finding must begin or end there as well.
    """

    first: int
    last: int
    at: int | None = None

    def covers(self, lines: tuple[int, int]) -> bool:
        """Whether a finding from one line to another is among them."""
        if not self.first <= lines[0] <= self.last:
            return False
        return self.at is None or self.at in (self.first, self.last) or self.at in lines


@dataclass(frozen=True)
class Suppression:
    """A comment, or the part of one, that silences findings.

    start, end: from its `#` to its end in the text. comment: the whole comment's span.
    mentions: what it names; nothing stands for everything. codes: the span of the list of codes.
    reach: None for the whole file. ours: `torchlint: ...`, not `noqa: ...`.
    problem: what is wrong with it, in words, where it is not understood.
    """

    start: int
    end: int
    comment: tuple[int, int]
    mentions: tuple[Mention, ...] = ()
    codes: tuple[int, int] = (0, 0)
    reach: Reach | None = None
    ours: bool = True
    problem: str = ""


@dataclass
class Suppressions:
    """The suppressions of one file, and which of them have silenced something."""

    program: Program
    found: Sequence[Suppression]
    known: Mapping[str, str]
    _used: set[tuple[int, int]] = field(default_factory=set)

    def silence(self, code: str, lines: tuple[int, int] | None) -> bool:
        """Whether a finding is silenced, noted as the use of each suppression that silences it.

        lines: the first and the last line of the finding; None where only a whole file can be silenced.
        """
        used = {
            (suppression.start, mention.start if mention else -1)
            for suppression in self.found
            if not suppression.problem
            if suppression.reach is None or (lines is not None and suppression.reach.covers(lines))
            for mention in suppression.mentions or (None,)
            if (mention is None and code not in _ABOUT_COMMENTS)
            or (mention is not None and code in mention.codes)
        }
        self._used |= used
        return bool(used)

    def complaints(self, rules: Mapping[str, type[Rule]], ran: frozenset[str], path: str) -> list[Finding]:
        """What is to be said about the comments themselves, once all findings have been asked for.

        rules: those that are on. ran: the codes of those that judged the whole file, so that it is known
        where a suppression of theirs silences nothing.
        """
        found = []
        if "DEV003" in rules:
            found += [self._finding(rules["DEV003"], path, *unknown) for unknown in self._unknown()]
        if "DEV002" in rules:
            found += [self._finding(rules["DEV002"], path, *unused) for unused in self._unused(ran)]
        lines = self.program.lines
        return [f for f, start in found if not self.silence(f.code, (lines.position(start).line,) * 2)]

    def _finding(
        self, rule: type[Rule], path: str, span: tuple[int, int], message: str, fix: Fix | None
    ) -> tuple[Finding, int]:
        cell, range = self.program.locate(*span)
        finding = Finding(
            code=rule.code,
            name=rule.name,
            message=message,
            severity=rule.severity,
            confidence=Confidence.CERTAIN,
            path=path,
            range=range,
            fix=fix,
            cell=cell,
        )
        return finding, span[0]

    def _unknown(self) -> Iterator[tuple[tuple[int, int], str, Fix | None]]:
        for suppression in self.found:
            if suppression.problem:
                yield (suppression.start, suppression.end), suppression.problem, None
            for mention in suppression.mentions if suppression.ours else ():
                if not mention.codes:
                    yield (mention.start, mention.end), self._no_rule(mention.word), None

    def _no_rule(self, word: str) -> str:
        """Words for a code that is none, with the nearest that is."""
        near = get_close_matches(word.lower(), self.known.values(), 1, 0.6)
        near = near or get_close_matches(word.upper(), self.known, 1, 0.82)
        hint = f"; `{near[0]}` is the nearest" if near else ""
        return f"No rule has the code or name `{word}`{hint}"

    def _unused(self, ran: frozenset[str]) -> Iterator[tuple[tuple[int, int], str, Fix | None]]:
        for suppression in self.found:
            if suppression.problem:
                continue
            if not suppression.mentions:
                # A bare `ignore-file` states a policy, not an exception; of a bare `ignore` it is known only
                # if every rule has run.
                idle = (suppression.start, -1) not in self._used and ran >= self.known.keys()
                if idle and suppression.reach is not None:
                    message = "This comment suppresses nothing"
                    yield (suppression.start, suppression.end), message, self._removal(suppression, ())
                continue
            unused = [m for m in suppression.mentions if self._is_unused(suppression, m, ran)]
            if unused:
                words = ", ".join(f"`{mention.word}`" for mention in unused)
                span = (unused[0].start, unused[-1].end)
                kept = tuple(m for m in suppression.mentions if m not in unused)
                yield span, f"Nothing here is reported as {words}", self._removal(suppression, kept)

    def _is_unused(self, suppression: Suppression, mention: Mention, ran: frozenset[str]) -> bool:
        if not mention.codes or mention.codes & _ABOUT_COMMENTS:
            return False
        return (suppression.start, mention.start) not in self._used and mention.codes <= ran

    def _removal(self, suppression: Suppression, kept: Sequence[Mention]) -> Fix | None:
        """The fix that leaves these mentions alone; if there are none, the suppression goes as a whole."""
        if kept:
            start, end = suppression.codes
            between = ", " if ", " in self.program.text[start:end] or suppression.ours else ","
            edit = self.program.edit(start, end, between.join(mention.word for mention in kept))
        else:
            edit = self.program.edit(*self._removed(suppression), "")
        if edit is None:
            return None
        return Fix("Remove the code" if kept else "Remove the comment", Safety.SAFE, (edit,))

    def _removed(self, suppression: Suppression) -> tuple[int, int]:
        """The span to take away with a suppression: its line, or the blanks before it; other text stays."""
        text, lines = self.program.text, self.program.lines
        first, last = suppression.comment
        line = lines.position(first).line
        before, after = text[lines.start(line) : suppression.start], text[suppression.end : last]
        if after.strip():
            return suppression.start, last - len(after.lstrip())
        if not before.strip():
            return without_line(lines, line, self.program.bounds(first))
        return lines.start(line) + len(before.rstrip()), last


def find_suppressions(program: Program, rules: Mapping[str, type[Rule]]) -> Suppressions:
    """The suppressions in a program's comments; as far as it can be told into tokens."""
    known = {code: rule.name for code, rule in rules.items()}
    comments, logical = _comments(program.lines)
    found = [
        suppression
        for line, column, comment in comments
        for suppression in _read(
            comment, program.lines.start(line) + column, _reach(line, column, logical, program.lines), known
        )
    ]
    return Suppressions(program, found, known)


def may_suppress(text: str, rules: Mapping[str, type[Rule]]) -> bool:
    """Whether something in a text reads like a suppression of ours: most files that say `noqa` mean other linters.

    Quick, while telling comments from texts in strings is not.
    """
    if _DIRECTIVE.search(text) is not None:
        return True
    known = {code: rule.name for code, rule in rules.items()}
    words = {word for match in _NOQA.finditer(text) for word in _MENTION.findall(match["codes"])}
    return any(_meant(word, known) for word in words)


# ---- comments and the statements they belong to ------------------------------------------------------------

_Comment = tuple[int, int, str]  # line from 1, column from 0, text


@dataclass(frozen=True)
class _Logical:
    """The lines of a statement, or of a compound statement's header; `decorator` if it is one of those."""

    first: int
    last: int
    decorator: bool


def _comments(lines: Lines) -> tuple[list[_Comment], list[_Logical]]:
    """All comments, and all logical lines, as far as the text can be told into tokens."""
    comments: list[_Comment] = []
    logical: list[_Logical] = []
    first: tokenize.TokenInfo | None = None
    # Line ends are told in one way, whichever way the file has them.
    numbers = iter(range(1, len(lines) + 1))
    feed = (lines.line(number) + "\n" for number in numbers)
    layout = (tokenize.NL, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER, tokenize.COMMENT)
    try:
        for token in tokenize.generate_tokens(lambda: next(feed, "")):
            if token.type == tokenize.COMMENT:
                comments.append((*token.start, token.string))
            elif token.type == tokenize.NEWLINE:
                if first is not None:
                    logical.append(_Logical(first.start[0], token.start[0], first.string == "@"))
                first = None
            elif first is None and token.type not in layout:
                first = token
    except (tokenize.TokenError, SyntaxError):  # the parser says what is wrong
        pass
    return comments, logical


def _reach(line: int, column: int, logical: Sequence[_Logical], lines: Lines) -> Reach | None:
    """What a comment at a place silences; None for nothing."""
    index = bisect_right([each.first for each in logical], line) - 1
    inside = index >= 0 and logical[index].last >= line
    alone = not lines.line(line)[:column].strip()
    if inside and not alone:
        return Reach(logical[index].first, logical[index].last, line)
    if inside:
        below = line + 1
        while below < logical[index].last and lines.line(below).lstrip()[:1] in ("", "#"):
            below += 1
        return Reach(below, below)
    if not alone or index + 1 >= len(logical):
        return None
    last = index + 1
    while logical[last].decorator and last + 1 < len(logical):
        last += 1
    return Reach(logical[index + 1].first, logical[last].last)


# ---- the words of a comment --------------------------------------------------------------------------------


def _read(comment: str, offset: int, reach: Reach | None, known: Mapping[str, str]) -> Iterator[Suppression]:
    """The suppressions in a comment that begins at an offset of the text."""
    span = (offset, offset + len(comment))
    nowhere = reach or Reach(0, -1)
    for match in _DIRECTIVE.finditer(comment):
        start, end = offset + match.start(), offset + match.start() + len(match[0].rstrip())
        verb = match["verb"].lower()
        if problem := _problem(match):
            yield Suppression(start, end, span, problem=problem)
        elif verb in ("ignore", "ignore-file"):
            whole = None if verb == "ignore-file" else nowhere
            mentions = _mentions(match, offset, known)
            yield Suppression(start, end, span, mentions, _span(match, offset), whole)
    for match in _NOQA.finditer(comment):
        mentions = _mentions(match, offset, known)
        if any(mention.codes for mention in mentions):
            start, end = offset + match.start(), offset + match.start() + len(match[0].rstrip())
            yield Suppression(start, end, span, mentions, _span(match, offset), nowhere, ours=False)


def _problem(match: re.Match[str]) -> str:
    """What is wrong with a comment that begins with `torchlint:`; nothing, if it is plain prose."""
    verb = match["verb"].lower()
    if verb in ("ignore", "ignore-file"):
        if match["list"] and not match["close"]:
            return f"The list of codes has no end: write `# torchlint: {verb}[CODE]`"
        if match["list"] and not match["codes"].strip(" ,"):
            return f"The list of codes is empty: write `# torchlint: {verb}[CODE]`"
        return ""
    meant = get_close_matches(verb, ("ignore", "ignore-file", "disable", "noqa", "off", "skip"), 1, 0.75)
    if meant or match["list"] or match["rest"].startswith("="):
        return f"`{match['verb']}` is nothing that torchlint knows: write `# torchlint: ignore[CODE]`"
    return ""


def _span(match: re.Match[str], offset: int) -> tuple[int, int]:
    start, end = match.span("codes")
    return (offset + start, offset + end) if start >= 0 else (0, 0)


def _mentions(match: re.Match[str], offset: int, known: Mapping[str, str]) -> tuple[Mention, ...]:
    codes = match["codes"]
    if codes is None:
        return ()
    begin = offset + match.start("codes")
    return tuple(
        Mention(word[0], begin + word.start(), begin + word.end(), _meant(word[0], known))
        for word in _MENTION.finditer(codes)
    )


def _meant(word: str, known: Mapping[str, str]) -> frozenset[str]:
    """The codes that a code, a name or the beginning of codes stands for."""
    named = {code for code, name in known.items() if name == word.lower()}
    begun = {code for code in known if code.startswith(word.upper())} if word[-1:].isdigit() else set()
    return frozenset(named | begun)
