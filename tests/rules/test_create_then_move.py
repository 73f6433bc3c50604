"""DEV202: which tensors could have been made where they go, and which could not."""

from __future__ import annotations

import pytest
from checking import expect, findings, fixed, reported_lines, safeties

from torchlint.findings import Confidence, Safety

CODE = "DEV202"

FORWARD = """
import numpy as np
import torch
from torch import nn


class Layer(nn.Module):
    def forward(self, x, rows):
        keep = {made}
        return x.float() * keep
"""


@pytest.mark.parametrize(
    "made",
    [
        "torch.ones(x.shape[1]).to(x.device)",
        "torch.ones(x.shape[1]).cuda()",
        "torch.zeros(3).to(device=x.device)",
        "torch.zeros(3).to(x)",
        "torch.arange(3).type_as(x)",
        "torch.randn(3).to(x.device, non_blocking=True)",
        "torch.full((3,), 2.0).unsqueeze(0).to(x.device)",
        "torch.stack(torch.meshgrid(torch.arange(3), torch.arange(3))).to(x.device)",
    ],
)
def test_a_tensor_filled_on_the_host_and_copied_is_reported(made: str) -> None:
    assert findings(FORWARD.format(made=made), CODE)


@pytest.mark.parametrize(
    "made",
    [
        "torch.ones(3, device=x.device)",
        "torch.ones(3)",
        "torch.tensor(rows).to(x.device)",
        "torch.from_numpy(np.ones(3)).to(x.device)",
        "torch.as_tensor(rows).to(x.device)",
        "torch.FloatTensor(rows).to(x.device)",
        "torch.ones(3).to(torch.float16)",
        "torch.ones(3).half()",
        "torch.ones(3).cpu()",
        "torch.randn(3, generator=rows).to(x.device)",
        "x.new_ones(3).to(x.device)",
    ],
)
def test_data_of_the_host_and_moves_to_nowhere_are_silent(made: str) -> None:
    assert not findings(FORWARD.format(made=made), CODE)


def test_what_is_written_piece_by_piece_is_moved_once_it_is_whole() -> None:
    expect(
        """
        import torch
        from torch import nn
        class Pad(nn.Module):
            def forward(self, x, lengths):
                mask = torch.zeros(3, 3)
                for i, n in enumerate(lengths):
                    mask[i, :n] = 1
                return x.float() * mask.to(x.device)
        """,
        CODE,
    )


def test_a_training_loop_and_its_setup() -> None:
    expect(
        """
        import torch
        def train(model, loader, optimizer, device):
            fixed = torch.randn(8, 3).to(device)
            for x, y in loader:
                noise = torch.randn(8, 3).to(device)  # <-
                loss = model(x.to(device) + noise).mean()
                loss.backward()
                optimizer.step()
        """,
        CODE,
    )


def test_a_type_chosen_by_a_flag_moves() -> None:
    expect(
        """
        import torch
        Tensor = torch.cuda.FloatTensor if torch.cuda.is_available() else torch.FloatTensor
        def train(model, loader, optimizer):
            for x, y in loader:
                style = torch.randn(8, 3).type(Tensor)  # <-
                loss = model(x.type(Tensor), style).mean()
                loss.backward()
                optimizer.step()
        """,
        CODE,
    )


def test_outside_of_hot_code_it_is_only_possible() -> None:
    code = """
        import torch
        def make(x: torch.Tensor):
            return torch.zeros(3).to(x.device)
        """
    assert not findings(code, CODE)
    assert findings(code, CODE, confidence=Confidence.POSSIBLE)


@pytest.mark.parametrize(
    "made, safety, after",
    [
        ("torch.zeros(3).to(x.device)", Safety.SAFE, "torch.zeros(3, device=x.device)"),
        ("torch.arange(3,).to(x.device)", Safety.SAFE, "torch.arange(3, device=x.device)"),
        ("torch.rand(3).to(x.device)", Safety.UNSAFE, "torch.rand(3, device=x.device)"),
        ("torch.zeros(3).to(x)", Safety.SAFE, "torch.zeros(3, dtype=x.dtype, device=x.device)"),
        ("torch.zeros(3, dtype=torch.long).to(x)", None, "torch.zeros(3, dtype=torch.long).to(x)"),
        ("torch.zeros(3).to(x.device, torch.half)", None, "torch.zeros(3).to(x.device, torch.half)"),
    ],
)
def test_the_fix_says_all_that_the_move_said(made: str, safety: Safety | None, after: str) -> None:
    code = FORWARD.format(made=made)
    assert safeties(code, CODE) == [safety]
    assert f"keep = {after}\n" in fixed(code, CODE)


