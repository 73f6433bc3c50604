# accuracy is counted on the host in every step
def train(net, loader, optimizer, criterion, device):
    right = 0
    for x, y in loader:
        x, y = x.to(device), y.to(device)
        out = net(x)
        loss = criterion(out, y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        right += (out.argmax(dim=1) == y).sum().item()  # <- DEV301
    return right
