"""DEV102: a helper takes something out of a table of the host by numbers that are on a device."""

from __future__ import annotations

import pytest
from checking import reported_lines

DIFFUSION = """
    import torch

    def pick(table, t, x):
        shape = (x.size(0),) + (1,) * (x.ndim - 1)
        return table{sent}[t].view(shape){moved}

    class Diffusion:
        def __init__(self):
            self.alphas = torch.linspace(0, 1, 1000){there}

        def noisy(self, x, t):
            return pick(self.alphas, t, x) * x

        def loss(self, model, x):
            t = torch.randint(0, 1000, (x.size(0),){made})
            return model(self.noisy(x, t)).pow(2).mean()
    """


def diffusion(*, sent: str = "", moved: str = "", there: str = "", made: str = ", device=x.device") -> list[int]:
    return reported_lines(DIFFUSION.format(sent=sent, moved=moved, there=there, made=made), "DEV102")


@pytest.mark.parametrize("moved", ["", ".to(x.device)", ".to(x)"])
def test_an_attribute_that_nothing_moves_meets_numbers_made_where_the_batch_is(moved: str) -> None:
    assert diffusion(moved=moved) == [6]


def test_a_table_that_is_sent_to_its_index_is_fine() -> None:
    assert diffusion(sent=".to(t.device)") == []


def test_numbers_of_the_host_may_take_from_any_table() -> None:
    assert diffusion(made="", moved=".to(x.device)") == []


def test_a_buffer_moves_with_its_module() -> None:
    source = DIFFUSION.format(sent="", moved="", there="", made=", device=x.device")
    source = source.replace("class Diffusion:", "class Diffusion(torch.nn.Module):")
    source = source.replace("self.alphas = torch.linspace(0, 1, 1000)", 'self.register_buffer("alphas", torch.rand(9))')
    assert reported_lines(source, "DEV102") == []


STATISTICS = """
    import torch

    def normalise(image, mean):
        centre = torch.tensor(mean, dtype=image.dtype{})
        return image - centre.view(3, 1, 1)

    def predict(model, crops, device):
        crops = crops.to(device)
        return model(normalise(crops, [0.5, 0.4, 0.4]))
    """


def test_a_helper_makes_on_the_host_what_meets_a_moved_argument() -> None:
    assert reported_lines(STATISTICS.format(""), "DEV102") == [5]


def test_made_where_the_argument_is_it_meets_it_there() -> None:
    assert reported_lines(STATISTICS.format(", device=image.device"), "DEV102") == []
