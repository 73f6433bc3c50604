# only now and then
def train(net, loader, optimizer, criterion, device):
    for step, (x, y) in enumerate(loader):
        loss = criterion(net(x.to(device)), y.to(device))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 50 == 0:
            print(step, loss.item())
