import torch
from torch import nn


def finetune(batches, device):
    net = nn.Linear(8, 8).to(device).half()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler(device.type)
    for batch in batches:
        scaler.scale(net(batch.to(device)).mean()).backward()
        scaler.step(optimizer)  # <- DEV402
        scaler.update()
        optimizer.zero_grad()
