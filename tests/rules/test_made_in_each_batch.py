"""DEV202, DEV106: what is made on the CPU in code that no batch runs, and what others' methods give."""

from __future__ import annotations

import pytest
from checking import expect


@pytest.mark.parametrize(("call", "reported"), [("self.base(x, mask=mask)", False), ("self.base(x)", True)])
def test_what_stands_in_for_an_argument_that_each_call_passes_is_not_made(call: str, reported: bool) -> None:
    code = f"""
        import torch
        from torch import nn

        class Base(nn.Module):
            def __init__(self):
                super().__init__()
                self.layer = nn.Linear(3, 3)

            def forward(self, x, mask=None):
                if mask is None:
                    mask = torch.ones(x.shape[1]).to(x.device)  {"# <-" if reported else ""}
                return self.layer(x) * mask

        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.base = Base()

            def forward(self, x, mask: torch.Tensor):
                return {call}
        """
    expect(code, "DEV202")
    optional = code.replace("mask: torch.Tensor", "mask: torch.Tensor = None")
    expect(optional.replace("(x.device)  # <-", "(x.device)").replace("(x.device)", "(x.device)  # <-"), "DEV202")


@pytest.mark.parametrize(("name", "reported"), [("check", False), ("check_gradient", False), ("penalty", True)])
def test_a_check_of_gradients_runs_for_no_batch(name: str, reported: bool) -> None:
    code = f"""
        import torch
        from torch import nn

        class Attention(nn.Module):
            def forward(self, x):
                return x * 2

            def {name}(self):
                x = torch.randn(4, 8).cuda()  {"# <-" if reported else ""}
                x.requires_grad = True
                grad = torch.autograd.grad(self.forward(x).mean(), x)[0]
                assert (grad[3:] == 0).all()
        """
    expect(code, "DEV202")


@pytest.mark.parametrize(("given", "reported"), [("ids", False), ("ids, max_new_tokens=9", True)])
def test_what_generates_gives_tensors_where_it_takes_what_transformers_takes(given: str, reported: bool) -> None:
    code = f"""
        import numpy as np
        import torch
        from somewhere import Model

        def speak(ids):
            model = Model(3).eval().cuda()
            said = model.generate({given})
            return np.pad(said, (0, 3))  {"# <-" if reported else ""}
        """
    expect(code, "DEV106")
