import torch


class ImageData:
    def __init__(self, images, poses, device):
        self.device = device
        self.images = torch.from_numpy(images)
        self.poses = torch.from_numpy(poses).to(device)


class Trainer:
    def __init__(self, data: ImageData, renderer, device):
        self.data = data
        self.device = device
        self.renderer = renderer.to(device)

    def validate(self, count):
        index = torch.randint(0, len(self.data.images), (count,), device=self.device)
        truth = self.data.images[index]  # <- DEV102
        return (self.renderer(self.data.poses[index]) - truth.to(self.device)).abs().mean()
