# outputs are copied to the host in every step
def train(net, loader, optimizer, criterion, device):
    seen = []
    for x, y in loader:
        out = net(x.to(device))
        loss = criterion(out, y.to(device))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        seen.append(out.detach().cpu())  # <- DEV302
    return seen
