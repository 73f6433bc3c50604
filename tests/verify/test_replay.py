"""What a replay answers: enough to decide every kind of finding."""

from __future__ import annotations

import itertools

import pytest
from conftest import Replays

from torchlint.verify.protocol import Limits, Loop, Module, Watch

MODEL = """
import torch
from torch import nn
import torch.nn.functional as F
device = "cuda"
model = nn.Linear(4, 3).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loader = [(torch.randn(8, 4), torch.randint(0, 3, (8,))) for _ in range(30)]
"""
#: Line 9 is the first of what follows MODEL.
FIRST = 8


def after_model(text: str) -> str:
    return MODEL.strip() + "\n" + text.strip("\n")


class TestDiscardedMove:
    def test_of_a_tensor_changes_nothing(self, replay: Replays) -> None:
        source = after_model("x = torch.randn(2, 4)\nx.to(device)\nmodel(x)")
        answer = replay(source, watch=(Watch("move", "call", FIRST + 1),))
        (record,) = answer.watched["move"]
        assert (record["receiver"]["device"], record["receiver_after"]["device"]) == ("cpu", "cpu")
        assert (record["result"]["device"], record["same"]) == ("cuda:0", False)
        assert answer.status == "raised"
        assert answer.exception is not None
        assert (answer.exception.line, answer.exception.gap) == (FIRST + 2, False)
        assert "cpu" in answer.exception.message

    def test_of_a_module_moves_it(self, replay: Replays) -> None:
        answer = replay(
            after_model("m = nn.Linear(2, 2)\nm.to(device)"), watch=(Watch("move", "call", FIRST + 1),)
        )
        (record,) = answer.watched["move"]
        assert (record["receiver"]["devices"], record["receiver_after"]["devices"]) == (["cpu"], ["cuda:0"])
        assert record["same"]
        assert record["receiver"]["type"] == "Module"

    def test_of_one_that_is_there_already_loses_nothing(self, replay: Replays) -> None:
        source = after_model("x = torch.ones(2, device=device)\nx.to(device)")
        (record,) = replay(source, watch=(Watch("move", "call", FIRST + 1),)).watched["move"]
        assert record["same"]

    def test_of_anything_else_names_its_class(self, replay: Replays) -> None:
        source = after_model("class Batch:\n    def to(self, d):\n        self.d = d\nBatch().to(device)")
        (record,) = replay(source, watch=(Watch("move", "call", FIRST + 3),)).watched["move"]
        assert record["receiver"]["type"] == "__main__.Batch"

    def test_one_of_two_on_a_line_is_told_by_its_text_or_column(self, replay: Replays) -> None:
        source = after_model("x, y = torch.ones(2), torch.ones(2, device=device)\nx.to(device), y.to(device)")
        watch = (
            Watch("y", "call", FIRST + 1, text="y.to( device )"),
            Watch("x", "call", FIRST + 1, column=0),
        )
        answer = replay(source, watch=watch)
        assert [answer.watched[k][0]["same"] for k in "xy"] == [False, True]
        assert answer.unmatched == ()

    def test_a_place_that_is_not_there_is_said(self, replay: Replays) -> None:
        assert replay("x = 1", watch=(Watch("w", "call", 1), Watch("v", "call", 99))).unmatched == ("w", "v")


class TestMixedDevices:
    def test_names_line_operands_and_origin(self, replay: Replays) -> None:
        answer = replay(
            after_model("weights = torch.ones(3)\nout = model(torch.ones(1, 4).to(device))\nout * weights")
        )
        (mix,) = answer.of("mix")
        assert (mix.line, mix.source, mix.origins, mix.marks) == (FIRST + 2, "cpu", (FIRST,), ())
        assert answer.exception is not None
        assert mix.detail["message"] == answer.exception.message

    def test_that_rests_on_a_stand_in_says_so(self, replay: Replays) -> None:
        source = after_model("batch = __torchlint__.standin(torch.ones(1, 4), 'batch')\nmodel(batch * 2)")
        (mix,) = replay(source).of("mix")
        assert mix.marks == ("batch",)

    def test_inside_a_module_goes_through_all_lines(self, replay: Replays) -> None:
        source = after_model(
            "class Net(nn.Module):\n    def forward(self, x):\n        return model(x)\nNet()(torch.ones(1, 4))"
        )
        exception = replay(source).exception
        assert exception is not None
        assert exception.lines == (("train.py", FIRST + 3), ("train.py", FIRST + 2))


LOOP = "for x, y in loader:\n    loss = F.cross_entropy(model(x.to(device)), y.to(device))\n"
STEP = "    optimizer.zero_grad()\n    loss.backward()\n    optimizer.step()\n"