def test_a_store_that_is_written_piece_by_piece_stays_on_the_host() -> None:
    code = """
        import torch
        def flatten(x):
            return x.reshape(-1)
        def train(agent, batches, optimizer, device):
            for i, batch in enumerate(batches):
                store = torch.zeros(100, 3)
                {write}
                loss = (agent(batch) - flatten(store[i]).to(device)).mean()
                loss.backward()
                optimizer.step()
    """
    assert not findings(code.format(write="store[i] = batch.cpu()"), CODE)
    assert findings(code.format(write="agent(batch)"), CODE)


def test_what_is_made_where_a_module_has_none_yet_is_made_once() -> None:
    code = """
        import torch
        from torch import nn
        class Net(nn.Module):
            def forward(self, x):
                if not hasattr(self, "colours"):
                    self.register_buffer("colours", torch.randn(3, 1).to(x.device))
                return x * self.colours
    """
    assert not findings(code, CODE)
    assert findings(code.replace("not hasattr(self, \"colours\")", "self.training"), CODE)


def test_a_buffer_whose_pieces_are_copied_into_stays_on_the_host() -> None:
    expect(
        """
        import torch
        from torch import nn
        class Net(nn.Module):
            def neighbours(self, x):
                found = torch.empty(10, 3)
                for i in range(10):
                    found[i][0].copy_(self.search(x, i))
                return found.to(x.device)
            def noise(self, x):
                found = torch.empty(10, 3)  # <-
                return found.to(x.device)
            def forward(self, x):
                return self.neighbours(x) + self.noise(x)
        """,
        CODE,
    )


def test_a_method_that_nothing_calls_in_training_runs_now_and_then() -> None:
    code = """
        import torch
        from torch import nn
        class Net(nn.Module):
            def look(self, x):
                found = torch.ones(10, 3)
                return found.to(x.device)
            def forward(self, x):
                return x
        """
    assert not findings(code, CODE)
    assert findings(code, CODE, confidence=Confidence.POSSIBLE)
    assert findings(code.replace("return x\n", "return self.look(x)\n"), CODE)


@pytest.mark.parametrize(("trained", "reported"), [("loss.backward()", True), ("print(loss)", False)])
def test_a_loop_costs_something_where_it_trains(trained: str, reported: bool) -> None:
    code = f"""
    import torch


    def run(model, count, shape):
        for _ in range(count):
            start = torch.randn(1, *shape).to(model.device)
            loss = model.sample(start)
            {trained}
    """
    assert bool(findings(code, CODE)) is reported
    assert findings(code, CODE, confidence=Confidence.POSSIBLE)


@pytest.mark.parametrize(("where", "reported"), [("in the loop", True), ("before it", False)])
def test_what_a_loop_copies_again_and_again_was_made_once(where: str, reported: bool) -> None:
    made = "start = torch.zeros(8, 4)"
    code = f"""
    import torch


    def train(model, loader, optimizer, device):
        {made if where == "before it" else "pass"}
        for x in loader:
            {made if where == "in the loop" else "pass"}
            loss = model(x.to(device), start.to(device)).mean()
            loss.backward()
            optimizer.step()
    """
    assert bool(findings(code, CODE)) is reported


@pytest.mark.parametrize("path", ["sample.py", "demo.py"])
def test_a_step_of_a_training_runs_often_whatever_its_file_is_called(path: str) -> None:
    code = """
    import torch


    def train(model, loader, optimizer, device):
        for x in loader:
            noise = torch.randn(8, 4).to(device)
            loss = model(x.to(device), noise).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    """
    assert reported_lines(code, "DEV202", path=path)


@pytest.mark.parametrize("test, marked", [("init", ""), ("init is True", ""), ("self.training", "  # <-")])
def test_what_initialises_runs_once(test: str, marked: str) -> None:
    expect(
        f"""
        import torch
        from torch import nn
        class Scaled(nn.Module):
            def forward(self, x: torch.Tensor, init=False):
                if {test}:
                    x = x + torch.ones(x.shape).to(x.device){marked}
                return x
        """,
        "DEV202",
    )


@pytest.mark.parametrize("test, marked", [('not hasattr(self, "colours")', ""), ("self.training", "  # <-")])
def test_what_is_made_where_it_is_missing_is_made_once(test: str, marked: str) -> None:
    expect(
        f"""
        import torch
        from torch import nn
        class Painter(nn.Module):
            def forward(self, x: torch.Tensor):
                if {test}:
                    self.colours = torch.randn(3, x.shape[1]).to(x){marked}
                return x @ self.colours
        """,
        "DEV202",
    )


