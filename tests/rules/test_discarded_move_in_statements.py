"""DEV101: moves that are dropped as a part of a larger statement, and those whose work is done."""

from __future__ import annotations

import pytest
from checking import expect, findings, reported_lines

CODE = "DEV101"


def test_each_part_of_a_tuple_statement_is_judged_alone() -> None:
    expect(
        """
        import torch
        def work(device):
            model, x = torch.nn.Linear(2, 2), torch.ones(2)
            (
                model.to(device),
                x.to(device),  # <-
            )
            return model(x)
        """,
        CODE,
    )


@pytest.mark.parametrize(
    "statement", ["torch.zeros(1).cuda()", "torch.ones(2, 2).to(device)", "make().to(device)"]
)
def test_a_temporary_that_warms_the_device_up_is_silent(statement: str) -> None:
    expect(
        f"""
        import torch
        def make():
            return torch.ones(3)
        def warm_up(device):
            {statement}
        """,
        CODE,
    )


def test_a_move_that_is_expected_to_fail_is_silent() -> None:
    expect(
        """
        import pytest, torch
        def test_missing_device(self):
            x = torch.ones(3)
            with pytest.raises(RuntimeError):
                x.to("cuda:99")
            with self.assertRaisesRegex(AssertionError, "not compiled"):
                x.cuda()
        """,
        CODE,
    )


@pytest.mark.parametrize(
    "statement",
    [
        "x.cuda().float()",
        "x.to(device).requires_grad_()",
        "x.cuda().zero_()",
        "x.detach().cpu()",
        "x[0].to(device)",
        "x.T.cuda()",
    ],
)
def test_a_chain_around_a_move_is_dropped_as_a_whole(statement: str) -> None:
    expect(
        f"import torch\ndef work(device):\n    x = torch.ones(3, 3)\n    {statement}  # <-\n    return x\n",
        CODE,
    )


@pytest.mark.parametrize(
    "statement", ["x.cuda().sum().backward()", "model(x.cuda())", "x.cuda().numpy()", "x.copy_(x.cpu())"]
)
def test_a_chain_that_does_something_is_silent(statement: str) -> None:
    expect(f"import torch\ndef work(model):\n    x = torch.ones(3)\n    {statement}\n    return x\n", CODE)


@pytest.mark.parametrize("drop", ["x.half() if fast else x.float()", "fast and x.half()", "not fast or x.float()"])
def test_a_move_in_an_arm_of_an_expression_that_is_dropped_is_dropped(drop: str) -> None:
    expect(
        f"""
        import torch
        def infer(model, fast):
            x = torch.ones(3)
            {drop}  # <-
            return model(x)
        """,
        CODE,
    )


def test_an_arm_that_moves_a_model_is_silent() -> None:
    code = """
        import torch
        def infer(fast):
            model = torch.nn.Linear(3, 3)
            model.half() if fast else model.float()
            return model
        """
    assert not reported_lines(code, CODE)


@pytest.mark.parametrize(
    "statement, expected",
    [
        ("x.add_(y).to(kind)", []),
        ("x.data.add_(y).to(dtype=x.dtype)", []),
        ("x.add_(y).half()", [CODE]),
        ("x.add_(y).to(torch.float16)", [CODE]),
        ("x.add_(y).to(y.device)", [CODE]),
        ("x.add(y).to(kind)", [CODE]),
        ("x.to(kind)", [CODE]),
    ],
)
def test_a_write_in_place_that_is_brought_to_some_type_has_done_its_work(statement: str, expected: list[str]) -> None:
    code = f"""
        import torch
        def merge(x: torch.Tensor, y: torch.Tensor):
            kind = x.dtype
            {statement}
            return x
        """
    assert [f.code for f in findings(code, CODE)] == expected


@pytest.mark.parametrize(("made", "reported"), [("meta.algorithms.Learner", False), ("meta.noise_like", True)])
def test_what_a_class_that_is_not_seen_makes_may_be_a_module(made: str, reported: bool) -> None:
    code = f"import torch\nimport meta\ndef adapt(model):\n    learner = {made}(model)\n    learner.to('cuda')\n    return learner.clone()\n"
    assert bool(findings(code, "DEV101")) is reported


def test_a_map_that_nothing_goes_through_moves_nothing() -> None:
    code = """
        def step(model, batch, device):
            map(lambda t: t.to(device), batch)  # <-
            return model(*batch)
        """
    expect(code, "DEV101")


def test_a_map_that_is_gone_through_moves() -> None:
    code = """
        def step(model, batch, device):
            batch = list(map(lambda t: t.to(device), batch))
            list(map(lambda layer: layer.to(device), model.layers))
            return model(*batch)
        """
    expect(code, "DEV101")
