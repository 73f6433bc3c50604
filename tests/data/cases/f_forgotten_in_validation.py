import torch
from torch import nn
from torch.utils.data import DataLoader


class Forecaster:
    def __init__(self, net, lr=1e-3, use_gpu=True):
        self.device = torch.device("cuda:0" if use_gpu else "cpu")
        self.net = net.to(self.device)
        self.criterion = nn.MSELoss()
        self.optimizer = torch.optim.Adam(self.net.parameters(), lr=lr)

    def fit(self, train_set, val_set, epochs):
        train_loader = DataLoader(train_set, batch_size=32, shuffle=True)
        val_loader = DataLoader(val_set, batch_size=32)
        for _ in range(epochs):
            self.net.train()
            for past, future in train_loader:
                past, future = past.to(self.device), future.to(self.device)
                loss = self.criterion(self.net(past), future)
                self.optimizer.zero_grad()
                loss.backward()
                self.optimizer.step()
            self.validate(val_loader)

    def validate(self, loader):
        self.net.eval()
        total = 0.0
        with torch.no_grad():
            for past, future in loader:
                out = self.net(past)  # <- DEV102
                total += self.criterion(out, future).item()
        return total / len(loader)
