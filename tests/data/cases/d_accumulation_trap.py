# accumulation done right
import torch


def fit(net, batches, optimizer, scaler, every, limit):
    for number, batch in enumerate(batches, 1):
        with torch.autocast("cuda", dtype=torch.float16):
            loss = net(batch).mean() / every
        scaler.scale(loss).backward()
        due = number % every == 0
        if due:
            if limit is not None:
                scaler.unscale_(optimizer)
                torch.nn.utils.clip_grad_norm_(net.parameters(), limit)
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()
