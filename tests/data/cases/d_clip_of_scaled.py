# clipping before unscale_
import torch
from torch.nn.utils import clip_grad_norm_


def fit(net, batches, optimizer, scaler, limit):
    for batch in batches:
        optimizer.zero_grad()
        with torch.autocast("cuda", dtype=torch.float16):
            loss = net(batch).mean()
        scaler.scale(loss).backward()
        clip_grad_norm_(net.parameters(), limit)  # <- DEV402
        scaler.step(optimizer)
        scaler.update()
