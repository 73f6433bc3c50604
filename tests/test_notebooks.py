"""Notebooks: cells as one program, magics, and edits that leave the rest of the JSON alone."""

from __future__ import annotations

import json
from typing import Any

import libcst as cst
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from made_up import FunctionCall, check, fix, fixing, rule

from torchlint.check import CheckOptions, check_source
from torchlint.findings import Confidence, Edit, Position, Range, Safety
from torchlint.notebooks import read_notebook
from torchlint.rule import NodeEdit, NodeFix, Note, Rule
from torchlint.source import Unreadable

CUDA = rule("cuda", 900)


def notebook(*sources: str | list[str], **dump: Any) -> str:
    """A notebook of code cells, as Jupyter writes it."""
    cells = [
        {
            "cell_type": "code",
            "execution_count": None,
            "id": f"c{i}",
            "metadata": {},
            "outputs": [],
            "source": source,
        }
        for i, source in enumerate(sources)
    ]
    return document(cells, **dump)


def document(cells: list[Any], metadata: Any = None, **dump: Any) -> str:
    whole = {"cells": cells, "metadata": metadata or {}, "nbformat": 4, "nbformat_minor": 5}
    return json.dumps(whole, **{"indent": 1, "ensure_ascii": False} | dump) + "\n"


def lines(*each: str) -> list[str]:
    return [f"{line}\n" for line in each[:-1]] + [each[-1]]


def found(text: str, **options: Any) -> list[tuple[str, int | None, int, int]]:
    result = check(text, CUDA, path="a.ipynb", **options)
    assert result.errors == ()
    return [(f.code, f.cell, f.range.start.line, f.range.start.column) for f in result.findings]


def python(*sources: str | list[str]) -> str:
    """The program in a notebook."""
    return read_notebook(notebook(*sources).encode()).text


def programs_of(source: str) -> str:
    """One cell as Python."""
    text = python(source)
    assert len(text) == len(source) + 1
    cst.parse_module(text)
    return text[:-1]


# ---- findings


def test_places_count_in_the_cell() -> None:
    text = notebook("import torch\n", lines("x = 1", "é = x.cuda()"), "y.cuda()")
    assert found(text) == [("DEV900", 1, 2, 5), ("DEV900", 2, 1, 1)]


def test_cells_are_numbered_as_in_the_file() -> None:
    code = {"cell_type": "code", "metadata": {}, "source": "x.cuda()", "outputs": []}
    markdown = {"cell_type": "markdown", "metadata": {}, "source": "# torch x.cuda()"}
    raw = {"cell_type": "raw", "metadata": {}, "source": "x.cuda("}
    assert found(document([markdown, code, raw, code])) == [("DEV900", 1, 1, 1), ("DEV900", 3, 1, 1)]


def test_names_flow_from_cell_to_cell() -> None:
    seen: list[str] = []

    class Whole(Rule):
        code, name = "DEV901", "whole"

        def finish(self) -> list[Any]:
            seen.append(self.context.module.code)
            return []

    check(notebook("import torch\nx = 1", "", "y = x"), Whole, path="a.ipynb")
    assert seen == ["import torch\nx = 1\n\ny = x\n"]


def test_related_places_have_their_cell() -> None:
    class Linking(Rule):
        code, name = "DEV901", "linking"

        def __init__(self, context: Any) -> None:
            super().__init__(context)
            self.first: cst.CSTNode | None = None

        def on_function_call(self, event: FunctionCall) -> Any:
            if self.first is None:
                self.first = event.node
                return []
            return [self.finding(event, "again", notes=[Note("origin", self.first, "first here")])]

    (finding,) = check(notebook("torch\nf()", "\n\n g()"), Linking, path="a.ipynb").findings
    (related,) = finding.related
    assert (finding.cell, finding.range.start) == (1, Position(3, 2))
    assert (related.cell, related.range.start) == (0, Position(2, 1))


def test_suppressions_work_in_cells() -> None:
    text = notebook(
        "x.cuda()  # torchlint: ignore[DEV900]", "# torchlint: ignore[DEV900]\nx.cuda()\ny.cuda()"
    )
    assert found(text) == [("DEV900", 1, 3, 1)]
    assert found(notebook("# torchlint: ignore-file[DEV900]", "x.cuda()")) == []


