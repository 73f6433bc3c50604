# a helper whose callers tell what it gets
import torch
import torch.nn.functional as F


def to_one_hot(labels, num_classes=10):
    eye = torch.eye(num_classes)  # <- DEV102
    return eye[labels]


def edl_loss(output, target, epoch):
    evidence = F.relu(output)
    y = to_one_hot(target, output.size(1))
    strength = (evidence + 1).sum(dim=1, keepdim=True)
    return (y * (torch.digamma(strength) - torch.digamma(evidence + 1))).sum(dim=1).mean()


def train(model, loader, optimizer, device):
    model.train()
    for epoch in range(10):
        for images, labels in loader:
            images, labels = images.to(device), labels.to(device)
            optimizer.zero_grad()
            loss = edl_loss(model(images), labels, epoch)
            loss.backward()
            optimizer.step()
