"""Reads behind a wait that the code means: the device has nothing left to do, and so they cost nothing."""

from __future__ import annotations

import pytest
from steps import IMPORTS, step, texts

from torchlint.findings import Confidence

CODES = ("DEV301", "DEV302", "DEV303")
READS = ["total += loss.item()", "kept.append(loss.detach().cpu())", "print(f'loss {loss:.3f}')"]


@pytest.mark.parametrize("read", READS)
def test_a_read_behind_a_wait_for_a_clock_is_silent(read: str) -> None:
    body = f"torch.cuda.synchronize()\n{read}\nmeter.update(time.time() - began)\nbegan = time.time()"
    assert texts("import time\n" + step(body, "began = time.time()"), *CODES) == []


@pytest.mark.parametrize(
    "between",
    ["again = model(x)", "loss = loss + output.mean()", "optimizer.step()", "output.mean().backward()"],
)
def test_a_read_with_work_between_is_reported(between: str) -> None:
    body = f"torch.cuda.synchronize()\nmeter.update(time.time() - began)\n{between}\ntotal += loss.item()"
    assert texts("import time\n" + step(body, "began = time.time()"), *CODES) == ["total += loss.item()"]


def test_a_wait_that_comes_now_and_then_spares_no_read() -> None:
    body = "if step % 50 == 0:\n    torch.cuda.synchronize()\n    print(time.time() - began)\ntotal += loss.item()"
    assert texts("import time\n" + step(body, "began = time.time()"), *CODES) == ["total += loss.item()"]


def test_a_wait_that_nothing_asks_for_is_no_reason_for_a_read_behind_it() -> None:
    assert texts(step("torch.cuda.synchronize()\ntotal += loss.item()"), *CODES) == ["total += loss.item()"]


EPOCHS = (
    IMPORTS
    + """
model = nn.Linear(3, 3).to(device)
optimizer = torch.optim.Adam(model.parameters())

def train():
    optimizer.zero_grad()
    loss = F.mse_loss(model(x.to(device)), y.to(device))
    loss.backward()
    optimizer.step()
    return loss

@torch.no_grad()
def test():
    out = model(x.to(device))
    {score}

for epoch in range(100):
    loss = train()
    {first}
    {second}
    print(f'loss {{loss:.3f}}')
"""
)


def test_a_read_behind_an_evaluation_that_reads_its_score_is_silent() -> None:
    code = EPOCHS.format(score="return out.argmax(1).eq(y).sum().item()", first="score = test()", second="pass")
    assert texts(code, *CODES) == []


@pytest.mark.parametrize(
    ("score", "first", "second"),
    [
        ("return out.mean()", "score = test()", "pass"),
        ("return out.mean().item()", "pass", "pass"),
        ("return out.mean().item()", "score = test()", "loss = train()"),
        ("return out.mean().item()", "if epoch % 10 == 0:", "    test()"),
    ],
)
def test_a_read_behind_no_such_evaluation_is_reported(score: str, first: str, second: str) -> None:
    code = EPOCHS.format(score=score, first=first, second=second)
    assert texts(code, "DEV303", sure=Confidence.LIKELY) == ["print(f'loss {loss:.3f}')"]


SEARCH = (
    IMPORTS
    + """
class Search(torch.optim.Optimizer):
    def step(self, closure):
        loss, t = closure(), 1.0
        loss.backward()
        while True:
            new = closure()
            if new > loss:
                t = t / 2
            elif new < loss - t:
                t = t * 2
            else:
                {last}
"""
)


def test_a_search_that_ends_by_what_it_compares_needs_the_numbers() -> None:
    within = "if new.item() > 3:\n                    t = t / 3\n                else:\n                    break"
    assert texts(SEARCH.format(last=within), "DEV303") == []
    assert texts(SEARCH.format(last="break"), "DEV303") == []
    assert texts(SEARCH.format(last="t = t / 3"), "DEV303") == [
        "if new > loss:",
        "elif new < loss - t:",
    ]
