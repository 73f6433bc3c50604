# one decision places both
import torch


def mix(n, use_device, device):
    a = torch.ones(n)
    b = torch.zeros(n)
    if use_device:
        a = a.to(device)
    if use_device:
        b = b.to(device)
    return a + b
