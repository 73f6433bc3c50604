"""DEV404: what stands in an autocast region and should not, and regions that are none."""

from __future__ import annotations

import pytest
from checking import expect, findings

from torchlint.findings import Severity

CODE = "DEV404"


def test_a_backward_under_autocast_is_told() -> None:
    code = """
        import torch
        def step(net, x, scaler):
            with torch.autocast("cuda"):
                loss = net(x).mean()
                scaler.scale(loss).backward()  # <-
        """
    expect(code, CODE)
    assert [f.severity for f in findings(code, CODE)] == [Severity.INFO]


@pytest.mark.parametrize(
    "region",
    [
        "torch.no_grad()",
        'torch.autocast("cuda", enabled=False)',
        "torch.cuda.amp.autocast(False)",
        "nullcontext()",
    ],
)
def test_a_backward_in_another_region_is_silent(region: str) -> None:
    expect(f"import torch\ndef step(net, x):\n    with {region}:\n        net(x).mean().backward()\n", CODE)


def test_a_backward_behind_the_region_is_silent() -> None:
    expect(
        """
        import torch
        def step(net, x):
            with torch.autocast("cuda"):
                loss = net(x).mean()
            loss.backward()
        """,
        CODE,
    )


def test_a_region_switched_off_inside_another_is_off() -> None:
    expect(
        """
        import torch
        import torch.nn.functional as F
        def step(net, x, y):
            with torch.autocast("cuda"):
                out = net(x)
                with torch.autocast("cuda", enabled=False):
                    return F.binary_cross_entropy(out.float().sigmoid(), y)
        """,
        CODE,
    )


@pytest.mark.parametrize("how", ["F.binary_cross_entropy(out, y)", "nn.BCELoss()(out, y)", "loss_of(out, y)"])
@pytest.mark.parametrize(
    "region, mark", [('torch.autocast("cuda")', "  # <-"), ("torch.autocast('cpu')", "")]
)
def test_cross_entropy_of_probabilities_is_refused_by_cuda_autocast(how: str, region: str, mark: str) -> None:
    expect(
        f"""
        import torch
        from torch import nn
        import torch.nn.functional as F
        def step(net, x, y):
            loss_of = nn.BCELoss()
            with {region}:
                out = torch.sigmoid(net(x))
                return {how}{mark}
        """,
        CODE,
    )


def test_a_dropped_autocast_is_reported() -> None:
    expect('import torch\ndef f(net, x):\n    torch.autocast("cuda")  # <-\n    return net(x)\n', CODE)


def test_tests_may_go_backward_under_autocast() -> None:
    code = 'import torch\ndef test_it(net, x):\n    with torch.autocast("cuda"):\n        net(x).mean().backward()\n'
    assert findings(code, CODE, path="tests/test_net.py") == ()
