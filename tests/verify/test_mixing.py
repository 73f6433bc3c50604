"""Which operands may live apart: torch's rules on CUDA, one program each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from torchlint.verify.simdevice import SimDevice, hooks


def cpu(*shape: int) -> torch.Tensor:
    return torch.ones(*shape)


def gpu(*shape: int) -> torch.Tensor:
    return torch.ones(*shape, device="cuda")


def cpu_index(*shape: int) -> torch.Tensor:
    return torch.zeros(*shape, dtype=torch.long)


def gpu_index(*shape: int) -> torch.Tensor:
    return torch.zeros(*shape, dtype=torch.long, device="cuda")


def number() -> torch.Tensor:
    return torch.tensor(2.0)


def assign(target: torch.Tensor, index: Any, value: Any) -> torch.Tensor:
    target[index] = value
    return target


#: Programs that run on CUDA although an operand lives on the host.
ALLOWED: dict[str, Callable[[], Any]] = {
    "number after": lambda: gpu(3) - number(),
    "number before": lambda: number() * gpu(3),
    "number and number": lambda: number() + number().to("cuda"),
    "python number": lambda: gpu(3) * 2,
    "number in place": lambda: gpu(3).add_(number()),
    "number as power": lambda: gpu(3) ** number(),
    "number in where": lambda: torch.where(gpu(3) > 0, gpu(3), number()),
    "number to clamp by": lambda: gpu(3).clamp(max=number()),
    "number to fill with": lambda: gpu(3).masked_fill(gpu(3) > 0, number()),
    "number to compare with": lambda: gpu(3) > number(),
    "number to divide by": lambda: gpu(3).div(number(), rounding_mode="floor"),
    "number put at an index": lambda: gpu(3).index_put((gpu_index(1),), number()),
    "number assigned": lambda: assign(gpu(3), 0, number()),
    "index on the host": lambda: gpu(3)[cpu_index(1)],
    "mask on the host": lambda: gpu(3)[cpu(3) > 0],
    "index on the host to put at": lambda: gpu(3).index_put((cpu_index(1),), gpu(1)),
    "copy": lambda: gpu(3).copy_(cpu(3)),
    "copy to the host": lambda: cpu(3).copy_(gpu(3)),
    "slice assigned": lambda: assign(gpu(3, 3), 0, cpu(3)),
    "slice on the host assigned": lambda: assign(cpu(3, 3), (..., 0), gpu(3)),
}
#: Programs that CUDA refuses, with a part of what it says.
REFUSED: dict[str, tuple[Callable[[], Any], str]] = {
    "add": (lambda: cpu(3) + gpu(3), "found at least two devices, cuda:0 and cpu!"),
    "number on the device": (lambda: cpu(3) + number().to("cuda"), "two devices, cuda:0 and cpu!"),
    "number on the host, in place": (lambda: number().add_(gpu(1)[0]), "two devices, cuda:0 and cpu!"),
    "vector of one": (lambda: gpu(3) + cpu(1), "two devices, cuda:0 and cpu!"),
    "in place": (lambda: gpu(3).mul_(cpu(3)), "two devices, cuda:0 and cpu!"),
    "power": (lambda: gpu(3) ** cpu(3), "two devices"),
    "compare": (lambda: gpu(3) == cpu(3), "two devices"),
    "logical and": (lambda: (gpu(3) > 0) & (cpu(3) > 0), "two devices"),
    "maximum": (lambda: torch.maximum(gpu(3), cpu(3)), "two devices"),
    "clamp": (lambda: gpu(3).clamp(min=cpu(3)), "two devices"),
    "where": (lambda: torch.where(gpu(3) > 0, gpu(3), cpu(3)), "two devices"),
    "masked_fill": (lambda: gpu(3).masked_fill(cpu(3) > 0, 0.0), "two devices"),
    "lerp": (lambda: torch.lerp(gpu(3), cpu(3), 0.5), "two devices"),
    "addcmul": (lambda: torch.addcmul(gpu(3), cpu(3), gpu(3)), "two devices"),
    "kron": (lambda: torch.kron(gpu(2, 2), cpu(2, 2)), "two devices"),
    "matrix product": (
        lambda: gpu(2, 2) @ cpu(2, 2),
        "got mat2 is on cpu, different from other tensors on cuda:0",
    ),
    "batched product": (lambda: torch.bmm(gpu(1, 2, 2), cpu(1, 2, 2)), "method wrapper_CUDA_bmm"),
    "matrix vector": (lambda: gpu(2, 2).mv(cpu(2)), "on the same device"),
    "dot": (lambda: torch.dot(gpu(2), cpu(2)), "on the same device"),
    "outer": (lambda: torch.outer(gpu(2), cpu(2)), "two devices"),
    "addmm": (lambda: torch.addmm(cpu(2), gpu(2, 2), gpu(2, 2)), "method wrapper_CUDA_addmm"),
    "einsum": (lambda: torch.einsum("ij,jk", cpu(2, 2), gpu(2, 2)), "on the same device"),
    "solve": (lambda: torch.linalg.solve(gpu(2, 2), cpu(2, 2)), "on the same device"),
    "cat": (lambda: torch.cat([gpu(2), cpu(2)]), "method wrapper_CUDA_cat"),
    "stack": (lambda: torch.stack([cpu(2), gpu(2)]), "got tensors is on cuda:0"),
    "gather": (lambda: gpu(2, 2).gather(0, cpu_index(1, 2)), "got index is on cpu"),
    "scatter": (lambda: gpu(2, 2).scatter(0, cpu_index(1, 2), 1.0), "got index is on cpu"),
    "index_select": (lambda: gpu(2).index_select(0, cpu_index(1)), "wrapper_CUDA__index_select"),
    "take": (lambda: gpu(3).take(cpu_index(1)), "on the same device"),
    "index on the device": (
        lambda: cpu(3)[gpu_index(1)],
        "indices should be either on cpu or on the same device",
    ),
    "mask on the device": (lambda: cpu(3)[gpu(3) > 0], "as the indexed tensor (cpu)"),
    "masked assignment": (lambda: assign(cpu(3), cpu(3) > 0, gpu(3)), "device"),
    "value to put": (lambda: gpu(3).index_put((gpu_index(1),), cpu(1)), "two devices, cuda:0 and cpu!"),
    "bucketize": (lambda: torch.bucketize(gpu(3), cpu(3)), "device"),
    "bernoulli": (lambda: gpu(3).bernoulli_(cpu(3)), "on the same device"),
    "cdist": (lambda: torch.cdist(gpu(2, 2), cpu(2, 2)), "on the same device"),
    "mse": (lambda: F.mse_loss(gpu(3), cpu(3)), "two devices"),
    "smooth l1": (lambda: F.smooth_l1_loss(cpu(3), gpu(3)), "two devices"),
    "bce": (lambda: F.binary_cross_entropy(gpu(3), cpu(3)), "on the same device"),
    "bce with logits": (lambda: F.binary_cross_entropy_with_logits(gpu(3), cpu(3)), "two devices"),
    "cross entropy": (lambda: F.cross_entropy(gpu(2, 3), cpu_index(2)), "got target is on cpu"),
    "class weights": (
        lambda: F.cross_entropy(gpu(2, 3), gpu_index(2), weight=cpu(3)),
        "got weight is on cpu",
    ),
    "linear, its input": (lambda: nn.Linear(3, 2).to("cuda")(cpu(2, 3)), "got mat1 is on cpu"),
    "linear, its weights": (
        lambda: nn.Linear(3, 2)(gpu(2, 3)),
        "got mat1 is on cuda:0, different from other tensors on cpu",
    ),
    "convolution": (
        lambda: nn.Conv2d(1, 1, 2).to("cuda")(cpu(1, 1, 3, 3)),
        "Input type (torch.FloatTensor) and weight type (torch.cuda.FloatTensor) should be the same",
    ),
    "embedding, its index": (lambda: nn.Embedding(4, 3).to("cuda")(cpu_index(2)), "got index is on cpu"),
    "embedding, its weights": (lambda: nn.Embedding(4, 3)(gpu_index(2)), "got index is on cuda:0"),
    "layer norm": (lambda: nn.LayerNorm(3).to("cuda")(cpu(2, 3)), "wrapper_CUDA__native_layer_norm"),
    "batch norm": (lambda: nn.BatchNorm1d(3)(gpu(2, 3)), "wrapper_CUDA__cudnn_batch_norm"),
    "lstm, its state": (
        lambda: nn.LSTM(3, 2).to("cuda")(gpu(1, 1, 3), (cpu(1, 1, 2), cpu(1, 1, 2))),
        "found input tensor at cuda:0 and hidden tensor at cpu",
    ),
    "lstm, its input": (
        lambda: nn.LSTM(3, 2).to("cuda")(cpu(1, 1, 3)),
        "found input tensor at cpu and parameter tensor at cuda:0",
    ),
    "attention": (
        lambda: F.scaled_dot_product_attention(gpu(1, 1, 2, 4), gpu(1, 1, 2, 4), cpu(1, 1, 2, 4)),
        "Expected query, key, and value to have the same device type",
    ),
    "grid sample": (
        lambda: F.grid_sample(gpu(1, 1, 2, 2), cpu(1, 2, 2, 2), align_corners=False),
        "grid is on cpu",
    ),
    "foreach": (lambda: torch._foreach_add([gpu(2)], [cpu(2)]), "two devices"),
    "lengths on the device": (
        lambda: nn.utils.rnn.pack_padded_sequence(gpu(2, 1, 3), gpu_index(1) + 2),
        "'lengths' argument should be a 1D CPU int64 tensor, but got 1D cuda:0 Long tensor",
    ),
    "gradient elsewhere": (
        lambda: setattr(gpu(2).requires_grad_(), "grad", cpu(2)),
        "assigned grad has data located",
    ),
    "numpy": (lambda: gpu(2).numpy(), "can't convert cuda:0 device type tensor to numpy."),
    "generator": (
        lambda: torch.randn(2, device="cuda", generator=torch.Generator()),
        "Expected a 'cuda' device type",
    ),
    "pinned": (lambda: gpu(2).pin_memory(), "cannot pin 'torch.cuda.FloatTensor' only dense CPU tensors"),
}


def test_there_are_enough_of_them() -> None:
    assert len(ALLOWED) + len(REFUSED) >= 57


@pytest.mark.parametrize("name", sorted(ALLOWED))
def test_may_live_apart(name: str) -> None:
    with SimDevice("cuda") as sim:
        ALLOWED[name]()
    assert sim.recorder.of("mix") == []


@pytest.mark.parametrize("name", sorted(REFUSED))
def test_must_live_together(name: str) -> None:
    program, part = REFUSED[name]
    with SimDevice("cuda"), pytest.raises((RuntimeError, TypeError)) as caught:
        program()
    if hooks.CHECK_NAMES_THE_OUTLIER or "is on " not in part:
        assert part in str(caught.value)


def test_two_accelerators_are_apart_as_well() -> None:
    with SimDevice("cuda", count=2):
        first, second = torch.ones(2, 2, device="cuda:0"), torch.ones(2, 2, device="cuda:1")
        with pytest.raises(RuntimeError, match="cuda:0 and cuda:1!"):
            first + second
        with pytest.raises(RuntimeError, match="cuda:1"):
            first @ second
        with pytest.raises(RuntimeError, match="cuda:0 and cuda:1!"):
            first + second.sum()


def test_a_mix_in_backward_is_found_at_the_users_line() -> None:
    class Wrong(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
            return x * 2

        @staticmethod
        def backward(ctx: Any, grad: torch.Tensor) -> torch.Tensor:
            return grad * torch.ones(3)

    with SimDevice("cuda", files=[__file__]) as sim:
        x = torch.ones(3, device="cuda", requires_grad=True)
        with pytest.raises(RuntimeError, match="cuda:0 and cpu"):
            Wrong.apply(x).sum().backward()
    (mix,) = sim.recorder.of("mix")
    assert mix.line == Wrong.backward.__code__.co_firstlineno + 2
    assert mix.source == "cpu"


@pytest.mark.parametrize(
    "program, text",
    [
        (lambda: torch.ones(2, device="mps") + torch.ones(2), "two devices, mps:0 and cpu!"),
        (
            lambda: nn.Linear(2, 2).to("mps")(torch.ones(1, 2)),
            "Placeholder storage has not been allocated on MPS",
        ),
        (lambda: nn.Conv2d(1, 1, 1).to("mps")(torch.ones(1, 1, 1, 1)), "weight type (MPSFloatType)"),
    ],
)
def test_texts_of_mps(program: Callable[[], Any], text: str) -> None:
    with SimDevice("mps"), pytest.raises(RuntimeError) as caught:
        program()
    assert text in str(caught.value)
