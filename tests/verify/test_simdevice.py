"""How the simulated accelerator looks to code, and what it reports."""

from __future__ import annotations

import io
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

from torchlint.verify.simdevice import SimDevice


def here() -> int:
    """The caller's line."""
    import sys

    return sys._getframe(1).f_lineno


@pytest.mark.parametrize("kind", ["cuda", "mps", "xpu"])
def test_a_machine_with_one_accelerator(kind: str) -> None:
    module = getattr(torch, kind)
    before = module.is_available()
    with SimDevice(kind):
        assert module.is_available()
        assert module.device_count() == 1
        assert torch.accelerator.current_accelerator() == torch.device(kind)
        x = torch.ones(2, device=kind)
        assert (x.device, x.get_device()) == (torch.device(kind, 0), 0)
        assert [x.is_cuda, x.is_mps, x.is_xpu, x.is_cpu] == [
            kind == "cuda",
            kind == "mps",
            kind == "xpu",
            False,
        ]
        assert f"device='{kind}:0'" in repr(x)
        module.manual_seed(1)
        module.empty_cache()
    assert module.is_available() == before
    assert torch.ones(1).device.type == "cpu"


def test_other_backends_are_absent() -> None:
    with SimDevice("mps"):
        assert not torch.cuda.is_available()
        with pytest.raises(AssertionError, match="Torch not compiled with CUDA enabled"):
            torch.ones(1).cuda()
    with SimDevice("cuda"), pytest.raises(RuntimeError, match="not linked with support for mps"):
        torch.ones(1).to("mps")
    with SimDevice("none"):
        assert not torch.cuda.is_available()
        assert not torch.backends.mps.is_available()
        with pytest.raises(AssertionError, match="Torch not compiled with CUDA enabled"):
            nn.Linear(1, 1).to("cuda")
        with pytest.raises(RuntimeError, match="mps"):
            torch.zeros(1, device="mps")


@pytest.mark.parametrize("kind, count", [("tpu", 1), ("mps", 2), ("cuda", 0)])
def test_machines_that_do_not_exist_are_refused(kind: str, count: int) -> None:
    with pytest.raises(ValueError):
        SimDevice(kind, count)


def test_several_devices_and_the_current_one() -> None:
    with SimDevice("cuda", count=2):
        assert torch.cuda.device_count() == 2
        torch.cuda.set_device(1)
        assert torch.ones(1, device="cuda").device.index == 1
        with torch.cuda.device(0):
            assert torch.ones(1).cuda().device.index == 0
        assert torch.ones(1).to(torch.device("cuda")).device.index == torch.cuda.current_device() == 1
        assert torch.ones(1).to(0).device == torch.device("cuda:0")
        assert torch.device(1) == torch.device("cuda", 1)
        assert isinstance(torch.device("cpu"), torch.device)
        with pytest.raises(RuntimeError, match="invalid device ordinal"):
            torch.ones(1, device="cuda:2")
    with SimDevice("cuda"):
        assert torch.cuda.current_device() == 0


def test_views_parameters_and_copies_agree_on_their_device() -> None:
    with SimDevice("cuda"):
        x = torch.ones(2, 3, device="cuda")
        assert {
            t.device.type for t in (x[0], x.T, x.view(-1), x.data, x.detach(), *x.unbind(), nn.Parameter(x))
        } == {"cuda"}
        layer = nn.Linear(2, 2)
        weight = layer.weight
        assert layer.to("cuda").weight is weight
        assert weight.is_cuda
        assert x.to("cuda") is x
        assert x.to("cuda", copy=True) is not x
        assert x.cpu().device.type == "cpu"
        assert x.is_cuda
        assert layer.half().weight.dtype == torch.float16
        assert layer.weight.is_cuda


def test_moving_a_leaf_gives_no_leaf() -> None:
    with SimDevice("cuda"):
        leaf = torch.ones(2, requires_grad=True)
        moved = leaf.to("cuda")
        assert leaf.to("cpu").is_leaf
        assert not moved.is_leaf
        moved.sum().backward()
        assert leaf.grad is not None
        assert leaf.grad.device.type == "cpu"


