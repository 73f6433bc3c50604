# a helper that binds its own names
def send(x, y, device):
    x = x.to(device)
    y = y.to(device)


def run_epoch(model, loader, criterion, optimizer, device):
    for x, y in loader:
        send(x, y, device)  # <- DEV111
        optimizer.zero_grad()
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()