class TestSyncs:
    def test_are_counted_for_each_iteration(self, replay: Replays) -> None:
        source = after_model(LOOP + STEP + "    total = loss.item()")
        answer = replay(source, loops=(Loop("hot", FIRST, 6),))
        assert answer.stopped == "hot"
        assert answer.loops["hot"]["iterations"] == 6
        assert answer.per_iteration("sync", FIRST + 5) == dict.fromkeys(range(1, 7), 1)
        assert {e.api for e in answer.of("sync")} == {"Tensor.item"}

    def test_at_intervals(self, replay: Replays) -> None:
        loop = "for i, (x, y) in enumerate(loader):\n    loss = model(x.to(device)).mean()\n"
        loop += "    if i % 10 == 0:\n        print(loss.item())"
        answer = replay(after_model(loop), loops=(Loop("hot", FIRST, 25),))
        assert answer.per_iteration("sync", FIRST + 3) == {1: 1, 11: 1, 21: 1}
        assert len(answer.stdout.splitlines()) == 3

    def test_of_host_data_there_are_none(self, replay: Replays) -> None:
        answer = replay(
            after_model("for x, y in loader:\n    hits = (y == 1).sum().item()"),
            loops=(Loop("hot", FIRST, 5),),
        )
        assert answer.count("sync") == 0
        assert answer.loops["hot"]["iterations"] == 5

    def test_in_a_while_loop_that_breaks(self, replay: Replays) -> None:
        loop = "n = 0\nwhile True:\n    n += 1\n    float(model(torch.ones(1, 4).to(device)).sum())\nprint(n)"
        answer = replay(after_model(loop), loops=(Loop("hot", FIRST + 1, 4, then="break"),))
        assert (answer.status, answer.stopped, answer.stdout) == ("ran", "", "4\n")
        assert answer.count("sync") == 4

    def test_other_loops_are_capped_each_time_they_are_entered(self, replay: Replays) -> None:
        loop = "n = 0\nfor _ in range(2):\n    while True:\n        n += 1\n"
        loop += "for _ in range(10**9):\n    n += 1\nprint(n)"
        assert replay(loop, cap=7).stdout == "21\n"


class TestCreation:
    def test_in_the_loop_with_a_copy_each_time(self, replay: Replays) -> None:
        loop = (
            "for x, y in loader:\n    noise = torch.randn(8, 4).to(device)\n    model(x.to(device) + noise)"
        )
        answer = replay(after_model(loop), loops=(Loop("hot", FIRST, 4),))
        created = list(answer.of("create", FIRST + 1))
        assert [(e.api, e.target, e.detail["reason"], e.count) for e in created] == [
            ("torch.randn", "cpu", "default", 4)
        ]
        copies = [e for e in answer.of("copy", FIRST + 1) if FIRST + 1 in e.origins]
        assert sum(e.count for e in copies) == 4
        assert {e.target for e in copies} == {"cuda:0"}

    def test_on_the_default_device(self, replay: Replays) -> None:
        answer = replay("import torch\ntorch.set_default_device('cuda')\nx = torch.randn(2)")
        assert [(e.target, e.detail["reason"]) for e in answer.of("create", 3)] == [("cuda:0", "default")]


class TestGraph:
    def graph(self, replay: Replays, body: str) -> list[int]:
        source = after_model("history, total = [], 0\n" + LOOP + STEP + body)
        answer = replay(source, loops=(Loop("hot", FIRST + 1, 6, graph=True),))
        return [m["nodes"] for m in answer.loops["hot"]["graph"]]

    def test_grows_where_losses_are_kept(self, replay: Replays) -> None:
        nodes = self.graph(replay, "    total = total + loss")
        growth = {b - a for a, b in itertools.pairwise(nodes[1:])}
        assert len(nodes) == 6
        assert len(growth) == 1
        assert growth.pop() > 0

    def test_does_not_where_they_are_detached(self, replay: Replays) -> None:
        nodes = self.graph(replay, "    history.append(loss.detach())")
        assert len(set(nodes[1:])) == 1

    def test_bytes_grow_where_nothing_ran_backward(self, replay: Replays) -> None:
        source = after_model("kept = []\nfor x, y in loader:\n    kept.append(model(x.to(device)).relu())")
        answer = replay(source, loops=(Loop("hot", FIRST + 1, 4, graph=True),))
        sizes = [m["bytes"] for m in answer.loops["hot"]["graph"]]
        assert sizes == sorted(set(sizes))
        assert sizes[0] > 0


