"""Settings files, --config, their errors, and the rules they select."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from torchlint.rule import Rule
from torchlint.settings import Catalogue, Selection, Settings, SettingsError, load, with_options


def rule(code: str, name: str, *, default: bool = True, options: dict[str, Any] | None = None) -> type[Rule]:
    return type(code, (Rule,), {"code": code, "name": name, "default": default, "options": options or {}})


RULES = {
    made.code: made
    for made in (
        rule("DEV001", "unreadable-file"),
        rule("DEV101", "discarded-move"),
        rule("DEV102", "mixed-devices"),
        rule(
            "DEV201",
            "cpu-tensor-in-hot-path",
            options={"most": 3, "apis": ["zeros"], "strict": False, "x": 0.5},
        ),
        rule("DEV601", "unpinned-non-blocking", default=False),
    )
}
ON = {"DEV101", "DEV102", "DEV201"}
CATALOGUE = Catalogue(RULES)


def selected(*layers: Selection) -> set[str]:
    """The codes selected beside the one for unreadable files."""
    return set(CATALOGUE.select(layers)) - {"DEV001"}


def settings(
    root: Path, *paths: str, text: str | None = None, name: str = "torchlint.toml", **kw: Any
) -> Settings:
    if text is not None:
        (root / name).write_text(text)
    return load(paths, str(root), **kw)


def error(root: Path, text: str, name: str = "torchlint.toml", **kw: Any) -> str:
    with pytest.raises(SettingsError) as caught:
        settings(root, text=text, name=name, **kw)
    return str(caught.value)


# ---- where they come from


def test_without_a_file_the_defaults_hold(tmp_path: Path) -> None:
    assert settings(tmp_path).source is None
    assert settings(tmp_path).confidence == "likely"
    assert not settings(tmp_path).names_rules


def test_every_key_is_read(tmp_path: Path) -> None:
    read = settings(
        tmp_path,
        name="pyproject.toml",
        text="""
        [tool.torchlint]
        select = ["DEV1"]
        extend-select = ["DEV601"]
        ignore = ["DEV102"]
        exclude = ["old"]
        extend-exclude = ["gen/*.py"]
        confidence = "possible"
        device-expression = "self.device"
        min-torch = "2.4"
        rule-paths = ["my_rules"]
        per-file-ignores = {"tests/*" = ["DEV3"]}
        [tool.torchlint.rules.DEV201]
        most = 5
        """.replace("\n        ", "\n").replace("my_rules", "."),
    )
    assert read.source == str(tmp_path / "pyproject.toml")
    assert selected(*read.selections) == {"DEV101", "DEV601"}
    assert read.exclude == ((str(tmp_path), ("old",)), (str(tmp_path), ("gen/*.py",)))
    assert read.confidence == "possible"
    assert read.device_expression == "self.device"
    assert read.min_torch == (2, 4)
    assert read.rule_paths == (str(tmp_path),)
    assert read.per_file_ignores == (("tests/*", ("DEV3",)),)
    assert read.rule_options == {"DEV201": {"most": 5}}


def test_the_nearest_file_above_the_paths_holds(tmp_path: Path) -> None:
    inner = tmp_path / "a" / "b"
    inner.mkdir(parents=True)
    (inner / "x.py").touch()
    (tmp_path / "pyproject.toml").write_text('[tool.torchlint]\nconfidence = "certain"\n')
    (tmp_path / "a" / "pyproject.toml").write_text("[tool.other]\n# torchlint\n")
    assert settings(tmp_path, "a/b/x.py").source == str(tmp_path / "pyproject.toml")
    (tmp_path / "a" / "torchlint.toml").write_text("")
    assert settings(tmp_path, "a/b/x.py").source == str(tmp_path / "a" / "torchlint.toml")
    assert settings(tmp_path, "a/b/x.py", "pyproject.toml").source == str(tmp_path / "pyproject.toml")


def test_torchlint_toml_comes_before_pyproject_beside_it(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text("[tool.torchlint]\n")
    assert settings(tmp_path, text="").source == str(tmp_path / "torchlint.toml")


def test_a_file_may_be_given_or_none_read(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text('confidence = "certain"\n')
    text = 'confidence = "possible"\n'
    assert settings(tmp_path, text=text, config=("mine.toml",)).confidence == "certain"
    assert settings(tmp_path, text=text, isolated=True).confidence == "likely"
    assert "exclude each other" in error(tmp_path, text, config=("mine.toml",), isolated=True)
    assert "only one" in error(tmp_path, text, config=("mine.toml", "torchlint.toml"))


def test_a_setting_on_the_command_line_counts_more(tmp_path: Path) -> None:
    read = settings(
        tmp_path,
        text='confidence = "possible"\nmin-torch = "2.1"\n[rules.DEV201]\nmost = 5\nstrict = true\n',
        config=('confidence = "certain"', "rules.DEV201.most = 7"),
    )
    assert read.confidence == "certain"
    assert read.min_torch == (2, 1)
    assert CATALOGUE.options(read) == {"DEV201": {"most": 7, "strict": True}}


def test_options_count_most(tmp_path: Path) -> None:
    read = with_options(
        settings(tmp_path, text='confidence = "possible"\nignore = ["DEV101"]\nexclude = ["a"]\n'),
        str(tmp_path / "here"),
        select=None,
        extend_select=["DEV601"],
        ignore=["DEV102"],
        exclude=["b"],
        extend_exclude=["c"],
        confidence="certain",
    )
    assert read.confidence == "certain"
    assert read.exclude == ((str(tmp_path / "here"), ("b",)), (str(tmp_path / "here"), ("c",)))
    assert selected(*read.selections) == {"DEV201", "DEV601"}


# ---- what is wrong with them


@pytest.mark.parametrize(
    "text, words",
    [
        ("slect = []", "torchlint.toml: unknown key `slect`; did you mean `select`?"),
        ("extend_select = []", "did you mean `extend-select`?"),
        ("zzz = 1", "unknown key `zzz`; known are select, "),
        ('select = "DEV101"', '`select` must be a list of strings, such as ["DEV101"], not "DEV101"'),
        ("ignore = [1]", "`ignore` must be a list of strings"),
        ('confidence = "sure"', '`confidence` must be one of "certain", "likely" and "possible", not "sure"'),
        ("min-torch = 2.4", '`min-torch` must be a version in quotes, such as "2.4", not 2.4'),
        ('min-torch = "two"', "`min-torch` must be a version"),
        ('device-expression = "self."', "`device-expression` must be a string with a Python expression"),
        ("per-file-ignores = []", "`per-file-ignores` must be a table from patterns to codes"),
        ('per-file-ignores = {"a" = "DEV1"}', "`per-file-ignores` must be a table"),
        ("rules = {DEV201 = 1}", "`rules` must be one table a rule"),
        ('rule-paths = ["nowhere"]', "`rule-paths` names nowhere, which does not exist"),
        ("select = [", "torchlint.toml: not valid TOML: "),
    ],
)
def test_errors_say_where_what_and_how(tmp_path: Path, text: str, words: str) -> None:
    assert words in error(tmp_path, text)


def test_errors_name_the_table_of_pyproject(tmp_path: Path) -> None:
    message = error(tmp_path, "[tool.torchlint]\nslect = []\n", name="pyproject.toml")
    assert message == "pyproject.toml, [tool.torchlint]: unknown key `slect`; did you mean `select`?"
    assert "must be a table" in error(tmp_path, "[tool]\ntorchlint = 1\n", name="pyproject.toml")


def test_a_broken_pyproject_without_settings_is_not_our_business(tmp_path: Path) -> None:
    assert settings(tmp_path, text="[tool.other\n", name="pyproject.toml").source is None


def test_a_settings_file_that_is_given_must_be_there(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"mine\.toml: the settings can't be read: No such file"):
        settings(tmp_path, config=("mine.toml",))


def test_a_bare_word_after_config_is_told_to_be_quoted(tmp_path: Path) -> None:
    with pytest.raises(SettingsError) as caught:
        settings(tmp_path, config=("confidence=certain",))
    assert """--config 'confidence = "certain"'""" in str(caught.value)


@given(st.dictionaries(st.text(max_size=8), st.integers() | st.text(max_size=4), min_size=1, max_size=3))
def test_any_table_of_other_keys_is_refused_by_name(table: dict[str, Any]) -> None:
    from torchlint.settings import _read_table

    with pytest.raises(SettingsError, match=r"unknown key|must be"):
        _read_table(table, "here")


# ---- which rules


def test_rules_that_are_on_by_default_are_selected(tmp_path: Path) -> None:
    assert selected() == ON


@pytest.mark.parametrize(
    "layer, codes",
    [
        (Selection(("DEV1",)), {"DEV101", "DEV102"}),
        (Selection(("dev1", "unpinned-non-blocking")), {"DEV101", "DEV102", "DEV601"}),
        (Selection(("ALL",)), {*ON, "DEV601"}),
        (Selection(("ALL",), ignore=("DEV1",)), {"DEV201", "DEV601"}),
        (Selection(("DEV1",), ignore=("DEV101",)), {"DEV102"}),
        (Selection(("DEV101",), ignore=("DEV1",)), {"DEV101"}),
        (Selection(("DEV101",), ignore=("DEV101",)), set()),
        (Selection(extend=("DEV6",)), ON | {"DEV601"}),
        (Selection(ignore=("mixed-devices",)), ON - {"DEV102"}),
        (Selection(()), set()),
    ],
)
def test_the_longer_selector_wins(layer: Selection, codes: set[str]) -> None:
    assert selected(layer) == codes


def test_unreadable_files_are_reported_unless_that_is_ignored() -> None:
    assert "DEV001" in CATALOGUE.select([Selection(("DEV1",))])
    assert "DEV001" not in CATALOGUE.select([Selection(("DEV1",), ignore=("DEV001",))])


def test_a_select_starts_afresh_what_weaker_layers_said(tmp_path: Path) -> None:
    file = Selection(("DEV1",), ignore=("DEV101",))
    assert selected(file, Selection(("DEV101",))) == {"DEV101"}
    assert selected(file, Selection(extend=("DEV101",))) == {"DEV101", "DEV102"}


@pytest.mark.parametrize(
    "selector, near",
    [
        ("DEV110", "DEV1"),
        ("DEV1O1", "DEV101"),
        ("mixed-device", "mixed-devices"),
        ("discarded_move", "discarded-move"),
    ],
)
def test_an_unknown_rule_is_answered_with_the_nearest(selector: str, near: str) -> None:
    with pytest.raises(SettingsError, match=f"--select: unknown rule `{selector}`; did you mean `{near}"):
        selected(Selection((selector,), where="the command line"))


def test_an_unknown_rule_in_a_file_names_file_and_key(tmp_path: Path) -> None:
    read = settings(tmp_path, text='ignore = ["DEV999"]\n')
    with pytest.raises(SettingsError, match=r"torchlint\.toml, `ignore`: unknown rule `DEV999`"):
        selected(*read.selections)


@given(st.lists(st.sampled_from([*RULES, "DEV", "DEV1", "ALL", "mixed-devices"]), max_size=4), st.data())
def test_ignoring_what_is_selected_leaves_nothing(selectors: list[str], data: st.DataObject) -> None:
    order = tuple(data.draw(st.permutations(selectors)))
    assert selected(Selection(tuple(selectors), ignore=order)) == set()


# ---- options of rules


@pytest.mark.parametrize(
    "table, words",
    [
        ("mots = 3", "[rules.DEV201]: unknown option `mots`; did you mean `most`?"),
        ('most = "3"', '`most` must be a whole number (by default 3), not "3"'),
        ("most = true", "`most` must be a whole number (by default 3), not true"),
        ("strict = 1", "`strict` must be true or false (by default false), not 1"),
        ('apis = "ones"', "`apis` must be a list"),
        ("apis = [1]", "`apis` must be a list"),
        ('x = "a"', "`x` must be a number"),
    ],
)
def test_options_are_checked_against_their_defaults(tmp_path: Path, table: str, words: str) -> None:
    read = settings(tmp_path, text=f"[rules.DEV201]\n{table}\n")
    with pytest.raises(SettingsError) as caught:
        CATALOGUE.options(read)
    assert words in str(caught.value)


def test_options_may_be_given_by_name_and_whole_numbers_as_floats(tmp_path: Path) -> None:
    read = settings(tmp_path, text='[rules.cpu-tensor-in-hot-path]\nx = 1\napis = ["ones"]\n')
    assert CATALOGUE.options(read) == {"DEV201": {"x": 1, "apis": ["ones"]}}


def test_options_need_one_known_rule(tmp_path: Path) -> None:
    for name, words in (("DEV1", "belong to one rule; `DEV1` means 2"), ("DEV2011", "did you mean `DEV201`")):
        with pytest.raises(SettingsError, match=words):
            CATALOGUE.options(settings(tmp_path, text=f"[rules.{name}]\nmost = 1\n"))
    with pytest.raises(SettingsError, match="DEV101 has no options"):
        CATALOGUE.options(settings(tmp_path, text="[rules.DEV101]\nmost = 1\n"))
