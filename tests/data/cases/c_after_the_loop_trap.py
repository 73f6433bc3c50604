# once an epoch
import torch


def train(net, loader, optimizer, criterion, device, epochs):
    for epoch in range(epochs):
        total = torch.zeros((), device=device)
        for x, y in loader:
            loss = criterion(net(x.to(device)), y.to(device))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.detach()
        print(epoch, total.item() / len(loader))
