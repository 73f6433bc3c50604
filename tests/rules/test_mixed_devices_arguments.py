"""DEV102: what its callers and its own words say of where the arguments of a function are."""

from __future__ import annotations

import pytest
from checking import expect, findings, reported_lines

from torchlint.findings import Confidence

CODE = "DEV102"


def test_a_helper_with_a_device_at_hand_is_reported_where_it_creates() -> None:
    expect(
        """
        import torch
        def mask(lengths, device):
            lengths = lengths.to(device)
            positions = torch.arange(10)  # <-
            return positions[None, :] < lengths[:, None]
        """,
        CODE,
    )


def test_a_function_offered_to_callers_is_taken_to_get_tensors_of_any_device() -> None:
    expect(
        """
        import torch
        def split(fixed: torch.Tensor, n):
            return fixed[torch.isin(fixed, torch.arange(n))]  # <-
        def pad(rows: torch.Tensor, n):
            return torch.cat([rows, torch.tensor([0.0, 1.0])])  # <-
        """,
        CODE,
    )


def test_a_class_that_keeps_a_device_computes_on_it() -> None:
    expect(
        """
        import torch
        class Planner:
            def __init__(self, horizon, device):
                self.horizon, self.device = horizon, device
            def line(self, start: torch.Tensor):
                return torch.cat([start, torch.zeros(start.shape[0], 1)], dim=1)  # <-
        """,
        CODE,
    )


@pytest.mark.parametrize(("device", "reported"), [("points.device", True), ("device", False)])
def test_only_a_function_that_asks_where_its_argument_is_shows_that_it_may_be_anywhere(
    device: str, reported: bool
) -> None:
    code = f"""
        import torch
        import cv2
        from settings import device
        def grid(points: torch.Tensor, n):
            out = torch.zeros(n, 2, device={device})
            return out, points + torch.arange(n)
        """
    assert bool(findings(code, CODE)) == reported


def test_a_caller_that_passes_an_accelerator_tensor_confirms() -> None:
    expect(
        """
        import torch
        def split(fixed: torch.Tensor, n):
            return fixed[torch.isin(fixed, torch.arange(n))]  # <-
        def use(device):
            return split(torch.ones(3, device=device), 2)
        """,
        CODE,
    )


def test_callers_that_all_pass_host_tensors_refute() -> None:
    code = """
        import torch
        def embed(w: torch.Tensor, device):
            return (w[:, None] * torch.arange(8)[None, :]).to(device)
        def use(device):
            return embed(torch.tensor([1.0, 2.0]), device)
        """
    assert not findings(code, CODE, confidence=Confidence.POSSIBLE)


_SENT_BY = """
import torch
def scale(w, device):
    angles = torch.exp(torch.arange(8) * -0.1)
    return w.unsqueeze(1) * angles[None, :]
def run(model, batch, device):
    model.to(device)
    w = {}
    return scale(w, device)
"""


@pytest.mark.parametrize(
    "argument, reported", [("torch.rand(4, device=device)", True), ("torch.rand(4)", False), ("batch.w * 2", False)]
)
def test_the_callers_in_a_file_say_where_the_argument_of_a_plain_function_is(argument: str, reported: bool) -> None:
    assert bool(reported_lines(_SENT_BY.format(argument), "DEV102")) is reported


@pytest.mark.parametrize(("after", "reported"), [("both.to(device)", False), ("both", True), ("both.to(mask.device)", True), ("both.cpu()", True)])
def test_what_is_put_together_and_then_sent_to_a_device_was_on_the_host(after: str, reported: bool) -> None:
    code = f"""
        import torch
        def pad(mask: torch.Tensor, n, device):
            ones = torch.ones(n)
            both = torch.cat([mask, ones])
            return {after}
    """
    assert bool(findings(code, CODE)) is reported


