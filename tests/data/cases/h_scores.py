import torch
from sklearn.metrics import accuracy_score


def evaluate(model, loader, device):
    model.to(device).eval()
    total = 0
    for x, y in loader:
        x, y = x.to(device), y.to(device)
        guess = model(x).argmax(dim=1)
        total += accuracy_score(y, guess)  # <- DEV106
    return total / len(loader)
