"""Loads of what the project itself saves: only what may have written a file tells where its tensors were."""

from __future__ import annotations

from pathlib import Path

import pytest
from checking import findings, reported_lines

CODE = "DEV107"
READ = "import torch\ndef main(net, args):\n    net.load_state_dict(torch.load(args.{0})['params'])\n"
SAVER = """
import torch
class Base:
    def save_network(self, net, key, path):
        states = {{}}
        state = net.state_dict()
        for name, value in state.items():
            state[name] = value{0}
        states[key] = state
        torch.save(states, path)
    def save_run(self, path):
        kept = {{"epoch": self.epoch, "optimizers": [o.state_dict() for o in self.optimizers]}}
        torch.save(kept, path)
"""


def _project(folder: Path, **files: str) -> str:
    (folder / "setup.py").write_text("")
    (folder / "library").mkdir()
    for name, text in files.items():
        (folder / "library" / f"{name}.py").write_text(text)
    (folder / "scripts").mkdir()
    reading = folder / "scripts" / "read.py"
    reading.write_text("")
    return str(reading)


@pytest.mark.parametrize(("brought", "reported"), [(".cpu()", False), ("", True)])
def test_the_state_of_a_network_was_written_by_what_saves_networks(tmp_path: Path, brought: str, reported: bool) -> None:
    path = _project(tmp_path, base=SAVER.format(brought))
    assert bool(findings(READ.format("weights"), CODE, path=path)) is reported


def test_the_state_of_a_run_may_have_been_written_by_anything(tmp_path: Path) -> None:
    path = _project(tmp_path, base=SAVER.format(".cpu()"))
    assert findings(READ.format("resume"), CODE, path=path)


CONVERTS = "import torch\ndef convert_weights(path, net, out):\n    net.load_state_dict(torch.load(path))\n    torch.save(net.state_dict(), out)\n"


def test_what_converts_files_writes_none_first(tmp_path: Path) -> None:
    path = _project(tmp_path, base=SAVER.format(".cpu()"), one=CONVERTS, two=CONVERTS.replace("weights", "more"))
    assert not findings(READ.format("weights"), CODE, path=path)


def test_what_converts_files_gets_them_from_anywhere(tmp_path: Path) -> None:
    path = _project(tmp_path, base=SAVER.format(".cpu()"))
    Path(path).write_text(CONVERTS)
    assert findings(CONVERTS, CODE, path=path)


def test_what_saves_all_that_it_gets_may_save_a_network(tmp_path: Path) -> None:
    anything = "import torch\ndef save_any(*what):\n    torch.save(*what)\n"
    path = _project(tmp_path, base=SAVER.format(".cpu()"), one=anything, two=anything)
    assert findings(READ.format("weights"), CODE, path=path)


@pytest.mark.parametrize(
    ("call", "reported"),
    [
        ("fetch(net, urls[name])", False),
        ("fetch(net, model_url=urls[name])", False),
        ("fetch(net, name)", True),
        ("other(net, urls[name])", True),
    ],
)
def test_an_address_out_of_a_table_is_published(call: str, reported: bool) -> None:
    fetch = "def fetch(net, model_url):\n    net.load_state_dict(torch.hub.load_state_dict_from_url(model_url))\n"
    assert bool(reported_lines(f"import torch\n{fetch}def build(net, name):\n    {call}\n", CODE)) is reported


@pytest.mark.parametrize(
    ("wait", "reported"),
    [
        ("torch.cuda.synchronize()", False),
        ("if args.cuda:\n        torch.cuda.synchronize()", True),
        ("torch.cuda.set_device(args.rank)\n    torch.cuda.synchronize()", True),
    ],
)
def test_what_waits_for_a_device_that_must_be_there_finds_it(wait: str, reported: bool) -> None:
    code = f"import torch\ndef main(net, args):\n    net.load_state_dict(torch.load(args.model))\n    {wait}\n    return net\n"
    assert bool(reported_lines(code, CODE)) is reported


@pytest.mark.parametrize(
    ("net", "beside", "reported"),
    [
        ("Net()", "", False),
        ("Net().cuda()", "", True),
        ("torch.load(path)", "", True),
        ("Net()", "def train(net, x, path):\n    net(x).backward()\n    torch.save(net.state_dict(), path)\n", True),
    ],
)
def test_what_a_converter_on_the_cpu_alone_writes_is_there(
    tmp_path: Path, net: str, beside: str, reported: bool
) -> None:
    converter = f"import torch\ndef convert(read, path):\n    net = {net}\n    net.fill(read)\n    torch.save(net.state_dict(), path)\n"
    path = _project(tmp_path, convert=converter, train=f"import torch\n{beside}")
    assert bool(findings(READ.format("weights"), CODE, path=path)) is reported
