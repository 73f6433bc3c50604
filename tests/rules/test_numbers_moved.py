"""DEV202: a number becomes a tensor of the CPU, and is copied, in every step."""

from __future__ import annotations

import pytest
from checking import reported_lines, safeties

STEP = """
    import torch

    def train_step(model, batches, optimizer, device, start, sizes):
        total = {}
        for x in batches:
            loss = model(x.to(device)).mean()
            loss.backward()
            total += loss.detach()
        optimizer.step()
        return total
    """


@pytest.mark.parametrize("made", ["torch.tensor(0.0).to(device)", "torch.as_tensor(-1.0).cuda()"])
def test_a_number_that_is_moved_at_once_is_reported(made: str) -> None:
    code = STEP.format(made)
    assert reported_lines(code, "DEV202") == [5]
    assert safeties(code, "DEV202") == [None]  # `torch.tensor(…, device=…)` copies, too


@pytest.mark.parametrize(
    "made",
    [
        "torch.tensor(0.0, device=device)",
        "torch.tensor(sizes).to(device)",
        "torch.tensor(start).to(device)",
        "torch.tensor([0.0, 1.0]).to(device)",
    ],
)
def test_data_has_to_be_copied_and_a_name_may_hold_data(made: str) -> None:
    assert reported_lines(STEP.format(made), "DEV202") == []


def test_a_number_on_a_path_that_is_seldom_taken_is_not_reported() -> None:
    code = """
        import torch

        def train_step(model, x, optimizer, device):
            loss = model(x.to(device)).mean()
            if not loss.requires_grad:
                loss = torch.tensor(0.0).to(device)
            loss.backward()
            optimizer.step()
        """
    assert reported_lines(code, "DEV202") == []
