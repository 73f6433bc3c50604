# a fresh mask joins a tensor of the caller
import torch
from torch import nn


class Masked(nn.Module):
    def forward(self, x):
        keep = torch.ones(x.size(0), 1)  # <- DEV201
        return x * keep
