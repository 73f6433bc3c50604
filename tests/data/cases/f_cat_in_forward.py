# a token made on the CPU is joined
import torch
from torch import nn


class Prefix(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.width = width
        self.out = nn.Linear(width, width)

    def forward(self, x):
        start = torch.zeros(x.size(0), 1, self.width)  # <- DEV201
        return self.out(torch.cat([start, x], dim=1))
