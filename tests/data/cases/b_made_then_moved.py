# made on the CPU and moved at once
import torch


def sample(generator, count, device):
    generator.to(device)
    latent = torch.randn(count, 64).to(device)  # todo <- DEV202
    return generator(latent)
