"""DEV102: what is a tensor, an index, a number or an empty stand-in, and so joins or does not."""

from __future__ import annotations

import pytest
from checking import expect, findings, reported_lines

CODE = "DEV102"


@pytest.mark.parametrize("constant", ["math.pi", "np.pi", "torch.pi", "np.inf"])
def test_constants_of_libraries_are_numbers(constant: str) -> None:
    expect(
        f"""
        import math
        import numpy as np
        import torch
        def encode(v: torch.Tensor, m):
            scale = 2 * {constant} * torch.arange(m)  # <-
            return scale * v.to(v.device)
        """,
        CODE,
    )


def test_tokens_that_nobody_moved_meet_a_model_that_was_moved() -> None:
    expect(
        """
        class Scorer:
            def __init__(self, model, tokenizer, device):
                self.device = device
                self.model = model.to(device).eval()
                self.tokenizer = tokenizer
            def score(self, text):
                ids = self.tokenizer(text, return_tensors="pt")["input_ids"]
                return self.model(ids).logits  # <-
            def score_moved(self, text):
                batch = self.tokenizer(text, return_tensors="pt").to(self.device)
                return self.model(batch["input_ids"]).logits
        """,
        CODE,
    )


def test_a_table_on_the_host_cannot_be_indexed_from_elsewhere() -> None:
    expect(
        """
        import torch
        class Schedule:
            def __init__(self, n):
                self.alphas = torch.linspace(0, 1, n).cumprod(0)
            def at(self, t: torch.Tensor):
                t = t.to("cuda")
                return self.alphas[t]  # <-
            def at_moved(self, t: torch.Tensor):
                t = t.to("cuda")
                return self.alphas.to(t.device)[t]
            def at_number(self, t: torch.Tensor):
                return self.alphas[t.to("cuda").argmax()]
        """,
        CODE,
    )


@pytest.mark.parametrize("made", ["torch.arange(0, 3)", "torch.linspace(0, 1, 3)", "torch.full((3,), 0)"])
def test_a_tensor_that_begins_with_zero_is_not_empty(made: str) -> None:
    expect(
        f"""
        import torch
        def match(similarity: torch.Tensor):
            if similarity.shape[0] == 0:
                return {made}  # <-
            best = similarity.argmax(dim=0)
            return best
        """,
        CODE,
    )


def test_an_index_that_was_none_and_is_made_is_not_none() -> None:
    code = """
        import torch

        class Scheduler:
            def __init__(self):
                self._step_index = None

            def set_timesteps(self, n):
                self.sigmas = torch.linspace(0, 1, n).to("cpu")
                self._step_index = None

            def first(self, timestep):
                self._step_index = int(timestep)

            @property
            def step_index(self) -> int:
                return self._step_index

            def step(self, output: torch.Tensor, timestep, device):
                output = output.to(device)
                if self.step_index is None:
                    self.first(timestep)
                sigma = self.sigmas[self.step_index]
                return output * (sigma**2 + 1) ** 0.5
    """
    assert not findings(code, CODE)


@pytest.mark.parametrize(
    "use",
    [
        "scores.gather(1, labels.view(-1, 1))",
        "scores.masked_fill(labels, 0)",
        "torch.nn.functional.nll_loss(scores, labels.view(-1))",
        "scores.sum() + torch.where(labels.bool(), 1.0, 0.0)",
    ],
)
def test_what_methods_and_functions_take_as_tensors_are_tensors(use: str) -> None:
    expect(
        f"""
        import torch
        def objective(scores: torch.Tensor, labels, device):
            part = torch.eye(10)  # <-
            chosen = part[labels.reshape(-1)]
            return {use}
        """,
        CODE,
    )


def test_what_has_a_shape_and_joins_a_tensor_is_one() -> None:
    expect(
        """
        import torch
        def attribute(model, x, baseline=None):
            if baseline is None:
                baseline = torch.zeros(x.shape)  # <-
            return model(x - baseline)
        """,
        CODE,
    )


