"""The verdict on a wait does not hang on how the code is written."""

from __future__ import annotations

import pytest
from checking import reported_lines
from steps import texts

PLAIN = """
import torch
import torch.nn.functional as F
def train(model, loader, optimizer, device):
    total = 0.0
    for x, y in loader:
        loss = F.cross_entropy(model(x.to(device)), y.to(device))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.item()
    return total
"""

SAME = {
    "other names": ("loss", "verlust"),
    "a loss from elsewhere": ("F.cross_entropy(", "criterion("),
    "an alias of torch": ("import torch.nn.functional as F", "from torch.nn import functional as F"),
    "a keyword": ("y.to(device))", "target=y.to(device))"),
    "an enumeration": ("for x, y in loader:", "for step, (x, y) in enumerate(loader):"),
    "a progress bar": ("for x, y in loader:", "for x, y in tqdm(loader, desc='train'):"),
    "a batch that is unpacked later": ("for x, y in loader:", "for batch in loader:\n        x, y = batch"),
    "a batch of keys": ("for x, y in loader:", "for batch in loader:\n        x, y = batch['x'], batch['y']"),
    "annotations": (
        "model, loader, optimizer, device",
        "model: torch.nn.Module, loader, optimizer: torch.optim.Optimizer, device: torch.device",
    ),
    "a scaler": (
        "loss.backward()\n        optimizer.step()",
        "scaler.scale(loss).backward()\n        scaler.step(optimizer)",
    ),
    "accelerate": ("loss.backward()", "accelerator.backward(loss)"),
    "a range": (
        "for x, y in loader:",
        "for i in range(0, 100, 10):\n        x, y = data[i:i + 10], labels[i:i + 10]",
    ),
    "a while loop": ("for x, y in loader:", "while True:\n        x, y = next(batches)"),
    "an autocast": (
        "loss = F.cross_entropy(model(x.to(device)), y.to(device))",
        "with torch.autocast('cuda'):\n            loss = F.cross_entropy(model(x.to(device)), y.to(device))",
    ),
    "an output of its own": (
        "loss = F.cross_entropy(model(x.to(device)), y.to(device))",
        "loss = model(x, labels=y).loss",
    ),
    "a comment": ("optimizer.step()\n", "optimizer.step()  # go\n"),
    "a test of the rank": ("total += loss.item()", "if rank == 0:\n            total += loss.item()"),
}


@pytest.mark.parametrize("change", SAME)
def test_a_read_is_reported_however_the_loop_is_written(change: str) -> None:
    old, new = SAME[change]
    assert old in PLAIN
    found = texts(PLAIN.replace(old, new), "DEV301")
    assert len(found) == 1
    assert ".item()" in found[0]


READS = [
    "loss.item()",
    "float(loss)",
    "loss.detach().item()",
    "loss.data.item()",
    "loss.detach().float().item()",
    "loss.mean().item()",
]


@pytest.mark.parametrize("read", READS)
@pytest.mark.parametrize(
    "use",
    [
        "total += {}",
        "total = total + {}",
        "value = {}\n        total += value",
        "history.append({})",
        "log(loss={})",
        "log({{'loss': {}}})",
        "print(f'{{{}:.3f}}')",
    ],
)
def test_a_read_is_reported_wherever_the_number_goes(read: str, use: str) -> None:
    code = PLAIN.replace("total += loss.item()", use.format(read))
    assert len(texts(code, "DEV301")) == 1


WRAPPED = {
    "a module": PLAIN.replace("def train(model, loader, optimizer, device):\n", "if True:\n"),
    "a method": PLAIN.replace("def train(", "class T:\n  def train(self, "),
    "a nested function": "def outer():\n" + "\n".join("    " + line for line in PLAIN.split("\n")),
    "an epoch loop": PLAIN.replace(
        "    for x, y in loader:", "    for epoch in range(3):\n      for x, y in loader:"
    ),
}


@pytest.mark.parametrize("place", WRAPPED)
def test_a_read_is_reported_wherever_the_loop_stands(place: str) -> None:
    assert len(reported_lines(WRAPPED[place], "DEV301")) == 1


GUARDS = [
    "if step % 10 == 0:", "if 0 == step % 10:", "if not step % 10:", "if not (step % 10):", "if (step + 1) % 10 == 0:",
    "if step % args.every == 0:", "if step % (len(loader) // 4) == 0:", "if step % 10 == 9:", "if step % 10 < 1:",
    "if step % 10 == 0 and rank == 0:", "if rank == 0 and step % 10 == 0:", "if step % 10 == 0 or step == last:",
    "if step > 0 and step % 10 == 0:", "if self.should_log(step):", "if step == 0:", "if writer and step % 10 == 0:",
]  # fmt: skip


@pytest.mark.parametrize("guard", GUARDS)
@pytest.mark.parametrize("negated", [False, True])
def test_a_guard_is_one_however_it_is_written(guard: str, negated: bool) -> None:
    loop = PLAIN.replace("for x, y in loader:", "for step, (x, y) in enumerate(loader):")
    if negated:
        test = guard.removeprefix("if ").removesuffix(":")
        inner = f"if not ({test}):\n            continue\n        total += loss.item()"
    else:
        inner = f"{guard}\n            total += loss.item()"
    assert texts(loop.replace("total += loss.item()", inner), "DEV301") == []
