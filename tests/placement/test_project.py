"""First-party imports: what other modules of the project define is known, and nothing else of them happens."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import libcst as cst
import pytest

from torchlint.placement import project as project_module
from torchlint.placement.allowance import MOST_NESTED_LINES
from torchlint.placement.events import Mix, Move, Parallel
from torchlint.placement.observer import Observation, observe
from torchlint.placement.project import Project
from torchlint.placement.syntax import descendants
from torchlint.placement.values import Kind, Where


class Tree:
    """A folder of modules, and what observing one of them gives."""

    def __init__(self, root: Path) -> None:
        self.root = root
        (root / "pyproject.toml").write_text("")

    def write(self, path: str, code: str = "") -> str:
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(dedent(code))
        return str(file)

    def observe(self, path: str, code: str) -> Observation:
        file = self.write(path, code)
        return observe(cst.parse_module(dedent(code)), file, Project())


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    return Tree(tmp_path)


HELPERS = """
import torch

DEVICE = torch.device("cuda")

def make(n):
    return torch.zeros(n)

def send(x):
    return x.to(DEVICE)
"""


def device_of(observation: Observation, name: str) -> tuple[Kind, list[Where]]:
    for target, value in observation.bound.items():
        if isinstance(target, cst.Name) and target.value == name:
            return value.kind, [p.place.where for p in value.places]
    raise AssertionError(f"nothing is known of {name}")


@pytest.mark.parametrize(
    ("path", "statement"),
    [
        ("pkg/train.py", "from pkg.helpers import make"),
        ("pkg/train.py", "from .helpers import make"),
        ("pkg/sub/train.py", "from ..helpers import make"),
        ("pkg/train.py", "from pkg.helpers import make as make"),
        ("train.py", "from pkg.helpers import make"),
        ("scripts/train.py", "from pkg.helpers import make"),
        ("pkg/train.py", "from helpers import make"),
    ],
)
def test_a_function_is_found_however_it_is_imported(tree: Tree, path: str, statement: str) -> None:
    tree.write("pkg/__init__.py")
    tree.write("pkg/helpers.py", HELPERS)
    observation = tree.observe(path, f"{statement}\nx = make(3)\n")
    assert device_of(observation, "x") == (Kind.TENSOR, [Where.HOST])


@pytest.mark.parametrize(
    ("init", "statement", "call"),
    [
        ("from .helpers import make", "from pkg import make", "make(3)"),
        ("from .helpers import *", "from pkg import make", "make(3)"),
        ("from .helpers import make as build", "import pkg", "pkg.build(3)"),
        ("from . import helpers", "import pkg", "pkg.helpers.make(3)"),
        ("", "import pkg.helpers as h", "h.make(3)"),
        ("", "from pkg import helpers", "helpers.make(3)"),
    ],
)
def test_re_exports_and_modules_lead_to_the_function(tree: Tree, init: str, statement: str, call: str) -> None:
    tree.write("pkg/__init__.py", init)
    tree.write("pkg/helpers.py", HELPERS)
    observation = tree.observe("main.py", f"{statement}\nx = {call}\n")
    assert device_of(observation, "x") == (Kind.TENSOR, [Where.HOST])


def test_a_constant_of_another_module_is_known(tree: Tree) -> None:
    tree.write("helpers.py", HELPERS)
    observation = tree.observe("main.py", "import torch\nfrom helpers import send\nx = send(torch.ones(3))\n")
    assert device_of(observation, "x") == (Kind.TENSOR, [Where.NAMED])


def test_a_base_class_in_another_module_makes_a_module(tree: Tree) -> None:
    tree.write("base.py", "from torch import nn\n\nclass Base(nn.Module):\n    pass\n")
    tree.write("models.py", "from base import Base\nfrom torch import nn\n\nclass Net(Base):\n    def __init__(self):\n"
               "        super().__init__()\n        self.layer = nn.Linear(2, 2)\n    def forward(self, x):\n        return self.layer(x)\n")  # fmt: skip
    code = "from models import Net\n\ndef build(device):\n    net = Net()\n    net.to(device)\n    return net\n"
    moves = [e for e in tree.observe("main.py", code).events if isinstance(e, Move)]
    assert [m.value.kind for m in moves] == [Kind.MODULE]


def test_a_mismatch_across_modules_is_an_event_of_the_file_that_causes_it(tree: Tree) -> None:
    tree.write("helpers.py", HELPERS)
    code = "import torch\nfrom helpers import make, send\n\ny = send(torch.ones(3)) + make(3)\n"
    mixes = [e for e in tree.observe("main.py", code).events if isinstance(e, Mix)]
    assert len(mixes) == 1


def test_faults_inside_the_imported_module_are_not_events_here(tree: Tree) -> None:
    tree.write("helpers.py", "import torch\n\ndef bad():\n    x = torch.ones(3)\n    x.cuda()\n    return x\n")
    observation = tree.observe("main.py", "from helpers import bad\ny = bad()\n")
    assert not [e for e in observation.events if isinstance(e, Move)]


def test_modules_that_import_each_other_end(tree: Tree) -> None:
    tree.write("a.py", "from b import g\n\ndef f(x):\n    return g(x)\n\ntorch = None\n")
    tree.write("b.py", "from a import f\n\ndef g(x):\n    torch = f(x)\n    return torch\n")
    assert tree.observe("main.py", "from a import f\ny = f(1)\n").failures == []


def test_a_name_that_leads_back_to_itself_ends(tree: Tree) -> None:
    tree.write("a.py", "from b import name\n")
    tree.write("b.py", "from a import name\n")
    assert tree.observe("main.py", "from a import name\ny = name(1)\n").failures == []


@pytest.mark.parametrize("content", ["def make(:\n", "\x00", "é".encode("latin-1").decode("latin-1") * 3 + "((("])
def test_a_module_that_cannot_be_read_stays_unknown(tree: Tree, content: str) -> None:
    (tree.root / "helpers.py").write_text(content)
    observation = tree.observe("main.py", "from helpers import make\nx = make(3)\n")
    assert observation.failures == []


def test_a_library_of_the_same_name_elsewhere_is_not_taken_for_the_project(tree: Tree, tmp_path: Path) -> None:
    observation = tree.observe("main.py", "from transformers import make\nx = make(3)\n")
    assert not [t for t in observation.bound if isinstance(t, cst.Name) and t.value == "x"]


def test_what_a_result_rests_on_is_told(tree: Tree) -> None:
    helpers = tree.write("helpers.py", HELPERS)
    code = "from helpers import make\nx = make(3)\n"
    path = tree.write("main.py", code)
    project = Project()
    observe(cst.parse_module(code), path, project)
    assert any(Path(p).resolve() == Path(helpers).resolve() for p in project.dependencies(path))


def test_modules_that_import_everything_of_each_other_end(tree: Tree) -> None:
    tree.write("pkg/__init__.py", "from pkg.a import *\n")
    tree.write("pkg/a.py", "from pkg import *\nfrom pkg.b import *\n")
    tree.write("pkg/b.py", "from pkg.a import *\n")
    assert tree.observe("main.py", "from pkg import missing\ny = missing(1)\n").failures == []


POOL = """
import torch
from base import Named

