# a literal device
import torch


def start(count):
    return torch.zeros(count, device="cuda")  # <- DEV501
