"""From a place in a file to what is run: kinds of parameters, scopes, imports, pieces."""

from __future__ import annotations

import ast
import textwrap
from pathlib import Path

import pytest

from torchlint.verify.plan import Piece, Source, substituted
from torchlint.verify.plan.imports import follow
from torchlint.verify.plan.kinds import parameters
from torchlint.verify.plan.scope import around, interval
from torchlint.verify.probes import Ask, Site


def module(text: str) -> ast.Module:
    return ast.parse(textwrap.dedent(text))


def kinds(text: str) -> dict[str, str]:
    tree = module(text)
    function = tree.body[-1]
    if isinstance(function, ast.ClassDef):
        function = function.body[-1]
    assert isinstance(function, ast.FunctionDef)
    method = bool(function.args.args) and function.args.args[0].arg == "self"
    return {name: kind for name, kind, _, _ in parameters(function, method=method, tree=tree)}


class TestKinds:
    @pytest.mark.parametrize(
        ("text", "name", "kind"),
        [
            ("def f(x: torch.Tensor): pass", "x", "tensor"),
            ("def f(n: int): pass", "n", "int"),
            ("def f(d: torch.device): pass", "d", "device"),
            ("def f(device): return x.to(device)", "device", "device"),
            ("def f(where): return torch.zeros(3, device=where)", "where", "device"),
            ("def f(m): m.eval()", "m", "module"),
            ("def f(g, x): return g(x)", "g", "module"),
            ("def f(loss_fn, x): return loss_fn(x)", "loss_fn", "criterion"),
            ("def f(o):\n o.zero_grad()\n o.step()", "o", "optimizer"),
            ("def f(batches):\n for a, b in batches: pass", "batches", "loader"),
            ("def f(things):\n for i, (a, b) in enumerate(things): pass", "things", "loader"),
            ("def f(ps):\n for p in ps: p.grad.zero_()", "ps", "parameters"),
            ("def f(x): return x.to('cuda')", "x", "host_tensor"),
            ("def f(x): return x.softmax(-1)", "x", "tensor"),
            ("def f(b): return b['x'] + b['y']", "b", "mapping"),
            ("def f(m, b): return m(**b)", "b", "mapping"),
            ("def f(step, every):\n if step % every == 0: pass", "every", "int"),
            ("def f(records): return np.log(records)", "records", "array"),
            ("def f(name): return name == 'cuda'", "name", "str"),
            ("def f(config): return config.width", "config", "unknown"),
            (
                "class M(nn.Module):\n def forward(self, anything): return self.body(anything)",
                "anything",
                "tensor",
            ),
        ],
    )
    def test_are_told_from_annotation_use_and_name(self, text: str, name: str, kind: str) -> None:
        assert kinds(text)[name] == kind

    def test_follow_a_parameter_into_a_function_of_the_file(self) -> None:
        text = """
            def draw(values):
                return np.random.choice(values)

            def f(weights_of_each):
                return draw(weights_of_each)
        """
        assert kinds(text) == {"weights_of_each": "array"}

    def test_parameters_with_a_default_keep_it(self) -> None:
        assert kinds("def f(x, n=3, *, flag=True): return x.mean() * n") == {"x": "tensor"}

    def test_keyword_only_parameters_are_handed_in_by_name(self) -> None:
        function = module("def f(a, *, device): return a.to(device)").body[0]
        assert isinstance(function, ast.FunctionDef)
        assert [(p[0], p[2]) for p in parameters(function, method=False)] == [
            ("a", "position"),
            ("device", "keyword"),
        ]


LOGGING = """
import argparse
parser = argparse.ArgumentParser()
parser.add_argument("--log-interval", type=int, default=10)
args = parser.parse_args()
EVERY = 25

def train(loader, every=50):
    for epoch in range(3):
        for step, batch in enumerate(loader):
            if step % {n} == 0:
                print(batch.item())
"""


class TestScope:
    @pytest.mark.parametrize(
        ("n", "expected"),
        [("7", 7), ("every", 50), ("EVERY", 25), ("args.log_interval", 10), ("unheard_of", 0)],
    )
    def test_knows_how_often_a_condition_comes_true(self, n: str, expected: int) -> None:
        tree = ast.parse(LOGGING.format(n=n))
        assert interval(around(tree, 12), tree) == expected

    def test_without_a_condition_there_is_no_interval(self) -> None:
        tree = ast.parse(LOGGING.format(n=7))
        assert interval(around(tree, 11), tree) is None

    def test_the_hot_loop_is_the_innermost(self) -> None:
        scope = around(ast.parse(LOGGING.format(n=7)), 12)
        assert scope.loop is not None
        assert scope.loop.lineno == 10
        assert scope.function is not None
        assert scope.function.name == "train"

    def test_a_loop_around_a_function_is_none_of_its_own(self) -> None:
        tree = module(
            """
            for i in range(3):
                def f(x):
                    return x.item()
            """
        )
        assert around(tree, 4).loops == ()


