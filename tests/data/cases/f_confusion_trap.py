import torch


def confusion(model, loader, n, device):
    matrix = torch.zeros(n, n)
    model.to(device).eval()
    with torch.no_grad():
        for x, y in loader:
            pred = model(x.to(device)).argmax(1)
            for t, p in zip(y.to(device).view(-1), pred.view(-1)):
                matrix[t.long(), p.long()] += 1
    return matrix
