"""DEV303: what looks like a wait and is none: types, keys, shapes and numbers that are on the host already."""

from __future__ import annotations

import pytest
from checking import expect
from steps import step, texts


def test_a_type_is_no_tensor() -> None:
    expect(
        """
        import torch
        from torch import nn
        class Block(nn.Module):
            def forward(self, x, image):
                dtype = torch.float16 if self.half_precision else torch.float32
                x = self.conv(x.to(dtype=dtype)) if x is not None else self.first(image)
                assert x.dtype == dtype
                return x
        """,
        "DEV303",
    )


def test_a_loop_that_ends_when_all_are_done_has_to_know() -> None:
    expect(
        """
        import torch
        from torch import nn
        class Ponder(nn.Module):
            def forward(self, x: torch.Tensor):
                halted = torch.zeros(x.shape[0], device=x.device)
                for step in range(9):
                    halted = halted + self.halt(x)
                    if halted.sum() == x.shape[0]:
                        break
                if halted.sum() > 3:  # <-
                    x = x + 1
                return x
        """,
        "DEV303",
    )


def test_what_forward_saved_on_the_host_is_read_there() -> None:
    expect(
        """
        import torch
        class Smoothed(torch.autograd.Function):
            @staticmethod
            def forward(ctx, logits: torch.Tensor, labels: torch.Tensor, smoothing=0.0):
                ctx.save_for_backward(logits, labels, torch.FloatTensor([smoothing]))
                return logits
            @staticmethod
            def backward(ctx, gradient):
                logits, labels, smoothing = ctx.saved_tensors
                if labels.max() > 3:  # <-
                    gradient = gradient * 2
                if smoothing > 0:
                    gradient = gradient + logits
                return gradient, None, None
        """,
        "DEV303",
    )


def test_keys_of_a_mapping_are_no_tensors() -> None:
    expect(
        """
        import torch
        from torch import nn
        class Relations(nn.Module):
            def forward(self, graph, features: torch.Tensor):
                found = {}
                for source, edge, target in graph.canonical_etypes:
                    found[(source, edge, target)] = torch.sigmoid(features * self.weight[edge])
                out = {}
                for source, edge, target in found:
                    out[target] = torch.stack([found[r] for r in found if r[2] == target])
                return out
        """,
        "DEV303",
    )


def test_keys_that_things_are_looked_up_by_are_no_tensors() -> None:
    expect(
        """
        import torch
        from torch import nn
        class Fused(nn.Module):
            def forward(self, blocks, features: torch.Tensor, weights):
                for block, layer in zip(blocks, self.layers):
                    features, weights = layer(block, features, weights)
                found = {e: features[(s, e, d)] for s, e, d in features if d == self.kind}
                for s, e, d in features:
                    if d == self.other:
                        found[d] = features[(s, e, d)]
                return found
        """,
        "DEV303",
    )


def test_what_is_compared_with_a_number_of_numpy_is_one() -> None:
    body = (
        "goal = model.act(x) if step > 3 else None\nif goal is None:\n    goal = output.max(1)[1]\n"
        "if goal != np.argmax(state):\n    seen = seen + 1"
    )
    assert texts("import numpy as np\n" + step(body, before="seen, state = 0, [1, 2]"), "DEV303") == []


@pytest.mark.parametrize(
    "shape, marked", [("torch.onnx.operators.shape_as_tensor(x)", ""), ("x.sum(0)", "  # <-")]
)
def test_a_shape_is_on_the_host(shape: str, marked: str) -> None:
    expect(
        f"""
        import torch
        from torch import nn
        class Positions(nn.Module):
            def forward(self, x: torch.Tensor):
                longest = 1 + {shape}[1]
                if longest > self.weights.size(0):{marked}
                    x = x + 1
                return x
        """,
        "DEV303",
    )


@pytest.mark.parametrize(
    ("later", "mark"),
    [
        ('batch["image"].to(device)', ""),
        ('batch["longer"].to(device)', ""),
        ('batch["image"].to(self.weight.dtype)', "  # <-"),
        ('batch["image"]', "  # <-"),
    ],
)
def test_a_part_of_what_is_still_to_be_sent_is_read_on_the_host(later: str, mark: str) -> None:
    expect(
        f"""
        import torch
        from torch import nn
        class Encoder(nn.Module):
            def forward(self, batch: torch.Tensor, device=None):
                if batch["longer"].sum() == 0:{mark}
                    raise ValueError("empty")
                return self.layers({later})
        """,
        "DEV303",
    )
