"""DEV304: losses that a model gives by name, and losses that are taken off their graph by an assignment."""

from __future__ import annotations

import pytest
from checking import reported_lines

STEP = """
    def train(model, loader, optimizer):
        losses = []
        for batch in loader:
            out = model(batch)
            optimizer.zero_grad()
            out["loss"].backward()
            optimizer.step()
            {}
        return losses
    """


@pytest.mark.parametrize("line", ['losses.append(out["loss"])', 'losses.append(out["loss"] / 2)'])
def test_an_entry_that_backward_ran_on_is_kept_with_its_graph(line: str) -> None:
    assert reported_lines(STEP.format(line), "DEV304") == [9]


@pytest.mark.parametrize(
    "line",
    [
        'losses.append(out["loss"].detach())',
        'out["loss"] = out["loss"].detach(); losses.append(out["loss"])',
        'losses.append(out["accuracy"])',
    ],
)
def test_an_entry_that_is_cut_off_or_another_one_is_fine(line: str) -> None:
    assert reported_lines(STEP.format(line), "DEV304") == []


def test_a_name_that_is_bound_to_what_was_cut_off_is_fine() -> None:
    code = STEP.replace('out["loss"].backward()', 'loss = out["loss"]; loss.backward()')
    assert reported_lines(code.format("losses.append(loss)"), "DEV304") == [9]
    assert reported_lines(code.format("loss = loss.detach(); losses.append(loss)"), "DEV304") == []