def test_a_call_tells_what_a_parameter_is_that_meets_the_host() -> None:
    expect(
        """
        import torch
        def to_one_hot(labels, count):
            eye = torch.eye(count)  # <-
            return eye[labels]
        def objective(output, target):
            return (to_one_hot(target, 10) * output).sum()
        def train(model, loader, device):
            for x, y in loader:
                x, y = x.to(device), y.to(device)
                objective(model(x), y).backward()
        """,
        CODE,
    )


@pytest.mark.parametrize("operation", ["positions < length", "positions * length", "torch.cat([positions, length])"])
def test_a_call_tells_what_operations_join(operation: str) -> None:
    expect(
        f"""
        import torch
        def joined(count, length):
            positions = torch.arange(count)  # <-
            return {operation}
        def use(count, device):
            return joined(count, torch.ones(3, device=device))
        """,
        CODE,
    )


@pytest.mark.parametrize("given", ["3", "torch.ones(3)", "torch.tensor([1, 2])", "unknown()"])
def test_a_call_that_passes_what_is_on_the_host_or_unknown_tells_nothing(given: str) -> None:
    code = f"""
        import torch
        def joined(count, length):
            positions = torch.arange(count)
            return positions < length
        def use(count, device):
            return joined(count, {given})
        """
    assert not findings(code, CODE)


def test_a_caller_that_passes_on_what_it_got_leaves_a_function_as_it_is() -> None:
    expect(
        """
        import torch
        def mask(lengths):
            return torch.arange(9) < lengths.unsqueeze(1)  # <-
        def parse(outputs, lengths):
            return outputs.masked_fill(mask(lengths), 0.0)
        """,
        CODE,
    )


def test_what_is_computed_from_a_batch_and_moved_says_nothing_of_the_batch() -> None:
    expect(
        """
        import torch
        import torch.nn.functional as F
        class Trainer:
            def compute(self, model, inputs):
                device = self.accelerator.device
                scores = model(**inputs).logits.sum(dim=1)
                mask = inputs["mask"]
                lengths = torch.cat([mask.sum(1), mask.sum(1)], dim=0).to(device)
                first, second = (scores * lengths).chunk(2, dim=0)
                epsilon = torch.tensor(0.1, device=device)
                return F.logsigmoid(first - second) - torch.log(epsilon)
        """,
        "DEV102",
    )


@pytest.mark.parametrize(
    "device", ["*_, device = *patches.shape, patches.device", "device = where(patches)", "device = patches.device"]
)
def test_a_device_that_the_arguments_decide_accuses_no_argument(device: str) -> None:
    code = f"""
        import torch
        from elsewhere import where
        def encode(patches):
            {device}
            return patches + torch.arange(4, device=device).float()
        def main():
            return encode(torch.randn(2, 4))
        """
    assert not findings(code, CODE)


@pytest.mark.parametrize("asked", ["isinstance(x, torch.Tensor)", "isinstance(x, Tensor)", "torch.is_tensor(x)"])
def test_a_helper_that_asks_for_tensors_leaves_those_it_gets_where_they_are(asked: str) -> None:
    code = f"""
        import torch
        from torch import Tensor
        def flat(x):
            if not {asked}:
                x = torch.tensor(x, dtype=torch.float32)
            return x.flatten()
        def join(device):
            here = flat(torch.ones(3))
            there = flat(torch.zeros(3, device=device))
            return torch.cat([here, there])
        """
    found = findings(code, CODE)
    assert [f.code for f in found] == [CODE]
    both_there = code.replace("torch.ones(3)", "torch.ones(3, device=device)")
    assert not findings(both_there, CODE)


def test_a_helper_makes_tensors_of_numbers_on_the_cpu() -> None:
    code = """
        import torch
        def flat(x):
            if not isinstance(x, torch.Tensor):
                x = torch.tensor(x, dtype=torch.float32)
            return x.flatten()
        def join(device):
            return torch.cat([flat([1.0, 2.0]), torch.zeros(3, device=device)])
        """
    assert findings(code, CODE)