def test_a_cell_that_does_not_parse_is_reported_and_the_others_are_checked() -> None:
    text = notebook("x.cuda()", lines("import torch", "y = (", "y.cuda()"), "z.cuda()", "  )")
    assert found(text) == [
        ("DEV900", 0, 1, 1),
        ("DEV001", 1, 2, 5),
        ("DEV900", 2, 1, 1),
        ("DEV001", 3, 1, 3),
    ]


@pytest.mark.parametrize(
    ("metadata", "checked"),
    [
        ({}, True),
        ({"kernelspec": {"name": "python3", "language": "python", "display_name": "Python 3"}}, True),
        ({"kernelspec": {"name": "x"}, "language_info": {"name": "python"}}, True),
        ({"language_info": {"name": "ipython"}}, True),
        ({"kernelspec": {"name": "ir", "language": "R"}}, False),
        ({"language_info": {"name": "julia"}}, False),
        ({"kernelspec": [], "language_info": 3}, True),
    ],
)
def test_only_python_is_checked(metadata: dict[str, Any], checked: bool) -> None:
    code = {"cell_type": "code", "metadata": {}, "source": "x.cuda()", "outputs": []}
    assert bool(found(document([code], metadata))) is checked
    other = code | {"metadata": {"vscode": {"languageId": "csharp"}}}
    assert found(document([other], metadata)) == []


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ("torch", "not a notebook: Expecting value"),
        ('{"cells": [torch', "not a notebook: Expecting value"),
        ("[]", "not a notebook: it has no list of cells"),
        ('{"cells": {}}', "not a notebook: it has no list of cells"),
        ('{"worksheets": [], "nbformat": 3}', "a notebook in a format older than 4"),
        ('{"cells": ' + "[" * 100_000, "not a notebook: nested too deeply"),
    ],
)
def test_what_is_no_notebook_is_refused(data: str, message: str) -> None:
    with pytest.raises(Unreadable, match=message):
        read_notebook(data.encode())


def test_a_place_in_broken_json_is_named() -> None:
    with pytest.raises(Unreadable) as caught:
        read_notebook(b'{\n "cells": [,]}')
    assert caught.value.range == Range(Position(2, 12), Position(2, 12))


@pytest.mark.parametrize(
    "cell",
    [
        None,
        3,
        {},
        {"cell_type": "code"},
        {"cell_type": "code", "source": None},
        {"cell_type": "code", "source": [1, "x"]},
        {"cell_type": "code", "source": [], "metadata": None},
        {"cell_type": "code", "source": "", "metadata": {"vscode": 3}},
    ],
)
def test_odd_cells_are_passed_over(cell: Any) -> None:
    code = {"cell_type": "code", "source": "x.cuda()"}
    assert found(document([cell, code])) == [("DEV900", 1, 1, 1)]


# ---- magics


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("%matplotlib inline\nx", "_                 \nx"),
        ("!pip install torch\n", "_                 \n"),
        ("!!ls\n", "_   \n"),
        ("?torch.zeros\n", "_           \n"),
        ("torch.zeros?\nx", "_           \nx"),
        ("x.*to*??  \n", "_         \n"),
        ("%timeit -n 3 f(x)\n", "_                \n"),
        ("if x:\n    !ls\n    %cd y\nelse: y", "if x:\n    _  \n    _    \nelse: y"),
        ("files = !ls *.py\n", "files = _       \n"),
        ("a, b = %magic c\n", "a, b = _       \n"),
        ("!echo it's \\\n  more\\\n  lines\nx", "_           \n       \n       \nx"),
        ("pip install torch\nx", "_                \nx"),
        ("cd ..\r\nx", "_    \r\nx"),
        ("%time x = f(y)\n", "_;    x = f(y)\n"),
        ("%time for y in x: pass\n", "_                     \n"),
        ("z = %time f(y)\n", "z =       f(y)\n"),
        ("%%time\nx.cuda()\n", "_     \nx.cuda()\n"),
        ("\n%%capture out\n%%time\nx = 1", "\n_            \n_     \nx = 1"),
        ("x = '🙂'\n%who\n", "x = '🙂'\n_   \n"),
    ],
)
def test_magics_say_nothing_and_keep_their_place(source: str, expected: str) -> None:
    assert programs_of(source) == expected


