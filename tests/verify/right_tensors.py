"""Operations on tensors, their making and their moves, that are right on one device."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from right_registry import right
from torch import nn


@right
def one_hot(d: str) -> Any:
    return F.one_hot(torch.tensor([0, 2, 1], device=d), 4).sum().item(), F.one_hot(
        torch.tensor([3], device=d)
    ).tolist()


@right
def scatter_gather_index(d: str) -> Any:
    index = torch.tensor([[0, 2], [1, 0]], device=d)
    x = torch.zeros(2, 3, device=d).scatter_(1, index, 5.0).scatter_add_(1, index, torch.ones(2, 2, device=d))
    return x.gather(1, index).tolist(), x.index_select(1, index[0]).sum().item(), x.take(index).sum().item()


@right
def indexing(d: str) -> Any:
    x = torch.arange(12.0, device=d).reshape(3, 4)
    x[0] = 7.0
    x[1, torch.tensor([0, 3])] = torch.tensor([1.0, 2.0], device=d)
    x[x > 6] = 0.0
    x[[2], 1] = torch.tensor(9.0)
    return x[..., None, ::2].tolist(), x[torch.arange(3), [0, 1, 2]].tolist(), x[x > 3].tolist()


@right
def sorting_and_selecting(d: str) -> Any:
    x = torch.randn(4, 6, device=d)
    values, order = x.sort(dim=1)
    return values.topk(2).values.tolist(), order.tolist(), x.kthvalue(2).values.tolist(), x.unique().tolist()


@right
def scalars_from_the_host(d: str) -> Any:
    x = torch.randn(4, device=d)
    half, one = torch.tensor(0.5), torch.scalar_tensor(1.0)
    x = (x * half + one).clamp(min=torch.tensor(0.0)).where(x > half, half)
    return (
        torch.maximum(x, one).tolist(),
        x.masked_fill(x > 0, torch.tensor(3.0)).tolist(),
        (x**half).nansum().item(),
    )


@right
def reductions(d: str) -> Any:
    x = torch.randn(9, device=d)
    return [f(x).item() for f in (torch.median, torch.std, torch.norm, torch.prod)] + [
        x.quantile(0.3).item(),
        x.quantile(torch.tensor([0.1, 0.9], device=d)).sum().item(),
    ]


@right
def linear_algebra(d: str) -> Any:
    a = torch.randn(3, 3, device=d) + 4 * torch.eye(3, device=d)
    b = torch.randn(3, 2, device=d)
    return (
        torch.linalg.solve(a, b).tolist(),
        torch.linalg.svdvals(a).tolist(),
        torch.linalg.inv(a).sum().item(),
    )


@right
def fourier(d: str) -> Any:
    x = torch.randn(16, device=d)
    window = torch.hann_window(8, device=d)
    return torch.fft.irfft(torch.fft.rfft(x)).sum().item(), torch.stft(
        x, 8, window=window, return_complex=True
    ).abs().sum().item()


@right
def einsum_and_meshgrid(d: str) -> Any:
    a, b = torch.randn(2, 3, 4, device=d), torch.randn(2, 4, 5, device=d)
    grid = torch.meshgrid(torch.arange(3, device=d), torch.arange(2, device=d), indexing="ij")
    return (
        torch.einsum("bij,bjk->bik", a, b).sum().item(),
        torch.stack(grid).sum().item(),
        torch.cdist(a, a).sum().item(),
    )


@right
def sparse(d: str) -> Any:
    matrix = torch.eye(3, device=d).to_sparse()
    return torch.sparse.mm(
        matrix, torch.randn(3, 2, device=d)
    ).sum().item(), matrix.coalesce().values().sum().item()


@right
def distributions(d: str) -> Any:
    normal = torch.distributions.Normal(torch.zeros(2, device=d), torch.ones(2, device=d))
    sample = normal.rsample()
    chosen = torch.distributions.Categorical(logits=torch.randn(2, 3, device=d)).sample()
    return (
        normal.log_prob(sample).tolist(),
        chosen.tolist(),
        torch.multinomial(torch.ones(4, device=d), 2).tolist(),
    )


@right
def random_numbers(d: str) -> Any:
    generator = torch.Generator(device=d).manual_seed(5)
    x = torch.empty(3, device=d).uniform_(generator=generator)
    order = torch.randperm(4, device=d, generator=generator)
    return x.tolist(), order.tolist(), torch.rand_like(x).tolist(), torch.bernoulli(x).tolist()


@right
def function_transforms(d: str) -> Any:
    x = torch.randn(3, 2, device=d)
    grads = torch.func.vmap(torch.func.grad(lambda r: (r**3).sum()))(x)
    jacobian = torch.func.jacrev(torch.sin)(x[0])
    return grads.tolist(), jacobian.tolist(), torch.func.vmap(lambda r: r.sum())(x).tolist()


@right
def made_like_another(d: str) -> Any:
    x = torch.randn(3, device=d)
    made = [
        torch.zeros_like(x),
        x.new_ones(3),
        x.new_tensor([1.0, 2.0, 3.0]),
        x.new_full((3,), 2.0),
        torch.empty_like(x).fill_(1),
    ]
    return sum((x + m).sum().item() for m in made)


@right
def numpy_and_back(d: str) -> Any:
    numpy = __import__("numpy")
    x = torch.from_numpy(numpy.arange(4, dtype="float32")).to(d)
    return (x * 2).cpu().numpy().sum().item(), torch.as_tensor(numpy.ones(4, "float32"), device=d).add(
        x
    ).sum().item()


@right
def moved_by_every_spelling(d: str) -> Any:
    x = torch.randn(3)
    other = torch.zeros(1, device=d, dtype=torch.float64 if d != "mps" else torch.float32)
    moved = [
        x.to(d),
        x.to(torch.device(d)),
        x.to(device=d),
        x.to(d, torch.float16).float(),
        x.to(other).float(),
    ]
    moved += [x.to(device=d, dtype=torch.float32, copy=True), x.type_as(other).float(), x.to(d).to(d)]
    return sum((m + torch.ones(3, device=d)).sum().item() for m in moved)


@right
def default_device(d: str) -> Any:
    with torch.device(d):
        made = nn.Linear(2, 2), torch.tensor([1.0, 2.0]), torch.arange(2.0)
    torch.set_default_device(d)
    try:
        inside = torch.zeros(2).device.type
    finally:
        torch.set_default_device(None)
    return (
        made[0](made[1] + made[2]).sum().item(),
        inside == torch.device(d).type,
        torch.zeros(1).device.type == "cpu",
    )


@right
def padding_and_rolling(d: str) -> Any:
    rows = [torch.ones(2, device=d), torch.ones(3, device=d)]
    padded = nn.utils.rnn.pad_sequence(rows, batch_first=True)
    return F.pad(padded, (1, 1)).roll(1, 0).cumsum(1).tolist(), torch.tril(
        torch.ones(3, 3, device=d)
    ).sum().item()
