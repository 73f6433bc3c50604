# the optimizer steps on scaled gradients
import torch
from torch.amp import GradScaler, autocast


def fit(net, batches, optimizer):
    scaler = GradScaler("cuda")
    for batch in batches:
        optimizer.zero_grad()
        with autocast("cuda", dtype=torch.float16):
            loss = net(batch).mean()
        scaler.scale(loss).backward()
        optimizer.step()  # <- DEV402
        scaler.update()
