"""Real accelerators: the same requests without the simulator. Runs in full only where torch finds one."""

from __future__ import annotations

import pytest
import torch
from conftest import Replays
from test_mixing import ALLOWED, REFUSED

from torchlint.verify.protocol import Loop
from torchlint.verify.simdevice import RealDevice, SimDevice, find_accelerator

KIND = find_accelerator()
on_hardware = pytest.mark.skipif(KIND is None, reason="torch finds no accelerator here")
on_cuda = pytest.mark.skipif(KIND != "cuda", reason="torch finds no CUDA device here")

SOURCE = """
import torch
import torch.nn.functional as F
device = "KIND"
model = torch.nn.Linear(4, 3).to(device)
x = torch.randn(8, 4)
x.to(device)
for _ in range(4):
    loss = model(x.to(device)).mean()
    loss.backward()
    loss.item()
model(x)
"""


@on_hardware
def test_the_real_one_says_what_the_simulated_one_says(replay: Replays) -> None:
    source = SOURCE.replace("KIND", str(KIND))
    loops = (Loop("hot", 7, 4, then="break"),)
    real, simulated = (replay(source, how=how, kind=str(KIND), loops=loops) for how in ("real", "simulated"))
    assert real.device
    assert not real.device.startswith("simulated")
    for kind in ("sync", "mix"):
        assert [(e.line, e.count) for e in real.of(kind)] == [(e.line, e.count) for e in simulated.of(kind)]
    for answer in (real, simulated):
        assert answer.exception is not None
        assert answer.exception.line == 11
    assert {e.line for e in real.of("move")} == {e.line for e in simulated.of("move")}
    assert real.exception is not None
    assert simulated.exception is not None
    assert real.exception.message == simulated.exception.message


@on_cuda
@pytest.mark.parametrize("name", sorted(REFUSED))
def test_texts_of_errors(name: str) -> None:
    program, part = REFUSED[name]
    with pytest.raises((RuntimeError, TypeError, IndexError)) as real:
        program()
    with SimDevice("cuda"), pytest.raises((RuntimeError, TypeError)) as simulated:
        program()
    assert part in str(real.value)
    assert str(simulated.value).splitlines()[0] == str(real.value).splitlines()[0]


@on_cuda
@pytest.mark.parametrize("name", sorted(ALLOWED))
def test_what_is_allowed(name: str) -> None:
    with RealDevice() as observed:
        ALLOWED[name]()
    assert observed.disagreements == []


def test_a_real_replay_needs_a_device(replay: Replays) -> None:
    if KIND is not None:
        pytest.skip("there is one")
    exception = replay("x = 1", how="real").exception
    assert exception is not None
    assert exception.gap
    assert "no accelerator" in exception.message


def test_the_observer_changes_nothing_and_sees_the_host() -> None:
    """On the CPU, where all devices are one: creations and moves are seen, errors are torch's own."""
    with RealDevice(files=[__file__]) as observed:
        x = torch.tensor([1.0, 2.0]).to(torch.float64)
        assert x.sum().item() == 3.0
        marked = observed.mark(torch.ones(2), "x")
        assert observed.places.of(marked * 2).marks == {"x"}
        with pytest.raises((RuntimeError, NotImplementedError)):
            torch.ones(2) + torch.ones(2, device="meta")
        for _ in torch.utils.data.DataLoader([x], num_workers=2):
            pass
    assert [e.api for e in observed.recorder.of("create")][:1] == ["torch.tensor"]
    assert [(e.api, dict(e.detail)["kept"]) for e in observed.recorder.of("move")] == [("Tensor.to", False)]
    assert observed.recorder.of("sync") == []
    assert str(x)
    assert torch.ones(1).device.type == "cpu"
