# dicts in a list
import torch


def train_one_epoch(model, optimizer, loader, device):
    model.train()
    for images, targets in loader:
        images = [image.to(device) for image in images]
        for target in targets:
            for k, v in target.items():
                v = v.to(device)  # <- DEV101
        losses = model(images, targets)
        total = sum(losses.values())
        optimizer.zero_grad()
        total.backward()
        optimizer.step()
