import torch


class Agent:
    def __init__(self, net, rate):
        self.net = net
        self.optimizer = torch.optim.Adam(net.parameters(), lr=rate)
        self.scaler = torch.amp.GradScaler()

    def learn(self, seen, wanted):
        loss = (self.net(seen) - wanted).square().mean()
        self.optimizer.zero_grad()
        self.scaler.scale(loss).backward()
        self.scaler.step(self.optimizer)  # <- DEV402
        return loss.detach()
