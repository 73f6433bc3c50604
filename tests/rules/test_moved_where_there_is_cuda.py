"""DEV102: what is moved under a question for CUDA, and what came with it and is not; losses of evaluations."""

from __future__ import annotations

import pytest
from checking import reported_lines

VALIDATION = """
    import torch
    from torch import nn

    def validate(model, loader, gpu):
        if torch.cuda.is_available():
            model = model.cuda(gpu)
        criterion = nn.CrossEntropyLoss()
        for images, target in loader:
            if torch.cuda.is_available():
                images = images.cuda(gpu)
                {}
            yield criterion(model(images), target)
    """


def test_what_came_with_the_input_stays_where_there_is_cuda() -> None:
    assert reported_lines(VALIDATION.format("pass"), "DEV102") == [13]


def test_both_are_moved_under_the_question() -> None:
    assert reported_lines(VALIDATION.format("target = target.cuda(gpu)"), "DEV102") == []


EVALUATION = """
    import torch

    @torch.no_grad()
    def evaluate(model, loader, {name}, device):
        {placed}
        for images, target in loader:
            {moved}
            yield {name}(model(images), target)
    """
PLACED = "model = model.to(device)"
MOVED = "images = images.to(device)"


@pytest.mark.parametrize("name", ["criterion", "loss_fn"])
def test_a_loss_that_an_evaluation_is_given_meets_what_was_not_moved(name: str) -> None:
    assert reported_lines(EVALUATION.format(name=name, placed=PLACED, moved=MOVED), "DEV102") == [9]


@pytest.mark.parametrize(
    ("name", "placed", "moved"),
    [
        ("criterion", PLACED, f"{MOVED}; target = target.to(device)"),
        ("criterion", "model.eval()", MOVED),  # who places the model may do so with its loss, which moves its inputs
        ("match", PLACED, MOVED),
    ],
)
def test_a_loss_of_what_was_moved_or_of_others_is_fine(name: str, placed: str, moved: str) -> None:
    assert reported_lines(EVALUATION.format(name=name, placed=placed, moved=moved), "DEV102") == []
