# a helper gives a tensor on the CPU
import torch


def grid(n):
    return torch.linspace(-1, 1, n)


def warp(image: torch.Tensor, device):
    image = image.to(device)
    return image + grid(image.size(-1))  # <- DEV102
