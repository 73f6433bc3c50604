import torch
import torchmetrics
from torch import nn
from tqdm import tqdm


def train_one_epoch(epoch, loader, model, loss_fn, optimizer, device="cuda:0"):
    model.train()
    metric = torchmetrics.Accuracy(task="multiclass", num_classes=10)
    running = 0.0
    bar = tqdm(enumerate(loader), total=len(loader))
    for step, (img, label) in bar:
        optimizer.zero_grad()
        img = img.to(device).float()
        label = label.to(device).long()
        yhat = model(img)
        loss = loss_fn(yhat, label)
        loss.backward()
        optimizer.step()
        acc = metric(torch.softmax(yhat, dim=1), label)  # <- DEV102
    return running
