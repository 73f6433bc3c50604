"""DEV111: which dropped calls of move helpers are reported."""

from __future__ import annotations

import pytest
from checking import expect, findings, fixed, reported_lines

from torchlint.findings import Confidence

CODE = "DEV111"

CONTAINERS = [
    "return {k: v.to(device) for k, v in batch.items()}",
    "return {k: v.to(device) if hasattr(v, 'to') else v for k, v in batch.items()}",
    "return [v.to(device) for v in batch]",
    "return tuple(v.to(device) for v in batch)",
    "return type(batch)(v.to(device) for v in batch)",
    "moved = {}\n    for k, v in batch.items():\n        moved[k] = v.to(device)\n    return moved",
    "moved = []\n    for v in batch:\n        moved.append(v.cuda())\n    return moved",
    "if isinstance(batch, dict):\n        return {k: move(v, device) for k, v in batch.items()}\n    return [v.to(device) for v in batch]",
]


@pytest.mark.parametrize("body", CONTAINERS)
def test_a_dropped_container_of_moved_copies_is_reported(body: str) -> None:
    code = f"import torch\ndef move(batch, device):\n    {body}\ndef step(model, batch, device):\n    move(batch, device)  # <-\n    return model(batch)\n"
    expect(code, CODE)
    assert "    batch = move(batch, device)" in fixed(code, CODE)


@pytest.mark.parametrize(
    "body",
    [
        "for k in batch:\n        batch[k] = batch[k].to(device)\n    return batch",
        "batch.x = batch.x.to(device)\n    return batch",
        "self.last = {k: v.to(device) for k, v in batch.items()}\n    return self.last",
        "log(batch)\n    return {k: v.to(device) for k, v in batch.items()}",
        "return sum(v.to(device) for v in batch)",
        "return {k: v for k, v in batch.items()}",
    ],
)
def test_a_function_that_does_more_or_less_is_silent(body: str) -> None:
    expect(
        f"import torch\ndef move(batch, device, self, log):\n    {body}\ndef step(model, batch, device):\n    move(batch, device, 1, print)\n    return model(batch)\n",
        CODE,
    )


@pytest.mark.parametrize(
    "argument, reported",
    [("torch.ones(3)", True), ("torch.nn.Linear(2, 2)", False), ("other", False)],
)
def test_a_helper_that_moves_its_argument_depends_on_what_it_gets(argument: str, reported: bool) -> None:
    code = f"import torch\ndef send(x, device):\n    return x.to(device)\ndef step(other, device):\n    x = {argument}\n    send(x, device)\n    return x\n"
    assert bool(findings(code, CODE)) is reported


def test_helpers_of_libraries_are_known() -> None:
    expect(
        """
        import torch
        from accelerate.utils import send_to_device
        def step(batch, device):
            x = torch.ones(3)
            send_to_device(x, device)  # <-
            return x
        """,
        CODE,
    )


def test_a_method_and_its_class() -> None:
    expect(
        """
        class Batch:
            def __init__(self, x, y):
                self.x, self.y = x, y
            def to(self, device):
                return Batch(self.x.to(device), self.y.to(device))
        class Moving:
            def __init__(self, x):
                self.x = x
            def to(self, device):
                self.x = self.x.to(device)
                return self
        def step(x, y, device):
            batch, moving = Batch(x, y), Moving(x)
            batch.to(device)  # <-
            moving.to(device)
            return batch, moving
        """,
        CODE,
    )


def test_a_filter_shifts_what_is_taken_apart_by_position() -> None:
    expect(
        """
        def one(batch, device):
            *inputs, target = [v.to(device) for v in batch if hasattr(v, "to")]  # <-
            return inputs, target
        def two(model, batch, device):
            moved = tuple(v.to(device) for v in batch if hasattr(v, "to"))  # <-
            return model(*moved)
        """,
        CODE,
    )


def test_a_filter_alone_is_possible_only() -> None:
    code = "def one(batch, device):\n    return {k: v.to(device) for k, v in batch.items() if hasattr(v, 'to')}\n"
    assert findings(code, CODE) == ()
    assert reported_lines(code, CODE, confidence=Confidence.POSSIBLE) == [2]


def test_a_helper_that_binds_its_own_name_moves_nothing() -> None:
    expect(
        """
        import torch
        def send(x, device):
            x = x.to(device)
        def step(device):
            x = torch.ones(3)
            send(x, device)  # <-
            model = torch.nn.Linear(2, 2)
            send(model, device)
            return model(x)
        """,
        CODE,
    )


def test_what_nothing_else_holds_may_be_moved_in_vain() -> None:
    expect(
        """
        import torch
        def send(x, device):
            return x.to(device)
        def warm_up(device):
            send(torch.ones(3), device)
        """,
        CODE,
    )


def test_a_helper_that_binds_its_own_names_leaves_the_parts_of_a_batch_where_they_are() -> None:
    expect(
        """
        def send(x, y, device):
            x = x.to(device)
            y = y.to(device)
        def run(model, loader, device):
            for x, y in loader:
                send(x, y, device)  # <-
                model(x).sub(y)
        """,
        CODE,
    )


def test_a_function_that_trains_is_no_helper_that_moves() -> None:
    expect(
        """
        import torch
        def train_step(model: torch.nn.Module, loader, optimizer, device):
            total = 0
            for x, y in loader:
                x, y = x.to(device), y.to(device)
                loss = (model(x) - y).mean()
                loss.backward()
                optimizer.step()
                total += loss.item()
            accuracy = total / len(loader)
            return total, accuracy
        def train(model, loader, optimizer, device):
            results = {"loss": []}
            for epoch in range(3):
                loss, accuracy = train_step(model, loader, optimizer, device)
                results["loss"].append(loss)
            return results
        train(model=model, loader=loader, optimizer=optimizer, device=device)
        """,
        "DEV111",
    )


@pytest.mark.parametrize("test", ["torch.cuda.is_available()", "use_cuda", "isinstance(x, torch.Tensor)"])
def test_a_helper_that_moves_under_a_test_hands_back_the_moved_copy(test: str) -> None:
    expect(
        f"""
        import torch
        def send(x, use_cuda):
            if {test}:
                x = x.cuda()
            return x
        def train(model, loader):
            for x, y in loader:
                send(x, True)  # <-
                send(y, True)  # <-
                model(x, y).backward()
        def build(model):
            model = torch.nn.Linear(2, 2)
            send(model, True)
            return model
        """,
        CODE,
    )
