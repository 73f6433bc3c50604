"""Digits drawn with a pen of varying thickness, made up on the spot."""

import torch
from torch.utils.data import DataLoader, TensorDataset

SEGMENTS = torch.tensor(
    [
        [1, 1, 1, 0, 1, 1, 1],
        [0, 0, 1, 0, 0, 1, 0],
        [1, 0, 1, 1, 1, 0, 1],
        [1, 0, 1, 1, 0, 1, 1],
        [0, 1, 1, 1, 0, 1, 0],
        [1, 1, 0, 1, 0, 1, 1],
        [1, 1, 0, 1, 1, 1, 1],
        [1, 0, 1, 0, 0, 1, 0],
        [1, 1, 1, 1, 1, 1, 1],
        [1, 1, 1, 1, 0, 1, 1],
    ],
    dtype=torch.float32,
)


def make_loader(count=512, batch_size=32, seed=0):
    generator = torch.Generator().manual_seed(seed)
    labels = torch.randint(10, (count,), generator=generator)
    thickness = torch.rand(count, 1, generator=generator) + 0.5
    strokes = SEGMENTS[labels] * thickness
    return DataLoader(TensorDataset(strokes, labels), batch_size=batch_size, shuffle=True)
