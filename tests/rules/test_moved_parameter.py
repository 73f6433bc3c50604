"""DEV105: which moves lose a leaf, and which do not."""

from __future__ import annotations

import pytest
from checking import expect, fixed

CODE = "DEV105"


@pytest.mark.parametrize("move", ["to(device)", "cuda()", "to(device=device)", "to('cuda')"])
@pytest.mark.parametrize("made", ["nn.Parameter(torch.zeros(3))", "torch.nn.Parameter(torch.rand(3), requires_grad=True)"])
def test_a_parameter_that_is_moved_is_none_any_more(made: str, move: str) -> None:
    expect(
        f"""
        import torch
        from torch import nn
        class Net(nn.Module):
            def __init__(self, device):
                super().__init__()
                self.w = {made}.{move}  # <-
            def forward(self, x):
                return x * self.w
        """,
        CODE,
    )


@pytest.mark.parametrize(
    "line",
    [
        "self.w = nn.Parameter(torch.zeros(3).to(device))",
        "self.w = nn.Parameter(torch.zeros(3, device=device))",
        "self.w = nn.Parameter(torch.zeros(3)).cpu()",
        "self.w = nn.Parameter(torch.zeros(3)).half()",
        "self.w = nn.Linear(3, 3).to(device)",
        "self.register_buffer('w', torch.zeros(3).to(device))",
    ],
)
def test_what_stays_a_leaf_or_never_was_one_is_silent(line: str) -> None:
    expect(
        f"""
        import torch
        from torch import nn
        class Net(nn.Module):
            def __init__(self, device):
                super().__init__()
                {line}
        """,
        CODE,
    )


def test_a_parameter_that_is_cast_where_it_is_used_is_silent() -> None:
    expect(
        """
        import torch
        from torch import nn
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.w = nn.Parameter(torch.zeros(3))
            def forward(self, x):
                w = self.w.to(x.device)
                return x * w
        """,
        CODE,
    )


def test_an_optimizer_takes_leaves_alone() -> None:
    expect(
        """
        import torch
        def fit(device):
            w = torch.randn(3, requires_grad=True).to(device)  # <-
            optimizer = torch.optim.SGD([w], lr=0.1)
            return optimizer
        def fit_well(device):
            w = torch.randn(3, requires_grad=True, device=device)
            optimizer = torch.optim.SGD([w], lr=0.1)
            return optimizer
        """,
        CODE,
    )


def test_the_gradient_of_the_copy_stays_none() -> None:
    expect(
        """
        import torch
        def saliency(model, device):
            x = torch.randn(3).requires_grad_().cuda()  # <-
            model(x).sum().backward()
            return x.grad
        def saliency_kept(model, device):
            x = torch.randn(3).requires_grad_().cuda()
            x.retain_grad()
            model(x).sum().backward()
            return x.grad
        def saliency_named(model, device):
            leaf = torch.randn(3, requires_grad=True)
            x = leaf.to(device)
            model(x).sum().backward()
            return leaf.grad
        def state(x):
            h = torch.zeros(3).requires_grad_().to(x.device)
            return h.detach()
        """,
        CODE,
    )


def test_the_fix_moves_the_data() -> None:
    code = """
        import torch
        from torch import nn
        class Net(nn.Module):
            def __init__(self, device):
                super().__init__()
                self.w = nn.Parameter(torch.zeros(3)).to(device)
        """
    assert "nn.Parameter(torch.zeros(3).to(device))" in fixed(code, CODE)


@pytest.mark.parametrize("place, marked", [(".to(device)", ""), ("", "  # <-")])
def test_a_leaf_that_is_there_already_stays_one(place: str, marked: str) -> None:
    expect(
        f"""
        import torch
        device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        content = torch.rand(3, 4){place}
        target = content.clone().requires_grad_(True).to(device){marked}
        optimizer = torch.optim.Adam([target], lr=0.003)
        """,
        "DEV105",
    )
