# a progress bar reads the loss in every step
from tqdm import tqdm


def train(net, loader, optimizer, device):
    bar = tqdm(loader)
    for x in bar:
        loss = net(x.to(device)).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        bar.set_description(f"loss {loss:.3f}")  # <- DEV303
