# a 0-dim tensor on the CPU is written in place
import torch


def total(values, net, device):
    net.to(device)
    result = torch.zeros(())
    for value in values:
        result += net(value.to(device)).sum()  # todo <- DEV102
    return result
