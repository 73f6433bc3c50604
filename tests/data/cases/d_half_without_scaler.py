# float16 that nothing scales
import torch


def fit(net, batches, optimizer, device):
    for batch in batches:
        optimizer.zero_grad()
        with torch.autocast(device_type="cuda", dtype=torch.float16):  # <- DEV401 DEV501
            loss = net(batch.to(device)).mean()
        loss.backward()
        optimizer.step()