class TestState:
    SOURCE = """
    import torch
    from torch import nn

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(2, 2)
            self.mask = torch.ones(2)
            self.layers = [nn.Linear(2, 2)]
            self.scale = nn.Parameter(torch.ones(1)).to("cuda")
            self.register_buffer("kept", torch.zeros(1))

    net = Net().to("cuda")
    """

    def test_what_is_not_registered_stays_behind(self, replay: Replays) -> None:
        watch = (
            Watch("net", "after", 13, expression="net"),
            Watch("list", "after", 13, expression="net.layers"),
            Watch("no", "after", 13, expression="net.nothing"),
            Watch("scale", "after", 10, expression="self.scale"),
        )
        answer = replay(self.SOURCE, watch=watch)
        (net,) = answer.watched["net"]
        assert net["value"]["devices"] == ["cuda:0"]
        assert net["value"]["unregistered"] == {"mask": "cpu", "scale": "cuda:0"}
        assert answer.watched["list"][0]["value"]["items"][0]["devices"] == ["cpu"]
        assert "AttributeError" in answer.watched["no"][0]["error"]
        scale = answer.watched["scale"][0]["value"]
        assert (scale["type"], scale["is_leaf"], scale["device"]) == ("Tensor", False, "cuda:0")


def test_numpy_of_a_device_tensor(replay: Replays) -> None:
    exception = replay("import torch\nx = torch.ones(2, device='cuda')\nx.numpy()").exception
    assert exception is not None
    assert (exception.type, exception.line, exception.gap) == ("TypeError", 3, False)
    assert exception.message.startswith("can't convert cuda:0 device type tensor to numpy")


def test_comparisons(replay: Replays) -> None:
    source = "import torch\nd = torch.device('cuda')\nif d == 'cuda':\n    pass\n'cuda' in d\n"
    answer = replay(source, watch=(Watch("c", "value", 3, text="d == 'cuda'"),))
    assert answer.watched["c"][0]["value"] == {"type": "bool", "value": False}
    assert answer.exception is not None
    assert (answer.exception.type, answer.exception.line) == ("TypeError", 5)


class TestLoading:
    SOURCE = """
    import torch
    __torchlint__.checkpoint("model.pt", {"w": torch.ones(2)}, "cuda:0")
    state = torch.load("model.pt")
    """

    def test_without_map_location_fails_where_there_is_no_accelerator(self, replay: Replays) -> None:
        answer = replay(self.SOURCE, how="absent")
        assert answer.exception is not None
        assert answer.exception.line == 3
        assert "Attempting to deserialize object on a CUDA device" in answer.exception.message
        assert answer.device == "none"

    def test_with_it_does_not(self, replay: Replays) -> None:
        fixed = self.SOURCE.replace('"model.pt")', '"model.pt", map_location="cpu")')
        assert replay(fixed, how="absent").status == "ran"

    def test_on_a_machine_with_one_comes_back_there(self, replay: Replays) -> None:
        answer = replay(self.SOURCE, watch=(Watch("s", "after", 3, expression="state"),))
        assert answer.watched["s"][0]["value"]["items"]["w"]["device"] == "cuda:0"
        assert [e.detail["mapped"] for e in answer.of("load", 3)] == [False]


class TestHardcodedDevices:
    @pytest.mark.parametrize(
        "source, line",
        [
            ("import torch\nx = torch.zeros(3, device='cuda')", 2),
            ("import torch\nmodel = torch.nn.Linear(1, 1).cuda()", 2),
            ("import torch\nx = torch.zeros(1)\nx = x.to('mps')", 3),
            ("import torch\ntorch.cuda.synchronize()", 2),
        ],
    )
    def test_fail_without_the_accelerator(self, replay: Replays, source: str, line: int) -> None:
        exception = replay(source, how="absent").exception
        assert exception is not None
        assert (exception.line, exception.gap) == (line, False)

    def test_guarded_ones_do_not(self, replay: Replays) -> None:
        source = (
            "import torch\nd = 'cuda' if torch.cuda.is_available() else 'cpu'\nx = torch.zeros(1, device=d)"
        )
        assert replay(source, how="absent").status == "ran"
        assert replay(source).of("create", 3)[0].target == "cuda:0"


