# labels of a discriminator are made on the CPU
import torch


def judge_step(judge, images, criterion, optimizer, device):
    images = images.to(device)
    real = torch.ones(images.size(0), 1)  # <- DEV202
    loss = criterion(judge(images), real.to(device))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
