# nothing says that it is a tensor
def send(batch, device):
    batch.to(device)
    return batch
