"""DEV304: states that go from step to step, outputs that hold a loss; DEV305: where a clock is read."""

from __future__ import annotations

import pytest
from checking import expect, findings

LOOP = """
import torch
from torch import nn
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn = nn.RNN(1, 8)
        self.out = nn.Linear(8, 1)
    def forward(self, x, h):
        y, h = self.rnn(x, h)
        return self.out(y), {given}
def train(loader, optimizer):
    net, h = Net(), None
    for x, y in loader:
        {before}
        z, h = net(x, {argument}){mark}
        {after}
        loss = (z - y).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
"""
PLAIN = {"given": "h", "before": "pass", "argument": "h", "after": "pass"}


@pytest.mark.parametrize("given", ["h", "h * 2"])
def test_a_state_that_the_next_step_begins_with_is_reported(given: str) -> None:
    expect(LOOP.format(**{**PLAIN, "given": given}, mark="  # <-"), "DEV304")


@pytest.mark.parametrize(
    "change",
    [
        {"given": "h.detach()"},
        {"before": "h = None if h is None else h.detach()"},
        {"before": "h = None"},
        {"argument": "h.detach() if h is not None else h"},
        {"argument": "h.data"},
        {"after": "h = h.detach()"},
        {"after": "h.detach_()"},
        {"after": "h = tuple(part.detach() for part in h)"},
    ],
)
def test_a_state_that_is_cut_off_or_begins_anew_is_silent(change: dict[str, str]) -> None:
    expect(LOOP.format(**{**PLAIN, **change}, mark=""), "DEV304")


def test_a_state_that_goes_through_one_sequence_is_silent() -> None:
    expect(
        """
        import torch
        from torch import nn
        def train(loader, optimizer):
            cell = nn.GRUCell(3, 8)
            for x, y in loader:
                h = torch.zeros(4, 8)
                for part in x:
                    h = cell(part, h)
                loss = (h - y).pow(2).mean()
                loss.backward()
                optimizer.step()
        """,
        "DEV304",
    )


def test_a_state_of_a_model_that_is_not_seen_is_silent() -> None:
    expect(
        """
        def train(model, loader, optimizer, loss_of):
            h = None
            for x, y in loader:
                z, h = model(x, h)
                loss_of(z, y).backward()
                optimizer.step()
        """,
        "DEV304",
    )


@pytest.mark.parametrize("loss", ['output["loss"]', "output.loss"])
def test_an_output_that_holds_the_loss_is_reported_where_it_is_kept(loss: str) -> None:
    code = f"""
        def train(model, loader, optimizer):
            outputs, numbers = [], []
            for batch in loader:
                output = model.training_step(batch)
                {loss}.backward()
                optimizer.step()
                outputs.append(output)  # <-
                numbers.append({loss}.item())
            return outputs
        """
    expect(code, "DEV304")
    assert [f.fix for f in findings(code, "DEV304")] == [None]


def test_an_output_that_is_taken_apart_first_is_silent() -> None:
    expect(
        """
        def train(model, loader, optimizer):
            outputs = []
            for batch in loader:
                output = model.training_step(batch)
                output["loss"].backward()
                optimizer.step()
                output = {key: value.detach() for key, value in output.items()}
                outputs.append(output)
            return outputs
        """,
        "DEV304",
    )


def test_where_the_clock_is_read_is_told() -> None:
    code = """
        import time
        import torch
        def work(net: torch.nn.Module, x):
            net.cuda()
            x = x.cuda()
            start = time.time()
            net(x)
            end = time.time()
            return end - start
        """
    (found,) = findings(code, "DEV305")
    assert [r.range.start.line for r in found.related] == [7, 8, 9]