@pytest.mark.parametrize(
    "source",
    [
        "x = (a\n% b)\n",
        "x = a \\\n% b\n",
        "s = '''\n%time\n!ls\nx?\n'''\n",
        's = """\\"""\n%time """\n',
        "s = f'{x}' # it's\ny = 3 % 2\n",
        "x %= 3\nx != y\n",
        "f(x)  # why?\n# why?\n",
        "cd = ls = pip = 1\ncd + ls\nls [1]\ncd in x\nrun (1)\ncat\n",
        "d = {'a':\n3}\ntime\n",
    ],
)
def test_python_stays_as_it_is(source: str) -> None:
    assert programs_of(source) == source


@pytest.mark.parametrize(
    "magic", ["bash", "html", "writefile a.py", "javascript", "sql", "R", "script python"]
)
def test_cells_in_other_languages_are_left_out(magic: str) -> None:
    assert python("x", f"%%{magic}\nx.cuda()", "y") == "x\ny\n"


def test_a_cell_that_is_indented_as_a_whole_is_a_block_of_its_own() -> None:
    assert found(notebook("import torch", "  # about\n  x.cuda()\n  y = 1\n", "z.cuda()")) == [
        ("DEV900", 1, 2, 3),
        ("DEV900", 2, 1, 1),
    ]


def test_await_and_halves_of_characters_do_no_harm() -> None:
    text = document([{"cell_type": "code", "source": "await x.cuda()\ny = '\ud83d'\n"}], ensure_ascii=True)
    assert found(text) == [("DEV900", 0, 1, 7)]


cell_texts = st.lists(
    st.sampled_from(
        ["x = 1", "%time y", "!ls 'a", "?x", "x?", "s = '''", "'''", "f(", ")", "\\", "% x",
         "a = !b \\", "  y", "%%time",
         "# it's", '"', "é", ""]
    ),
    max_size=6,
)  # fmt: skip


@given(st.lists(cell_texts, max_size=4), st.sampled_from(["\n", "\r\n"]))
def test_a_programs_cells_are_as_long_as_their_texts(cells: list[list[str]], ending: str) -> None:
    book = read_notebook(notebook(*[ending.join(each) for each in cells]).encode())
    for cell in book.cells:
        assert len(cell.python) == len(cell.text)
        assert book.text[cell.start : cell.start + len(cell.text)] == cell.python
        for ours, theirs in zip(cell.python, cell.text, strict=True):
            assert ours == theirs or ours in " _;"
    assert book.rewritten(()) == book.data


# ---- fixes

TO_GPU = fixing("cuda", 900, lambda call: NodeFix("f", Safety.SAFE, (NodeEdit(call.func, "replace", "gpu"),)))


def with_import(call: cst.Call) -> NodeFix:
    return NodeFix(
        "f", Safety.SAFE, (NodeEdit(call.func, "replace", "os.gpu"), NodeEdit(call, "import", "import os"))
    )


def fixed(text: str, *rules: type[Rule]) -> str:
    outcome = fix(text, *(rules or (TO_GPU,)), path="a.ipynb")
    assert outcome.errors == ()
    assert outcome.applied > 0
    again = fix(outcome.data, *(rules or (TO_GPU,)), path="a.ipynb")
    assert (again.data, again.applied) == (outcome.data, 0)
    return outcome.data.decode()


@pytest.mark.parametrize(
    "dump",
    [
        {},
        {"indent": 1, "ensure_ascii": True},
        {"indent": 4, "sort_keys": True},
        {"indent": None},
        {"indent": None, "separators": (",", ":")},
        {"indent": "\t"},
    ],
)
@pytest.mark.parametrize(
    "source", ["import torch\nx = 'é'\ncuda()\n", lines("import torch", "x = 'é'", "cuda()")]
)
def test_only_what_is_fixed_differs(source: Any, dump: dict[str, Any]) -> None:
    text = notebook("y = '🙂/é'", source, lines("a = 1", "z = 2"), **dump)
    assert fixed(text) == text.replace("cuda", "gpu")


