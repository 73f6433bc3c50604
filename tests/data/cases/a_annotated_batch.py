# annotated parameters are tensors
from torch import Tensor


class Runner:
    def __init__(self, net, device):
        self.net = net
        self.device = device

    def run(self, batch: Tensor, mask: Tensor):
        batch = batch.to(self.device)
        mask.to(self.device)  # <- DEV101
        return self.net(batch, mask)
