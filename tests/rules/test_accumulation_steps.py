"""What stands beside the optimizer's step runs in each update, however many batches make one."""

from __future__ import annotations

import pytest
from checking import reported_lines

CODE = """
    def train(model, loader, optimizer, scaler, board, device):
        model.to(device)
        for step, (x, y) in enumerate(loader):
            loss = model(x.to(device), y.to(device)).mean()
            loss.backward()
            if (step + 1) % 4 == 0:
                {}
                board.append(loss.item())
    """


@pytest.mark.parametrize("line", ["optimizer.step()", "scaler.step(optimizer)", "norm = optimizer.step()"])
def test_a_read_in_each_update_is_reported(line: str) -> None:
    assert reported_lines(CODE.format(line), "DEV301") == [9]


@pytest.mark.parametrize("line", ["print(step)", "board.step()", "scheduler.step()"])
def test_a_read_now_and_then_is_not(line: str) -> None:
    assert reported_lines(CODE.format(line), "DEV301") == []


def test_a_training_that_differentiates_twice_is_a_training() -> None:
    code = """
        import torch

        def train(net, loader, optimizer, device):
            net.to(device)
            for x in loader:
                x = x.to(device).requires_grad_()
                score = net(x).sum()
                (slope,) = torch.autograd.grad(score, x, create_graph=True)
                penalty = slope.pow(2).mean()
                penalty.backward()
                print(penalty.item())
                optimizer.step()
        """
    assert reported_lines(code, "DEV301") == [12]