@pytest.mark.parametrize("ending", ["\n", "\r\n"])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_the_files_own_line_ends_and_mark_stay(ending: str, mark: str) -> None:
    text = mark + notebook(lines("import torch", "cuda()"), indent=2).replace("\n", ending)
    assert fixed(text) == text.replace("cuda", "gpu")
    assert fixed(text.rstrip()) == text.rstrip().replace("cuda", "gpu")


def test_escapes_in_lines_that_stay_stay() -> None:
    text = notebook(lines("x = 'AéA/'", "import torch", "cuda('é')"))
    text = text.replace("AéA/", "\\u0041\\u00e9\\u0041\\/")
    assert fixed(text) == text.replace("cuda", "gpu")


def test_lines_are_added_in_the_lists_own_layout() -> None:
    rules = (fixing("cuda", 900, with_import),)
    text = notebook(lines("import torch", "", "x = 1"), lines("y = 1", "z = cuda()"), "cuda()")
    assert fixed(text, *rules) == (
        text.replace('"import torch\\n",\n', '"import torch\\n",\n    "import os\\n",\n').replace(
            "cuda", "os.gpu"
        )
    )
    single = notebook(["import torch"], ["cuda()"])
    expected = notebook(lines("import torch", "import os"), ["os.gpu()"])
    assert fixed(single, *rules) == expected
    assert fixed(notebook("import torch", "cuda()"), *rules) == notebook(
        "import torch\nimport os", "os.gpu()"
    )


def test_an_import_goes_below_magics() -> None:
    rules = (fixing("cuda", 900, with_import),)
    text = notebook("%%time\n%matplotlib inline\ncuda()")
    assert fixed(text, *rules) == notebook("%%time\n%matplotlib inline\nimport os\nos.gpu()")


def test_a_deleted_line_leaves_no_empty_one() -> None:
    delete = fixing(
        "cuda", 900, lambda call: NodeFix("f", Safety.SAFE, (NodeEdit(call, "delete-statement", ""),))
    )
    assert fixed(notebook("torch", lines("a = 1", "cuda()")), delete) == notebook("torch", ["a = 1"])
    assert fixed(notebook("torch", lines("cuda()", "a = 1")), delete) == notebook("torch", ["a = 1"])
    assert fixed(notebook("torch", ["cuda()"], "x"), delete) == notebook("torch", [], "x")


def test_an_unused_suppression_is_removed_from_its_cell() -> None:
    text = notebook(
        "import torch", lines("x = 1", "# torchlint: ignore[DEV900]"), "y = 1  # torchlint: ignore[DEV900]"
    )
    assert fixed(text) == notebook("import torch", ["x = 1"], "y = 1")


def test_an_edit_stays_within_its_cell_and_off_magics() -> None:
    book = read_notebook(notebook("x = 1", "%time f(x)", "y").encode())
    first, second, third = (cell.start for cell in book.cells)
    assert book.edit(first, first + 1, "z") == Edit(0, 1, "z", 0)
    assert book.edit(third, third + 1, "z") == Edit(0, 1, "z", 2)
    assert book.edit(second + 6, second + 7, "g") == Edit(6, 7, "g", 1)
    assert book.edit(first + 3, second, "") is None
    assert book.edit(second, second + 3, "") is None


def test_a_fix_that_breaks_a_cell_is_taken_back() -> None:
    breaking = fixing("cuda", 900, lambda c: NodeFix("f", Safety.SAFE, (NodeEdit(c.func, "replace", "g(u"),)))
    text = notebook("import torch", "cuda()", "x = (")
    outcome = fix(text, breaking, path="a.ipynb")
    assert outcome.data.decode() == text
    assert [error.internal for error in outcome.errors] == [True]


any_json = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.text(max_size=5)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=2), st.dictionaries(st.text(max_size=5), inner, max_size=2)
    ),
    max_leaves=4,
)
code_lines = st.sampled_from(
    ["cuda()", "x = 'é\\n\"'", '# 🙂 \\ "', "", "f(cuda(cuda()))", "%time cuda()", "!ls"]
)


