"""Nothing that a replay does reaches outside of its folder: no file, no process, no socket."""

from __future__ import annotations

import os
import sys
import textwrap
from pathlib import Path

import pytest
from attacks import ATTACKS, BY_KERNEL_ONLY, HARMLESS, SLOW

from torchlint.verify.guard import policy
from torchlint.verify.pool import Pool
from torchlint.verify.protocol import Answer, Limits, Module, Request

#: Short ones, so that what must be stopped by the clock does not stop the tests.
LIMITS = Limits(wall=0.7, cpu=3.0, memory=512 << 20)
linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the kernel's layers are Linux's")


@pytest.fixture(scope="module")
def victim(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("victim")
    (folder / "precious").write_text("precious")
    return folder


def state(folder: Path) -> list[tuple[str, int, int, str]]:
    """All that could have been changed."""
    found = []
    for path in sorted(folder.rglob("*")):
        status = path.lstat()
        text = path.read_text() if path.is_file() and not path.is_symlink() else ""
        found.append((path.name, status.st_mode, status.st_mtime_ns, text))
    return found


def text(snippet: str, victim: Path) -> str:
    return textwrap.dedent(snippet).replace("VICTIM", str(victim)).strip() + "\n"


def listening() -> set[str]:
    """Local TCP ports that something listens on, where the system tells."""
    try:
        rows = Path("/proc/net/tcp").read_text().splitlines()[1:]
    except OSError:
        return set()
    return {row.split()[1] for row in rows if row.split()[3] == "0A"}


def processes() -> set[str]:
    """The processes below this one."""
    found = set()
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        found.add((path.parent.name, fields[1]))
    mine, todo = set(), {str(os.getpid())}
    while todo:
        children = {pid for pid, parent in found if parent in todo}
        todo = children - mine
        mine |= children
    return mine


def attack(pool: Pool, names: list[str], victim: Path, *, with_policy: bool) -> dict[str, Answer]:
    requests = []
    for name in names:
        source = text(ATTACKS[name], victim)
        if with_policy:
            requests.append(Request(source, limits=LIMITS, cap=1 << 40))
        else:
            # The policy does not look at trusted modules: what is left are the layers below it.
            attacker = Module("attacker", source, trusted=True)
            requests.append(Request("import attacker", modules=(attacker,), limits=LIMITS, cap=1 << 40))
    return {names[i]: answer for i, answer in pool.replay(requests)}


def test_there_are_enough_of_them() -> None:
    assert len(ATTACKS) >= 31 + 20


@pytest.mark.parametrize("with_policy", [True, False], ids=["with the policy", "without it"])
def test_no_attack_does_harm(pool: Pool, victim: Path, with_policy: bool) -> None:
    assert [a.status for _, a in pool.replay([Request("x = 1")])] == ["ran"]
    before, ports, running = state(victim), listening(), processes()
    names = sorted(set(ATTACKS) if with_policy else set(ATTACKS) - SLOW)
    answers = attack(pool, names, victim, with_policy=with_policy)
    assert sorted(answers) == names
    assert not any("import attacker" in a.denied for a in answers.values())
    assert state(victim) == before
    assert listening() <= ports
    assert processes() <= running
    unscathed = {n for n, a in answers.items() if a.status == "ran" and not a.denied}
    # These end by themselves without an error, having done nothing.
    assert unscathed <= {"atexit", "disk", "output", "crash"}


@pytest.mark.parametrize("name", sorted(HARMLESS))
def test_training_is_let_through(pool: Pool, victim: Path, name: str) -> None:
    ((_, answer),) = pool.replay([Request(text(HARMLESS[name], victim))])
    assert (answer.status, answer.exception, answer.refusals, answer.denied) == ("ran", None, (), ())


@linux
def test_without_the_kernels_layers(victim: Path) -> None:
    """Where there is no Landlock, the audit hook and the checks of torch's functions hold on their own."""
    before = state(victim)
    skipped = BY_KERNEL_ONLY | SLOW | {"crash", "process group"}
    for name in sorted(set(ATTACKS) - skipped):
        pid = os.fork()
        if pid == 0:
            _attack_here(text(ATTACKS[name], victim), victim.parent / "own")
        assert os.waitpid(pid, 0)[1] == 0, name
        assert state(victim) == before, name


def _attack_here(source: str, directory: Path) -> None:
    from torchlint.verify.guard import audit, limits, natives
    from torchlint.verify.worker.serve import readable_folders

    try:
        directory.mkdir(exist_ok=True)
        os.chdir(directory)
        devnull = os.open(os.devnull, os.O_WRONLY)
        os.dup2(devnull, 1)
        os.dup2(devnull, 2)
        limits.apply(limits.Limits(cpu=20, memory=1 << 30))
        natives.install(str(directory))
        audit.install(str(directory), readable_folders(), [])
        exec(compile(source, "<attack>", "exec"), {"__name__": "__main__"})
    except BaseException:
        pass
    finally:
        os._exit(0)


@linux
def test_all_layers_are_up(pool: Pool) -> None:
    ((_, answer),) = pool.replay([Request("x = 1")])
    layers = {name.partition(" ")[0] for name in answer.layers}
    assert {"limits", "natives", "audit"} <= layers
    if os.uname().machine in ("x86_64", "aarch64"):
        assert "seccomp" in layers


def test_its_folder_is_empty_its_own_and_gone_afterwards(pool: Pool) -> None:
    look = "import os\nprint(os.getcwd(), os.listdir('.'), os.environ.get('HOME'))\nopen('left', 'w')\n"
    outputs = [a.stdout for _, a in pool.replay([Request(look)] * 2)]
    folders = {o.split()[0] for o in outputs}
    assert len(folders) == 2
    assert all(o.split() == [folder := o.split()[0], "[]", folder] for o in outputs)
    assert not any(os.path.exists(f) for f in folders)


@pytest.mark.parametrize(
    "source",
    [
        "import torch, numpy, math, os, sys, json, argparse, random, time, logging, pathlib",
        "import os\nos.makedirs('a')\nos.environ.get('B')\nos.path.join('a', 'b')",
        "from torch.utils.data import DataLoader\nimport torch.nn.functional as F",
        "import torch\ntorch.compile(torch.nn.Linear(1, 1))\nmodel = compile(1)",
        "import platform\nplatform.system()",
        "class A:\n    def __init__(self): super().__init__()\n    def kill(self): self.abort = 1\nA().kill()",
    ],
)
def test_the_policy_lets_ordinary_code_through(source: str) -> None:
    import ast

    assert policy.refusals(ast.parse(source)) == []


@pytest.mark.parametrize(
    "source, line",
    [
        ("x = 1\nimport subprocess", 2),
        ("from os import system", 1),
        ("import torch.utils.cpp_extension", 1),
        ("import mylib", 1),
        ("from . import other", 1),
        ("x = 1\ny = 2\neval('x')", 3),
        ("f = ().__class__.__base__", 1),
        ("getattr(x, '__subclasses__')()", 1),
        ("import importlib", 1),
    ],
)
def test_the_policy_says_where_and_why(source: str, line: int) -> None:
    import ast

    (refusal, *_) = policy.refusals(ast.parse(source))
    assert refusal.line == line
    assert refusal.reason
    assert policy.refusals(ast.parse("import mylib"), ["mylib"]) == []
