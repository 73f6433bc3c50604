# a list of fresh tensors in each step
import torch


def train(net, loader, optimizer, device):
    net.to(device)
    for batch in loader:
        batch = batch.to(device)
        scales = []
        for _ in range(3):
            scales.append(torch.rand(batch.size(1), device=device))
        loss = (net(batch) * torch.stack(scales).sum(dim=0)).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
