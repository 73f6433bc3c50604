# the first hidden state is made on the CPU
import torch
from torch import nn


class Tagger(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.width = width
        self.cell = nn.GRU(width, width, batch_first=True)

    def forward(self, x):
        state = torch.zeros(1, x.size(0), self.width)  # <- DEV201
        out, _ = self.cell(x, state)
        return out
