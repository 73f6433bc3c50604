import torch.nn.functional as F
from torch import Tensor, nn


class DetectionLoss(nn.Module):
    def forward(self, logits: Tensor, labels: Tensor):
        found = max(1, (labels > 0).sum().item())  # <- DEV301
        loss = F.cross_entropy(logits, labels, reduction="sum") / found
        if loss.item() > 1000:  # <- DEV301
            loss = loss.clamp(max=1000)
        return loss, {"loss": loss.item()}  # <- DEV301
