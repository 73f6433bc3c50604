import torch
from torch import nn
from torch.utils.data import DataLoader


class Encoder(nn.Module):
    def __init__(self, device):
        super().__init__()
        self.device = device
        self.lin = nn.Linear(4, 4)
        self.to(device)

    def forward(self, x):
        x = x.to(self.device)
        return self.lin(x)


def evaluate(model, loader):
    return [model(x) for x, _ in loader]


def main(data):
    model = Encoder("cuda")
    evaluate(model, DataLoader(data, 4))
