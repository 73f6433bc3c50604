# a batch by index
import torch


def fit(net, loader, loss_fn, optimizer, device):
    net.to(device)
    for i, data in enumerate(loader, 0):
        inputs = data[0].to(device)
        labels = data[1]
        labels.to(device)  # <- DEV101
        optimizer.zero_grad()
        loss = loss_fn(net(inputs), labels)  # <- DEV102
        loss.backward()
        optimizer.step()
