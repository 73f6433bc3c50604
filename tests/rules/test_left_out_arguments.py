"""What a forward makes where its caller leaves out an argument has to be where the module is."""

from __future__ import annotations

import pytest
from checking import expect, reported_lines

STATES = """
    import torch
    from torch import nn

    class Reader(nn.Module):
        def __init__(self, size):
            super().__init__()
            self.rnn = nn.LSTM(size, size)

        def forward(self, x, states=None):
            if states is None:
                states = ({0}, {0})
            return self.rnn(x, states)
    """


def test_a_pair_of_states_on_the_cpu_is_reported() -> None:
    assert reported_lines(STATES.format("torch.zeros(1, x.size(1), 8)"), "DEV201") == [12]


@pytest.mark.parametrize("state", ["x.new_zeros(1, x.size(1), 8)", "torch.zeros(1, x.size(1), 8, device=x.device)"])
def test_a_pair_of_states_that_follows_the_input_is_fine(state: str) -> None:
    assert reported_lines(STATES.format(state), "DEV201") == []


def test_weights_whose_default_is_a_row_of_numbers_become_a_tensor_of_several() -> None:
    expect(
        """
        import torch
        from torch import nn

        class Cost(nn.Module):
            def __init__(self, weights=(1.0, 2.0, -1.0)):
                super().__init__()
                self.weights = weights

            def forward(self, pred, gold):
                scale = torch.tensor(self.weights)  # <-
                return ((pred - gold).abs() * scale).mean()
        """,
        "DEV201",
    )


def test_a_weight_whose_default_is_a_number_joins_anything() -> None:
    code = """
        import torch
        from torch import nn

        class Cost(nn.Module):
            def __init__(self, weight=2.0):
                super().__init__()
                self.weight = weight

            def forward(self, pred, gold):
                scale = torch.tensor(self.weight)
                return ((pred - gold).abs() * scale).mean()
        """
    assert reported_lines(code, "DEV201") == []


def test_class_weights_indexed_by_the_target_have_a_place() -> None:
    code = """
        import torch
        from torch import nn

        class Focal(nn.Module):
            def __init__(self, alpha):
                super().__init__()
                self.alpha = torch.tensor(alpha)

            def forward(self, logits, target):
                p = logits.softmax(1).gather(1, target[:, None]).squeeze(1)
                return -(self.alpha[target] * p.log()).mean()
        """
    assert reported_lines(code, "DEV103") == [8]
