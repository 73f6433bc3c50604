"""What a run is told: [tool.torchlint], torchlint.toml and --config, checked, and the rules they select."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from torchlint.files import DEFAULT_EXCLUDES

if TYPE_CHECKING:
    from torchlint.rule import Rule


#: The rule for files that can't be checked. A `select` leaves it on: such a file is not clean of anything.
_UNREADABLE = "DEV001"


class SettingsError(ValueError):
    """Settings that can't be followed; the message names the place, what is wrong and the cure if it can."""


@dataclass(frozen=True)
class Selection:
    """One layer's say on rules: `select` starts afresh, `extend` adds, `ignore` takes away.

    Within a layer the longer selector wins (DEV101 over DEV1 over ALL), and `ignore` where they are as long.
    where: the place that an error names.
    """

    select: tuple[str, ...] | None = None
    extend: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    where: str = ""

    def __bool__(self) -> bool:
        return self.select is not None or bool(self.extend) or bool(self.ignore)


@dataclass(frozen=True)
class Settings:
    """The settings of a run, defaults filled in.

    root: the folder of the settings file (else the current one); patterns are relative to it.
    source: the settings file, if there is one.
    selections: the layers that select rules, the weakest first; none stands for the rules on by default.
    per_file_ignores: pairs of a pattern and the selectors that it silences.
    exclude: `exclude` and `extend-exclude`, each with the folder that its patterns are relative to.
    min_torch: the oldest torch whose API fixes may use, as (major, minor).
    rule_paths: files and folders with rules of the user's own, absolute.
    rule_options: options by the rule's code.
    """

    root: str
    source: str | None = None
    selections: tuple[Selection, ...] = ()
    per_file_ignores: tuple[tuple[str, tuple[str, ...]], ...] = ()
    exclude: tuple[tuple[str, tuple[str, ...]], ...] = ()
    confidence: str = "likely"
    device_expression: str | None = None
    min_torch: tuple[int, int] = (2, 0)
    rule_paths: tuple[str, ...] = ()
    rule_options: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    @property
    def names_rules(self) -> bool:
        """Whether the settings name rules, so that the rules must be loaded to check the names."""
        return bool(any(self.selections) or self.per_file_ignores or self.rule_paths or self.rule_options)


# ---- values ------------------------------------------------------------------------------------------------


def _strings(value: object) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise TypeError('a list of strings, such as ["DEV101"]')
    return tuple(value)


def _confidence(value: object) -> str:
    if value not in ("certain", "likely", "possible"):
        raise TypeError('one of "certain", "likely" and "possible"')
    return str(value)


def _expression(value: object) -> str:
    if not isinstance(value, str) or not value.strip():
        raise TypeError('a string with a Python expression, such as "self.device"')
    try:
        compile(value.strip(), "device-expression", "eval")
    except (SyntaxError, ValueError):
        raise TypeError('a string with a Python expression, such as "self.device"') from None
    return value.strip()


def _version(value: object) -> tuple[int, int]:
    parts = value.split(".") if isinstance(value, str) else []
    if not 2 <= len(parts) <= 3 or not all(part.isascii() and part.isdigit() for part in parts):
        raise TypeError('a version in quotes, such as "2.4"')
    return int(parts[0]), int(parts[1])


def _table_of_strings(value: object) -> tuple[tuple[str, tuple[str, ...]], ...]:
    if not isinstance(value, dict):
        raise TypeError('a table from patterns to codes, such as {"tests/*" = ["DEV3"]}')
    try:
        return tuple((pattern, _strings(codes)) for pattern, codes in value.items())
    except TypeError:
        raise TypeError('a table from patterns to codes, such as {"tests/*" = ["DEV3"]}') from None


def _tables(value: object) -> Mapping[str, Mapping[str, Any]]:
    if not isinstance(value, dict) or not all(isinstance(table, dict) for table in value.values()):
        raise TypeError("one table a rule, such as [tool.torchlint.rules.DEV301]")
    return value


