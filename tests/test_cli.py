"""The command, end to end, as its users meet it."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from torchlint import __version__
from torchlint.cli import command
from torchlint.files import DEFAULT_EXCLUDES

HOUSE = Path(__file__).with_name("house_rules.py")
SETTINGS = """\
rule-paths = ["house_rules.py"]
select = ["HSE001", "HSE002", "HSE003"]
extend-exclude = ["house_rules.py"]
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with rules of its own, to be in."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    shutil.copy(HOUSE, tmp_path)
    (tmp_path / "torchlint.toml").write_text(SETTINGS)
    return tmp_path


def run(*arguments: str, input: str | bytes | None = None) -> Result:
    return CliRunner().invoke(command, list(arguments), input=input)


def torchlint(
    *arguments: str, cwd: Path, env: dict[str, str] | None = None, **options: object
) -> subprocess.CompletedProcess[str]:
    """The command in a process of its own."""
    return subprocess.run(
        [sys.executable, "-m", "torchlint", *arguments],
        cwd=cwd,
        env={**os.environ, **(env or {})},
        capture_output=True,
        text=True,
        timeout=60,
        **options,  # type: ignore[call-overload]
    )


def places(result: Result) -> list[str]:
    return [line.partition(" ")[0] for line in result.stdout.splitlines()]


# ---- what it says and how it exits


def test_a_clean_run(project: Path) -> None:
    (project / "a.py").write_text("fine = 1\n")
    result = run()
    assert (result.exit_code, result.stdout, result.stderr) == (0, "No problems in 1 file.\n", "")


def test_findings(project: Path) -> None:
    (project / "a.py").write_text("banned = 1\nhm = 2\n")
    result = run("a.py")
    assert result.exit_code == 1
    assert result.stdout == (
        "warning[HSE001 banned-word]: `banned` is banned\n"
        " --> a.py:1:1\n"
        "  |\n"
        "1 | banned = 1\n"
        "  | ^^^^^^\n"
        "2 | hm = 2\n"
        "  |\n"
        "  = fix: write `allowed` (safe)\n"
        "\n"
        "info[HSE003 doubtful-word]: `hm` is banned\n"
        " --> a.py:2:1\n"
        "  |\n"
        "1 | banned = 1\n"
        "2 | hm = 2\n"
        "  | ^^\n"
        "  |\n"
        "\n"
        "Found 2 problems (1 fixable with --fix) in 1 file.\n"
    )
    assert result.stderr == ""


@pytest.mark.parametrize(
    "code, options, exit_code",
    [
        ("hm\n", [], 0),
        ("hm\n", ["--fail-on", "info"], 1),
        ("banned\n", [], 1),
        ("banned\n", ["--fail-on", "error"], 0),
        ("risky\n", ["--fail-on", "error"], 1),
        ("risky\n", ["--exit-zero"], 0),
        ("risky\n", ["--ignore", "HSE002"], 0),
        ("risky\n", ["--select", "HSE001,HSE003"], 0),
        ("risky\n", ["--select", "HSE001", "--select", "risky-word"], 1),
        ("x = 1\n", ["--confidence", "certain"], 0),
    ],
)
def test_exit_codes(project: Path, code: str, options: Sequence[str], exit_code: int) -> None:
    (project / "a.py").write_text(code)
    assert run(*options).exit_code == exit_code


def test_concise_keeps_the_summary_off_standard_output(project: Path) -> None:
    (project / "a.py").write_text("banned = hm\n")
    result = run("--output-format", "concise")
    assert places(result) == ["a.py:1:1:", "a.py:1:10:"]
    assert result.stderr == "torchlint: Found 2 problems (1 fixable with --fix) in 1 file.\n"


def test_json(project: Path) -> None:
    (project / "a.py").write_text("banned = 1\n")
    result = run("--output-format", "json")
    document = json.loads(result.stdout)
    assert result.exit_code == 1
    assert document["findings"][0]["fix"]["edits"][0]["range"] == {
        "start": {"line": 1, "column": 1},
        "end": {"line": 1, "column": 7},
    }
    assert document["summary"]["fixable"] == 1
    assert result.stderr == ""


