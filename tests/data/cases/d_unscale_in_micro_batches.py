# unscale_ more than once before update
import torch


def fit(net, batches, optimizer, scaler, every):
    for number, batch in enumerate(batches, 1):
        with torch.autocast("cuda", dtype=torch.float16):
            loss = net(batch).mean() / every
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)  # <- DEV402
        torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        if number % every == 0:
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()
