# a class that computes a loss
import torch
import torch.nn as nn


class ComputeLoss:
    def __init__(self, model, hyp):
        head = model.model[-1]
        self.na, self.nl = head.na, head.nl
        self.bce = nn.BCEWithLogitsLoss()

    def __call__(self, p, targets):
        cls, indices = self.build_targets(p, targets)
        loss = torch.zeros(1, device=targets.device)
        for i, pi in enumerate(p):
            loss += self.bce(pi[..., 4], torch.ones_like(pi[..., 4]))
        return loss

    def build_targets(self, p, targets):
        na, nt = self.na, targets.shape[0]
        ai = torch.arange(na).float().view(na, 1).repeat(1, nt)  # <- DEV102
        targets = torch.cat((targets.repeat(na, 1, 1), ai[:, :, None]), 2)
        return targets[..., 1], targets[..., 6]
