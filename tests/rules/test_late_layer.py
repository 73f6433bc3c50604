"""DEV118: what a Module gets after it was moved; DEV105 and DEV116 where the copy or the wrapper goes elsewhere."""

from __future__ import annotations

import pytest
from checking import expect

HEAD = """import torch
from torch import nn
from torchvision import models
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.head = nn.Linear(3, 1)
    def forward(self, x):
        return self.head(x)
def work(x, device, other, place):
"""


@pytest.mark.parametrize(
    "made", ["models.resnet18().to(device)", "Net().cuda()", "nn.Sequential(nn.Linear(3, 3)).to('cuda')"]
)
@pytest.mark.parametrize(
    "late",
    [
        "net.head = nn.Linear(3, 7)",
        "net.body.fc = nn.Sequential(nn.Linear(3, 7), nn.ReLU())",
        "net.scale = nn.Parameter(torch.ones(3))",
        "net.register_buffer('scale', torch.ones(3))",
    ],
)
def test_what_a_moved_module_gets_is_reported(made: str, late: str) -> None:
    expect(f"{HEAD}    net = {made}\n    {late}  # <-\n    return net(x.to(device))\n", "DEV118")


@pytest.mark.parametrize(
    "lines",
    [
        "net = Net()\n    net.head = nn.Linear(3, 7)\n    net.to(device)\n    return net(x)",
        "net = Net().to(device)\n    net.head = nn.Linear(3, 7)\n    net.to(device)\n    return net(x)",
        "net = Net().to(device)\n    net.head = nn.Linear(3, 7)\n    net.head.cuda()\n    return net(x)",
        "net = Net().to(device)\n    net.head = nn.Linear(3, 7).to(device)\n    return net(x)",
        "net = Net().to(device)\n    net.head = nn.Linear(3, 7, device=device)\n    return net(x)",
        "net = Net().to(device)\n    net.head = nn.Identity()\n    return net(x)",
        "net = Net().to(device)\n    net.head = other\n    return net(x)",
        "net = Net().to(device)\n    net.head = nn.Linear(3, 7)\n    return net",
        "net = Net().to(device)\n    net.head = nn.Linear(3, 7)\n    place(net)\n    return net(x)",
        "net = Net().to('cpu')\n    net.head = nn.Linear(3, 7)\n    return net(x)",
    ],
)
def test_a_module_that_is_moved_later_or_gets_what_is_there_is_silent(lines: str) -> None:
    expect(f"{HEAD}    {lines}\n", "DEV118")


def test_an_optimizer_that_gets_the_moved_copy_of_a_leaf_is_reported() -> None:
    expect(
        """
        import torch
        def work(device):
            w = torch.randn(3, requires_grad=True)
            return torch.optim.SGD([w.to(device)], 0.1), w  # <-
        """,
        "DEV105",
    )


@pytest.mark.parametrize(
    "move, marked", [("net.to('cuda:1')", True), ("net.to('cuda:0')", False), ("net.cuda()", False)]
)
def test_a_wrapper_that_is_moved_off_its_first_device_is_reported(move: str, marked: bool) -> None:
    mark = "  # <-" if marked else ""
    code = f"{HEAD}    net = nn.DataParallel(Net(), device_ids=[0, 1])\n    {move}{mark}\n    return net(x)\n"
    expect(code, "DEV116")
