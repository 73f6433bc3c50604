# an API that raises without CUDA
import torch


def timed(work):
    start = torch.cuda.Event(enable_timing=True)  # todo <- DEV502
    work()
    return start
