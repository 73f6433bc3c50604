# padding that a library function makes
import torch


def pad_with_nan(arr, left=0, right=0, dim=0):
    if left > 0:
        shape = list(arr.shape)
        shape[dim] = left
        arr = torch.cat((torch.full(shape, float("nan")), arr), dim=dim)  # <- DEV102
    if right > 0:
        shape = list(arr.shape)
        shape[dim] = right
        arr = torch.cat((arr, torch.full(shape, float("nan"))), dim=dim)  # <- DEV102
    return arr
