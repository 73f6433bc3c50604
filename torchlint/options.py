"""The command line: its options in groups, as click reads them and the help page shows them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import click

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

F = TypeVar("F", bound=Callable[..., Any])


class _Option(click.Option):
    """An option that belongs to a group of the help page."""

    def __init__(self, *args: Any, group: str, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.group = group


class Command(click.Command):
    """A command whose help page shows the options in groups."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        groups: dict[str, list[tuple[str, str]]] = {}
        for param in self.get_params(ctx):
            record = param.get_help_record(ctx)
            if record is not None and not isinstance(param, click.Argument):
                groups.setdefault(getattr(param, "group", _HELP), []).append(record)
        for group, records in groups.items():
            with formatter.section(group):
                formatter.write_dl(records)


class Options(NamedTuple):
    """The command line, as click has read it."""

    paths: tuple[str, ...]
    fix: bool
    unsafe_fixes: bool
    diff: bool
    verify: bool
    verify_python: str | None
    show_refuted: bool
    select: tuple[str, ...]
    extend_select: tuple[str, ...]
    ignore: tuple[str, ...]
    confidence: str | None
    fail_on: str
    exit_zero: bool
    output_format: str
    output_file: str | None
    statistics: bool
    color: str
    quiet: int
    verbose: int
    config: tuple[str, ...]
    isolated: bool
    exclude: tuple[str, ...]
    extend_exclude: tuple[str, ...]
    force_exclude: bool
    stdin_filename: str | None
    jobs: int | None
    no_cache: bool
    cache_dir: str | None
    explain: str | None
    rules: bool
    show_files: bool
    show_settings: bool
    show_placement: str | None


def _split(ctx: click.Context, param: click.Parameter, values: Sequence[str]) -> tuple[str, ...]:
    """Values given several times, or with commas between them."""
    return tuple(part.strip() for value in values for part in value.split(",") if part.strip())


