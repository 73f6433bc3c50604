"""DEV102: a tensor of the CPU is indexed by what a model gave on an accelerator."""

from __future__ import annotations

from checking import expect, reported_lines


def test_the_index_comes_from_a_model_that_was_moved() -> None:
    expect(
        """
        import torch
        from nets import Encoder

        features = torch.randn(1000, 64)
        model = Encoder().cuda()

        def nearest(x):
            return features[model(x.cuda()).argmax(1)]  # <-
        """,
        "DEV102",
    )


def test_the_table_is_an_attribute() -> None:
    expect(
        """
        import torch

        class Memory:
            def __init__(self, encoder, size, device):
                self.bank = torch.zeros(size, 64)
                self.device = device
                self.encoder = encoder.to(device)

            def nearest(self, x):
                index = self.encoder(x.to(self.device)).argmax(dim=1)
                return self.bank[index]  # <-
        """,
        "DEV102",
    )


def test_a_single_index_is_read_like_a_number() -> None:
    code = """
        import torch

        def confusion(model, loader, n, device):
            matrix = torch.zeros(n, n)
            model.to(device).eval()
            for x, y in loader:
                guess = model(x.to(device)).argmax(1)
                for t, g in zip(y, guess):
                    matrix[t, g] += 1
            return matrix
        """
    assert reported_lines(code, "DEV102") == []


def test_an_index_that_was_copied_back_is_fine() -> None:
    code = """
        import torch
        from nets import Encoder

        features = torch.randn(1000, 64)
        model = Encoder().cuda()

        def nearest(x):
            return features[model(x.cuda()).argmax(1).cpu()]
        """
    assert reported_lines(code, "DEV102") == []
