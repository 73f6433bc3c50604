# a fresh tensor is moved and the moved one dropped
import torch


def positions(length, device):
    steps = torch.arange(length)
    steps.to(device)  # <- DEV101
    return steps
