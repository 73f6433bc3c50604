"""DEV604: which distributed trainings share the first device."""

from __future__ import annotations

import pytest
from checking import expect

CODE = "DEV604"


def training(*, begin: str = "dist.init_process_group('nccl')", move: str, wrap: str = "DDP(model)") -> str:
    return f"""
        import os
        import torch
        import torch.distributed as dist
        from torch import nn
        from torch.nn.parallel import DistributedDataParallel as DDP
        def main(rank):
            {begin}
            model = nn.Linear(2, 2)
            {move}
            return {wrap}
        """


@pytest.mark.parametrize(
    "move",
    [
        "model = model.cuda()  # <-",
        "model.to('cuda')  # <-",
        "device = torch.device('cuda')\n            model = model.to(device)  # <-",
    ],
)
@pytest.mark.parametrize("wrap", ["DDP(model)", "DDP(model, device_ids=[rank])"])
def test_a_model_on_cuda_without_a_number_is_on_the_first_device(move: str, wrap: str) -> None:
    expect(training(move=move, wrap=wrap), CODE)


@pytest.mark.parametrize(
    "begin",
    [
        "dist.init_process_group('nccl')\n            torch.cuda.set_device(rank)",
        "os.environ['CUDA_VISIBLE_DEVICES'] = str(rank)\n            dist.init_process_group('nccl')",
        "start(rank)",
    ],
)
def test_a_process_that_has_a_device_of_its_own_is_silent(begin: str) -> None:
    expect(training(begin=begin, move="model = model.cuda()"), CODE)


@pytest.mark.parametrize(
    "move",
    [
        "model = model.cuda(rank)",
        "model.to(rank)",
        "model.to(f'cuda:{rank}')",
        "model.to('cuda:1')",
        "model.cpu()",
    ],
)
def test_a_model_with_a_number_is_silent(move: str) -> None:
    expect(training(move=move), CODE)


def test_other_wrappers_are_silent() -> None:
    expect(training(move="model = model.cuda()", wrap="nn.DataParallel(model)"), CODE)


@pytest.mark.parametrize(
    ("device", "shared"),
    [
        ('torch.device("cuda")', True),
        ('torch.device("cuda", rank)', False),
        ('torch.device(f"cuda:{rank}")', False),
    ],
)
def test_a_device_whose_index_is_computed_is_the_process_s_own(device: str, shared: bool) -> None:
    mark = "  # <-" if shared else ""
    begin = f"dist.init_process_group('nccl')\n            device = {device}"
    expect(training(begin=begin, move=f"model.to(device){mark}"), CODE)
