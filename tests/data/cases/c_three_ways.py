# waits in some branches of every step
def train(net, loader, optimizer, criterion, device, mode):
    history: list = []
    for x, y in loader:
        loss = criterion(net(x.to(device)), y.to(device))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if mode == "all":
            history.append(loss.item())  # <- DEV301
        elif mode == "kept":
            history.append(loss.detach())
        else:
            continue
    return history
