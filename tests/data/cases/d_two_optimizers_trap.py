# one update for two optimizers
import torch


def fit(maker, judge, batches, optimizer_m, optimizer_j):
    scaler = torch.amp.GradScaler("cuda")
    for batch in batches:
        with torch.autocast("cuda", dtype=torch.float16):
            loss_j = judge(maker(batch).detach()).mean()
        optimizer_j.zero_grad()
        scaler.scale(loss_j).backward()
        scaler.step(optimizer_j)
        with torch.autocast("cuda", dtype=torch.float16):
            loss_m = judge(maker(batch)).mean()
        optimizer_m.zero_grad()
        scaler.scale(loss_m).backward()
        scaler.step(optimizer_m)
        scaler.update()
