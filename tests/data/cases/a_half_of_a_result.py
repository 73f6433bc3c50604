# a dtype move is lost as a device move is
import torch


def compress(weights: torch.Tensor):
    weights.half()  # <- DEV101
    return weights