class TestImports:
    @pytest.fixture
    def project(self, tmp_path: Path) -> Path:
        (tmp_path / "pkg" / "inner").mkdir(parents=True)
        (tmp_path / "pkg" / "__init__.py").write_text("")
        (tmp_path / "pkg" / "inner" / "__init__.py").write_text("")
        (tmp_path / "pkg" / "layers.py").write_text("import einops\nWIDTH = 4\n")
        (tmp_path / "pkg" / "inner" / "model.py").write_text("from ..layers import WIDTH\n")
        (tmp_path / "pkg" / "train.py").write_text(
            "from .inner.model import WIDTH\nimport torch, lightning.pytorch\n"
        )
        return tmp_path

    def test_of_the_project_are_carried_as_text_and_others_are_missing(self, project: Path) -> None:
        file = project / "pkg" / "train.py"
        imports = follow(file.read_text(), file, project)
        assert {m.name for m in imports.modules} >= {"pkg", "pkg.inner", "pkg.inner.model", "pkg.layers"}
        assert imports.missing == ("einops", "lightning", "lightning.pytorch")

    def test_that_are_relative_become_absolute_on_their_lines(self, project: Path) -> None:
        file = project / "pkg" / "train.py"
        imports = follow(file.read_text(), file, project)
        assert imports.text.splitlines()[0] == "from pkg.inner.model import WIDTH"
        model = next(m for m in imports.modules if m.name == "pkg.inner.model")
        assert model.source == "from pkg.layers import WIDTH\n"


def pieces(text: str, line: int) -> list[Piece]:
    source = Source(textwrap.dedent(text).strip() + "\n", "train.py", Path("/nonexistent"))
    return list(source.pieces(Site("train.py", line, line, 0, "")))


class TestPieces:
    def test_a_method_is_called_on_an_object_of_its_class(self) -> None:
        text = """
            class Net(nn.Module):
                def __init__(self, width):
                    self.width = width

                def forward(self, x):
                    return x.relu()
        """
        (piece,) = pieces(text, 6)
        assert piece.stage["call"] == ["Net", "forward"]
        assert piece.stage["init"] == [("width", "int", "position", None)]
        assert not piece.main

    def test_a_script_is_run_after_its_function_was_called(self) -> None:
        text = """
            def train(model):
                model.train()

            if __name__ == "__main__":
                train(None)
        """
        assert [p.main for p in pieces(text, 2)] == [False, True]

    def test_optional_arguments_are_given_in_a_second_try(self) -> None:
        first, second = pieces(
            "def f(x, state=None):\n    return x.relu() if state is None else state.relu()", 2
        )
        assert [p[0] for p in first.stage["parameters"]] == ["x"]
        assert [p[0] for p in second.stage["parameters"]] == ["x", "state"]

    def test_tests_that_may_be_skipped_are_not_called(self) -> None:
        assert pieces("@pytest.mark.skipif(True, reason='')\ndef test_f():\n    x.cuda()", 3) == []

    def test_a_name_of_the_module_is_seen_by_a_function_that_uses_it(self) -> None:
        piece = pieces(
            "import torch\ndevice = torch.device('cuda')\n\n\ndef f(x):\n    return x.to(device)", 2
        )[0]
        assert piece.stage["call"] == ["f"]

    def test_requests_keep_the_lines_of_the_file(self) -> None:
        source = Source(
            "def f(x):\n    for i in range(3):\n        x.item()\n", "train.py", Path("/nonexistent")
        )
        site = Site("train.py", 3, 3, 8, "x.item()")
        request = source.request(next(source.pieces(site)), Ask(iterations=5), site)
        assert request.lines is not None
        assert all(request.lines[n] == n for n in (1, 2, 3))
        assert [(loop.line, loop.iterations) for loop in request.loops] == [(2, 5)]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("x = x.cuda()", "x = x.cpu()"),
        ("x = x.to('cuda:0')", "x = x.to('cpu')"),
        ("y = torch.cuda.FloatTensor(3)", "y = torch.FloatTensor(3)"),
        ("words = 'my cuda notes'", "words = 'my cuda notes'"),
    ],
)
def test_the_counterfactual_names_the_cpu(line: str, expected: str) -> None:
    assert substituted(line, Site("train.py", 1, 1, 0, line)) == expected


class TestAlone:
    TEXT = "import torch\n\n\ndef f(p):\n    if p:\n        return torch.load(p)\n    return None\n"

    def test_a_statement_keeps_its_line_and_the_imports_of_the_file(self) -> None:
        from torchlint.verify.plan import alone

        rows = alone(self.TEXT, Site("train.py", 6, 6, 15, "torch.load(p)")).splitlines()
        assert [(n, row) for n, row in enumerate(rows, 1) if row] == [
            (1, "import torch"),
            (6, "torch.load(p)"),
        ]

    def test_not_where_a_test_of_devices_stands_around_it(self) -> None:
        text = self.TEXT.replace("if p:", "if torch.cuda.is_available():")
        site = Site("train.py", 6, 6, 15, "torch.load(p)")
        assert list(Source(text, "train.py", Path("/nonexistent")).statement(site)) == []
        assert list(Source(self.TEXT, "train.py", Path("/nonexistent")).statement(site))
