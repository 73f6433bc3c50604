# the loop variable is only a name for the element
import torch


def send(device):
    parts = [torch.zeros(2), torch.ones(2)]
    for part in parts:
        part = part.to(device)  # <- DEV101
    return parts
