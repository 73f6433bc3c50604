"""Programs that are right on one device: they take its name and return numbers that must be the CPU's, bit for bit."""

from __future__ import annotations

import copy
import io
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

RIGHT: dict[str, Callable[[str], Any]] = {}


def right(program: Callable[[str], Any]) -> Callable[[str], Any]:
    RIGHT[program.__name__] = program
    return program


def fit(
    model: nn.Module, optimizer: Any, inputs: Any, loss_of: Any, steps: int = 3, **options: Any
) -> list[float]:
    """Losses of a few steps."""
    stepper = optimizer(model.parameters(), lr=0.05, **options)
    losses = []
    for _ in range(steps):
        stepper.zero_grad()
        loss = loss_of(model(inputs))
        loss.backward()
        stepper.step()
        losses.append(loss.item())
    return losses


@right
def perceptron(d: str) -> Any:
    model = nn.Sequential(nn.Linear(6, 9), nn.GELU(), nn.Dropout(0.2), nn.Linear(9, 4)).to(d)
    target = torch.randint(0, 4, (5,), device=d)
    return fit(model, torch.optim.AdamW, torch.randn(5, 6, device=d), lambda o: F.cross_entropy(o, target))


@right
def convolution_and_batch_norm(d: str) -> Any:
    model = nn.Sequential(
        nn.Conv2d(2, 5, 3, padding=1), nn.BatchNorm2d(5), nn.ReLU(), nn.AvgPool2d(2), nn.Flatten()
    )
    return fit(model.to(d), torch.optim.SGD, torch.randn(3, 2, 6, 6, device=d), lambda o: o.pow(2).mean())


@right
def transposed_convolution(d: str) -> Any:
    model = nn.Sequential(nn.Conv2d(1, 3, 3), nn.ConvTranspose2d(3, 1, 3)).to(d)
    x = torch.randn(2, 1, 7, 7, device=d)
    return fit(model, torch.optim.Adam, x, lambda o: F.mse_loss(o, x))


@right
def depthwise_1d_and_3d(d: str) -> Any:
    one = nn.Conv1d(4, 4, 3, groups=4).to(d)(torch.randn(2, 4, 8, device=d)).sum().item()
    return one, nn.Conv3d(1, 2, 2).to(d)(torch.randn(1, 1, 3, 3, 3, device=d)).sum().item()


@right
def interpolation(d: str) -> Any:
    x = torch.randn(1, 2, 5, 5, device=d)
    return [F.interpolate(x, size=8, mode=m).sum().item() for m in ("nearest", "bilinear", "bicubic")]


