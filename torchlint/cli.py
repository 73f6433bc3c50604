"""The command: settings in, files checked or fixed, a report out, and an exit code."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Sequence
from typing import IO, TYPE_CHECKING, Any, NoReturn

import click

from torchlint import __version__
from torchlint.options import Command, Options, with_options
from torchlint.terminal import Failure, Progress, say, write, write_bytes, write_file

if TYPE_CHECKING:
    from torchlint.files import Source
    from torchlint.findings import Finding
    from torchlint.report import Run
    from torchlint.run import Outcome, Plan
    from torchlint.settings import Settings

#: Exit codes: nothing (bad enough) found; findings, or files that can't be checked; wrong use or our fault.
CLEAN, FINDINGS, FAILURE = 0, 1, Failure.exit_code
INTERRUPTED = 130

#: The path that stands for standard input, and its name in reports where none is given.
_STDIN = "-"
_STDIN_NAME = "<stdin>"


@click.command(
    cls=Command, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100}
)
@with_options
@click.version_option(__version__, prog_name="torchlint", message="%(prog)s %(version)s")
@click.pass_context
def command(ctx: click.Context, /, **given: Any) -> None:
    """Find PyTorch device-placement bugs: tensors and modules on the wrong device, moves that are lost,
    needless synchronisation, broken mixed precision, hard-wired devices.

    PATHS are files and folders, by default the current folder; `-` reads standard input.
    """
    try:
        code = _dispatch(Options(**given))
    except (click.ClickException, click.exceptions.Exit, click.Abort):
        raise
    except Exception:
        import traceback

        traceback.print_exc()
        click.echo("torchlint: internal error; please report it with the lines above", err=True)
        code = FAILURE
    ctx.exit(code)


def entry() -> NoReturn:
    """Be the process: run the command and exit with its code.

    A third of a small run would go into collecting garbage and taking the process down: syntax trees are many
    small objects, and nearly all of them die with the process. So the collector looks seldom, and the process
    ends without ceremony once all is written.
    """
    from torchlint.run import collect_seldom

    collect_seldom()
    code = main()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    if sys.gettrace() is None and sys.getprofile() is None:
        os._exit(code)
    sys.exit(code)  # somebody measures, and wants to write that down


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code. arguments: those of the command line if None."""
    try:
        code = command.main(arguments, prog_name="torchlint", standalone_mode=False)
    except click.ClickException as error:
        error.show()
        return FAILURE
    except (click.Abort, KeyboardInterrupt):
        return INTERRUPTED
    return code if isinstance(code, int) else CLEAN


# ---- what the options ask for ------------------------------------------------------------------------------


def _dispatch(options: Options) -> int:
    from torchlint.settings import SettingsError

    cwd = os.getcwd()
    _check_usage(options)
    try:
        settings = _settings(options, cwd)
        if options.explain is not None:
            return _explain(options, settings)
        if options.rules:
            return _list_rules(settings, options.output_format)
        if options.show_settings:
            return _show_settings(settings)
        if options.show_placement is not None:
            return _show_placement(options)
        if options.paths == (_STDIN,):
            return _check_stdin(options, settings, cwd)
        return _check_paths(options, settings, cwd)
    except SettingsError as error:
        raise Failure(str(error)) from error


def _check_usage(options: Options) -> None:
    if _STDIN in options.paths and len(options.paths) > 1:
        raise Failure("`-` stands alone: standard input can't be checked together with other paths")
    if not options.verify and (options.verify_python is not None or options.show_refuted):
        raise Failure("--verify-python and --show-refuted go with --verify")
    if options.verify and options.diff:
        raise Failure("--verify proves fixes as it applies them, and goes without --diff")
    if options.verify and _STDIN in options.paths:
        raise Failure("--verify runs code of files, and goes without `-`")
    if options.stdin_filename is not None and options.paths != (_STDIN,):
        raise Failure("--stdin-filename names what `-` reads, and there is no `-`")
    if options.output_format == "json" and options.statistics:
        raise Failure("--statistics goes with the formats full and concise")
    if options.output_format == "html" and options.show_placement is None:
        raise Failure("--output-format html goes with --show-placement")
    if options.show_placement is not None and options.paths:
        raise Failure("--show-placement shows one file, and goes without other paths")
    if options.diff and (options.output_format == "json" or options.statistics):
        raise Failure("--diff prints a diff, and goes neither with --output-format json nor --statistics")


