# a default is made on the CPU
import torch
from torch import nn


class Blend(nn.Module):
    def forward(self, x, weights=None):
        if weights is None:
            weights = torch.ones(x.size(-1))  # todo <- DEV201
        return x * weights