def test_quiet_says_nothing_but_findings(project: Path) -> None:
    (project / "a.py").write_text("fine = 1\n")
    for kind in ("full", "concise"):
        result = run("-q", "--output-format", kind)
        assert result.output == ""
    result = run("-q", "--isolated", "empty")
    (project / "empty").mkdir()
    assert run("-q", "empty").output == ""


def test_verbose_tells_of_the_run_on_standard_error(project: Path) -> None:
    (project / "a.py").write_text("fine = 1\n")
    result = run("-v")
    assert f"torchlint: settings from {project / 'torchlint.toml'}\n" in result.stderr
    assert "torchlint: 1 file: " in result.stderr
    assert result.stdout == "No problems in 1 file.\n"


def test_statistics_stand_in_for_findings(project: Path) -> None:
    (project / "a.py").write_text("banned = banned + hm\n")
    result = run("--statistics")
    assert result.stdout == "2  HSE001  banned-word, 2 fixable\n1  HSE003  doubtful-word\n"
    assert result.exit_code == 1


def test_a_report_may_go_to_a_file(project: Path) -> None:
    (project / "a.py").write_text("banned = 1\n")
    result = run("--output-format", "json", "--output-file", "report.json")
    assert result.exit_code == 1
    assert result.stdout == ""
    assert result.stderr == "torchlint: Found 1 problem (1 fixable with --fix) in 1 file.\n"
    assert json.loads((project / "report.json").read_text())["summary"]["findings"] == 1
    assert run("--output-file", "no/such/folder").exit_code == 2


def test_colour_on_demand(project: Path) -> None:
    (project / "a.py").write_text("banned = 1\n")
    assert "\x1b[" not in run().stdout
    assert "\x1b[" in run("--color", "always").stdout
    assert "\x1b[" in torchlint(cwd=project, env={"FORCE_COLOR": "1", "NO_COLOR": ""}).stdout
    assert "\x1b[" not in torchlint(cwd=project, env={"FORCE_COLOR": "1", "NO_COLOR": "1"}).stdout


# ---- fixes


def test_fix_applies_safe_fixes_and_reports_what_is_left(project: Path) -> None:
    (project / "a.py").write_bytes(b"banned = risky  # kept\r\n")
    result = run("--fix")
    assert (project / "a.py").read_bytes() == b"allowed = risky  # kept\r\n"
    assert "HSE002" in result.stdout
    assert result.stdout.endswith(
        "Fixed 1 problem in 1 file; 1 left (1 fixable with --fix --unsafe-fixes) in 1 file.\n"
    )
    assert result.exit_code == 1
    assert run("--fix", "--unsafe-fixes").stdout == "Fixed 1 problem in 1 file; none left.\n"
    assert (project / "a.py").read_bytes() == b"allowed = bold  # kept\r\n"
    assert run("--fix", "--unsafe-fixes").stdout == "No problems in 1 file.\n"


def test_diff_shows_and_writes_nothing(project: Path) -> None:
    (project / "a.py").write_text("banned = risky\n")
    result = run("--diff")
    assert "-banned = risky\n+allowed = risky\n" in result.stdout
    assert result.stderr == "torchlint: would fix 1 problem in 1 file; 1 more with --unsafe-fixes\n"
    assert result.exit_code == 1
    assert "+allowed = bold\n" in run("--diff", "--unsafe-fixes").stdout
    assert (project / "a.py").read_text() == "banned = risky\n"


def test_a_diff_can_be_applied(project: Path) -> None:
    if shutil.which("git") is None:
        pytest.skip("git is not installed")
    (project / "sub").mkdir()
    (project / "sub" / "a.py").write_text("x = 1\nbanned = 1")
    diff = run("--diff").stdout
    subprocess.run(["git", "apply", "-p0", "-"], cwd=project, input=diff, text=True, check=True)
    assert (project / "sub" / "a.py").read_text() == "x = 1\nallowed = 1"


