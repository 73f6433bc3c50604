# one operand is moved, the other is not
import torch


def distance(a: torch.Tensor, device):
    centre = torch.rand(3)
    return (a.to(device) - centre).norm()  # <- DEV102
