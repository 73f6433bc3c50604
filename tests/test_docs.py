"""What the pages say holds: tables and the picture are as made, links lead somewhere, options and settings exist."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from torchlint.cli import command
from torchlint.rule import find_rules
from torchlint.settings import load

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

TOP = Path(__file__).parents[1]
README = TOP / "README.md"
PAGES = sorted([*TOP.glob("*.md"), *TOP.glob("docs/*.md"), *TOP.glob("examples/**/*.md")])

each_page = pytest.mark.parametrize("page", [pytest.param(page, id=page.name) for page in PAGES])


def blocks(page: Path, language: str) -> list[str]:
    """The blocks of code of a page that are in one language."""
    return re.findall(rf"```{language}\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)


def anchors(page: Path) -> set[str]:
    """The places within a page that a link can lead to, named as web pages of repositories name headings."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_the_table_of_rules_is_what_the_rules_say() -> None:
    from tools.readme import table

    assert table() in README.read_text(encoding="utf-8"), "run python -m tools.readme"


def test_the_picture_is_what_a_run_shows() -> None:
    from tools.picture import PICTURE, draw, run

    assert PICTURE.read_text(encoding="utf-8") == draw(run()), "run python -m tools.picture"


@each_page
def test_links_within_the_repository_lead_somewhere(page: Path) -> None:
    for link in re.findall(r"\]\(([^)\s]+)\)", page.read_text(encoding="utf-8")):
        if re.match(r"[a-z]+:", link):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), link
        assert not anchor or anchor in anchors(target), link


@each_page
def test_every_option_that_is_named_is_one_of_the_command(page: Path) -> None:
    known = {name for param in command.params for name in (*param.opts, *param.secondary_opts)} | {"--help"}
    told = re.findall(r"(?:torchlint [^\n`]*?|`)(--[a-z][a-z-]+)", page.read_text(encoding="utf-8"))
    assert set(told) <= known


def test_the_settings_in_the_readme_are_settings(tmp_path: Path) -> None:
    (block,) = blocks(README, "toml")
    assert tomllib.loads(block)["tool"]["torchlint"]
    (tmp_path / "pyproject.toml").write_text(block, encoding="utf-8")
    settings = load([str(tmp_path)], str(tmp_path))
    assert (settings.confidence, settings.device_expression, settings.min_torch) == ("likely", "args.device", (2, 4))


@each_page
def test_every_code_that_is_named_is_a_rules(page: Path) -> None:
    assert set(re.findall(r"\bDEV\d{3}\b", page.read_text(encoding="utf-8"))) <= set(find_rules())
