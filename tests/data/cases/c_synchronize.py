# an explicit wait in every step
import torch


def train(net, loader, optimizer, device):
    for x in loader:
        loss = net(x.to(device)).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        torch.cuda.synchronize()  # <- DEV306 DEV502
