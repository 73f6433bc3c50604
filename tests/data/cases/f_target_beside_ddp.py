import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader


def worker(rank, net, dataset):
    torch.cuda.set_device(rank)
    net = net.cuda(rank)
    model = DDP(net, device_ids=[rank])
    criterion = nn.CrossEntropyLoss().cuda(rank)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for images, target in DataLoader(dataset, 32):
        images = images.cuda(rank, non_blocking=True)
        output = model(images)
        loss = criterion(output, target)  # <- DEV102
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
