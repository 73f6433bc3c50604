"""What stands in `with pytest.raises(…)` is there to fail, and nothing is reported of it by any rule."""

from __future__ import annotations

import pytest
from checking import expect

FAILING = {
    "DEV504": 'torch.ones(2, dtype=torch.float64, device="mps")',
    "DEV102": "torch.zeros(3).cuda() + torch.ones(3)",
    "DEV106": "torch.zeros(3).cuda().numpy()",
}


@pytest.mark.parametrize(
    ("around", "reported"),
    [
        ("with pytest.raises(TypeError, match='float64'):", False),
        ("with self.assertRaises(TypeError):", False),
        ("with torch.no_grad():", True),
    ],
)
@pytest.mark.parametrize("rule", FAILING)
def test_what_is_there_to_fail_is_silent(rule: str, around: str, reported: bool) -> None:
    mark = "  # <-" if reported else ""
    expect(
        f"""
        import pytest
        import torch

        def check(self):
            {around}
                {FAILING[rule]}{mark}
        """,
        rule,
    )