def test_types() -> None:
    with SimDevice("cuda"):
        x = torch.cuda.FloatTensor([1.0, 2.0])
        assert x.is_cuda
        assert isinstance(x, torch.cuda.FloatTensor)
        assert not isinstance(x.cpu(), torch.cuda.FloatTensor)
        assert x.type() == "torch.cuda.FloatTensor"
        assert x.type("torch.FloatTensor").device.type == "cpu"
        assert x.cpu().type(torch.cuda.LongTensor).type() == "torch.cuda.LongTensor"
        assert torch.ones(1).type_as(x).is_cuda


def test_what_ignores_the_default_device() -> None:
    numpy = pytest.importorskip("numpy")
    with SimDevice("cuda"):
        torch.set_default_device("cuda")
        followers = torch.zeros(1), torch.tensor([1]), torch.rand(1), torch.arange(2), torch.as_tensor([1.0])
        others = (
            torch.Tensor([1.0]),
            torch.FloatTensor(2),
            torch.from_numpy(numpy.ones(1)),
            torch.zeros_like(torch.zeros(1).cpu()),
        )
        assert {t.device.type for t in followers} == {"cuda"}
        assert {t.device.type for t in others} == {"cpu"}
    assert torch.zeros(1).device.type == "cpu"


def test_mps_has_no_float64() -> None:
    numpy = pytest.importorskip("numpy")
    programs: list[Callable[[], Any]] = [
        lambda: torch.zeros(1, dtype=torch.float64, device="mps"),
        lambda: torch.from_numpy(numpy.ones(2)).to("mps"),
        lambda: torch.ones(1, device="mps").double(),
        lambda: nn.Linear(1, 1).double().to("mps"),
        lambda: torch.tensor(numpy.ones(2), device="mps"),
    ]
    with SimDevice("mps"):
        for program in programs:
            with pytest.raises(TypeError, match="MPS framework doesn't support float64"):
                program()
        assert torch.from_numpy(numpy.ones(2)).to("mps", torch.float32).is_mps


def test_streams_events_and_time() -> None:
    with SimDevice("cuda", files=[__file__]) as sim:
        stream, start, end = (
            torch.cuda.Stream(),
            torch.cuda.Event(enable_timing=True),
            torch.cuda.Event(enable_timing=True),
        )
        start.record()
        with torch.cuda.stream(stream):
            x = torch.ones(2, device="cuda") * 2
        x.record_stream(stream)
        torch.cuda.current_stream().wait_stream(stream)
        end.record()
        assert sim.recorder.count("sync") == 0
        torch.cuda.synchronize()
        assert start.elapsed_time(end) >= 0
    assert [e.api for e in sim.recorder.of("sync")] == ["torch.cuda.synchronize"]


def test_a_checkpoint_comes_back_to_where_it_was_saved() -> None:
    file = io.BytesIO()
    with SimDevice("cuda", count=2):
        torch.save({"x": torch.ones(2, device="cuda:1"), "y": torch.ones(1)}, file)
        file.seek(0)
        loaded = torch.load(file)
        assert (str(loaded["x"].device), str(loaded["y"].device)) == ("cuda:1", "cpu")
        file.seek(0)
        assert torch.load(file, map_location="cpu")["x"].device.type == "cpu"
        file.seek(0)
        assert str(torch.load(file, map_location={"cuda:1": "cuda:0"})["x"].device) == "cuda:0"
    file.seek(0)
    with pytest.raises(RuntimeError, match=r"torch.cuda.is_available\(\) is False"):
        torch.load(file)


def test_an_accelerator_in_a_forked_worker_is_refused() -> None:
    class Data(torch.utils.data.Dataset):
        def __len__(self) -> int:
            return 2

        def __getitem__(self, i: int) -> torch.Tensor:
            return torch.ones(1, device="cuda")

    with SimDevice("cuda"):
        assert next(iter(torch.utils.data.DataLoader(Data()))).is_cuda
        with pytest.raises(RuntimeError, match="Cannot re-initialize CUDA in forked subprocess"):
            next(iter(torch.utils.data.DataLoader(Data(), num_workers=2)))


