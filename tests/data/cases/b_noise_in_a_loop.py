# noise is made on the CPU for each batch
import torch


def train(net, loader, optimizer, device):
    net.to(device)
    for images in loader:
        images = images.to(device)
        noise = torch.randn(images.shape)  # <- DEV202
        loss = (net(images + noise.to(device)) - images).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
