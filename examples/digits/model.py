"""A small network that reads the seven segments of a digit one after the other."""

import torch
from torch import nn


class SegmentReader(nn.Module):
    def __init__(self, width=32, classes=10):
        super().__init__()
        self.embed = nn.Linear(1, width)
        self.mix = nn.GRU(width, width, batch_first=True)
        self.head = nn.Linear(width, classes)

    def forward(self, strokes):
        order = torch.linspace(0.0, 1.0, strokes.size(1))
        marked = strokes + 0.1 * order
        steps = self.embed(marked.unsqueeze(-1))
        hidden, _ = self.mix(steps)
        return self.head(hidden[:, -1])
