"""Code around a training step, for tests of the rules about waits."""

from __future__ import annotations

import json
from textwrap import dedent, indent

import checking

from torchlint.findings import Confidence, Finding

IMPORTS = "import torch\nimport torch.nn.functional as F\nfrom torch import nn\n"


def findings(
    code: str, *codes: str, path: str = "train.py", sure: Confidence = Confidence.LIKELY
) -> list[Finding]:
    """What the rules `codes` find in a file."""
    return list(checking.findings(code, *codes, path=path, confidence=sure))


def texts(code: str, *codes: str, path: str = "train.py", sure: Confidence = Confidence.LIKELY) -> list[str]:
    """The lines that are reported, each as it stands in the code, `also` places left out."""
    lines = code.splitlines()
    return [lines[f.range.start.line - 1].strip() for f in findings(code, *codes, path=path, sure=sure)]


def step(body: str, before: str = "", after: str = "") -> str:
    """A training loop over batches: `body` stands behind the optimizer's step."""
    return (
        IMPORTS
        + "def train(model, loader, optimizer, criterion, device, writer=None, every=50):\n"
        + indent(dedent(before) or "pass", "    ")
        + "\n    for step, (x, y) in enumerate(loader):\n"
        + "        x, y = x.to(device), y.to(device)\n"
        + "        output = model(x)\n"
        + "        loss = criterion(output, y)\n"
        + "        optimizer.zero_grad()\n"
        + "        loss.backward()\n"
        + "        optimizer.step()\n"
        + indent(dedent(body), "        ")
        + "\n"
        + indent(dedent(after), "    ")
        + "\n"
    )


# A program that trains on the host: the brackets stand where a line may be marked.
PROGRAM = """
import torch
from torch import nn
model = nn.Linear(2, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x, y in loader:
    loss = (model(x) - y).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(loss.item()){}
"""


def notebook(*cells: str) -> str:
    """The text of a notebook with these cells of code."""
    made = [
        {"cell_type": "code", "source": source, "metadata": {}, "outputs": [], "execution_count": None}
        for source in cells
    ]
    return json.dumps({"cells": made, "metadata": {}, "nbformat": 4, "nbformat_minor": 5})