def _complete_rules(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Codes and names of rules, for the shell."""
    from click.shell_completion import CompletionItem

    from torchlint.explain import summary
    from torchlint.rule import find_rules

    before, comma, last = incomplete.rpartition(",")
    words = [(word, rule) for rule in find_rules().values() for word in (rule.code, rule.name)]
    return [
        CompletionItem(f"{before}{comma}{word}", help=summary(rule))
        for word, rule in words
        if word.lower().startswith(last.lower())
    ]


def _option(group: str, *names: str, **kwargs: Any) -> Callable[[Any], Any]:
    return click.option(*names, cls=_Option, group=group, **kwargs)


def _list_option(group: str, name: str, metavar: str, **kwargs: Any) -> Callable[[Any], Any]:
    return _option(group, name, multiple=True, callback=_split, metavar=metavar, **kwargs)


_FIXES, _VERIFY, _RULES, _OUTPUT = "Fixes", "Verification", "Rules", "Output"
_FILES, _SETTINGS, _RUN, _HELP = "Files", "Settings", "Run", "Help"

#: In the order of the help page.
_DECLARED: tuple[Callable[[Any], Any], ...] = (
    click.argument("paths", nargs=-1, type=click.Path(), metavar="[PATHS]..."),
    _option(_FIXES, "--fix", is_flag=True, help="Apply the safe fixes."),
    _option(_FIXES, "--unsafe-fixes", is_flag=True, help="With --fix or --diff: the unsafe fixes, too."),
    _option(_FIXES, "--diff", is_flag=True, help="Print what --fix would change, and write nothing."),
    _option(
        _VERIFY,
        "--verify",
        is_flag=True,
        help="Run what is flagged under torch, and say whether it happens; with --fix: apply what that proves.",
    ),
    _option(
        _VERIFY,
        "--verify-python",
        metavar="PYTHON",
        help="The interpreter, with torch, to run it in.  [default: this one, or the project's .venv]",
    ),
    _option(_VERIFY, "--show-refuted", is_flag=True, help="With --verify: show refuted findings, too."),
    _list_option(
        _RULES,
        "--select",
        "CODES",
        shell_complete=_complete_rules,
        help="Only these rules: codes (DEV101), prefixes (DEV1), names (item-in-step), or ALL.",
    ),
    _list_option(_RULES, "--extend-select", "CODES", shell_complete=_complete_rules, help="These rules, too."),
    _list_option(_RULES, "--ignore", "CODES", shell_complete=_complete_rules, help="Not these rules."),
    _option(
        _RULES,
        "--confidence",
        type=click.Choice(["certain", "likely", "possible"]),
        help="How sure a finding must be to be reported.  [default: likely]",
    ),
    _option(
        _OUTPUT,
        "--output-format",
        type=click.Choice(["full", "concise", "json", "html"]),
        default="full",
        show_default=True,
        help="How findings are written; html goes with --show-placement.",
    ),
    _option(_OUTPUT, "--output-file", type=click.Path(dir_okay=False), help="Write the report to a file."),
    _option(
        _OUTPUT, "--statistics", is_flag=True, help="Count the findings of each rule instead of showing them."
    ),
    _option(
        _OUTPUT,
        "--color",
        type=click.Choice(["auto", "always", "never"]),
        default="auto",
        show_default=True,
        help="Colour; auto: on a terminal, unless NO_COLOR is set, or where FORCE_COLOR is set.",
    ),
    _option(_OUTPUT, "--quiet", "-q", count=True, help="Nothing but findings."),
    _option(_OUTPUT, "--verbose", "-v", count=True, help="Say what is being done, on standard error."),
    _option(
        _OUTPUT,
        "--fail-on",
        type=click.Choice(["error", "warning", "info"]),
        default="warning",
        show_default=True,
        help="Exit with 1 from this severity on.",
    ),
    _option(_OUTPUT, "--exit-zero", is_flag=True, help="Exit with 0 even if there are findings."),
    _list_option(
        _FILES, "--exclude", "PATTERNS", help="Leave these out, instead of what is left out by default."
    ),
    _list_option(_FILES, "--extend-exclude", "PATTERNS", help="Leave these out, too; patterns as in .gitignore."),
    _option(_FILES, "--force-exclude", is_flag=True, help="Leave out excluded files even if they are named."),
    _option(_FILES, "--stdin-filename", type=click.Path(), metavar="FILE", help="The name of what `-` reads."),
    _option(_FILES, "--show-files", is_flag=True, help="List the files that would be checked."),
    _option(
        _SETTINGS,
        "--config",
        multiple=True,
        metavar="FILE|KEY=VALUE",
        help="A settings file to use, or one setting, its value in TOML.",
    ),
    _option(_SETTINGS, "--isolated", is_flag=True, help="Read no pyproject.toml or torchlint.toml."),
    _option(_SETTINGS, "--show-settings", is_flag=True, help="Show the settings that hold for these paths."),
    _option(
        _RUN, "--jobs", "-j", type=click.IntRange(min=1), help="How many processes.  [default: as many as pay]"
    ),
    _option(_RUN, "--no-cache", is_flag=True, help="Neither use nor keep results."),
    _option(
        _RUN,
        "--cache-dir",
        type=click.Path(file_okay=False),
        help="Where results are kept.  [default: .torchlint_cache beside the settings]",
    ),
    _option(
        _HELP,
        "--explain",
        metavar="CODE",
        shell_complete=_complete_rules,
        help="Say what a rule finds, why it matters, and what to write instead.",
    ),
    _option(_HELP, "--rules", is_flag=True, help="List all rules."),
    _option(
        _HELP,
        "--show-placement",
        metavar="FILE[:LINE]",
        help="Show a file with where each of its values lives; html makes a page of it.",
    ),
)


def with_options(function: F) -> F:
    """A decorator that gives a command all options and the paths."""
    for declare in reversed(_DECLARED):
        function = declare(function)
    return function
