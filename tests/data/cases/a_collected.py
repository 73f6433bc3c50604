# a loop collects moved tensors, one is forgotten
import torch


def collect(rows, device):
    kept: list = []
    for row in rows:
        kept.append(torch.as_tensor(row).to(device))
    first: torch.Tensor = torch.zeros(3)
    first.to(device)  # <- DEV101
    return torch.stack([first, *kept])