class Pool(Named):
    def __init__(self, n, device):
        super().__init__()
        self.linear = torch.nn.Linear(n, n)
        self.to(device)

    def embed(self, rows, device):
        return self.linear(torch.stack(rows).to(device))
"""


def test_a_class_without_a_word_about_tensors_hands_on_that_it_is_a_module(tree: Tree) -> None:
    tree.write(
        "base.py",
        """
        import torch

        class Embeddings(torch.nn.Module):
            def __init__(self):
                super().__init__()

        class Named(
            Embeddings
        ):
            @property
            def kind(self):
                return "named"
        """,
    )
    assert not [e for e in tree.observe("pool.py", POOL).events if isinstance(e, Mix)]


def test_what_a_class_with_an_unseen_base_builds_may_move_with_it(tree: Tree) -> None:
    assert not [e for e in tree.observe("pool.py", POOL).events if isinstance(e, Mix)]
    plain = POOL.replace("(Named)", "").replace("self.to(device)", "")
    assert [e for e in tree.observe("pool.py", plain).events if isinstance(e, Mix)]


def test_an_imported_class_keeps_nothing_of_a_file_that_uses_it(tree: Tree) -> None:
    tree.write("pkg/things.py", "import torch\n\nclass Thing:\n    def __init__(self):\n        self.net = torch.zeros(3)\n")
    use = """
    import torch
    from pkg.things import Thing

    class Net(torch.nn.Module):
        def forward(self, x):
            return x

    class Heir(Thing):
        def setup(self):
            self.extra = Net()

    def change():
        thing = Thing()
        thing.net = Net().cuda()

    def use(x):
        thing = Thing()
        thing.extra(x)
        return thing.net(x)
    """
    project = Project()
    for name in ("a.py", "b.py", "c.py"):
        observation = observe(cst.parse_module(dedent(use)), tree.write(name, use), project)
        assert observation.failures == []
        observation.release()


def test_what_takes_much_memory_is_read_again(tree: Tree, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(project_module, "MOST_PARSED", 10)
    tree.write("helpers.py", HELPERS)
    code = "from helpers import make\nx = make(3)\n"
    project = Project()
    for name in ("a.py", "b.py", "c.py"):
        observation = observe(cst.parse_module(code), tree.write(name, code), project)
        assert device_of(observation, "x") == (Kind.TENSOR, [Where.HOST])
        observation.release()


def test_a_file_may_have_so_much_read_and_no_more(tree: Tree) -> None:
    lines = "    x = x + 1\n" * 590
    for number in range(4):
        tree.write(f"big{number}.py", f"import torch\n\ndef make():\n    x = torch.zeros(3)\n{lines}    return x\n")
    code = "".join(f"import big{n}\nx{n} = big{n}.make()\n" for n in range(4))
    observation = tree.observe("main.py", code)
    assert device_of(observation, "x0") == (Kind.TENSOR, [Where.HOST])
    assert device_of(observation, "x1") == (Kind.TENSOR, [Where.HOST])
    with pytest.raises(AssertionError):
        device_of(observation, "x3")


@pytest.mark.parametrize(("lines", "known"), [(10, True), (MOST_NESTED_LINES, False)])
def test_so_does_the_summary_of_an_imported_function(tree: Tree, lines: int, known: bool) -> None:
    tree.write("far.py", "import torch\n\ndef make(n):\n" + "    # why\n" * lines + "    return torch.zeros(n)\n")
    tree.write("near.py", "import torch\nfrom far import make\n\ndef twice(n):\n    return 2 * make(n)\n")
    observation = tree.observe("main.py", "from near import twice\nx = twice(3)\n")
    bound = [target.value for target in observation.bound if isinstance(target, cst.Name)]
    assert ("x" in bound) is known


def test_of_a_class_that_is_too_large_its_bases_are_known(tree: Tree) -> None:
    methods = "    def f(self):\n        return self.x\n" * 400
    tree.write("models.py", f"import torch\n\nclass Net(torch.nn.Module):\n{methods}")
    observation = tree.observe("main.py", "from models import Net\nnet = Net()\nmoved = net.cuda()\n")
    assert device_of(observation, "moved")[0] is Kind.MODULE


@pytest.mark.parametrize("body", ["next(self.parameters()).dtype", "[layer(x) for layer in self.layers]"])
def test_what_replicas_of_an_imported_module_miss_is_no_place_of_the_file_that_wraps_it(tree: Tree, body: str) -> None:
    tree.write(
        "net.py",
        f"""
        from torch import nn
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.layers = [nn.Linear(2, 2)]
                self.first = self.layers[0]
            def forward(self, x):
                return {body}
        """,
    )
    code = "from torch import nn\nfrom net import Net\nmodel = nn.DataParallel(Net().cuda())\n"
    tree.write("train.py", code)
    module = cst.parse_module(code)
    seen = observe(module, str(tree.root / "train.py"), Project())
    own = {id(node) for node in descendants(module)}
    assert [e for e in seen.events if isinstance(e, Parallel) and e.read is not None and id(e.read) not in own] == []
