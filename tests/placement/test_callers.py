"""How often a project runs what a class computes, as all of its files say it."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import pytest

from torchlint.check import CheckOptions, check_source
from torchlint.placement.surroundings.callers import how_often
from torchlint.placement.surroundings.texts import Texts, fingerprint, root_of

LOSS = """
    import torch
    from torch import nn
    class Penalty(nn.Module):
        def __init__(self):
            super(Penalty, self).__init__()
        def forward(self, x: torch.Tensor):
            return x if (x > 0).any() else -x
    """
SELDOM = """
    from losses import Penalty
    class Trainer:
        def __init__(self, device):
            self.penalty = Penalty().to(device)
        def step(self, x, step):
            if step > 100 and (step + 1) % 16 == 0:
                return self.penalty(x)
    """


def verdict(folder: Path, losses: str = LOSS, installed: bool = False, **files: str) -> str:
    (folder / ".git").mkdir(exist_ok=True)
    if installed:
        (folder / "setup.py").write_text("")
    (folder / "losses.py").write_text(dedent(losses))
    for name, text in files.items():
        (folder / f"{name}.py").write_text(dedent(text))
    path = str(folder / "losses.py")
    assert root_of(path) == str(folder)
    return how_often(Texts(str(folder)), path, "Penalty")


def test_what_the_only_caller_runs_now_and_then(tmp_path: Path) -> None:
    assert verdict(tmp_path, train=SELDOM) == "seldom"


def test_a_condition_may_have_a_name(tmp_path: Path) -> None:
    named = SELDOM.replace("if step > 100 and (step + 1) % 16 == 0:", "due = step % 16 == 0\n        if due:")
    assert verdict(tmp_path, train=named) == "seldom"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("if step > 100 and (step + 1) % 16 == 0:", "if step > 100:"),
        ("if step > 100 and (step + 1) % 16 == 0:", "if step % 16 != 0:"),
        ("(step + 1) % 16 == 0:", "(step + 1) % 16 == 0:\n            pass\n        else:"),
        ("self.penalty(x)", "self.penalty(x)\n        return self.penalty(x)"),
        ("self.penalty(x)", "run(self.penalty, x)"),
        ("self.penalty = Penalty().to(device)", "self.penalty = [Penalty()]"),
        ("import Penalty", "import Penalty as P, Penalty"),
        ("class Trainer", "class Other(Penalty): pass\nclass Trainer"),
    ],
)
def test_what_else_a_caller_does_is_no_reason(tmp_path: Path, old: str, new: str) -> None:
    assert old in SELDOM
    assert verdict(tmp_path, train=dedent(SELDOM).replace(old, new)) == ""


def test_what_a_program_never_builds(tmp_path: Path) -> None:
    assert verdict(tmp_path, train="from losses import Penalty\n") == "never"


def test_what_a_library_never_builds_is_for_others(tmp_path: Path) -> None:
    assert verdict(tmp_path, installed=True) == ""


def test_what_is_built_and_never_called(tmp_path: Path) -> None:
    built = "class Net(nn.Module):\n    def __init__(self):\n        self.penalty = Penalty()\n"
    assert verdict(tmp_path, installed=True, net=f"from torch import nn\n{built}") == "never"
    looping = built + "    def forward(self, x):\n        return [m(x) for m in self.children()]\n"
    assert verdict(tmp_path, installed=True, net=f"from torch import nn\n{looping}") == ""


@pytest.mark.parametrize(
    ("name", "text"), [("conf.yaml", "loss: Penalty"), ("show.ipynb", '{"cells": ["Penalty()"]}')]
)
def test_a_file_of_another_kind_that_names_it_is_not_understood(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text)
    assert verdict(tmp_path) == ""


def test_a_text_that_names_it_may_find_it(tmp_path: Path) -> None:
    assert verdict(tmp_path, train="loss = make('Penalty')\n") == ""
    assert verdict(tmp_path, train="__all__ = ['Penalty']\n") == "never"


def test_a_function_of_autograd_is_applied(tmp_path: Path) -> None:
    function = """
        import torch
        class Penalty(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                return x if (x > 0).any() else -x
        """
    assert verdict(tmp_path, function) == "never"
    assert verdict(tmp_path, function, train="def f(x):\n    return Penalty.apply(x)\n") == ""
    assert verdict(tmp_path, function, train="penalty = Penalty.apply\ny = penalty(x)\n") == ""


def test_tests_are_no_callers(tmp_path: Path) -> None:
    assert verdict(tmp_path, test_losses="from losses import Penalty\nPenalty()(x)\n") == "never"


def test_without_a_project_nothing_is_known(tmp_path: Path) -> None:
    path = tmp_path / "losses.py"
    path.write_text(dedent(LOSS))
    if root_of(str(path)) is None:  # nothing above the temporary folder marks one
        assert len(reported(path)) == 1


def reported(path: Path, rule: str = "DEV303") -> list[int]:
    result = check_source(path.read_bytes(), str(path), CheckOptions(frozenset({rule})))
    return [f.range.start.line for f in result.findings]


def test_a_wait_in_what_runs_now_and_then_is_silent(tmp_path: Path) -> None:
    assert verdict(tmp_path, train=SELDOM) == "seldom"
    assert reported(tmp_path / "losses.py") == []


def test_a_wait_in_what_runs_often_is_reported(tmp_path: Path) -> None:
    often = dedent(SELDOM).replace("if step > 100 and (step + 1) % 16 == 0:", "if x is not None:")
    assert verdict(tmp_path, train=often) == ""
    assert reported(tmp_path / "losses.py") == [8]


def test_any_file_of_the_project_changes_its_fingerprint(tmp_path: Path) -> None:
    assert verdict(tmp_path, train=SELDOM) == "seldom"
    before = fingerprint(str(tmp_path))
    (tmp_path / "again.py").write_text("from losses import Penalty\nPenalty()(x)\n")
    assert fingerprint(str(tmp_path)) != before


def test_a_copy_in_what_nobody_calls_is_silent(tmp_path: Path) -> None:
    copying = """
        import torch
        from torch import nn
        class Penalty(nn.Module):
            def forward(self, x: torch.Tensor):
                return x + torch.zeros(3).to(x.device)
        """
    often = "from losses import Penalty\npenalty = Penalty()\ny = penalty(x)\n"
    assert verdict(tmp_path, copying) == "never"
    assert reported(tmp_path / "losses.py", "DEV202") == []
    (tmp_path / "again").mkdir()
    assert verdict(tmp_path / "again", copying, train=often) == ""
    assert reported(tmp_path / "again" / "losses.py", "DEV202") == [6]
