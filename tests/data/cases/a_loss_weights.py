# the weights never reach the device of the loss
import torch
from torch.nn import functional as F


def weighted(logits, target, device):
    weights = torch.tensor([0.2, 0.8])
    weights.to(device)  # <- DEV101
    return F.cross_entropy(logits.to(device), target.to(device), weight=weights)  # <- DEV102
