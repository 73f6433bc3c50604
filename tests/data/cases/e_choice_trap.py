# a choice by what is available
import torch

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")


def build(net):
    return net.to(device)
