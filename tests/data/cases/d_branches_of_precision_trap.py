# one branch scales and clips, the other does neither
import torch


def fit(net, batches, optimizer, precision, limit):
    scaler = torch.amp.GradScaler("cuda") if precision == "half" else None
    for batch in batches:
        optimizer.zero_grad()
        if precision == "half":
            with torch.autocast("cuda", dtype=torch.float16):
                loss = net(batch).mean()
            scaler.scale(loss).backward()
            scaler.unscale_(optimizer)
            torch.nn.utils.clip_grad_norm_(net.parameters(), limit)
            scaler.step(optimizer)
            scaler.update()
        elif precision == "brain":
            with torch.autocast("cuda", dtype=torch.bfloat16):
                loss = net(batch).mean()
            loss.backward()
            optimizer.step()
        else:
            loss = net(batch).mean()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(net.parameters(), limit)
            optimizer.step()