#: Every key of the settings, with what makes its value from TOML's. A TypeError says what it must be.
_KEYS: dict[str, Callable[[object], Any]] = {
    "select": _strings,
    "extend-select": _strings,
    "ignore": _strings,
    "per-file-ignores": _table_of_strings,
    "exclude": _strings,
    "extend-exclude": _strings,
    "confidence": _confidence,
    "device-expression": _expression,
    "min-torch": _version,
    "rule-paths": _strings,
    "rules": _tables,
}


def _read_table(table: Mapping[str, object], where: str) -> dict[str, Any]:
    """The checked values of a table of settings. where: the place that an error names."""
    values: dict[str, Any] = {}
    for key, value in table.items():
        convert = _KEYS.get(key)
        if convert is None:
            raise SettingsError(f"{where}: unknown key `{key}`{did_you_mean(key, _KEYS)}")
        try:
            values[key] = convert(value)
        except TypeError as error:
            raise SettingsError(f"{where}: `{key}` must be {error}, not {_show(value)}") from None
    return values


def _show(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    text = str(value) if isinstance(value, (int, float)) else repr(value).replace("'", '"')
    return text if len(text) <= 60 else text[:57] + "…"


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """`; did you mean …?` for the nearest known word, else the words if they are few, else nothing."""
    import difflib

    candidates = list(known)
    lower = {candidate.lower(): candidate for candidate in candidates}
    near = difflib.get_close_matches(word.lower().replace("_", "-"), lower, n=1, cutoff=0.6)
    if near:
        return f"; did you mean `{lower[near[0]]}`?"
    return f"; known are {', '.join(candidates)}" if 0 < len(candidates) <= 15 else ""


# ---- where settings come from ------------------------------------------------------------------------------


def load(
    paths: Sequence[str],
    cwd: str,
    *,
    config: Sequence[str] = (),
    isolated: bool = False,
) -> Settings:
    """The settings for a run over `paths`.

    config: the values of --config, a file to use instead of the one found, or KEY=VALUE in TOML.
    isolated: look for no settings file. Raises SettingsError.
    """
    files = [item for item in config if not _is_assignment(item)]
    if len(files) > 1:
        raise SettingsError("--config: only one settings file can be given")
    if files and isolated:
        raise SettingsError("--config FILE and --isolated exclude each other")
    source: str | None = None
    table: Mapping[str, object] = {}
    if files:
        source = os.path.normpath(os.path.join(cwd, files[0]))
        table = _table_of_file(source, must_have=True) or {}
    elif not isolated:
        source, table = _nearest(_common_root(paths, cwd))
    root = os.path.dirname(source) if source else cwd
    values = _read_table(table, _place(source, cwd)) if source else {}
    layers = [(values, root, _place(source, cwd) if source else "")]
    for item in config:
        if _is_assignment(item):
            where = f"--config {item}"
            layers.append((_read_table(_parse_assignment(item), where), cwd, where))
    return _merge(layers, root, source)


def with_options(
    settings: Settings,
    cwd: str,
    *,
    select: Sequence[str] | None,
    extend_select: Sequence[str],
    ignore: Sequence[str],
    exclude: Sequence[str] | None,
    extend_exclude: Sequence[str],
    confidence: str | None,
) -> Settings:
    """The settings, overridden by the options of the command line (whose patterns are relative to `cwd`)."""
    layer = Selection(
        tuple(select) if select is not None else None, tuple(extend_select), tuple(ignore), "the command line"
    )
    if layer:
        settings = replace(settings, selections=(*settings.selections, layer))
    groups = settings.exclude
    if exclude is not None:
        groups = ((cwd, tuple(exclude)),)
    if extend_exclude:
        groups = (*groups, (cwd, tuple(extend_exclude)))
    settings = replace(settings, exclude=groups)
    if confidence is not None:
        settings = replace(settings, confidence=confidence)
    return settings


def _merge(layers: Sequence[tuple[Mapping[str, Any], str, str]], root: str, source: str | None) -> Settings:
    """One Settings of several tables, the weakest first, each with its folder and the words for its place."""
    merged: dict[str, Any] = {}
    selections: list[Selection] = []
    exclude: tuple[str, tuple[str, ...]] = (root, DEFAULT_EXCLUDES)
    extended: list[tuple[str, tuple[str, ...]]] = []
    rule_paths: list[str] = []
    options: dict[str, dict[str, Any]] = {}
    for values, folder, where in layers:
        merged.update(values)
        layer = Selection(
            values.get("select"), values.get("extend-select", ()), values.get("ignore", ()), where
        )
        if layer:
            selections.append(layer)
        if "exclude" in values:
            exclude = (folder, values["exclude"])
        if "extend-exclude" in values:
            extended.append((folder, values["extend-exclude"]))
        for path in values.get("rule-paths", ()):
            rule_paths.append(os.path.normpath(os.path.join(folder, path)))
            if not os.path.exists(rule_paths[-1]):
                raise SettingsError(f"{where}: `rule-paths` names {path}, which does not exist")
        for code, table in values.get("rules", {}).items():
            options.setdefault(code, {}).update(table)
    return Settings(
        root=root,
        source=source,
        selections=tuple(selections),
        per_file_ignores=merged.get("per-file-ignores", ()),
        exclude=(exclude, *extended),
        confidence=merged.get("confidence", "likely"),
        device_expression=merged.get("device-expression"),
        min_torch=merged.get("min-torch", (2, 0)),
        rule_paths=tuple(rule_paths),
        rule_options=options,
    )


def _is_assignment(item: str) -> bool:
    """Whether a value of --config is KEY=VALUE; a file whose name holds `=` can be given as ./NAME."""
    key = item.partition("=")[0]
    return "=" in item and "/" not in key.partition('"')[0] and os.sep not in key.partition('"')[0]


def _parse_assignment(item: str) -> Mapping[str, object]:
    try:
        return _toml(item)
    except ValueError:
        key, _, value = item.partition("=")
        quoted = f"""; strings need quotes: --config '{key.strip()} = "{value.strip()}"'"""
        hint = "" if '"' in item else quoted
        raise SettingsError(f"--config {item}: the value is not valid TOML{hint}") from None


def _toml(text: str) -> dict[str, Any]:
    """Read TOML; raises ValueError with the place in its message."""
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    table: dict[str, Any] = tomllib.loads(text)
    return table


def _table_of_file(file: str, must_have: bool = False) -> Mapping[str, object] | None:
    """The settings of a file; None for a pyproject.toml without any (an empty table if it `must_have`)."""
    pyproject = os.path.basename(file) == "pyproject.toml"
    try:
        with open(file, "rb") as opened:
            data = opened.read()
    except OSError as error:
        if not must_have and isinstance(error, (FileNotFoundError, NotADirectoryError)):
            return None
        raise SettingsError(f"{file}: the settings can't be read: {error.strerror or error}") from None
    if pyproject and not must_have and b"torchlint" not in data:
        return None  # spares reading TOML where there is nothing to read
    try:
        table: Any = _toml(data.decode("utf-8-sig"))
    except ValueError as error:
        raise SettingsError(f"{file}: not valid TOML: {error}") from None
    if pyproject:
        tool = table.get("tool")
        table = tool.get("torchlint") if isinstance(tool, dict) else None
        if table is None:
            return {} if must_have else None
        if not isinstance(table, dict):
            raise SettingsError(f"{file}: [tool.torchlint] must be a table")
    return table  # type: ignore[no-any-return]


def _nearest(folder: str) -> tuple[str | None, Mapping[str, object]]:
    """The nearest settings file at or above a folder, and its table; torchlint.toml before pyproject.toml."""
    while True:
        for name in ("torchlint.toml", "pyproject.toml"):
            file = os.path.join(folder, name)
            table = _table_of_file(file)
            if table is not None:
                return file, table
        parent = os.path.dirname(folder)
        if parent == folder:
            return None, {}
        folder = parent


def _common_root(paths: Sequence[str], cwd: str) -> str:
    """The deepest folder that holds all paths; the current one where there is no such folder."""
    absolute = [os.path.normpath(os.path.join(cwd, path)) for path in paths] or [cwd]
    try:
        common = os.path.commonpath(absolute)
    except ValueError:  # on several drives
        return cwd
    return common if os.path.isdir(common) else os.path.dirname(common)


def _place(source: str, cwd: str) -> str:
    """How errors name the settings file: from the current folder where it lies in it."""
    from torchlint.files import display_path

    path = display_path(source, cwd)
    return f"{path}, [tool.torchlint]" if os.path.basename(source) == "pyproject.toml" else path


# ---- which rules -------------------------------------------------------------------------------------------


class Catalogue:
    """The rules there are, by code, and what selectors (codes, prefixes of codes, names, ALL) mean.

    rules: by code.
    """

    def __init__(self, rules: Mapping[str, type[Rule]]) -> None:
        self.rules = rules
        self._by_name = {rule.name: code for code, rule in rules.items()}

    def expand(self, selector: str, where: str) -> tuple[int, frozenset[str]]:
        """The codes that a selector means, and its rank: the longer the surer. Raises SettingsError."""
        wanted = selector.strip()
        if wanted.upper() == "ALL":
            return 0, frozenset(self.rules)
        code = self._by_name.get(wanted.lower())
        if code is not None:
            return len(code), frozenset((code,))
        prefix = wanted.upper()
        codes = frozenset(code for code in self.rules if prefix and code.startswith(prefix))
        if not codes:
            near = did_you_mean(selector, [*self.rules, *self._by_name, "ALL"])
            raise SettingsError(f"{where}: unknown rule `{selector}`{near or '; `torchlint --rules` lists them'}")
        return len(prefix), codes

    def select(self, layers: Sequence[Selection]) -> frozenset[str]:
        """The codes that the layers leave selected. Raises SettingsError for a selector without meaning."""
        chosen = frozenset(code for code, rule in self.rules.items() if rule.default)
        for layer in layers:
            if layer.select is not None:
                chosen = frozenset((_UNREADABLE,)) & frozenset(self.rules)
            said = [
                (*self.expand(selector, _key(layer.where, key)), adds)
                for key, adds, selectors in (
                    ("select", True, layer.select or ()),
                    ("extend-select", True, layer.extend),
                    ("ignore", False, layer.ignore),
                )
                for selector in selectors
            ]
            for _, codes, adds in sorted(said, key=lambda item: (item[0], not item[2])):
                chosen = chosen | codes if adds else chosen - codes
        return chosen

    def codes(self, selectors: Iterable[str], where: str) -> frozenset[str]:
        """All codes that any of the selectors means. Raises SettingsError."""
        return frozenset().union(*(self.expand(selector, where)[1] for selector in selectors))

    def options(self, settings: Settings) -> dict[str, dict[str, Any]]:
        """The rules' options by code, each checked against what the rule declares. Raises SettingsError."""
        where = settings.source or "--config"
        checked: dict[str, dict[str, Any]] = {}
        for selector, table in settings.rule_options.items():
            place = f"{where}, [rules.{selector}]"
            codes = self.expand(selector, place)[1]
            if len(codes) != 1:
                raise SettingsError(f"{place}: options belong to one rule; `{selector}` means {len(codes)}")
            (code,) = codes
            known = self.rules[code].options
            for key, value in table.items():
                if key not in known:
                    hint = did_you_mean(key, known) if known else f"; {code} has no options"
                    raise SettingsError(f"{place}: unknown option `{key}`{hint}")
                if not _same_type(value, known[key]):
                    raise SettingsError(
                        f"{place}: `{key}` must be {_kind(known[key])} (by default {_show(known[key])}), "
                        f"not {_show(value)}"
                    )
            checked.setdefault(code, {}).update(table)
        return checked


def _key(where: str, key: str) -> str:
    return f"--{key}" if where == "the command line" else f"{where}, `{key}`"


def _same_type(value: object, default: object) -> bool:
    """Whether an option's value is of its default's type; a whole number will do for a float."""
    if isinstance(default, bool) or isinstance(value, bool):
        return isinstance(default, bool) and isinstance(value, bool)
    if isinstance(default, float):
        return isinstance(value, (int, float))
    if isinstance(default, (list, tuple)):
        return isinstance(value, list) and all(not default or _same_type(item, default[0]) for item in value)
    return isinstance(value, type(default))


def _kind(default: object) -> str:
    kinds = (
        (bool, "true or false"),
        (int, "a whole number"),
        (float, "a number"),
        (str, "a string"),
        ((list, tuple), "a list"),
    )
    return next((words for kind, words in kinds if isinstance(default, kind)), "a table")
