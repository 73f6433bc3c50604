"""DEV201: tensors of the host that functions hand to each other or put in another's place."""

from __future__ import annotations

from checking import expect, findings


def test_an_argument_that_its_function_may_take_as_none_keeps_both_paths() -> None:
    code = """
        import torch
        from torch import nn
        class Cell(nn.Module):
            def __init__(self, width: int):
                super().__init__()
                self.width = width
                self.linear = nn.Linear(2 * width, width)
            def first(self, x, h):
                if h is None:
                    h = torch.zeros(x.shape[0], self.width)  # <-
                return h
            def forward(self, x: torch.Tensor, h: torch.Tensor{default}):
                h = self.first(x, h)
                return self.linear(torch.cat([x, h], dim=1))
        """
    expect(code.format(default=" = None"), "DEV201")
    assert not findings(code.format(default="").replace("# <-", ""), "DEV201")


def test_the_state_of_a_recurrent_layer_is_a_tensor() -> None:
    expect(
        """
        import torch
        from torch import nn
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.lstm = nn.LSTM(4, 4)
            def forward(self, x, hidden, cell):
                return self.lstm(x, (hidden, cell))
            def start(self, n):
                return torch.zeros(1, n, 4), torch.zeros(1, n, 4)  # <-
            def training_step(self, batch, index):
                hidden, cell = self.start(2)
                out, _ = self(batch[0], hidden, cell)
                return out.sum()
        """,
        "DEV201",
    )


def test_what_follows_a_star_is_what_the_last_names_get() -> None:
    expect(
        """
        import torch
        from torch import nn
        class Layer(nn.Module):
            def forward(self, x):
                *_, n, device = *x.shape, x.device
                kept = torch.zeros(n)  # <-
                return torch.ones(n, device=device) + kept
        """.replace("*_, n, device", "_, n, device"),
        "DEV201",
    )


def test_a_stand_in_without_elements_is_of_use_to_a_join_alone() -> None:
    expect(
        """
        import torch
        from torch import nn
        class Up(nn.Module):
            def __init__(self):
                super().__init__()
                self.ups = nn.ModuleList([nn.Conv2d(2, 2, 1)] * 3)
                self.final = nn.Conv2d(2, 2, 1)
            def forward(self, x: torch.Tensor):
                out = torch.empty(0)
                started = False
                for i, up in enumerate(self.ups):
                    if started:
                        out = up(x + out)
                    elif self.flags[i]:
                        started = True
                        out = up(x)
                return self.final(out)
        """,
        "DEV201",
    )
