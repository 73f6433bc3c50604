"""An autograd.Function that nothing in the project applies waits for nothing."""

from __future__ import annotations

from pathlib import Path

import pytest
from steps import IMPORTS, texts

SHOWING = IMPORTS + (
    "class Show(torch.autograd.Function):\n"
    "    @staticmethod\n"
    "    def forward(ctx, x):\n"
    "        return x + 0\n"
    "    @staticmethod\n"
    "    def backward(ctx, grad: torch.Tensor):\n"
    "        print(grad.mean())\n"
    "        return grad\n"
)


@pytest.mark.parametrize(
    ("marker", "other", "found"),
    [
        (".git", "x = nn.Show(1)\n# Show what is there\n", []),
        (".git", "y = Show.apply(x)\n", ["print(grad.mean())"]),
        (".git", "from shows import Show\nrun(Show, x)\n", ["print(grad.mean())"]),
        ("setup.py", "", ["print(grad.mean())"]),
    ],
)
def test_a_function_that_nothing_applies_is_for_debugging(
    tmp_path: Path, marker: str, other: str, found: list[str]
) -> None:
    (tmp_path / marker).touch()
    (tmp_path / "other.py").write_text(other)
    path = tmp_path / "shows.py"
    path.write_text(SHOWING)
    assert texts(SHOWING, "DEV303", path=str(path)) == found