def test_an_empty_tensor_costs_no_copy() -> None:
    code = """
        import torch
        from torch import nn
        class Crops(nn.Module):
            def forward(self, crops: torch.Tensor):
                output = torch.{}.to(crops.device){}
                return torch.cat([output, crops])
        """
    expect(code.format("empty(0)", ""), "DEV202")
    expect(code.format("empty(3)", "  # <-"), "DEV202")


def test_a_buffer_that_is_registered_where_it_is_missing_is_made_once() -> None:
    expect(
        """
        import torch
        from torch import nn
        class Painter(nn.Module):
            def forward(self, x: torch.Tensor):
                if not hasattr(self, "colours"):
                    self.register_buffer("colours", torch.randn(3, x.shape[1]).to(x))
                return x @ self.colours
        """,
        "DEV202",
    )


@pytest.mark.parametrize("name, marked", [("initialize_tokens", ""), ("init_hidden", "  # <-"), ("embed", "  # <-")])
def test_what_a_function_sets_up_is_set_up_once(name: str, marked: str) -> None:
    expect(
        f"""
        import torch
        def {name}(encoders, loss: torch.Tensor):
            for encoder in encoders:
                encoder.weight = torch.randn(3).to(loss.device){marked}
                (encoder.weight * loss).sum().backward()
        """,
        "DEV202",
    )


@pytest.mark.parametrize(
    ("test", "marked"),
    [
        ("self.table is None or self.table.shape[0] < x.shape[0]", ""),
        ("self.other is None or self.table.shape[0] < x.shape[0]", "  # <-"),
        ("self.training or self.table is None", "  # <-"),
        ("self.training and self.table is None", ""),
    ],
)
def test_a_table_that_grows_now_and_then_is_made_seldom(test: str, marked: str) -> None:
    expect(
        f"""
        import torch
        from torch import nn
        class Positions(nn.Module):
            def forward(self, x: torch.Tensor):
                if {test}:
                    self.table = torch.arange(x.shape[0]).to(x.device){marked}
                return x + self.table
        """,
        "DEV202",
    )


@pytest.mark.parametrize(
    ("test", "marked"),
    [
        ("self.table is not None", ""),
        ("self.table is not None and x.shape[0] <= self.table.shape[0]", ""),
        ("self.other is not None", "  # <-"),
        ("x.shape[0] == 0", "  # <-"),
    ],
)
def test_what_a_function_leaves_if_it_is_there_is_made_seldom(test: str, marked: str) -> None:
    expect(
        f"""
        import torch
        from torch import nn
        class Positions(nn.Module):
            def fill(self, x: torch.Tensor):
                if {test}:
                    return
                self.table = torch.arange(x.shape[0]).to(x.device){marked}
            def forward(self, x: torch.Tensor):
                self.fill(x)
                return x + self.table
        """,
        "DEV202",
    )


@pytest.mark.parametrize(("base", "marked"), [("torchmetrics.Metric", ""), ("torch.nn.Module", "  # <-")])
def test_a_metric_gives_its_result_once(base: str, marked: str) -> None:
    expect(
        f"""
        import torch, torchmetrics
        class Curve({base}):
            def compute(self, x: torch.Tensor):
                return torch.zeros(10).to(x.device) + x{marked}
            def forward(self, x: torch.Tensor):
                return self.compute(x)
        """,
        "DEV202",
    )


@pytest.mark.parametrize(
    ("test", "marked"),
    [("self.size is not None and self.size >= n", ""), ("self.size is not None and n > 3", "  # <-")],
)
def test_what_is_kept_from_before_may_do(test: str, marked: str) -> None:
    expect(
        f"""
        import torch
        from torch import nn
        class Bias(nn.Module):
            def forward(self, x: torch.Tensor):
                n = x.shape[0]
                if {test}:
                    bias = self.bias
                else:
                    bias = torch.arange(2 * n).view(-1, 1){marked}
                    bias = bias.to(x.device)
                    self.size, self.bias = n, bias
                    self.size = n
                return x + bias
        """,
        "DEV202",
    )


@pytest.mark.parametrize(("given", "marked"), [("mask is None", ""), ("x.is_cuda", "  # <-")])
def test_a_mask_that_is_kept_may_be_given_as_well(given: str, marked: str) -> None:
    expect(
        f"""
        import torch
        from torch import nn
        class Partial(nn.Module):
            def forward(self, x: torch.Tensor, mask=None):
                if mask is not None or self.mask is None:
                    if {given}:
                        mask = torch.ones(1, 1, x.shape[2]).to(x){marked}
                    self.mask = mask
                return x * self.mask
        """,
        "DEV202",
    )
