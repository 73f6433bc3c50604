"""Optimizers, gradients and state of training that are right on one device."""

from __future__ import annotations

import copy
import io
from typing import Any

import torch
from right_registry import RIGHT, fit, right
from torch import nn


@right
def sparse_gradients(d: str) -> Any:
    table = nn.Embedding(6, 3, sparse=True).to(d)
    optimizer = torch.optim.SparseAdam(table.parameters(), lr=0.1)
    for _ in range(2):
        optimizer.zero_grad()
        table(torch.tensor([1, 4, 1], device=d)).pow(2).sum().backward()
        optimizer.step()
    return table.weight.tolist()


@right
def low_rank(d: str) -> Any:
    u, s, v = torch.svd_lowrank(torch.randn(6, 4, device=d), q=2)
    return (u.device.type == torch.device(d).type, (u @ s.diag() @ v.T).shape)


@right
def lbfgs(d: str) -> Any:
    model, x = nn.Linear(3, 1).to(d), torch.randn(6, 3, device=d)
    optimizer = torch.optim.LBFGS(model.parameters(), max_iter=4)

    def closure() -> torch.Tensor:
        optimizer.zero_grad()
        loss = model(x).pow(2).mean()
        loss.backward()
        return loss

    return [optimizer.step(closure).item() for _ in range(3)]


def _optimizer(name: str, **options: Any) -> None:
    def program(d: str) -> Any:
        x = torch.randn(5, 3, device=d)
        return fit(nn.Linear(3, 2).to(d), getattr(torch.optim, name), x, lambda o: o.pow(2).mean(), **options)

    RIGHT["_".join([name, *options]).lower()] = program


for _name in ("SGD", "Adam", "RMSprop", "Adagrad", "Adadelta", "NAdam", "RAdam", "Adamax", "ASGD", "Rprop"):
    _optimizer(_name)
_optimizer("SGD", momentum=0.9, nesterov=True)
_optimizer("Adam", foreach=True)
_optimizer("AdamW", fused=True)
_optimizer("Adam", amsgrad=True, weight_decay=0.1)


@right
def clipped_and_scheduled(d: str) -> Any:
    model, x = nn.Linear(3, 2).to(d), torch.randn(5, 3, device=d)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 4)
    norms = []
    for _ in range(4):
        optimizer.zero_grad()
        model(x).exp().sum().backward()
        norms.append(nn.utils.clip_grad_norm_(model.parameters(), 0.5).item())
        nn.utils.clip_grad_value_(model.parameters(), 0.1)
        optimizer.step()
        schedule.step()
    return norms


@right
def own_autograd_function(d: str) -> Any:
    class Swish(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
            ctx.save_for_backward(x)
            return x * x.sigmoid()

        @staticmethod
        def backward(ctx: Any, grad: torch.Tensor) -> torch.Tensor:
            (x,) = ctx.saved_tensors
            # Made in backward: the device must be the logical one there, too.
            one = torch.ones(1, device=x.device)
            s = x.sigmoid()
            return grad * (s * (one + x * (one - s)))

    x = torch.randn(4, device=d, requires_grad=True)
    Swish.apply(x).sum().backward()
    return x.grad.tolist()


@right
def hooks_on_tensors_and_modules(d: str) -> Any:
    seen = []
    model = nn.Linear(3, 3).to(d)
    model.register_forward_hook(lambda m, i, o: seen.append(o.device.type == torch.device(d).type))
    x = torch.randn(2, 3, device=d, requires_grad=True)
    x.register_hook(lambda g: g * torch.full((1,), 2.0, device=g.device))
    model(x).sum().backward()
    return seen, x.grad.sum().item()


@right
def gradient_that_moves_back(d: str) -> Any:
    weight = torch.ones(3, requires_grad=True)
    (weight.to(d) * torch.arange(3.0, device=d)).sum().backward()
    weight.data -= 0.1 * weight.grad
    return weight.tolist()


@right
def averaged_model(d: str) -> Any:
    model = nn.Linear(2, 2).to(d)
    average = torch.optim.swa_utils.AveragedModel(model)
    average.update_parameters(model)
    with torch.no_grad():
        model.weight.add_(1.0)
    average.update_parameters(model)
    return average.module.weight.sum().item()


@right
def exponential_average_by_hand(d: str) -> Any:
    model = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2)).to(d)
    shadow = copy.deepcopy(model)
    model(torch.randn(4, 2, device=d))
    with torch.no_grad():
        for kept, new in zip(shadow.state_dict().values(), model.state_dict().values(), strict=True):
            kept.copy_(kept * 0.9 + new * 0.1)
    return [v.float().sum().item() for v in shadow.state_dict().values()]


@right
def checkpointing(d: str) -> Any:
    block = nn.Sequential(nn.Linear(3, 3), nn.Dropout(0.5)).to(d)
    x = torch.randn(2, 3, device=d, requires_grad=True)
    torch.utils.checkpoint.checkpoint(block, x, use_reentrant=False).sum().backward()
    first = x.grad.sum().item()
    torch.utils.checkpoint.checkpoint(block, x, use_reentrant=True).sum().backward()
    return first, x.grad.sum().item()


@right
def second_derivatives(d: str) -> Any:
    x = torch.randn(3, device=d, requires_grad=True)
    (first,) = torch.autograd.grad(x.pow(3).sum(), x, create_graph=True)
    (second,) = torch.autograd.grad(first.pow(2).sum(), x)
    return second.tolist()


@right
def gradient_penalty(d: str) -> Any:
    critic = nn.Sequential(nn.Linear(2, 4), nn.Tanh(), nn.Linear(4, 1)).to(d)
    x = torch.randn(3, 2, device=d, requires_grad=True)
    score = critic(x)
    (slope,) = torch.autograd.grad(score, x, torch.ones_like(score), create_graph=True)
    (slope.norm(2, dim=1) - 1).pow(2).mean().backward()
    return [p.grad.sum().item() for p in critic.parameters() if p.grad is not None]


@right
def state_dicts(d: str) -> Any:
    model = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2)).to(d)
    file = io.BytesIO()
    torch.save({"model": model.state_dict(), "epoch": 3}, file)
    file.seek(0)
    loaded = torch.load(file, map_location=d)
    model.load_state_dict(loaded["model"])
    model.load_state_dict({k: v.cpu() for k, v in model.state_dict().items()})
    return model(torch.ones(2, 2, device=d)).sum().item(), loaded["model"][
        "0.weight"
    ].device.type == torch.device(d).type


@right
def data_loader(d: str) -> Any:
    data = torch.utils.data.TensorDataset(torch.randn(10, 3), torch.randint(0, 2, (10,)))
    loader = torch.utils.data.DataLoader(data, batch_size=4, shuffle=True, pin_memory=d != "cpu")
    return [(x.to(d, non_blocking=True).sum() + y.to(d).sum()).item() for x, y in loader]
