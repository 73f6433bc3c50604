# evaluation is no hot loop
import torch


@torch.no_grad()
def evaluate(net, loader, criterion, device):
    net.eval()
    total = 0.0
    for x, y in loader:
        total += criterion(net(x.to(device)), y.to(device)).item()
    return total
