# the receiver is the result of a tensor method
import torch


def normalise(values: torch.Tensor, device):
    centred = values - values.mean(dim=0)
    scaled = centred.div(centred.std(dim=0))
    scaled.to(device)  # <- DEV101
    return scaled
