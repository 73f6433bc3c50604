"""DEV501: what follows a tensor on CUDA goes to the current device, which need not be the tensor's."""

from __future__ import annotations

import pytest
from checking import reported_lines

BRANCHES = """
    import torch

    def loss(scores, targets):
        {}
        return scores + torch.zeros(1, device=device)
    """


@pytest.mark.parametrize(
    ("choice", "line"),
    [
        ('device = "cuda" if scores.is_cuda else "cpu"', 5),
        ('device = torch.device("cuda") if scores.is_cuda else torch.device("cpu")', 5),
        ('device = torch.device("cpu") if not scores.is_cuda else torch.device("cuda")', 5),
        ('device = "cpu"\n        if scores.is_cuda:\n            device = "cuda"', 7),
        (
            'if scores.is_cuda:\n            device = torch.device("cuda")\n        else:\n'
            '            device = torch.device("cpu")',
            6,
        ),
        ('if not scores.is_cuda:\n            device = "cpu"\n        else:\n            device = "cuda"', 8),
    ],
)
def test_a_choice_by_a_tensor_loses_its_index(choice: str, line: int) -> None:
    assert reported_lines(BRANCHES.format(choice), "DEV501") == [line]


@pytest.mark.parametrize(
    "choice",
    [
        "device = scores.device",
        'device = torch.device("cpu")\n        if scores.is_cuda:\n            device = scores.device',
        'device = "cpu"\n        if torch.cuda.is_available():\n            device = "cuda"',
        'device = "cpu"\n        if scores.is_cuda:\n            device = "cuda:%d" % scores.get_device()',
    ],
)
def test_a_choice_that_keeps_the_index_or_asks_for_something_else_is_fine(choice: str) -> None:
    assert reported_lines(BRANCHES.format(choice), "DEV501") == []


PROGRAM = """
    import torch

    def run(model, args):
        torch.cuda.set_device(args.gpu)
        device = torch.device({})
        return model.to(device)
    """


def test_a_device_is_set_before_the_program_asks_whether_there_is_one() -> None:
    assert reported_lines(PROGRAM.format('"cuda" if torch.cuda.is_available() else "cpu"'), "DEV502") == [5]


def test_a_program_that_is_told_its_gpu_may_be_for_gpus() -> None:
    assert reported_lines(PROGRAM.format('"cuda"'), "DEV502") == []


FLAG = """
    import torch
    from torch import nn

    class Coder(nn.Module):
        def forward(self, image):
            on_cuda = {asked}
            mean = torch.zeros(1, 8)
            if on_cuda:
                mean = mean.cuda()
            return mean + image
    """


@pytest.mark.parametrize("asked", ["image.is_cuda", "next(self.parameters()).is_cuda"])
def test_a_flag_that_holds_where_something_is_loses_the_index_too(asked: str) -> None:
    assert reported_lines(FLAG.format(asked=asked), "DEV501") == [10]


def test_a_flag_of_its_own_is_the_program_s() -> None:
    assert reported_lines(FLAG.format(asked="self.on_cuda"), "DEV501") == []
