# a comparison of the loss waits
import torch


def train(net, loader, optimizer, device):
    for x in loader:
        loss = net(x.to(device)).mean()
        if torch.isnan(loss):  # <- DEV303
            break
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
