# harmless without CUDA
import torch


def seed(value):
    torch.manual_seed(value)
    torch.cuda.manual_seed_all(value)
    torch.cuda.empty_cache()
