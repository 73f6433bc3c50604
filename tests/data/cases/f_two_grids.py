# two fresh tensors, one is moved
import torch


def sample(image: torch.Tensor, device):
    image = image.to(device)
    rows, columns = torch.linspace(-1, 1, 8), torch.linspace(-1, 1, 8)
    rows = rows.to(device)
    return image * rows + columns  # <- DEV102