class TestPrecision:
    LOOP = """
    import torch
    from torch import nn
    torch.manual_seed(0)
    model = nn.Linear(4, 3).to("cuda")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cuda", enabled=ENABLED)
    for _ in range(3):
        optimizer.zero_grad()
        with torch.autocast("cuda", dtype=torch.float16):
            loss = model(torch.randn(8, 4, device="cuda")).pow(2).mean() * SMALL
        BACKWARD
        UNSCALE
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        STEP
        UPDATE
    """

    def text(self, **parts: str) -> str:
        filled = {
            "ENABLED": "True",
            "SMALL": "1.0",
            "BACKWARD": "scaler.scale(loss).backward()",
            "UNSCALE": "scaler.unscale_(optimizer)",
            "STEP": "scaler.step(optimizer)",
            "UPDATE": "scaler.update()",
            **parts,
        }
        text = self.LOOP
        for name, code in filled.items():
            text = text.replace(name, code)
        return text

    def kinds(self, answer: object, kind: str) -> set[float]:
        return {e.detail["factor"] for e in answer.of(kind)}  # type: ignore[attr-defined]

    def test_a_right_loop(self, replay: Replays) -> None:
        answer = replay(self.text(), precision=True, loops=(Loop("hot", 7, 3),))
        assert (self.kinds(answer, "backward"), self.kinds(answer, "gradient")) == ({65536.0}, {1.0})
        assert all(e.detail["through_scaler"] for e in answer.of("step"))
        first = [(e.kind, e.api) for i, e in answer.sequence if i == 1]
        assert first == [
            ("autocast", "enter"),
            ("autocast", "exit"),
            ("scaler", "scale"),
            ("backward", "backward"),
            ("scaler", "unscale_"),
            ("gradient", "clip_grad_norm_"),
            ("scaler", "step"),
            ("step", "SGD"),
            ("scaler", "update"),
        ]

    def test_clipping_scaled_gradients(self, replay: Replays) -> None:
        right, wrong = replay(self.text(), precision=True), replay(self.text(UNSCALE="pass"), precision=True)
        assert self.kinds(wrong, "gradient") == {65536.0}
        assert right.precision is not None
        assert wrong.precision is not None
        assert wrong.precision["steps"][0]["norm"] < right.precision["steps"][0]["norm"] / 1000

    def test_a_plain_step_with_scaled_gradients(self, replay: Replays) -> None:
        answer = replay(self.text(UNSCALE="pass", STEP="optimizer.step()"), precision=True)
        assert {(e.detail["factor"], e.detail["through_scaler"]) for e in answer.of("step")} == {
            (65536.0, False)
        }

    def test_misuse_raises_as_in_torch(self, replay: Replays) -> None:
        twice = replay(self.text(UPDATE="pass"), precision=True).exception
        assert twice is not None
        assert "unscale_() is being called after step()" in twice.message
        assert not twice.gap

    def test_gradients_that_flush_to_zero(self, replay: Replays) -> None:
        plain = {
            "BACKWARD": "loss.backward()",
            "UNSCALE": "pass",
            "STEP": "optimizer.step()",
            "UPDATE": "pass",
        }
        for small, least, most in (("1.0", 0.0, 0.0), ("1e-7", 0.3, 1.0)):
            answer = replay(self.text(SMALL=small, **plain), underflow=2)
            assert answer.precision is not None
            measured = answer.precision["underflow"]
            assert len(measured) == 2
            assert measured[0]["low"] > 0
            assert measured[0]["elements"] == 15
            assert all(least <= m["lost"] <= most for m in measured)

    def test_bfloat16_loses_none(self, replay: Replays) -> None:
        plain = {
            "BACKWARD": "loss.backward()",
            "UNSCALE": "pass",
            "STEP": "optimizer.step()",
            "UPDATE": "pass",
        }
        text = self.text(SMALL="1e-7", **plain).replace("float16", "bfloat16")
        answer = replay(text, underflow=1)
        assert answer.precision is not None
        assert [(m["low"], m["lost"]) for m in answer.precision["underflow"]] == [(0, 0.0)]


