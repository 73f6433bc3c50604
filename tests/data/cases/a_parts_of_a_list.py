# a comprehension makes tensors, a loop drops their moves
import torch


def parts(count, device):
    pieces = [torch.zeros(2) for _ in range(count)]
    for piece in pieces:
        piece.to(device)  # <- DEV101
    return torch.cat(pieces)
