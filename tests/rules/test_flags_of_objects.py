"""DEV102 and DEV106: what a flag decides in the constructor and in a method, and what is off unless it is asked for."""

from __future__ import annotations

import pytest
from checking import expect

GAN = """
        import torch
        class GAN:
            def __init__(self, args):
                self.gpu_mode = args.gpu_mode
                self.net = torch.nn.Linear(2, 2)
                self.noise = torch.rand((10, 2))
                if self.gpu_mode:
                    self.net.cuda()
                    self.noise = self.noise.cuda()
            def show(self):
                samples = self.net(self.noise)
"""


def test_a_flag_of_the_object_means_the_same_in_all_methods() -> None:
    expect(
        GAN
        + """
                if self.gpu_mode:
                    return samples.cpu().data.numpy()
                else:
                    return samples.data.numpy()
        """,
        "DEV106",
    )


def test_another_flag_of_the_object_says_nothing_of_where_it_is() -> None:
    expect(
        GAN
        + """
                if self.verbose:
                    return samples.cpu().data.numpy()
                else:
                    return samples.data.numpy()  # <-
        """,
        "DEV106",
    )


@pytest.mark.parametrize(("default", "mark"), [("False", ""), ("True", "  # <-")])
def test_a_mix_that_a_caller_has_to_ask_for_is_possible_only(default: str, mark: str) -> None:
    expect(
        f"""
        import torch
        class Attention(torch.nn.Module):
            def forward(self, x):
                return self.shift(x)
            def shift(self, x: torch.Tensor, zero_triu: bool = {default}):
                shifted = x.view_as(x) * 2
                if zero_triu:
                    ones = torch.ones((x.size(2), x.size(3))){mark}
                    shifted = shifted * torch.tril(ones, x.size(3) - x.size(2))[None, None, :, :]
                return shifted
        """,
        "DEV102",
    )
