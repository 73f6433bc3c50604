"""DEV401: which float16 regions are reported, and the many reasons for silence."""

from __future__ import annotations

import pytest
from checking import expect, findings

CODE = "DEV401"


def loop(
    region: str, *, backward: str = "loss.backward()", step: str = "optimizer.step()", head: str = ""
) -> str:
    return f"""
import torch
{head}
def train(net, batches, optimizer, use_amp=True, dtype=torch.float16, device="cuda"):
    for batch in batches:
        optimizer.zero_grad()
        with {region}:
            loss = net(batch).mean()
        {backward}
        {step}
"""


@pytest.mark.parametrize(
    "region",
    [
        'torch.autocast("cuda", dtype=torch.float16)',
        'torch.autocast(device_type="cuda", dtype=torch.half)',
        'torch.autocast("cuda")',
        'torch.autocast("mps")',
        "torch.cuda.amp.autocast()",
        "torch.cuda.amp.autocast(True)",
        "torch.autocast(device, torch.float16)",
        'torch.amp.autocast("cpu", dtype=torch.float16)',
        'torch.autocast("cuda", dtype=None)',
    ],
)
def test_float16_that_nothing_scales_is_reported(region: str) -> None:
    expect(loop(region).replace(f"with {region}:", f"with {region}:  # <-"), CODE)


@pytest.mark.parametrize(
    "region",
    [
        'torch.autocast("cuda", dtype=torch.bfloat16)',
        'torch.autocast("cpu")',
        "torch.autocast(device)",
        'torch.autocast("cuda", dtype=dtype)',
        'torch.autocast("cuda", enabled=use_amp)',
        "torch.cuda.amp.autocast(use_amp)",
        "torch.cuda.amp.autocast(enabled=False)",
        "torch.cuda.amp.autocast(**options)",
        "some_context()",
    ],
)
def test_a_region_that_is_not_surely_float16_is_silent(region: str) -> None:
    expect(loop(region), CODE)


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"backward": "(loss * loss_scale).backward()"}, id="scaled by hand"),
        pytest.param({"backward": "(1024 * loss).backward()"}, id="scaled by a number"),
        pytest.param({"backward": "backward(loss)"}, id="a helper that is not seen goes backward"),
        pytest.param({"backward": "accelerator.backward(loss)"}, id="a framework goes backward"),
        pytest.param({"step": "pass"}, id="nothing steps"),
        pytest.param(
            {"backward": "loss_scaler(loss, optimizer)", "step": "pass"}, id="a scaler of another file"
        ),
        pytest.param(
            {"backward": "scaled_loss = scale_loss(loss)\n        scaled_loss.backward()"},
            id="a scaling helper",
        ),
        pytest.param({"head": "import deepspeed"}, id="deepspeed"),
        pytest.param({"head": "from accelerate import Accelerator"}, id="accelerate"),
        pytest.param({"head": "import lightning as L"}, id="lightning"),
        pytest.param(
            {"backward": "loss.detach().float().requires_grad_().backward()"}, id="the graph is cut"
        ),
        pytest.param(
            {"backward": "(self_scaler.scale(loss) if use_amp else loss).backward()"},
            id="a scaler in a branch",
        ),
    ],
)
def test_where_a_scaler_may_be_at_work_it_is_silent(changes: dict[str, str]) -> None:
    expect(loop("torch.cuda.amp.autocast()", **changes), CODE)


def test_what_is_computed_without_gradients_is_silent() -> None:
    expect(
        """
        import torch
        def distil(teacher, net, batches, optimizer):
            for batch in batches:
                with torch.no_grad(), torch.autocast("cuda", dtype=torch.float16):
                    wanted = teacher(batch)
                loss = (net(batch) - wanted).pow(2).mean()
                loss.backward()
                optimizer.step()
        """,
        CODE,
    )


def test_another_loss_than_the_regions_is_silent() -> None:
    expect(
        """
        import torch
        def train(net, batches, optimizer):
            for batch in batches:
                loss = net(batch).mean()
                loss.backward()
                optimizer.step()
                with torch.autocast("cuda"):
                    seen = net(batch).mean()
                print(seen)
        """,
        CODE,
    )


@pytest.mark.parametrize(
    "code",
    [
        pytest.param(
            """
            import torch
            def compute(net, batch):
                with torch.cuda.amp.autocast():  # <-
                    out = net(batch)
                    return out.mean()
            def train(net, batches, sgd):
                for batch in batches:
                    sgd.zero_grad()
                    compute(net, batch).backward()
                    sgd.step()
            """,
            id="in a helper",
        ),
        pytest.param(
            """
            import torch as th
            from torch import nn
            class Net(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.linear = nn.Linear(3, 1)
                @th.autocast("cuda", dtype=th.float16)  # <-
                def forward(self, x):
                    return self.linear(x)
            def train(batches):
                net = Net().cuda()
                optimizer = th.optim.SGD(net.parameters(), lr=0.1)
                for batch in batches:
                    optimizer.zero_grad()
                    loss = net(batch.cuda()).sum()
                    loss.backward()
                    optimizer.step()
            """,
            id="around forward",
        ),
        pytest.param(
            """
            import torch
            class Trainer:
                def __init__(self, net):
                    self.net = net
                    self.optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
                    self.context = torch.autocast("cuda", dtype=torch.float16)  # <-
                def loss(self, batch):
                    with self.context:
                        return self.net(batch).mean()
                def fit(self, batches):
                    for batch in batches:
                        self.optimizer.zero_grad()
                        value = self.loss(batch) / 2
                        torch.autograd.backward([value])
                        self.optimizer.step()
            """,
            id="in attributes and methods",
        ),
    ],
)
def test_helpers_methods_and_decorators_are_followed(code: str) -> None:
    expect(code, CODE)


def test_tests_are_silent() -> None:
    assert findings(loop("torch.cuda.amp.autocast()"), CODE, path="tests/test_train.py") == ()
