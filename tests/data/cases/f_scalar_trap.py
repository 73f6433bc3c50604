# 0-dim tensors may join
import torch


def scaled(x, device):
    half = torch.tensor(0.5)
    return x.to(device) * half
