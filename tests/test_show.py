"""`--show-placement`, as a user sees it."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from torchlint.cli import command
from torchlint.show import split_line

CODE = """\
import torch


def scale(x, device):
    weight = torch.ones(4)
    bias = torch.zeros(4).to(device)
    loss = (x.relu() * weight).sum() + bias.sum()
    return loss.item()
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "scale.py"
    path.write_text(CODE)
    return path


def show(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(command, ["--show-placement", *arguments])
    return result.exit_code, result.output


def line(output: str, code: str) -> str:
    return next(row for row in output.splitlines() if code in row)


def test_each_line_tells_where_its_values_live(file: Path) -> None:
    status, output = show(str(file))
    assert status == 0
    assert "weight: cpu" in line(output, "torch.ones(4)")
    assert "bias: device" in line(output, "torch.zeros(4)")
    assert "cpu → device" in line(output, "torch.zeros(4)")


def test_a_mismatch_is_marked_on_its_line(file: Path) -> None:
    assert "!! cpu with like x" in line(show(str(file))[1], "x.relu() * weight")


def test_a_wait_is_marked_on_its_line(file: Path) -> None:
    assert "⏳ item" in line(show(str(file))[1], "loss.item()")


def test_one_line_is_shown_with_three_around_it(file: Path) -> None:
    rows = show(f"{file}:5")[1].splitlines()
    assert any(row.startswith(">5") for row in rows)
    assert not any("import torch" in row for row in rows)


def test_the_page_stands_alone(file: Path) -> None:
    status, page = show(str(file), "--output-format", "html")
    assert status == 0
    assert page.startswith("<!DOCTYPE html>")
    assert "<script" not in page
    assert "http" not in page
    assert 'class="spot mismatch"' in page
    assert 'aria-label="moves to"' in page


def test_code_is_escaped_in_the_page(tmp_path: Path) -> None:
    path = tmp_path / "a.py"
    path.write_text("import torch\nx = torch.ones(3) < 2  # <b>\n")
    page = show(str(path), "--output-format", "html")[1]
    assert "<b>" not in page
    assert "&lt;b&gt;" in page


@pytest.mark.parametrize(
    ("content", "target", "words"),
    [
        (None, "missing.py", "No such file"),
        ("x = (", "broken.py", "broken.py"),
        ("x = 1\n", "short.py:9", "no line 9"),
        ("{}", "a.ipynb", "notebooks"),
    ],
)
def test_what_cannot_be_shown_is_said_with_exit_code_2(
    tmp_path: Path, content: str | None, target: str, words: str
) -> None:
    if content is not None:
        (tmp_path / target.split(":")[0]).write_text(content)
    result = CliRunner().invoke(command, ["--show-placement", str(tmp_path / target)])
    assert result.exit_code == 2
    assert words in result.output


def test_html_without_show_placement_is_wrong_use(file: Path) -> None:
    result = CliRunner().invoke(command, ["--output-format", "html", str(file)])
    assert result.exit_code == 2


def test_a_file_whose_name_ends_in_a_number_is_taken_as_it_is(tmp_path: Path) -> None:
    odd = tmp_path / "a.py:3"
    odd.write_text("")
    assert split_line(str(odd)) == (str(odd), None)
    assert split_line("a.py:3") == ("a.py", 3)