def _settings(options: Options, cwd: str) -> Settings:
    from torchlint.settings import load, with_options

    paths: Sequence[str] = options.paths
    if paths == (_STDIN,):
        paths = (options.stdin_filename,) if options.stdin_filename else ()
    settings = load(paths, cwd, config=options.config, isolated=options.isolated)
    settings = with_options(
        settings,
        cwd,
        select=options.select or None,
        extend_select=options.extend_select,
        ignore=options.ignore,
        exclude=options.exclude or None,
        extend_exclude=options.extend_exclude,
        confidence=options.confidence,
    )
    if options.verbose and settings.source:
        say(f"settings from {settings.source}")
    return settings


def _explain(options: Options, settings: Settings) -> int:
    from torchlint.explain import explain
    from torchlint.run import load_rules
    from torchlint.settings import Catalogue

    catalogue = Catalogue(load_rules(settings))
    codes = catalogue.expand(options.explain or "", "--explain")[1]
    colored = _wants_color(options, sys.stdout)
    write("\n".join(explain(catalogue.rules[code], colored) for code in sorted(codes)))
    return CLEAN


def _list_rules(settings: Settings, output_format: str) -> int:
    from torchlint.explain import records, table
    from torchlint.run import load_rules

    rules = load_rules(settings)
    if output_format == "json":
        import json

        write(json.dumps(list(records(rules.values())), indent=2) + "\n")
    else:
        write(table(rules))
    return CLEAN


def _show_settings(settings: Settings) -> int:
    from torchlint.run import Plan

    write(Plan(settings).describe())
    return CLEAN


def _show_placement(options: Options) -> int:
    from torchlint.show import CannotShow, show_placement

    html = options.output_format == "html"
    colored = options.output_file is None and _wants_color(options, sys.stdout)
    try:
        text = show_placement(options.show_placement or "", html=html, color=colored)
    except CannotShow as error:
        raise Failure(str(error)) from error
    if options.output_file is None:
        write(text)
    else:
        write_file(options.output_file, text)
    return CLEAN


# ---- checking ----------------------------------------------------------------------------------------------


def _check_paths(options: Options, settings: Settings, cwd: str) -> int:
    from torchlint.files import Excludes, MissingPath, find_files

    began = time.monotonic()
    paths = options.paths or (".",)
    try:
        sources = find_files(
            paths,
            Excludes(settings.exclude),
            cwd=cwd,
            root=settings.root,
            force_exclude=options.force_exclude,
        )
    except MissingPath as error:
        raise Failure(str(error)) from error
    if options.show_files:
        write("".join(f"{source.path}\n" for source in sources))
        return CLEAN
    if not sources and not options.quiet:
        say(f"no Python files or notebooks to check in {', '.join(paths)}")
    from torchlint.run import Mode, Plan, check_files

    plan = Plan(settings, _cache_folder(options, settings))
    with Progress(not options.quiet) as progress:
        outcome = check_files(
            sources,
            plan,
            mode=Mode.CHECK if options.verify else _mode(options),
            unsafe=options.unsafe_fixes,
            jobs=options.jobs,
            progress=progress,
        )
    if options.verify:
        outcome = _verify(options, plan, sources, outcome)
    return _finish(options, outcome, time.monotonic() - began)


def _verify(options: Options, plan: Plan, sources: Sequence[Source], outcome: Outcome) -> Outcome:
    """The outcome with verdicts; with --fix, what they prove has been fixed."""
    from torchlint.verify.pool import NoInterpreter
    from torchlint.verify.run import verify_outcome

    try:
        with Progress(not options.quiet, "replayed {} of {} findings") as progress:
            return verify_outcome(
                outcome,
                {source.path: source for source in sources},
                plan,
                python=options.verify_python,
                fix=options.fix,
                unsafe=options.unsafe_fixes,
                progress=progress,
            )
    except NoInterpreter as error:
        raise Failure(str(error)) from error


def _check_stdin(options: Options, settings: Settings, cwd: str) -> int:
    """Check what standard input holds; with --fix, standard output gets the fixed text."""
    from torchlint.files import Excludes, Source, display_path
    from torchlint.run import Mode, Outcome, Plan, check_bytes

    began = time.monotonic()
    data = sys.stdin.buffer.read()
    mode = _mode(options)
    source = Source(_STDIN_NAME, os.path.join(cwd, _STDIN_NAME))
    if options.stdin_filename is not None:
        file = os.path.normpath(os.path.join(cwd, options.stdin_filename))
        source = Source(display_path(file, cwd), file)
    excluded = options.force_exclude and Excludes(settings.exclude).excludes_below(
        source.file, settings.root, False
    )
    if options.show_files:
        write("" if excluded else f"{source.path}\n")
        return CLEAN
    if excluded:
        outcome, fixed = Outcome((), 0), data
    else:
        checked, fixed = check_bytes(
            data, source, Plan(settings).options(source.file), mode, options.unsafe_fixes
        )
        outcome = Outcome((checked,), 1)
    if mode is Mode.FIX:
        write_bytes(fixed)
    return _finish(options, outcome, time.monotonic() - began, report_to_stderr=mode is Mode.FIX)