def test_a_file_that_cannot_be_written_is_an_error_of_its_own(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import torchlint.fix

    (project / "a.py").write_text("banned = 1\n")

    def refuse(*arguments: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(torchlint.fix, "write_atomically", refuse)
    result = run("--fix")
    assert result.exit_code == 1
    assert "error: a.py: the fixes can't be written: Permission denied\n" in result.stdout


# ---- standard input


def test_standard_input(project: Path) -> None:
    result = run("-", input="banned = 1\n")
    assert result.exit_code == 1
    assert " --> <stdin>:1:1\n" in result.stdout
    assert "1 | banned = 1\n" in result.stdout


def test_standard_input_has_the_name_it_is_given(project: Path) -> None:
    (project / "torchlint.toml").write_text(SETTINGS + '[per-file-ignores]\n"gen/*" = ["HSE001"]\n')
    arguments = ("--output-format", "concise", "-")
    assert places(run(*arguments, "--stdin-filename", "src/a.py", input="banned")) == ["src/a.py:1:1:"]
    assert places(run(*arguments, "--stdin-filename", "gen/a.py", input="banned")) == []


def test_fix_writes_standard_input_to_standard_output(project: Path) -> None:
    result = run("--fix", "-", input=b"banned = risky\r\n")
    assert result.stdout_bytes == b"allowed = risky\r\n"
    assert "error[HSE002 risky-word]" in result.stderr
    assert "Fixed 1 problem" in result.stderr
    assert run("--fix", "-", input=b"x = 1").stdout_bytes == b"x = 1"


def test_excluded_standard_input_comes_back_as_it_is(project: Path) -> None:
    arguments = ("--fix", "--force-exclude", "--stdin-filename", "build/a.py", "-")
    result = run(*arguments, input="banned = 1\n")
    assert (result.exit_code, result.stdout) == (0, "banned = 1\n")


def test_diff_of_standard_input(project: Path) -> None:
    result = run("--diff", "--stdin-filename", "a.py", "-", input="banned = 1\n")
    assert "-banned = 1\n+allowed = 1\n" in result.stdout


# ---- files


def test_show_files_lists_what_would_be_checked(project: Path) -> None:
    for name in ("b.py", "a.pyi", "n.ipynb", "build/c.py", "x.txt"):
        (project / name).parent.mkdir(exist_ok=True)
        (project / name).touch()
    assert run("--show-files").stdout == "a.pyi\nb.py\nn.ipynb\n"
    assert run("--show-files", "--extend-exclude", "build,*.pyi").stdout == "b.py\nn.ipynb\n"
    assert run("--show-files", "build/c.py").stdout == "build/c.py\n"
    assert run("--show-files", "build/c.py", "--extend-exclude", "build", "--force-exclude").stdout == ""


def test_no_files_is_a_note_and_no_failure(project: Path) -> None:
    (project / "docs").mkdir()
    result = run("docs")
    assert result.exit_code == 0
    assert result.stderr == "torchlint: no Python files or notebooks to check in docs\n"


def test_a_missing_path_stops_the_run(project: Path) -> None:
    result = run("nowhere.py")
    assert result.exit_code == 2
    assert result.stderr == "Error: nowhere.py: no such file or folder\n"


def test_a_file_that_cannot_be_read_does_not_stop_the_run(project: Path) -> None:
    (project / "a.py").symlink_to(project / "gone.py")
    (project / "b.py").write_text("banned = 1\n")
    result = run("a.py", "b.py", "--output-format", "concise")
    assert result.exit_code == 1
    assert result.stdout.splitlines()[0] == "a.py: error: can't be read: No such file or directory"
    assert places(result)[1] == "b.py:1:1:"


def test_a_syntax_error_is_a_finding(project: Path) -> None:
    (project / "a.py").write_text("import torch\nbanned = (\n")
    result = run("--output-format", "concise")
    assert result.exit_code == 1
    assert "DEV001" in result.stdout


# ---- wrong use


@pytest.mark.parametrize(
    "arguments, words",
    [
        (["--select", "HSE01"], "Error: --select: unknown rule `HSE01`; did you mean `HSE001`?\n"),
        (
            ["--ignore", "baned-word"],
            "Error: --ignore: unknown rule `baned-word`; did you mean `banned-word`?\n",
        ),
        (["--explain", "HSE01"], "Error: --explain: unknown rule `HSE01`"),
        (["--config", "slect=[]"], "Error: --config slect=[]: unknown key `slect`; did you mean `select`?\n"),
        (["--config", "rules.HSE001.wrd='x'"], "unknown option `wrd`; did you mean `word`?"),
        (["--fixx"], "No such option"),
        (["--confidence", "sure"], "is not one of"),
        (["-", "a.py"], "`-` stands alone"),
        (["--stdin-filename", "a.py", "."], "there is no `-`"),
        (["--statistics", "--output-format", "json"], "--statistics goes with"),
        (["--diff", "--output-format", "json"], "--diff prints a diff"),
        (["--jobs", "0"], "--jobs"),
        (["--isolated", "--config", "torchlint.toml"], "exclude each other"),
    ],
)
def test_wrong_use(project: Path, arguments: list[str], words: str) -> None:
    result = run(*arguments)
    assert result.exit_code == 2
    assert words in result.stderr
    assert result.stdout == ""


def test_rules_that_cannot_be_loaded_are_wrong_use(project: Path) -> None:
    (project / "house_rules.py").write_text("import nothing_of_the_kind\n")
    (project / "a.py").write_text("banned = 1\n")
    result = run()
    assert result.exit_code == 2
    assert "house_rules.py can't be loaded: ModuleNotFoundError" in result.stderr


def test_wrong_settings_are_named_even_if_no_file_needs_checking(project: Path) -> None:
    (project / "torchlint.toml").write_text('select = ["DEV9"]\n')
    (project / "a.py").write_text("x = 1\n")
    result = run()
    assert result.exit_code == 2
    assert "torchlint.toml, `select`: unknown rule `DEV9`" in result.stderr


# ---- settings


def test_per_file_ignores(project: Path) -> None:
    (project / "torchlint.toml").write_text(
        SETTINGS + 'per-file-ignores = {"tests/*" = ["HSE001"], "*_x.py" = ["ALL"]}\n'
    )
    (project / "tests").mkdir()
    for name in ("a.py", "tests/b.py", "c_x.py"):
        (project / name).write_text("banned = risky\n")
    assert places(run("--output-format", "concise")) == ["a.py:1:1:", "a.py:1:10:", "tests/b.py:1:10:"]


def test_options_of_rules(project: Path) -> None:
    (project / "a.py").write_text("banned = other\n")
    concise = ("--output-format", "concise")
    assert places(run(*concise)) == ["a.py:1:1:"]
    (project / "torchlint.toml").write_text(SETTINGS + '[rules.HSE001]\nword = "other"\n')
    assert places(run(*concise)) == ["a.py:1:10:"]
    assert places(run(*concise, "--config", 'rules.HSE001.word="banned"')) == ["a.py:1:1:"]


def test_show_settings(project: Path) -> None:
    (project / "torchlint.toml").write_text(
        SETTINGS + 'min-torch = "2.4"\n[per-file-ignores]\n"a.py" = ["HSE00"]\n[rules.HSE001]\nword = "w"\n'
    )
    result = run("--show-settings", "--ignore", "HSE003")
    assert result.exit_code == 0
    assert result.stdout == (
        f"# {project / 'torchlint.toml'}\n"
        'select = ["DEV001", "HSE001", "HSE002"]\n'
        f"exclude = {json.dumps([*DEFAULT_EXCLUDES, 'house_rules.py'])}\n"
        'confidence = "likely"\n'
        'min-torch = "2.4"\n'
        f'rule-paths = ["{project / "house_rules.py"}"]\n'
        "\n"
        "[per-file-ignores]\n"
        '"a.py" = ["HSE001", "HSE002", "HSE003"]\n'
        "\n"
        "[rules.HSE001]\n"
        'word = "w"\n'
    )


# ---- help


def test_version_and_help() -> None:
    assert run("--version").stdout == f"torchlint {__version__}\n"
    for option in ("-h", "--help"):
        text = run(option).stdout
        assert "Usage: " in text
        for heading in ("Fixes:", "Rules:", "Output:", "Files:", "Settings:", "Run:"):
            assert f"\n{heading}\n" in text


def test_rules_as_json() -> None:
    records = json.loads(run("--isolated", "--rules", "--output-format", "json").stdout)
    record = next(record for record in records if record["code"] == "DEV101")
    assert record["name"] == "discarded-move"
    assert record["sections"]["Example"]


def test_a_rule_documented_in_its_own_way_is_shown_as_it_is(project: Path) -> None:
    rule = (
        'class Free(Rule):\n    """Free.\n\n    Speech\n    """\n    code, name = "HSE007", "free-speech"\n'
    )
    (project / "house_rules.py").write_text(f"{HOUSE.read_text()}\n\n{rule}")
    assert run("--explain", "HSE007").stdout == "HSE007 free-speech\n\nFree.\n\nSpeech\n"
    assert "HSE007  free-speech" in run("--rules").stdout


def test_the_shell_completes_codes_and_names() -> None:
    env = {
        "_TORCHLINT_COMPLETE": "bash_complete",
        "COMP_WORDS": "torchlint --select DEV001,DEV10",
        "COMP_CWORD": "2",
    }
    process = subprocess.run(
        [sys.executable, "-c", "import sys; from torchlint.cli import main; sys.exit(main())"],
        env={**os.environ, **env},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert "plain,DEV001,DEV101" in process.stdout


# ---- processes, pipes and keys


def test_a_closed_pipe_is_no_failure_of_ours(project: Path) -> None:
    (project / "a.py").write_text("banned = 1\n" * 2000)
    process = subprocess.Popen(
        [sys.executable, "-m", "torchlint"], cwd=project, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.readline()
    process.stdout.close()
    assert process.stderr.read() == b""
    process.stderr.close()
    assert process.wait(timeout=60) == 1


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGINT for a process alone")
def test_an_interrupt_ends_quietly(project: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "torchlint", "-"],
        cwd=project,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        # Tests that run in the background of a shell ignore interrupts, and what they start would, too.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    assert process.stdin is not None
    process.stdin.write(b"x = 1\n")
    process.stdin.flush()
    _wait_until_it_reads(process.pid)
    process.send_signal(signal.SIGINT)
    output, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert output == b""
    assert errors.strip() == b""


def _wait_until_it_reads(pid: int) -> None:
    """Wait until the process has loaded the command and is reading its input."""
    import time

    for _ in range(500):
        time.sleep(0.02)
        try:
            with open(f"/proc/{pid}/syscall") as call:
                if call.read().split()[:2] == ["0", "0x0"]:
                    return
        except OSError:
            time.sleep(1)  # no such file here
            return


def test_output_that_the_terminal_cannot_say_is_escaped(project: Path) -> None:
    (project / "a.py").write_text("banned = 'é日'\n", encoding="utf-8")
    process = torchlint(cwd=project, env={"PYTHONIOENCODING": "ascii"})
    assert process.returncode == 1
    assert "banned = '\\xe9\\u65e5'" in process.stdout
    assert process.stderr == ""


def test_a_fault_in_the_command_itself_exits_with_2(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import torchlint.files

    def fail(*arguments: object, **options: object) -> None:
        raise ZeroDivisionError("oh")

    monkeypatch.setattr(torchlint.files, "find_files", fail)
    result = run()
    assert result.exit_code == 2
    assert "ZeroDivisionError: oh" in result.stderr
    assert "internal error; please report it" in result.stderr


def test_a_fault_in_a_rule_exits_with_2_and_the_rest_is_reported(project: Path) -> None:
    faulty = """
class Faulty(Rule):
    code, name = "HSE009", "faulty-rule"

    def finish(self):
        raise KeyError("x")
"""
    (project / "house_rules.py").write_text(HOUSE.read_text() + faulty)
    (project / "a.py").write_text("fault = banned\n")
    result = run("--extend-select", "HSE009", "--output-format", "concise")
    assert result.exit_code == 2
    assert "a.py:1:9: HSE001" in result.stdout
    assert "HSE009" in result.stdout