def test_an_array_has_a_shape_too_and_is_made_a_tensor_first() -> None:
    code = """
        import torch
        def attribute(model, x):
            baseline = torch.zeros(x.shape)
            x = torch.from_numpy(x)
            return model(x - baseline)
        """
    assert not findings(code, CODE)


@pytest.mark.parametrize(
    "use",
    [
        "torch.sqrt(self.table[t])[:, None, None]",
        "self.table[t].view(-1, 1, 1)",
        "self.table[t].sqrt().reshape(-1, 1, 1)",
    ],
)
def test_an_index_whose_numbers_are_laid_out_along_a_batch_is_a_tensor(use: str) -> None:
    expect(
        f"""
        import torch
        class Scheduler:
            def __init__(self, n, device):
                self.device = device
                self.table = 1 - torch.linspace(0, 1, n)
            def scale(self, t):
                return {use}  # <-
        """,
        CODE,
    )


@pytest.mark.parametrize("use", ["self.table[i]", "self.table[i] * 2", "self.rows[i].view(-1, 1)"])
def test_an_index_of_which_nothing_is_known_may_be_a_number(use: str) -> None:
    code = f"""
        import torch
        class Scheduler:
            def __init__(self, n):
                self.table = torch.linspace(0, 1, n)
                self.rows = [torch.ones(3) for _ in range(n)]
            def scale(self, x: torch.Tensor, i):
                return x.sum() * {use}
        """
    assert not [f for f in findings(code, CODE) if "joins `i`" in f.message]


def test_the_classes_of_a_batch_pick_rows_of_an_identity_matrix() -> None:
    code = """
        import torch
        from torch import nn
        class Loss(nn.Module):
            def forward(self, logits, target):
                return (torch.eye(10)[target] * logits.log()).sum(1)
        """
    assert reported_lines(code, "DEV102", "DEV201") == [6]


def test_the_dimension_that_a_function_takes_is_no_tensor() -> None:
    code = """
        import torch
        def select(rows: torch.Tensor, dim, index):
            if torch.arange(2).sum() != dim:
                index = index.unsqueeze(dim)
            return torch.gather(rows, dim, index)
        def use(rows, device):
            return select(rows, torch.ones(3, device=device), rows)
        """
    assert not findings(code, CODE)


@pytest.mark.parametrize(("indices", "reported"), [("torch.arange(3)", False), ("torch.arange(6).reshape(2, 3)", True)])
def test_an_element_of_a_range_picks_one_row(indices: str, reported: bool) -> None:
    code = f"""
        import torch
        def pool(states: torch.Tensor, device):
            states = states.to(device)
            result = torch.zeros(3, 4)
            for i in {indices}:
                result[i] = states[i].mean(0)
            return result
    """
    assert bool(findings(code, CODE)) is reported


def test_a_count_is_a_number_and_what_is_computed_from_it_too() -> None:
    expect(
        """
        import math
        import torch
        def embed(timesteps: torch.Tensor, width):
            half = width // 2
            emb = math.log(10000) / (half - 1)
            emb = torch.exp(torch.arange(half, dtype=torch.float32) * -emb)
            emb = emb.to(device=timesteps.device)
            emb = timesteps.float()[:, None] * emb[None, :]
            if width % 2 == 1:
                emb = torch.nn.functional.pad(emb, (0, 1, 0, 0))
            return emb
        """,
        "DEV102",
    )


def test_a_row_that_a_single_number_picks_is_copied_into() -> None:
    expect(
        """
        import torch
        def assign(overlap: torch.Tensor, device):
            overlap = overlap.to(device)
            gone = torch.full((overlap.shape[0],), -1)
            best = torch.argmax(overlap)
            column = (best % 3).long()
            overlap[:, column] = gone
            return overlap
        def assign_many(overlap: torch.Tensor, device):
            overlap = overlap.to(device)
            gone = torch.full((overlap.shape[0],), -1)  # <-
            columns = torch.argmax(overlap, dim=1)
            overlap[columns] = gone
            return overlap
        """,
        "DEV102",
    )
