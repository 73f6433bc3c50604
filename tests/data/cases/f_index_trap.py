# an index on the CPU may read a tensor elsewhere
import torch


def shuffled(x, device):
    x = x.to(device)
    order = torch.randperm(x.size(0))
    return x[order]
