# a random index that the host reads
import torch


def train(net, rows, optimizer, device):
    for _ in range(100):
        pick = int(torch.randint(0, len(rows), (1,)))
        loss = net(rows[pick].to(device)).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
