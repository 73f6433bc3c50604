import torch
from torch import nn


class GatedCell(nn.Module):
    def __init__(self, in_channels: int, out_channels: int):
        super().__init__()
        self.out_channels = out_channels
        self.update = nn.Linear(in_channels + out_channels, out_channels)
        self.candidate = nn.Linear(in_channels + out_channels, out_channels)

    def _hidden(self, X, H):
        if H is None:
            H = torch.zeros(X.shape[0], self.out_channels)  # <- DEV201
        return H

    def forward(self, X: torch.FloatTensor, H: torch.FloatTensor = None) -> torch.FloatTensor:
        H = self._hidden(X, H)
        both = torch.cat([X, H], dim=1)
        Z = torch.sigmoid(self.update(both))
        return Z * H + (1 - Z) * torch.tanh(self.candidate(both))
