# guarded through a variable
import torch

use_cuda = torch.cuda.is_available()


def send(x):
    return x.cuda() if use_cuda else x
