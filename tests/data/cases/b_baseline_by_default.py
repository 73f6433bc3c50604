# a default argument
import torch


def integrated_gradients(model, x, target, steps=50, baseline=None):
    if baseline is None:
        baseline = torch.zeros(x.shape)  # <- DEV201
    total = 0
    for alpha in torch.linspace(0, 1, steps):
        point = (baseline + alpha * (x - baseline)).requires_grad_(True)
        score = model(point)[:, target].sum()
        total = total + torch.autograd.grad(score, point)[0]
    return (x - baseline) * total / steps
