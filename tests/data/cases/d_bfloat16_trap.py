# bfloat16 needs no scaler
import torch


def fit(net, batches, optimizer):
    for batch in batches:
        optimizer.zero_grad()
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = net(batch).mean()
        loss.backward()
        optimizer.step()
