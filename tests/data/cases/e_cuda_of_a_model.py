# a model is sent to CUDA whatever is there
import torch
from torch import nn


def build(width):
    net = nn.Linear(width, width)
    net.cuda()  # todo <- DEV501
    return net
