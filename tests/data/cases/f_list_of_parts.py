# a list of tensors on the CPU is joined with one elsewhere
import torch


def join(x: torch.Tensor, device):
    x = x.to(device)
    parts = []
    for size in (1, 2, 3):
        parts.append(torch.zeros(size))
    parts.append(x)
    return torch.cat(parts)  # todo <- DEV102