class TestTheText:
    def test_lines_are_those_of_the_users_file(self, replay: Replays) -> None:
        source = "import torch\nx = torch.ones(1, device='cuda')\ny = 0  # a stand-in\nx.item()\n(x +\n torch.ones(1))"
        answer = replay(source, lines={1: 1, 2: 40, 4: 50, 5: 60, 6: 61})
        assert [e.line for e in answer.of("sync")] == [50]
        assert answer.exception is not None
        assert answer.exception.line in (60, 61)
        assert {e.line for e in answer.of("create")} == {40, 61}

    def test_modules_of_the_request_are_imported(self, replay: Replays) -> None:
        modules = (
            Module(
                "net.blocks",
                "import torch\ndef make():\n    return torch.ones(1)\n",
                "net/blocks.py",
                {3: 33},
            ),
            Module("wandb", "def init(**k): pass", trusted=True),
        )
        answer = replay("import wandb\nfrom net.blocks import make\nwandb.init(a=1)\nmake()", modules=modules)
        assert answer.status == "ran", answer
        assert [(e.path, e.line) for e in answer.of("create")] == [("net/blocks.py", 33)]

    def test_a_module_that_nobody_has_fails_as_usual(self, replay: Replays) -> None:
        answer = replay("x = 1\nimport nothing_of_that_name", imports=("nothing_of_that_name",))
        assert answer.exception is not None
        assert (answer.exception.type, answer.exception.line) == ("ModuleNotFoundError", 2)

    def test_what_the_policy_refuses_does_not_start(self, replay: Replays) -> None:
        answer = replay("print('started')\nimport subprocess")
        assert (answer.status, answer.refusals, answer.stdout) == (
            "refused",
            ((2, "imports subprocess"),),
            "",
        )

    def test_syntax_errors_have_their_line(self, replay: Replays) -> None:
        exception = replay("x = 1\ndef f(:\n    pass").exception
        assert exception is not None
        assert (exception.type, exception.line) == ("SyntaxError", 2)

    def test_arguments_environment_name_and_seed(self, replay: Replays) -> None:
        source = (
            "import os, sys, torch\nprint(sys.argv[1:], os.environ['RANK'], __name__, torch.initial_seed())"
        )
        answer = replay(source, argv=("--lr", "1"), environment={"RANK": "3"}, name="lib", seed=7)
        assert answer.stdout == "['--lr', '1'] 3 lib 7\n"

    def test_an_exit_is_no_error(self, replay: Replays) -> None:
        answer = replay("import sys\nsys.exit(1)")
        assert (answer.status, answer.stopped, answer.exception) == ("ran", "exit", None)

    def test_only_the_end_of_the_output_is_kept(self, replay: Replays) -> None:
        answer = replay("for i in range(20000):\n    print('line', i)", cap=20000)
        assert answer.stdout.endswith("line 19999\n")
        assert len(answer.stdout) <= 4000

    def test_reaching_a_line(self, replay: Replays) -> None:
        source = (
            "for i in range(5):\n    if i > 2:\n        x = 1\n    else:\n        pass\nif False:\n    y = 1"
        )
        watch = (Watch("in", "reach", 3), Watch("out", "reach", 7))
        answer = replay(source, watch=watch)
        assert (len(answer.watched["in"]), len(answer.watched["out"])) == (2, 0)

    def test_only_the_kinds_that_are_asked_for(self, replay: Replays) -> None:
        answer = replay("import torch\ntorch.ones(1).cuda().item()", record=("sync",))
        assert {e.kind for e in answer.events} == {"sync"}

    def test_kinds_of_devices(self, replay: Replays) -> None:
        source = (
            "import torch\nprint(torch.accelerator.current_accelerator(), torch.accelerator.device_count())"
        )
        assert replay(source, kind="mps").stdout == "mps 1\n"
        answer = replay(source, kind="xpu", count=2)
        assert (answer.stdout, answer.device) == ("xpu 2\n", "simulated xpu:0")


class TestEnds:
    def test_time_is_up_and_what_was_seen_is_kept(self, replay: Replays) -> None:
        source = "import torch\ntorch.ones(1).cuda().item()\nwhile True:\n    pass"
        answer = replay(source, limits=Limits(wall=0.5), cap=1 << 40)
        assert answer.status == "timed out"
        assert answer.count("sync", 2) == 1

    def test_a_crash_is_an_answer(self, replay: Replays) -> None:
        # Reads far outside of its storage: the process dies of it.
        crash = "import torch\nx = torch.ones(1).data_ptr()\nimport numpy\n" + (
            "numpy.lib.stride_tricks.as_strided(numpy.ones(1), (1 << 40,), (8,)).sum()"
        )
        answer = replay(crash)
        assert (answer.status, answer.signal) == ("crashed", "SIGSEGV")
        assert replay("x = 1").status == "ran"

    def test_memory_is_limited(self, replay: Replays) -> None:
        exception = replay("import torch\nx = torch.ones(1 << 31)", limits=Limits(memory=256 << 20)).exception
        assert exception is not None
        assert "memory" in exception.message

    def test_gaps_of_the_simulator_are_told_from_errors_of_the_code(self, replay: Replays) -> None:
        gap = replay("import torch\nx = torch.ones(1, device='cuda')\ntorch._C._cuda_synchronize()").exception
        own = replay("import torch\nx = torch.ones(2, device='cuda').reshape(3)").exception
        assert gap is not None
        assert own is not None
        assert (gap.gap, own.gap, own.type) == (True, False, "RuntimeError")
