# the host waits in every step for a running loss
def train(net, loader, optimizer, criterion, device):
    total = 0.0
    for x, y in loader:
        optimizer.zero_grad()
        loss = criterion(net(x.to(device)), y.to(device))
        loss.backward()
        optimizer.step()
        total += loss.item()  # <- DEV301
    return total
