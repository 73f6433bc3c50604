import torch
from torch import nn


class Positions(nn.Module):
    def __init__(self, count, width):
        super().__init__()
        self.table = nn.Embedding(count, width)

    def forward(self, tokens: torch.Tensor):
        places = torch.arange(tokens.size(1), device=tokens.get_device())  # <- DEV501
        return self.table(places)