@settings(max_examples=80, deadline=None)
@given(
    st.lists(st.tuples(st.lists(code_lines, max_size=4), st.booleans(), any_json), max_size=4),
    st.sampled_from(
        [{}, {"indent": None}, {"indent": 3, "ensure_ascii": True}, {"separators": (" , ", " :  ")}]
    ),
)
def test_a_fixed_notebook_differs_in_what_was_fixed_alone(
    parts: list[tuple[list[str], bool, Any]], dump: dict[str, Any]
) -> None:
    cells = [
        {
            "cell_type": "code",
            "metadata": {"x": more},
            "source": lines(*each) if split and each else "\n".join(each),
        }
        for each, split, more in parts
    ]
    text = document([{"cell_type": "code", "source": "import torch"}, *cells], **dump)
    outcome = fix(text, TO_GPU, path="a.ipynb")
    assert outcome.errors == ()
    assert outcome.data.decode() == json_with(text, "cuda", "gpu")
    assert [f for f in outcome.result.findings if f.code == "DEV900"] == []


def json_with(text: str, old: str, new: str) -> str:
    """The text with a word of code replaced; metadata never holds it."""
    return text.replace(f"{old}(", f"{new}(")


# ---- what is on show


def run_cell(source: str, count: int | None, error: str = "") -> dict[str, Any]:
    """A cell as it is after it ran."""
    name, _, value = error.partition(": ")
    outputs = [{"output_type": "error", "ename": name, "evalue": value, "traceback": []}] if error else []
    return {"cell_type": "code", "execution_count": count, "metadata": {}, "outputs": outputs, "source": source}


def codes(*cells: dict[str, Any], sure: Confidence = Confidence.LIKELY) -> list[str]:
    """The codes of torchlint's own rules on tensors that are in different places."""
    options = CheckOptions(frozenset(("DEV101", "DEV102", "DEV106")), sure)
    return [f.code for f in check_source(document(list(cells)).encode(), "a.ipynb", options).findings]


SETUP = run_cell("import torch\nx = torch.ones(3)\ndevice = 'cuda' if torch.cuda.is_available() else 'cpu'\ny = x.to(device)", 1)
NOT_ON_HOST = "TypeError: can't convert cuda:0 device type tensor to numpy. Use Tensor.cpu() …"


def test_the_expression_that_a_cell_displays_is_only_perhaps_dropped() -> None:
    shown = run_cell("print(x)\nx.to(device)  # on the device\n", 2)
    assert codes(SETUP, shown) == []
    assert codes(SETUP, shown, sure=Confidence.POSSIBLE) == ["DEV101"]
    assert codes(SETUP, run_cell("x.to(device)\nprint(x)", 2)) == ["DEV101"]
    assert codes(SETUP, run_cell("if True:\n    x.to(device)", 2)) == ["DEV101"]


@pytest.mark.parametrize(("asked", "reported"), [("x.is_cuda  # False", []), ("x.device", []), ("y.device", ["DEV101"]), ("z = x.device", ["DEV101"])])
def test_a_dropped_move_before_a_look_at_the_device_is_on_show(asked: str, reported: list[str]) -> None:
    assert codes(SETUP, run_cell(f"x.to(device)\n# where is it?\n{asked}", 2)) == reported


def test_a_cell_that_failed_and_was_left_so_is_on_show() -> None:
    asking, onward = "a = y.numpy()\nprint(a)", run_cell("a = y.cpu().numpy()", 3)
    assert codes(SETUP, run_cell(asking, 2), onward) == ["DEV106"]
    assert codes(SETUP, run_cell(asking, 2, NOT_ON_HOST), onward) == []
    assert codes(SETUP, run_cell(asking, 2, "TypeError: ignored"), onward) == []


def test_what_failed_last_is_reported() -> None:
    failed = run_cell("a = y.numpy()\nprint(a)", 7, NOT_ON_HOST)
    assert codes(SETUP, failed) == ["DEV106"]
    assert codes(SETUP, failed, run_cell("a = y.cpu().numpy()", 3)) == ["DEV106"]
    assert codes(SETUP, failed, run_cell("print(y)", None)) == ["DEV106"]


def test_a_notebook_on_devices_that_differ_shows_how_it_comes_to_that() -> None:
    cells = [SETUP, run_cell("z = x\nprint(y + z)", 2), run_cell("print(y.numpy())", 3, NOT_ON_HOST), run_cell("print(y)", 4)]
    assert codes(*cells) == []
    cells[2] = run_cell("print(y.shape[7])", 3, "IndexError: tuple index out of range")
    assert codes(*cells) == ["DEV102"]
