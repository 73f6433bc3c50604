"""Layers, losses and whole models that are right on one device."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from right_registry import fit, right
from torch import nn


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
def lazy_modules(d: str) -> Any:
    model = nn.Sequential(nn.LazyConv1d(2, 3), nn.LazyBatchNorm1d(), nn.Flatten(), nn.LazyLinear(3)).to(d)
    model(torch.ones(2, 1, 8, device=d))
    return fit(model, torch.optim.SGD, torch.randn(2, 1, 8, device=d), lambda o: o.pow(2).mean())


@right
def scripted(d: str) -> Any:
    model = torch.jit.script(nn.Sequential(nn.Linear(3, 2), nn.ReLU(), nn.Dropout(0.5))).to(d).eval()
    return model(torch.ones(1, 3, device=d)).tolist()


@right
def spectral_and_weight_norm(d: str) -> Any:
    first = nn.utils.parametrizations.weight_norm(nn.Linear(3, 2))
    model = nn.Sequential(first, nn.utils.spectral_norm(nn.Linear(2, 2)))
    return fit(model.to(d), torch.optim.SGD, torch.randn(4, 3, device=d), lambda o: o.pow(2).mean())


@right
def sampling_grid(d: str) -> Any:
    grid = F.affine_grid(torch.eye(2, 3, device=d)[None], (1, 1, 4, 4), align_corners=False)
    return F.grid_sample(torch.randn(1, 1, 4, 4, device=d), grid, align_corners=False).sum().item()


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
def inference(d: str) -> Any:
    model = nn.Sequential(nn.Conv1d(1, 2, 3), nn.Flatten(), nn.Linear(8, 2)).to(d).eval()
    with torch.inference_mode():
        return model(torch.randn(2, 1, 6, device=d)).argmax(1).tolist()


@right
def data_parallel(d: str) -> Any:
    model = nn.DataParallel(nn.Linear(2, 2).to(d)) if d == "cuda" else nn.Linear(2, 2).to(d)
    return model(torch.ones(1, 2, device=d)).sum().item()


@right
def gumbel_and_norms(d: str) -> Any:
    x = torch.randn(4, 6, device=d)
    normed = [nn.LayerNorm(6), nn.GroupNorm(2, 6), nn.BatchNorm1d(6)]
    return (
        F.gumbel_softmax(x, hard=True).sum().item(),
        [n.to(d)(x).pow(2).sum().item() for n in normed],
        F.normalize(x).sum().item(),
    )
