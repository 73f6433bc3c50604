# the code has set a default device
import torch

torch.set_default_device("cuda" if torch.cuda.is_available() else "cpu")


def step(net, x, optimizer):
    noise = torch.randn(8, 4)
    loss = net(x + noise).mean()
    loss.backward()
    optimizer.step()
