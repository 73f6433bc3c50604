import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader


class ContrastiveLoss(nn.Module):
    def __init__(self, margin=2.0):
        super().__init__()
        self.margin = margin

    def forward(self, a, b, label):
        distance = F.pairwise_distance(a, b)
        return torch.mean((1 - label) * distance.pow(2) + label * (self.margin - distance).clamp(min=0).pow(2))


def train(net, dataset, epochs):
    net = net.cuda()  # <- DEV501
    criterion = ContrastiveLoss()
    optimizer = torch.optim.Adam(net.parameters(), lr=5e-4)
    for epoch in range(epochs):
        for i, (img0, img1, label) in enumerate(DataLoader(dataset, batch_size=64)):
            img0, img1 = img0.cuda(), img1.cuda()
            optimizer.zero_grad()
            out1, out2 = net(img0, img1)
            loss = criterion(out1, out2, label)  # <- DEV102
            loss.backward()
            optimizer.step()
