"""What the variables of a loop hold: behind it what its rounds left there, and for a loader nothing that lasts."""

from __future__ import annotations

import pytest
from checking import expect


def test_what_a_loop_binds_is_behind_it_what_its_rounds_left() -> None:
    expect(
        """
        import numpy as np
        import torch
        def show(model, train_loader, test_loader):
            for features, targets in train_loader:
                features = features.to("cuda")
                model(features).sum().backward()
            for features, targets in test_loader:
                features = features
                break
            return np.transpose(features[0], (1, 2, 0))
        """,
        "DEV106",
    )


def test_what_a_loop_moved_is_behind_it_still_there() -> None:
    expect(
        """
        import numpy as np
        import torch
        def show(model, loader):
            for features, targets in loader:
                features = features.to("cuda")
                model(features).sum().backward()
            return np.transpose(features[0], (1, 2, 0))  # <-
        """,
        "DEV106",
    )


@pytest.mark.parametrize("loop", ["i, (x, y) in enumerate(batches)", "x, y in train_loader", "(x, y) in loader"])
def test_a_part_of_a_batch_that_nothing_reads_again_is_no_lost_move(loop: str) -> None:
    expect(
        f"""
        import torch
        from torch.utils.data import DataLoader
        device = torch.device("cuda:0")
        batches = train_loader = loader = DataLoader([(torch.ones(2), torch.ones(1))], batch_size=4)
        for {loop}:
            x = x.to(device)
            y = y.to(device)
            break
        """,
        "DEV101",
    )


def test_a_tensor_of_a_list_that_is_moved_to_the_loop_variable_is_a_lost_move() -> None:
    expect(
        """
        import torch
        device = torch.device("cuda:0")
        tensors = [torch.ones(2), torch.ones(3)]
        for i, t in enumerate(tensors):
            t = t.to(device)  # <-
        """,
        "DEV101",
    )
