"""DEV303 and DEV301: waits for slices, for rows of a model's output, for numbers that become tensors again."""

from __future__ import annotations

import pytest
from checking import expect, reported_lines
from steps import step, texts


@pytest.mark.parametrize(
    "line", ["first = output[:, : y.max()]", "last = output[y.min() :]", "padded = F.pad(output, (0, 1), value=loss)"]
)
def test_a_tensor_given_for_a_number_is_reported(line: str) -> None:
    assert texts(step(line), "DEV303") == [line]


@pytest.mark.parametrize(
    "line",
    ["ranked = sorted(F.relu(output))", "found = 3 in F.relu(output)", "both = torch.tensor([loss, loss.exp()])"],
)
def test_python_that_goes_through_a_tensor_is_reported(line: str) -> None:
    assert texts(step(line), "DEV303") == [line]


@pytest.mark.parametrize(
    "line", ["ranked = F.relu(output).sort()", "found = 'key' in {'key': loss}", "both = torch.stack([loss, loss.exp()])"]
)
def test_torch_that_does_the_same_is_fine(line: str) -> None:
    assert texts(step(line), "DEV303") == []


def test_numbers_bound_slices_without_a_wait() -> None:
    assert texts(step("first = output[:, : len(x)]"), "DEV303") == []


def test_comparing_the_rows_of_what_a_model_gave_waits_for_each() -> None:
    expect(
        """
        import torch

        def train(model, loader, optimizer):
            model.cuda()
            for x, y in loader:
                x, y = x.cuda(), y.cuda()
                out = model(x)
                loss = (out - y).pow(2).mean()
                loss.backward()
                optimizer.step()
                most = y.sum()
                for guess, truth in zip(out.argmax(1), y):
                    if guess > truth:  # <-
                        most = torch.maximum(most, guess)
        """,
        "DEV303",
    )


def test_a_number_that_becomes_a_tensor_again_need_not_be_read() -> None:
    code = """
        import torch
        from torch import nn

        class Loss(nn.Module):
            def forward(self, out, target):
                count = torch.tensor(target.ne(0).sum().item(), device=out.device)
                return nn.functional.cross_entropy(out, target, reduction="sum") / count
        """
    assert reported_lines(code, "DEV301") == [7]
