# what torch.stack gives is a tensor
import torch


def gather(rows):
    table = torch.stack([torch.zeros(4) for _ in range(rows)])
    table.cuda()  # <- DEV101
    return table