def test_autocast_on_one_device_leaves_the_other_alone() -> None:
    with SimDevice("cuda"):
        on_gpu, on_host = torch.ones(2, 2, device="cuda"), torch.ones(2, 2)
        with torch.autocast("cuda"):
            assert (on_gpu @ on_gpu).dtype == torch.float16
            assert (on_host @ on_host).dtype == torch.float32
            assert torch.is_autocast_enabled("cuda")
        with torch.autocast("cpu"):
            assert (on_gpu @ on_gpu).dtype == torch.float32
            assert (on_host @ on_host).dtype == torch.bfloat16
        with torch.autocast("cuda"), pytest.raises(RuntimeError, match="unsafe to autocast"):
            nn.functional.binary_cross_entropy(on_gpu, on_gpu)
        with pytest.raises(ValueError, match="Expected `device_type` of type `str`"):
            torch.autocast(torch.device("cuda"))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "wait",
    [
        lambda x: x.sum().item(),
        lambda x: float(x.sum()),
        lambda x: bool(x.any()),
        lambda x: x.tolist(),
        lambda x: f"{x.sum():.2f}",
        lambda x: str(x),
        lambda x: x.nonzero(),
        lambda x: x[x > 0],
        lambda x: x.masked_select(x > 0),
        lambda x: torch.unique(x),
        lambda x: x.repeat_interleave(torch.tensor([1, 2, 1], device=x.device)),
        lambda x: x.cpu(),
        lambda x: x.numpy(force=True),
        lambda x: torch.equal(x, x),
        lambda x: [0, 1, 2][x[0].long()],
        lambda x: 2.0 in x,
        lambda x: torch.linalg.inv(x.diag()),
        lambda x: torch.zeros(3).copy_(x),
    ],
)
def test_what_makes_the_host_wait(wait: Callable[[torch.Tensor], Any]) -> None:
    with SimDevice("cuda", files=[__file__]) as sim:
        x = torch.ones(3, device="cuda")
        wait(torch.ones(3))
        assert sim.recorder.count("sync") == 0
        wait(x)
    syncs = sim.recorder.of("sync")
    assert syncs
    assert {e.line for e in syncs} == {wait.__code__.co_firstlineno}


@pytest.mark.parametrize(
    "free",
    [
        lambda x: x.size(),
        lambda x: x.to("cpu", non_blocking=True),
        lambda x: x.repeat_interleave(2),
        lambda x: x.repeat_interleave(torch.tensor([1, 2, 1], device=x.device), output_size=4),
        lambda x: nn.functional.one_hot(x.long(), 3),
        lambda x: x.quantile(0.5),
        lambda x: nn.functional.ctc_loss(
            x.diag()[:, None], x[None].long(), torch.tensor([3]), torch.tensor([1])
        ),
        lambda x: torch.where(x > 0, x, 0.0),
        lambda x: x.masked_fill_(x > 0, 1.0),
        lambda x: x.__setitem__(x > 0, 0.0),
        lambda x: torch.ones(3).to(x.device),
        lambda x: nn.utils.clip_grad_norm_([nn.Parameter(x)], 1.0),
    ],
)
def test_what_does_not(free: Callable[[torch.Tensor], Any]) -> None:
    with SimDevice("cuda") as sim:
        free(torch.ones(3, device="cuda"))
    assert sim.recorder.of("sync") == []


def test_the_host_reads_too_early() -> None:
    with SimDevice("cuda", files=[__file__]) as sim:
        x = torch.ones(3, device="cuda")
        early = x.to("cpu", non_blocking=True)
        early.sum()
        line = here() - 1
        late = x.to("cpu", non_blocking=True)
        torch.cuda.synchronize()
        late.numpy()
    assert [e.line for e in sim.recorder.of("race")] == [line]


def test_events_name_the_line_what_it_called_and_where_the_value_came_from() -> None:
    with SimDevice("cuda", files=[__file__]) as sim:
        weights = torch.tensor([1.0, 2.0])
        made = here() - 1
        model = nn.Linear(2, 2).to("cuda")
        moved = here() - 1
        with pytest.raises(RuntimeError):
            model(torch.ones(1, 2, device="cuda")) * (weights * 2)
        mixed = here() - 1
    (mix,) = sim.recorder.of("mix")
    assert (mix.line, mix.source, mix.origins, mix.via) == (mixed, "cpu", (made,), "")
    operands = {name: (device, accused) for name, device, _, _, _, accused in dict(mix.detail)["operands"]}
    assert operands == {"self": ("cuda:0", False), "other": ("cpu", True)}
    copies = sim.recorder.of("copy")
    assert {(e.line, e.via.rpartition(".")[2], e.source, e.target) for e in copies} == {
        (moved, "to", "cpu", "cuda:0")
    }
    (created,) = sim.recorder.of("create", made)
    assert (created.api, created.target, dict(created.detail)["host_data"]) == ("torch.tensor", "cpu", True)


