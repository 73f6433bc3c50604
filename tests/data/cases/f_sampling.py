import numpy as np
import torch
from torch import nn


class CharRNN(nn.Module):
    def __init__(self, chars, hidden=256):
        super().__init__()
        self.lstm = nn.LSTM(len(chars), hidden, batch_first=True)
        self.fc = nn.Linear(hidden, len(chars))

    def forward(self, x, h=None):
        out, h = self.lstm(x, h)
        return self.fc(out), h


def predict(net, char, onehot, h=None):
    x = np.array([[char]])
    x = onehot(x)
    inputs = torch.from_numpy(x)  # <- DEV102
    out, h = net(inputs, h)
    return torch.softmax(out, dim=-1).data.cpu().numpy(), h


def sample(chars, onehot):
    net = CharRNN(chars)
    net.cuda()  # <- DEV501
    net.eval()
    h = None
    for _ in range(100):
        p, h = predict(net, 3, onehot, h)
    return p