@right
def lstm(d: str) -> Any:
    class Tagger(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embed = nn.Embedding(11, 6)
            self.rnn = nn.LSTM(6, 5, num_layers=2, bidirectional=True, batch_first=True)
            self.head = nn.Linear(10, 3)

        def forward(self, tokens: torch.Tensor) -> torch.Tensor:
            return self.head(self.rnn(self.embed(tokens))[0])

    tokens = torch.randint(0, 11, (4, 7), device=d)
    return fit(Tagger().to(d), torch.optim.Adam, tokens, lambda o: o.logsumexp(-1).mean())


@right
def lstm_with_state(d: str) -> Any:
    rnn = nn.LSTM(3, 4).to(d)
    state = torch.zeros(1, 2, 4, device=d), torch.zeros(1, 2, 4, device=d)
    out, state = rnn(torch.randn(5, 2, 3, device=d), state)
    return out.sum().item(), state[1].sum().item()


@right
def packed_gru(d: str) -> Any:
    packed = nn.utils.rnn.pack_padded_sequence(torch.randn(6, 3, 4, device=d), torch.tensor([6, 4, 1]))
    out, hidden = nn.GRU(4, 5).to(d)(packed)
    padded, lengths = nn.utils.rnn.pad_packed_sequence(out)
    return padded.sum().item(), hidden.sum().item(), lengths.tolist()


@right
def recurrent_cells(d: str) -> Any:
    x, h = torch.randn(2, 3, device=d), torch.zeros(2, 4, device=d)
    h = nn.GRUCell(3, 4).to(d)(x, h)
    h, c = nn.LSTMCell(3, 4).to(d)(x, (h, h))
    return nn.RNNCell(3, 4).to(d)(x, c).sum().item()


@right
def encoder_in_training(d: str) -> Any:
    layer = nn.TransformerEncoderLayer(8, 2, dim_feedforward=12, batch_first=True)
    x = torch.randn(3, 5, 8, device=d)
    return fit(nn.TransformerEncoder(layer, 2).to(d), torch.optim.Adam, x, lambda o: o.mean())


@right
def encoder_with_padding(d: str) -> Any:
    layer = nn.TransformerEncoderLayer(8, 2, dim_feedforward=12, batch_first=True)
    mask = torch.tensor([[False] * 4, [False, False, True, True]]).to(d)
    model = nn.TransformerEncoder(layer, 1, enable_nested_tensor=False).to(d).eval()
    with torch.no_grad():
        return model(torch.randn(2, 4, 8, device=d), src_key_padding_mask=mask).sum().item()


@right
def whole_transformer(d: str) -> Any:
    model = nn.Transformer(8, 2, 1, 1, 16, batch_first=True).to(d)
    mask = nn.Transformer.generate_square_subsequent_mask(3, device=d)
    return model(torch.randn(2, 5, 8, device=d), torch.randn(2, 3, 8, device=d), tgt_mask=mask).sum().item()


@right
def attention(d: str) -> Any:
    q = torch.randn(2, 2, 5, 4, device=d, requires_grad=True)
    F.scaled_dot_product_attention(q, q, q, is_causal=True).sum().backward()
    heads, weights = nn.MultiheadAttention(8, 2).to(d)(*[torch.randn(5, 2, 8, device=d)] * 3)
    return q.grad.sum().item(), heads.sum().item(), weights.sum().item()


@right
def embedding_bag(d: str) -> Any:
    tokens, starts = torch.tensor([1, 2, 4, 5, 4], device=d), torch.tensor([0, 3], device=d)
    return nn.EmbeddingBag(10, 3, mode="mean").to(d)(tokens, starts).sum().item()


@right
def ctc(d: str) -> Any:
    scores = torch.randn(12, 3, 6, device=d, requires_grad=True)
    targets = torch.randint(1, 6, (3, 4), device=d)
    lengths = torch.full((3,), 12), torch.tensor([4, 3, 2])
    loss = nn.CTCLoss(zero_infinity=True)(scores.log_softmax(2), targets, *lengths)
    loss.backward()
    return loss.item(), scores.grad.abs().sum().item()


@right
def losses(d: str) -> Any:
    x, y = torch.rand(4, 3, device=d), torch.rand(4, 3, device=d)
    both = (
        F.mse_loss,
        F.l1_loss,
        F.smooth_l1_loss,
        F.binary_cross_entropy,
        F.huber_loss,
        F.kl_div,
        F.cosine_similarity,
    )
    return [f(x, y).sum().item() for f in both]


@right
def losses_with_weights(d: str) -> Any:
    weighted = nn.CrossEntropyLoss(weight=torch.tensor([1.0, 2.0, 0.5])).to(d)
    positive = nn.BCEWithLogitsLoss(pos_weight=torch.ones(3) * 2).to(d)
    x = torch.randn(4, 3, device=d)
    return weighted(x, torch.tensor([0, 1, 2, 1], device=d)).item(), positive(x, torch.ones_like(x)).item()


@right
def metric_losses(d: str) -> Any:
    a, b, c = (torch.randn(3, 4, device=d) for _ in range(3))
    near = nn.CosineEmbeddingLoss()(a, b, torch.tensor([1, -1, 1], device=d))
    return nn.TripletMarginLoss()(a, b, c).item(), near.item()


@right
def one_hot(d: str) -> Any:
    return F.one_hot(torch.tensor([0, 2, 1], device=d), 4).sum().item(), F.one_hot(
        torch.tensor([3], device=d)
    ).tolist()


@right
def lazy_modules(d: str) -> Any:
    model = nn.Sequential(nn.LazyConv1d(2, 3), nn.LazyBatchNorm1d(), nn.Flatten(), nn.LazyLinear(3)).to(d)
    model(torch.ones(2, 1, 8, device=d))
    return fit(model, torch.optim.SGD, torch.randn(2, 1, 8, device=d), lambda o: o.pow(2).mean())


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
def scripted(d: str) -> Any:
    model = torch.jit.script(nn.Sequential(nn.Linear(3, 2), nn.ReLU(), nn.Dropout(0.5))).to(d).eval()
    return model(torch.ones(1, 3, device=d)).tolist()


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
def spectral_and_weight_norm(d: str) -> Any:
    first = nn.utils.parametrizations.weight_norm(nn.Linear(3, 2))
    model = nn.Sequential(first, nn.utils.spectral_norm(nn.Linear(2, 2)))
    return fit(model.to(d), torch.optim.SGD, torch.randn(4, 3, device=d), lambda o: o.pow(2).mean())


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
def sampling_grid(d: str) -> Any:
    grid = F.affine_grid(torch.eye(2, 3, device=d)[None], (1, 1, 4, 4), align_corners=False)
    return F.grid_sample(torch.randn(1, 1, 4, 4, device=d), grid, align_corners=False).sum().item()


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
def checkpointing(d: str) -> Any:
    block = nn.Sequential(nn.Linear(3, 3), nn.Dropout(0.5)).to(d)
    x = torch.randn(2, 3, device=d, requires_grad=True)
    torch.utils.checkpoint.checkpoint(block, x, use_reentrant=False).sum().backward()
    first = x.grad.sum().item()
    torch.utils.checkpoint.checkpoint(block, x, use_reentrant=True).sum().backward()
    return first, x.grad.sum().item()


@right
def function_transforms(d: str) -> Any:
    x = torch.randn(3, 2, device=d)
    grads = torch.func.vmap(torch.func.grad(lambda r: (r**3).sum()))(x)
    jacobian = torch.func.jacrev(torch.sin)(x[0])
    return grads.tolist(), jacobian.tolist(), torch.func.vmap(lambda r: r.sum())(x).tolist()


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
def tied_weights(d: str) -> Any:
    model = nn.ModuleDict({"embed": nn.Embedding(5, 3), "head": nn.Linear(3, 5, bias=False)})
    model["head"].weight = model["embed"].weight
    model.to(d)
    logits = model["head"](model["embed"](torch.tensor([1, 2], device=d)))
    return model["head"].weight is model["embed"].weight, logits.sum().item()


@right
def buffers(d: str) -> Any:
    class Positions(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("table", torch.arange(6.0).reshape(2, 3), persistent=False)
            self.register_buffer("count", None)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.count = torch.ones(1, device=x.device)
            return x + self.table + self.table.new_zeros(3) + self.count

    return Positions().to(d)(torch.ones(2, 3, device=d)).sum().item()


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
def data_loader(d: str) -> Any:
    data = torch.utils.data.TensorDataset(torch.randn(10, 3), torch.randint(0, 2, (10,)))
    loader = torch.utils.data.DataLoader(data, batch_size=4, shuffle=True, pin_memory=d != "cpu")
    return [(x.to(d, non_blocking=True).sum() + y.to(d).sum()).item() for x, y in loader]


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
def inference(d: str) -> Any:
    model = nn.Sequential(nn.Conv1d(1, 2, 3), nn.Flatten(), nn.Linear(8, 2)).to(d).eval()
    with torch.inference_mode():
        return model(torch.randn(2, 1, 6, device=d)).argmax(1).tolist()


@right
def data_parallel(d: str) -> Any:
    model = nn.DataParallel(nn.Linear(2, 2).to(d)) if d == "cuda" else nn.Linear(2, 2).to(d)
    return model(torch.ones(1, 2, device=d)).sum().item()


@right
def padding_and_rolling(d: str) -> Any:
    rows = [torch.ones(2, device=d), torch.ones(3, device=d)]
    padded = nn.utils.rnn.pad_sequence(rows, batch_first=True)
    return F.pad(padded, (1, 1)).roll(1, 0).cumsum(1).tolist(), torch.tril(
        torch.ones(3, 3, device=d)
    ).sum().item()


@right
def gumbel_and_norms(d: str) -> Any:
    x = torch.randn(4, 6, device=d)
    normed = [nn.LayerNorm(6), nn.GroupNorm(2, 6), nn.BatchNorm1d(6)]
    return (
        F.gumbel_softmax(x, hard=True).sum().item(),
        [n.to(d)(x).pow(2).sum().item() for n in normed],
        F.normalize(x).sum().item(),
    )
