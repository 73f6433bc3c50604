"""Train the segment reader."""

import torch
from data import make_loader
from model import SegmentReader
from torch import nn

device = torch.device("cuda")
SHARE = 1e-3  # of this task in the loss; the other tasks are trained elsewhere


def class_weights():
    counts = torch.tensor([50.0, 52.0, 49.0, 51.0, 48.0, 50.0, 53.0, 47.0, 50.0, 50.0])
    weights = counts.sum() / counts
    weights.to(device)
    return weights


def train(model, loader, epochs=2):
    criterion = nn.CrossEntropyLoss(weight=class_weights().to(device))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model.train()
    for epoch in range(epochs):
        total, correct = 0.0, 0
        for strokes, labels in loader:
            strokes, labels = strokes.to(device), labels.to(device)
            noise = torch.randn(strokes.shape).to(device)
            optimizer.zero_grad()
            with torch.autocast(device.type, dtype=torch.float16):
                logits = model(strokes + 0.05 * noise)
                loss = SHARE * criterion(logits, labels)
            loss.backward()
            optimizer.step()
            total += loss.item()
            correct += (logits.argmax(-1).cpu() == labels.cpu()).sum()
        print(f"epoch {epoch}: loss {total / len(loader):.3f}, right {correct / len(loader.dataset):.1%}")


def main():
    torch.manual_seed(0)
    model = SegmentReader().to(device)
    train(model, make_loader())


if __name__ == "__main__":
    main()
