# float() waits as item() does
def fit(net, loader, optimizer, loss_of, device):
    history = []
    for x, y in loader:
        value = loss_of(net(x.to(device)), y.to(device))
        optimizer.zero_grad()
        value.backward()
        optimizer.step()
        history.append(float(value))  # <- DEV301
    return history
