"""DEV112: which operands are on two accelerators, and which may well be on one."""

from __future__ import annotations

import pytest
from checking import expect

CODE = "DEV112"


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("torch.ones(3, device='cuda:0')", "torch.ones(3, device='cuda:1')"),
        ("torch.ones(3).cuda(0)", "torch.ones(3).cuda(1)"),
        ("torch.ones(3).to(0)", "torch.ones(3).to('cuda:1')"),
        ("torch.ones(3, device=torch.device('cuda', 1))", "torch.ones(3, device=torch.device('cuda:0'))"),
        ("torch.ones(3).cuda()", "torch.ones(3).to(torch.device('cuda:1'))"),
        ("torch.tensor(2.0, device='cuda:0')", "torch.ones(3, device='cuda:1')"),
    ],
)
def test_tensors_that_the_code_puts_on_two_accelerators_do_not_join(first: str, second: str) -> None:
    expect(f"import torch\na = {first}\nb = {second}\nc = a * b  # <-", CODE)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("torch.ones(3, device='cuda:0')", "torch.ones(3).cuda()"),
        ("torch.ones(3, device='cuda:1')", "torch.ones(3).cuda(1)"),
        ("torch.ones(3, device='cuda:1')", "torch.ones(3, device=somewhere)"),
        ("torch.ones(3, device='cuda:1')", "torch.ones(3, device=f'cuda:{number}')"),
        ("torch.ones(3, device='cuda:1')", "torch.ones(3).cuda(number)"),
        ("torch.ones(3, device='cuda:1')", "torch.tensor(2.0)"),
        ("torch.ones(3, device='cuda:0').cpu()", "torch.ones(3, device='cuda:1').cpu()"),
    ],
)
def test_what_may_be_one_accelerator_is_silent(first: str, second: str) -> None:
    expect(f"import torch\na = {first}\nb = {second}\nc = a * b", CODE)


@pytest.mark.parametrize("setting", ["torch.cuda.set_device(1)", "torch.cuda.device(1).__enter__()"])
def test_the_current_device_may_be_another_one_where_the_file_sets_it(setting: str) -> None:
    code = "import torch\n{}\na = torch.ones(3).cuda()\nb = torch.ones(3, device='cuda:1')\nc = a * b"
    expect(code.format(setting), CODE)
    expect(code.format("") + "  # <-", CODE)


def test_a_choice_with_the_cpu_keeps_the_number() -> None:
    expect(
        """
        import torch
        import torch.nn.functional as F
        first = torch.device("cuda:0" if torch.cuda.is_available() else "cpu")
        second = "cuda:1" if torch.cuda.is_available() else "cpu"
        def distill(student, teacher, x):
            student.to(first)
            teacher.to(second)
            return F.mse_loss(student(x.to(first)), teacher(x.to(second)))  # <-
        """,
        CODE,
    )


def test_a_device_that_the_program_chooses_between_accelerators_is_unknown() -> None:
    expect(
        """
        import torch
        def scale(x, several):
            if several:
                device = "cuda:1"
            else:
                device = "cuda:0"
            return torch.ones(3, device=device) * x.to("cuda:0")
        """,
        CODE,
    )


HALVES = """
    import torch
    from torch import nn
    class Halves(nn.Module):
        def __init__(self):
            super().__init__()
            self.lower = nn.Linear(4, 4).to("cuda:0")
            self.upper = nn.Linear(4, 4).to("{}")
        def forward(self, x):
            y = self.lower(x.to("cuda:0"))
            return self.upper(y)
    """


def test_a_module_that_spreads_its_parts_hands_on_what_is_elsewhere() -> None:
    expect(HALVES.format("cuda:1").replace("self.upper(y)", "self.upper(y)  # <-"), CODE)
    expect(HALVES.format("cuda:1").replace("self.upper(y)", "y + self.upper(y.to('cuda:1'))  # <-"), CODE)
    expect(HALVES.format("cuda:1").replace("self.upper(y)", "self.upper(y.to('cuda:1'))"), CODE)


def test_a_module_with_all_its_parts_in_one_place_moves_as_a_whole() -> None:
    code = HALVES.format("cuda:0").rstrip() + "\n    def run(x):\n        return Halves().to('cuda:1')(x.to('cuda:1'))"
    expect(code.replace('x.to("cuda:0")', "x"), CODE)
    expect(code + "  # <-", CODE)


def test_the_module_and_its_input_are_put_on_two_accelerators() -> None:
    expect(
        """
        import torch
        class Net(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.out = torch.nn.Linear(2, 2)
            def forward(self, x):
                return self.out(x)
        net = Net().to("cuda:1")
        y = net(torch.ones(1, 2, device="cuda:0"))  # <-
        z = net(torch.ones(1, 2, device="cuda:1"))
        """,
        CODE,
    )


def test_a_wrapper_moves_its_inputs_itself() -> None:
    expect(
        """
        import torch
        model = torch.nn.DataParallel(torch.nn.Linear(2, 2).cuda(1), device_ids=[1, 2])
        y = model(torch.ones(1, 2).cuda(0))
        """,
        CODE,
    )


def test_what_a_helper_makes_is_where_the_helper_says() -> None:
    expect(
        """
        import torch
        def weights(n):
            return torch.ones(n, device="cuda:0")
        def run(model, x):
            out = model(x.to("cuda:1"))
            return torch.ones(3, device="cuda:1") * weights(3)  # <-
        """,
        CODE,
    )


def test_a_copy_between_accelerators_is_no_operation_on_both() -> None:
    expect(
        """
        import torch
        a = torch.ones(3, device="cuda:0")
        b = torch.empty(3, device="cuda:1")
        b.copy_(a)
        c = a.to(b.device) + b
        """,
        CODE,
    )


def test_a_test_may_mean_to_fail() -> None:
    expect(
        """
        import torch
        def test_mixing_raises():
            a = torch.ones(3, device="cuda:0")
            b = torch.ones(3, device="cuda:1")
            a + b
        """,
        CODE,
        path="tests/test_mixing.py",
    )
