"""DEV501: a constructor of CUDA tensors that is a parameter's default."""

from __future__ import annotations

from checking import expect


def test_a_constructor_of_cuda_tensors_is_reported_where_it_is_a_default() -> None:
    expect(
        """
        import torch
        def fill(size, tensor=torch.cuda.FloatTensor):  # <-
            return tensor(size)
        def other(size, tensor=torch.FloatTensor):
            return tensor(size)
        """,
        "DEV501",
    )
