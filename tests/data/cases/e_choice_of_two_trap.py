# a device chosen by an if statement
import torch

if torch.cuda.is_available():
    device = "cuda"
else:
    device = "cpu"


def build(net):
    return net.to(device)
