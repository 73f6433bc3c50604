import torch
import torch.nn.functional as F


@torch.no_grad()
def knn_eval(net, memory_loader, test_loader, classes, k, device):
    net.eval()
    net.to(device)
    bank, targets = [], []
    for data, target in memory_loader:
        feature = F.normalize(net(data.to(device)), dim=1)
        bank.append(feature.cpu())
        targets.append(target)
    bank = torch.cat(bank, dim=0).t().contiguous()
    targets = torch.cat(targets)
    hits = total = 0
    for data, target in test_loader:
        feature = F.normalize(net(data.to(device)), dim=1)
        similarity = torch.mm(feature, bank)  # <- DEV102
        _, index = similarity.topk(k, dim=-1)
        hits += (targets[index[:, 0].cpu()] == target).sum().item()
        total += len(target)
    return hits / total
