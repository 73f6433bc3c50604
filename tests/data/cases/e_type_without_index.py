import torch


def follow(x: torch.Tensor, y: torch.Tensor):
    y = y.to(x.device.type)  # <- DEV501
    if x.is_cuda and x.is_floating_point():
        y = y.cuda()  # <- DEV501
    return x + y


def one_hot(labels, classes, device="cuda"):  # <- DEV501
    labels = labels.long().view(-1, 1)
    return torch.zeros((labels.size(0), classes), device=device).scatter_(1, labels, 1.0)