def _mode(options: Options) -> Any:
    from torchlint.run import Mode

    if options.diff:
        return Mode.DIFF
    return Mode.FIX if options.fix else Mode.CHECK


def _cache_folder(options: Options, settings: Settings) -> str | None:
    if options.no_cache:
        return None
    return options.cache_dir or os.path.join(settings.root, ".torchlint_cache")


# ---- the end of a run --------------------------------------------------------------------------------------


def _finish(options: Options, outcome: Outcome, seconds: float, report_to_stderr: bool = False) -> int:
    """Write the report and say how to exit."""
    from torchlint.report import Run, count, without_refuted
    from torchlint.run import Mode

    mode = _mode(options)
    changed = [checked for checked in outcome.checked if checked.fixed]
    results = tuple(checked.result for checked in outcome.checked)
    hidden: tuple[Finding, ...] = ()
    if options.verify and not options.show_refuted:
        results, hidden = without_refuted(results)
    run = Run(
        results=results,
        hidden=hidden,
        verified=options.verify,
        texts={c.result.path: c.data for c in outcome.checked if c.data is not None},
        files=outcome.files,
        seconds=seconds,
        fixed=sum(checked.fixed for checked in changed) if mode is not Mode.CHECK else 0,
        fixed_files=len(changed),
        unsafe_fixes=options.unsafe_fixes,
    )
    if options.verbose:
        say(
            f"{count(outcome.files, 'file')}: {outcome.skipped} without torch, {outcome.cached} known from "
            f"earlier runs; {outcome.processes} at a time; {seconds:.2f} s"
        )
    if mode is Mode.DIFF:
        _report_diff(options, outcome, run)
    else:
        _report(options, run, sys.stderr if report_to_stderr else sys.stdout)
    return _exit_code(options, run)


def _exit_code(options: Options, run: Run) -> int:
    errors = [error for result in run.results for error in result.errors]
    if any(error.internal for error in errors):
        return FAILURE
    if options.exit_zero:
        return CLEAN
    found = [f for f in run.findings if f.verdict is None or f.verdict.status != "refuted"]
    if not errors and not found:
        return CLEAN
    from torchlint.findings import Severity

    least = Severity(options.fail_on).rank
    return FINDINGS if errors or any(f.severity.rank >= least for f in found) else CLEAN


def _report(options: Options, run: Run, stream: IO[str]) -> None:
    """Write the findings, and in a sentence what they come to: the format full ends with it."""
    from torchlint.report import closing, render

    kind = "statistics" if options.statistics else options.output_format
    file = options.output_file
    text = render(run, kind, _wants_color(options, None if file else stream))
    says_it = kind == "full" and not options.quiet
    if says_it:
        text += f"{chr(10) if text else ''}{closing(run)}\n"
    if file:
        write_file(file, text)
    else:
        write(text, stream)
    if not options.quiet and (file or (kind != "json" and not says_it)):
        say(closing(run))


def _wants_color(options: Options, stream: IO[str] | None) -> bool:
    """Whether what goes to a stream, or (None) to a file, is to be coloured."""
    from torchlint.report.paint import wants_color

    return wants_color(options.color, stream)


def _report_diff(options: Options, outcome: Outcome, run: Run) -> None:
    diff = "".join(checked.diff for checked in outcome.checked)
    if options.output_file is not None:
        write_file(options.output_file, diff)
    else:
        write(_paint_diff(diff) if _wants_color(options, sys.stdout) else diff)
    for result in run.results:
        for error in result.errors:
            say(f"{error.path}: {error.message}")
    if not options.quiet:
        from torchlint.findings import Safety
        from torchlint.report import count, fixable

        unsafe = 0 if options.unsafe_fixes else fixable(run.findings, Safety.UNSAFE)
        more = f"; {unsafe} more with --unsafe-fixes" if unsafe else ""
        say(f"would fix {count(run.fixed, 'problem')} in {count(run.fixed_files, 'file')}{more}")


def _paint_diff(diff: str) -> str:
    styles = {"+": "32", "-": "31", "@": "36"}
    lines = diff.split("\n")
    return "\n".join(
        f"\x1b[{styles[line[0]]}m{line}\x1b[0m" if line[:1] in styles else line for line in lines
    )
