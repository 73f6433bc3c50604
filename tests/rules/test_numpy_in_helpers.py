"""DEV106: tensors that go to NumPy through helpers of the file; DEV103: buffers that are kept under other names."""

from __future__ import annotations

import pytest
from checking import expect

HELPERS = """
import numpy as np
import torch
from sklearn.metrics import roc_curve
def curve(labels, scores):
    return {call}{mark}
def evaluate(labels, scores):
    return curve(labels, scores)
class Trainer:
    def __init__(self, net):
        self.device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        self.net = net.to(self.device)
    def check(self, n):
        scores = torch.zeros(n, device=self.device)
        labels = torch.zeros(n, device=self.device)
        return evaluate({given})
"""


@pytest.mark.parametrize("call", ["roc_curve(labels, scores)", "np.asarray(scores)"])
def test_a_tensor_that_helpers_hand_to_numpy_is_reported(call: str) -> None:
    expect(HELPERS.format(call=call, given="labels, scores", mark="  # <-"), "DEV106")


@pytest.mark.parametrize("given", ["labels.cpu(), scores.cpu()", "labels.cpu().numpy(), scores.tolist()", "n, n"])
def test_what_is_copied_to_the_host_first_is_silent(given: str) -> None:
    expect(HELPERS.format(call="roc_curve(labels, scores)", given=given, mark=""), "DEV106")


def test_a_helper_that_nobody_calls_or_some_call_with_arrays_is_silent() -> None:
    expect(
        """
        import numpy as np
        import torch
        def alone(x):
            return np.asarray(x)
        def both(x):
            return np.asarray(x)
        def use(n, device):
            return both(torch.zeros(n, device=device)), both(np.zeros(n))
        """,
        "DEV106",
    )


BUFFERS = """
import torch
from torch import nn
class Net(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.kept = []
        for i in range(n):
            self.register_buffer(f"part_{{i}}", torch.rand(3))
            self.kept.append({kept}){mark}
    def forward(self, x):
        return [x * {read} for part in self.kept]
def work(x, device):
    return Net(3).to(device)(x.to(device))
"""


def test_a_list_of_buffers_by_computed_names_is_reported() -> None:
    code = BUFFERS.format(kept='getattr(self, f"part_{i}")', read="part", mark="")
    expect(code.replace("self.kept = []", "self.kept = []  # <-"), "DEV103")


def test_a_list_of_names_of_buffers_is_silent() -> None:
    expect(BUFFERS.format(kept='f"part_{i}"', read="getattr(self, part)", mark=""), "DEV103")


@pytest.mark.parametrize("call", ["plt.plot(kept)", "np.mean(kept)", "np.array(loss)", "np.log10(loss)"])
@pytest.mark.parametrize("within", [True, False])
def test_losses_that_go_to_numpy_with_their_graph_are_reported(call: str, within: bool) -> None:
    head = "import matplotlib.pyplot as plt\nimport numpy as np\nimport torch\n"
    body = f"""w = torch.ones(3, requires_grad=True)
kept = []
for i in range(9):
    loss = torch.nn.functional.mse_loss(w * i, w)
    loss.backward()
    kept.append(loss)
{call}  # <-
"""
    if within:
        body = "def train():\n" + "".join(f"    {line}\n" for line in body.splitlines())
    expect(head + body, "DEV106")


@pytest.mark.parametrize("kept", ["loss.item()", "loss.detach()", "float(loss)", "loss.data"])
def test_losses_without_their_graph_are_silent(kept: str) -> None:
    expect(
        f"""
        import matplotlib.pyplot as plt
        import torch
        w = torch.ones(3, requires_grad=True)
        kept = []
        for i in range(9):
            loss = torch.nn.functional.mse_loss(w * i, w)
            loss.backward()
            kept.append({kept})
        plt.plot(kept)
        """,
        "DEV106",
    )


def test_what_a_function_computes_may_have_no_graph_where_it_is_called() -> None:
    expect(
        """
        import numpy as np
        def score(net, x):
            return np.array(net(x)), np.mean([net(x)])
        """,
        "DEV106",
    )


def test_a_loss_of_what_needs_no_gradients_is_silent() -> None:
    expect(
        """
        import matplotlib.pyplot as plt
        import torch
        loss_of = torch.nn.L1Loss()
        kept = [loss_of(torch.tensor(i / 10), torch.tensor(0.0)) for i in range(9)]
        for i in range(9):
            kept.append(loss_of(torch.tensor(i / 10), torch.tensor(0.0)))
        plt.plot(kept)
        """,
        "DEV106",
    )
