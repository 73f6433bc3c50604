"""DEV105: leaves whose name their moved copy takes."""

from __future__ import annotations

import pytest
from checking import expect, findings


@pytest.mark.parametrize(
    "made, moved",
    [
        ("x = torch.randn(3, requires_grad=True)", "x = x.cuda()"),
        ("x = torch.randn(3)\n    x.requires_grad = True", "x = x.to(device)"),
        ("x, y = torch.randn(3).requires_grad_(), torch.ones(3)", "x, y = x.cuda(), y.cuda()"),
    ],
)
@pytest.mark.parametrize("used", ["x.grad", "torch.optim.SGD([x], 0.1)"])
def test_a_leaf_whose_name_its_copy_takes_is_reported(made: str, moved: str, used: str) -> None:
    expect(f"import torch\ndef work(device):\n    {made}\n    {moved}  # <-\n    return {used}\n", "DEV105")


@pytest.mark.parametrize(
    "lines",
    [
        "x = torch.randn(3, requires_grad=True)\n    y = x.cuda()\n    return x.grad, y",
        "x = torch.randn(3, requires_grad=True)\n    x = x.cuda().detach().requires_grad_()\n    return x.grad",
        "x = torch.randn(3).cuda()\n    x.requires_grad = True\n    return x.grad",
        "x = torch.randn(3)\n    x.requires_grad = False\n    x = x.cuda()\n    return x.grad",
        "x = torch.randn(3, requires_grad=True)\n    x = x.cuda()\n    return x.sum()",
        "x = torch.randn(3, requires_grad=True, device=device)\n    x = x.to(device)\n    return x.grad",
    ],
)
def test_a_leaf_that_is_kept_or_made_on_the_device_is_silent(lines: str) -> None:
    expect(f"import torch\ndef work(device):\n    {lines}\n", "DEV105")


def test_a_parameter_whose_attribute_gets_its_copy_is_reported() -> None:
    code = """
        import torch
        from torch import nn
        class Net(nn.Module):
            def __init__(self, gpu):
                super().__init__()
                self.gain = nn.Parameter(torch.ones(1))
                self.body = nn.Linear(3, 3)
                if gpu:
                    self.gain = self.gain.cuda()  # <-
                    self.body = self.body.cuda()
            def forward(self, x):
                return self.body(x) * self.gain
        """
    expect(code, "DEV105")
    assert "raises" in findings(code, "DEV105")[0].message
