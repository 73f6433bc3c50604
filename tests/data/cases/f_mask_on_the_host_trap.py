import torch


def split(model, x, device, ratio=0.5):
    out = model.to(device)(x.to(device))
    chosen = torch.zeros(len(out), dtype=torch.bool)
    chosen[torch.randperm(len(out))[: int(ratio * len(out))]] = True
    return out[chosen], out[~chosen]
