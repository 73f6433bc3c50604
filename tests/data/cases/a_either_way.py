# a tensor either way
import torch


def start(count, warm, device):
    state = torch.ones(count) if warm else torch.zeros(count)
    state.to(device)  # <- DEV101
    return state
