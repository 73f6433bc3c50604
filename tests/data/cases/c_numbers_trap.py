# Python numbers need no wait
def train(net, loader, optimizer, device, rate):
    total = 0.0
    for step, x in enumerate(loader):
        loss = net(x.to(device)).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += float(rate) * step
        if x is not None and len(x) > 0:
            total += int(x.shape[0])
    return total
