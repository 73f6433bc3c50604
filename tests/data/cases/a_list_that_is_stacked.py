# the list keeps the old tensors
import torch


def merge(tensors, device):
    for i, t in enumerate(tensors):
        t = t.to(device)  # <- DEV101
    return torch.stack(tensors).mean(0)
