"""DEV305: times taken of device work that nobody waited for."""

from __future__ import annotations

import pytest
from checking import expect

CODE = "DEV305"
HEAD = "import time\nimport torch\nfrom torch import nn\n"


@pytest.mark.parametrize("clock", ["time.time()", "time.perf_counter()", "time.monotonic()"])
def test_a_model_that_is_timed_without_a_wait(clock: str) -> None:
    expect(
        HEAD
        + f"def latency(model, x, device):\n    x = x.to(device)\n    t0 = {clock}\n    model(x)\n"
        + f"    t1 = {clock}\n    return t1 - t0  # <-\n",
        CODE,
    )


def test_rounds_over_a_range_are_timed_without_a_wait() -> None:
    expect(
        HEAD
        + "def latency(x, n):\n    model = nn.Linear(3, 3).cuda()\n    start = time.time()\n    for _ in range(n):\n"
        + "        y = model(x.cuda())\n    print((time.time() - start) / n)  # <-\n",
        CODE,
    )


def test_forward_and_backward_of_one_step_are_timed_without_a_wait() -> None:
    expect(
        HEAD
        + "def train(model, loader, optimizer, device):\n    for x in loader:\n        start = time.time()\n"
        + "        loss = model(x.to(device)).mean()\n        forward = time.time() - start  # <-\n"
        + "        loss.backward()\n        optimizer.step()\n        print(forward)\n",
        CODE,
    )


@pytest.mark.parametrize(
    "wait",
    [
        "torch.cuda.synchronize()",
        "y.cpu()",
        "y.sum().item()",
        "print(y)",
        "check(y)",
        "torch.cuda.current_stream().synchronize()",
    ],
)
def test_what_waits_makes_it_right(wait: str) -> None:
    expect(
        HEAD
        + "def latency(model, x, device):\n    x = x.to(device)\n    start = time.time()\n    y = model(x)\n"
        + f"    {wait}\n    return time.time() - start\n",
        CODE,
    )


def test_a_model_on_the_host_needs_no_wait() -> None:
    expect(
        HEAD
        + "def latency():\n    model = nn.Linear(3, 3)\n    x = torch.ones(3)\n    start = time.time()\n    model(x)\n"
        + "    return time.time() - start\n",
        CODE,
    )


def test_an_epoch_is_long_enough() -> None:
    expect(
        HEAD
        + "def fit(model, loader, optimizer, device):\n    start = time.time()\n    for x in loader:\n"
        + "        loss = model(x.to(device)).mean()\n        loss.backward()\n        optimizer.step()\n"
        + "    print(time.time() - start)\n",
        CODE,
    )


def test_loading_is_no_device_work() -> None:
    expect(
        HEAD
        + "def fit(model, loader, optimizer, device):\n    end = time.time()\n    for x in loader:\n"
        + "        print(time.time() - end)\n        loss = model(x.to(device)).mean()\n        loss.backward()\n"
        + "        optimizer.step()\n        print(loss.item())\n        end = time.time()\n",
        CODE,
    )


def test_a_hook_at_the_end_of_a_batch_has_to_wait() -> None:
    code = (
        "import time\nimport lightning as L\nimport torch\nclass Speed(L.Callback):\n"
        "    def on_train_batch_start(self, trainer, module, batch, index):\n        self.start = time.time()\n"
        "    def on_train_batch_end(self, trainer, module, outputs, batch, index):\n        {}\n"
        "        seconds = time.time() - self.start{}\n"
    )
    expect(code.format("pass", "  # <-"), CODE)
    expect(code.format("torch.cuda.synchronize()", ""), CODE)


def test_events_have_to_happen_first() -> None:
    code = (
        HEAD
        + "def latency(model, x, device):\n    start = torch.cuda.Event(enable_timing=True)\n"
        + "    end = torch.cuda.Event(enable_timing=True)\n    start.record()\n    model(x)\n    end.record()\n"
        + "    {}\n    return start.elapsed_time(end){}\n"
    )
    expect(code.format("pass", "  # <-"), CODE)
    for wait in ("torch.cuda.synchronize()", "end.synchronize()"):
        expect(code.format(wait, ""), CODE)


def test_a_date_is_a_clock_too() -> None:
    code = "import datetime\n" + HEAD
    code += "def latency(model, x, device):\n    x = x.to(device)\n    t0 = datetime.datetime.now()\n    model(x)\n"
    expect(code + "    return datetime.datetime.now() - t0  # <-\n", CODE)


@pytest.mark.parametrize("work", ["loss.backward()", "c = a @ a", "c = torch.matmul(a, a)"])
def test_other_work_of_the_device(work: str) -> None:
    expect(
        HEAD
        + "def bench(model):\n    a = torch.ones(9, 9, device='cuda')\n    loss = model(a)\n    start = time.time()\n"
        + f"    {work}\n    print(f'{{time.time() - start}}')  # <-\n",
        CODE,
    )


def test_a_backward_on_the_host_needs_no_wait() -> None:
    expect(
        HEAD
        + "def bench():\n    x = torch.ones(3, requires_grad=True)\n    y = nn.Linear(3, 3)(x)\n    start = time.time()\n"
        + "    y.sum().backward()\n    print(time.time() - start)\n",
        CODE,
    )