def test_moves_tell_whether_anything_moved() -> None:
    with SimDevice("cuda", files=[__file__]) as sim:
        x = torch.ones(2)
        x.to("cuda")
        x.to("cpu")
        x.half()
    moves = [
        (e.source, e.target, dict(e.detail)["kept"], dict(e.detail)["dtype"]) for e in sim.recorder.of("move")
    ]
    assert moves == [
        ("cpu", "cuda:0", False, ""),
        ("cpu", "cpu", True, ""),
        ("cpu", "cpu", False, "torch.float32 -> torch.float16"),
    ]


class TestMarks:
    """Stand-ins keep their mark wherever what they decide is used."""

    def mixed(self, program: Callable[[SimDevice], Any]) -> tuple[str, ...]:
        with SimDevice("cuda", files=[__file__]) as sim, pytest.raises(RuntimeError):
            program(sim)
        (mix,) = sim.recorder.of("mix")
        return mix.marks

    def test_of_an_accused_stand_in(self) -> None:
        assert self.mixed(lambda sim: torch.ones(2, device="cuda") + sim.mark(torch.ones(2), "batch")) == (
            "batch",
        )

    def test_of_what_was_computed_from_one(self) -> None:
        assert self.mixed(
            lambda sim: torch.ones(2, device="cuda") * (sim.mark(torch.ones(2), "batch") + 1).exp()
        ) == ("batch",)

    def test_not_of_a_partner_that_is_not_accused(self) -> None:
        assert self.mixed(lambda sim: sim.mark(torch.ones(2, device="cuda"), "model") + torch.ones(2)) == ()

    def test_not_of_what_the_code_itself_moved(self) -> None:
        assert (
            self.mixed(
                lambda sim: (
                    sim.mark(torch.ones(2, device="cuda"), "batch").cpu() + torch.ones(2, device="cuda")
                )
            )
            == ()
        )

    def test_of_a_device(self) -> None:
        def program(sim: SimDevice) -> None:
            device = sim.mark(torch.device("cpu"), "args.device")
            torch.ones(2, device="cuda") + torch.zeros(2, device=device)

        assert self.mixed(program) == ("args.device",)

    def test_of_a_device_that_a_stand_in_has(self) -> None:
        def program(sim: SimDevice) -> None:
            model = sim.mark(nn.Linear(2, 2), "model")
            torch.ones(2, device="cuda") + torch.ones(2).to(model.weight.device)

        # Already there, so that nothing was moved: the value's place is its own.
        assert self.mixed(program) == ()

    def test_of_a_template(self) -> None:
        assert self.mixed(
            lambda sim: torch.ones(2, device="cuda") + torch.zeros_like(sim.mark(torch.ones(2), "x"))
        ) == ("x",)

    def test_in_containers_and_modules(self) -> None:
        with SimDevice("cuda") as sim:
            batch = sim.mark({"x": torch.ones(2), "y": [torch.ones(1)], "n": 3}, "batch")
            assert sim.places.of(batch["y"][0]).marks == {"batch"}
            assert sim.places.of(sim.mark(nn.BatchNorm1d(2), "net").running_mean).marks == {"net"}


def test_a_simulator_is_used_once_at_a_time() -> None:
    sim = SimDevice("cuda")
    with sim, pytest.raises(RuntimeError, match="already in use"):
        sim.__enter__()
    with sim:
        assert torch.cuda.is_available()


def test_nothing_stays_behind() -> None:
    before = {
        name: getattr(torch, name)
        for name in ("device", "Generator", "compile", "load", "set_default_tensor_type")
    }
    registry = len(torch.serialization._package_registry)
    with SimDevice("cuda"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.set_default_tensor_type("torch.cuda.FloatTensor")
        assert torch.zeros(1).is_cuda
    assert {name: getattr(torch, name) for name in before} == before
    assert len(torch.serialization._package_registry) == registry
    assert torch.zeros(1).device.type == "cpu"
