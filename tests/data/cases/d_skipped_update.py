# an early continue skips update
import torch


def fit(net, batches, optimizer, scaler):
    for batch in batches:
        optimizer.zero_grad()
        scaler.scale(net(batch).mean()).backward()
        scaler.unscale_(optimizer)
        norm = torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        if not norm.isfinite():  # <- DEV303
            continue  # <- DEV402
        scaler.step(optimizer)
        scaler.update()
