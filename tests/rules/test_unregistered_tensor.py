"""DEV103: which attributes of Modules are left behind, and which are none of the rule's business."""

from __future__ import annotations

import pytest
from checking import expect, findings, fixed

from torchlint.findings import Confidence

CODE = "DEV103"

MODULE = """
import torch
from torch import nn


class Layer(nn.Module):
    def __init__(self, table: torch.Tensor):
        super().__init__()
        self.net = nn.Linear(3, 3)
        {init}

    def make(self):
        return torch.eye(3).unsqueeze(0)

    def forward(self, x):
        x = self.net(x)
        {forward}
"""


def module(init: str, forward: str) -> str:
    """A Module with these lines in its constructor and its forward."""
    return MODULE.format(init=init.replace("\n", "\n        "), forward=forward.replace("\n", "\n        "))


@pytest.mark.parametrize(
    "made",
    ["torch.ones(3)", "self.make()", "torch.tensor([1.0, 2.0, 3.0])", "torch.arange(3).float() / 3", "torch.triu(torch.ones(3, 3))"],
)
@pytest.mark.parametrize(
    "used",
    ["return x * self.t", "t = self.t\nreturn x + t[None]", "return torch.cat([x, self.t])", "return x @ self.t", "return self.net(self.t)"],
)
def test_a_plain_tensor_attribute_that_meets_what_moves(made: str, used: str) -> None:
    expect(module(f"self.t = {made}  # <-", used), CODE)


def test_the_index_that_a_plain_tensor_meets_is_named() -> None:
    used = "i = torch.randint(0, 3, (3,), device=self.net.weight.device)\nreturn x * self.t[i].to(x.device)"
    (finding,) = findings(module("self.t = torch.ones(3)", used), CODE)
    assert "it joins `i`, which is wherever the module is" in finding.message


def test_what_a_list_or_a_dict_keeps_is_left_behind_too() -> None:
    expect(module("self.t = [torch.ones(3), torch.zeros(3)]  # <-", "return x * self.t[0]"), CODE)
    expect(module("self.t = {'a': torch.ones(3)}  # <-", "return x * self.t['a']"), CODE)


def test_an_argument_is_where_its_caller_put_it_and_only_perhaps_left_behind() -> None:
    code = module("self.t = table  # <-", "return x * self.t")
    expect(code, CODE, confidence=Confidence.POSSIBLE)
    assert not findings(code, CODE)


def test_what_a_base_registers_stays_registered() -> None:
    code = """
        import torch
        from torch import nn

        class Base(nn.Module):
            def __init__(self, points, learn):
                super().__init__()
                if learn:
                    self.register_parameter(name="points", parameter=nn.Parameter(points))
                else:
                    self.register_buffer("points", points)

        class Heir(Base):
            def __init__(self, points: torch.Tensor):
                super().__init__(points, False)
                self.points = torch.ones(3)

            def forward(self, x):
                return x * self.points
    """
    assert not findings(code, CODE, confidence=Confidence.POSSIBLE)


def test_what_comes_from_somewhere_unknown_accuses_nothing() -> None:
    code = module("self.w = self.unseen(3)\nself.t = torch.zeros(3)", "y = torch.tensor(x.tolist())\nreturn y @ self.w + self.t")
    assert not findings(code, CODE)


@pytest.mark.parametrize(
    "init",
    [
        "self.register_buffer('t', torch.ones(3))",
        "self.register_buffer('t', torch.ones(3), persistent=False)",
        "self.t = nn.Parameter(torch.ones(3))",
        "self.t = nn.Parameter(torch.ones(3)) if table is None else 1.0",
        "self.t = nn.Buffer(torch.ones(3))",
        "self.register_buffer('t', None)\nself.t = torch.ones(3)",
        "self.register_parameter('t', nn.Parameter(torch.ones(3)))",
        "self.t = torch.ones(3, device='cuda')",
        "self.t = torch.ones(3).mean()",
        "self.t = 3.0",
    ],
)
def test_what_is_registered_or_placed_is_silent(init: str) -> None:
    assert not findings(module(init, "return x * self.t"), CODE)


@pytest.mark.parametrize(
    "used",
    [
        "return x * self.t.to(x.device)",
        "return x * self.t.type_as(x)",
        "self.t = self.t.to(x.device)\nreturn x * self.t",
        "if self.t.device != x.device:\n    self.t = self.t.to(x.device)\nreturn x * self.t",
        "return x[self.t]",
        "return x.view(self.t.tolist())",
        "return x",
    ],
)
def test_use_that_does_not_mind_is_silent(used: str) -> None:
    assert not findings(module("self.t = torch.ones(3)", used), CODE)


def test_a_class_that_moves_its_attributes_itself_is_silent() -> None:
    code = module("self.t = torch.ones(3)", "return x * self.t")
    code += """
    def _apply(self, fn):
        super()._apply(fn)
        self.t = fn(self.t)
        return self
"""
    assert not findings(code, CODE)


def test_other_classes_have_no_buffers() -> None:
    assert not findings(module("self.t = torch.ones(3)", "return x * self.t").replace("nn.Module", "object"), CODE)


def test_a_base_class_in_the_file_counts() -> None:
    expect(
        """
        import torch
        from torch import nn
        class Base(nn.Module):
            def __init__(self):
                super().__init__()
                self.t = torch.ones(3)  # <-
        class Net(Base):
            def forward(self, x):
                return x.float() * self.t
        """,
        CODE,
    )


def test_one_cause_is_one_finding() -> None:
    code = module("self.t = torch.ones(3)", "return x * self.t + self.t @ x")
    assert [f.code for f in findings(code, "DEV102", "DEV103", "DEV201")] == [CODE]


def test_the_fix_registers_a_buffer() -> None:
    code = fixed(module("self.t = torch.ones(3)", "return x * self.t"), CODE)
    assert 'self.register_buffer("t", torch.ones(3), persistent=False)' in code


def test_an_empty_tensor_stands_in_for_what_comes_later() -> None:
    assert not findings(module("self.t = torch.tensor([])", "return torch.cat([self.t, x]) if self.t.numel() else x"), CODE)
    assert not findings(module("self.t = {'k': torch.empty(0)}", "return torch.cat([self.t['k'], x])"), CODE)


def test_a_module_without_forward_may_be_given_anything() -> None:
    code = """
        import torch
        from torch import nn

        class Sampler(nn.Module):
            def __init__(self):
                super().__init__()
                self.t = torch.ones(3)

            def {name}(self, batch: torch.Tensor):
                return self.t * batch
    """
    assert not findings(code.format(name="corrupt"), CODE)
    assert findings(code.format(name="forward"), CODE)


def test_a_view_with_sizes_has_dimensions() -> None:
    code = module("self.t = torch.tensor(table).view(-1, 1, 1)  # <-", "return x - self.t")
    expect(code.replace("table: torch.Tensor", "table"), CODE)
