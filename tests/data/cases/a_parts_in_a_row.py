# the parts of a batch in a comprehension
import torch


def evaluate(model, loader, device):
    model.to(device)
    model.eval()
    right = total = 0
    with torch.no_grad():
        for images, labels in loader:
            [t.to(device) for t in (images, labels)]  # <- DEV101
            guess = model(images).argmax(dim=1)  # <- DEV102
            right += (guess == labels).sum().item()  # <- DEV102
            total += labels.size(0)
    return right / total
