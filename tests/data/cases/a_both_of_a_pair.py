# two moves in one statement, both dropped
import torch


def pair(n, device):
    keys, values = torch.ones(n), torch.zeros(n)
    keys.to(device), values.to(device)  # <- DEV101
    return keys, values
