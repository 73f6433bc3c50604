"""The parent's side: interpreters, workers that die, machines without fork, answers on the wire."""

from __future__ import annotations

import ast
import json
import os
import sys
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import torchlint.verify
from torchlint.verify.pool import Interpreter, NoInterpreter, Pool, find_interpreter
from torchlint.verify.protocol import Answer, Device, Limits, Loop, Module, Request, Watch

VERIFY = Path(torchlint.verify.__file__).parent
WORKER_SIDE = [p for part in ("worker", "simdevice", "guard") for p in sorted((VERIFY / part).glob("*.py"))]
WORKER_SIDE.append(VERIFY / "words.py")


class TestInterpreter:
    def test_the_current_one_if_it_has_torch(self, tmp_path: Path) -> None:
        assert find_interpreter(tmp_path).path == sys.executable

    def test_the_one_asked_for(self, tmp_path: Path) -> None:
        assert find_interpreter(tmp_path, sys.executable) == Interpreter(sys.executable, "--verify-python")

    def test_one_without_torch_is_refused_in_words(self, tmp_path: Path) -> None:
        with pytest.raises(NoInterpreter, match="can't import torch"):
            find_interpreter(tmp_path, str(tmp_path / "python"))

    @pytest.mark.skipif(os.name == "nt", reason="makes a script")
    def test_else_the_projects_own(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
        with pytest.raises(NoInterpreter, match="--verify-python"):
            find_interpreter(tmp_path)
        python = tmp_path / ".venv" / "bin" / "python"
        python.parent.mkdir(parents=True)
        python.write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
        python.chmod(0o755)
        assert find_interpreter(tmp_path) == Interpreter(str(python), "the project's .venv")
        (tmp_path / "torch.py").write_text("raise SystemExit")
        assert find_interpreter(tmp_path).source == "the project's .venv"

    def test_what_does_not_start_is_said_in_words(self, tmp_path: Path) -> None:
        with pytest.raises(NoInterpreter, match="can't start"), Pool(str(tmp_path / "nothing")) as pool:
            list(pool.replay([Request("x = 1")]))


class TestWorkerSide:
    def test_needs_torch_and_the_standard_library_alone(self) -> None:
        allowed = {"torch", "torchlint_replay", *sys.stdlib_module_names}
        for path in WORKER_SIDE:
            for node in ast.walk(ast.parse(path.read_text())):
                names = []
                if isinstance(node, ast.Import):
                    names = [alias.name for alias in node.names]
                elif isinstance(node, ast.ImportFrom) and not node.level:
                    names = [node.module or ""]
                assert {n.partition(".")[0] for n in names} <= allowed, path

    def test_is_written_for_python_3_9(self) -> None:
        for path in WORKER_SIDE:
            ast.parse(path.read_text(), str(path), feature_version=(3, 9))

    def test_sees_neither_torchlint_nor_what_it_depends_on(self, pool: Pool) -> None:
        ours = ("torchlint", "libcst", "click", "pathspec")
        look = f"import sys\nprint([m for m in sys.modules if m.partition('.')[0] in {ours}])"
        ((_, answer),) = pool.replay([Request(look)])
        assert answer.stdout == "[]\n"

    def test_its_folder_is_not_on_the_path(self, pool: Pool) -> None:
        ((_, answer),) = pool.replay(
            [Request("import sys\nprint([p for p in sys.path if 'verify' in p or p == ''])")]
        )
        assert answer.stdout == "[]\n"


class TestPool:
    def test_every_request_has_its_answer(self, pool: Pool) -> None:
        requests = [Request(f"print({i})") for i in range(6)] + [
            Request("import os\nos.sys.modules['os']._exit(3)")
        ]
        answers = dict(pool.replay(requests))
        assert sorted(answers) == list(range(7))
        assert [answers[i].stdout for i in range(6)] == [f"{i}\n" for i in range(6)]

    def test_answers_that_nobody_waited_for_are_not_taken_for_others(self, pool: Pool) -> None:
        slow = Request("import time\ntime.sleep(0.3)\nprint('slow')")
        next(iter(pool.replay([Request("print('fast')"), slow])))
        assert [a.stdout for _, a in pool.replay([Request("print('next')")] * 3)] == ["next\n"] * 3

    def test_replays_run_beside_each_other(self, pool: Pool) -> None:
        list(pool.replay([Request("x = 1")]))
        started = time.monotonic()
        answers = list(pool.replay([Request("import time\ntime.sleep(0.6)")] * 2))
        assert [a.status for _, a in answers] == ["ran", "ran"]
        assert time.monotonic() - started < 1.1 + 2 * max(a.seconds - 0.6 for _, a in answers)

    def test_a_worker_that_was_killed_is_replaced_and_ends_with_its_pool(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("SECRET_TOKEN", "x")
        with Pool(jobs=1) as pool:
            ((_, answer),) = pool.replay([Request("import os\nprint('SECRET_TOKEN' in os.environ)")])
            assert answer.stdout == "False\n"
            first = pool._servers[False]._process
            assert first is not None
            first.kill()
            answers = [a for _, a in pool.replay([Request("x = 1"), Request("y = 2")])]
            assert {a.status for a in answers} <= {"ran", "crashed"}
            assert answers[-1].status == "ran"
            second = pool._servers[False]._process
            assert second is not None
            assert second is not first
            assert second.poll() is None
        assert second.poll() is not None

    def test_where_there_is_no_fork(self) -> None:
        loop = "import torch\nfor i in range(5):\n    x = torch.ones(1, device='cuda')\n    x.item()\n"
        requests = [
            Request(loop, loops=(Loop("hot", 2, 3),)),
            Request(
                "import sys, torch\ntorch.set_default_dtype(torch.float64)\nsys.path.append('x')\nopen('left', 'w')"
            ),
            Request(
                "import os, sys, torch\nprint(os.listdir('.'), torch.get_default_dtype(), 'x' in sys.path)"
            ),
            Request("import stand_in\nprint(stand_in.x)", modules=(Module("stand_in", "x = 1"),)),
            Request("import stand_in", imports=("stand_in",)),
            Request("open('/etc/passwd')"),
            Request("import os\nos.sys.modules['os']._exit(3)"),
            Request("while True: pass", limits=Limits(wall=0.5), cap=1 << 40),
            Request("print(1)"),
        ]
        with Pool(fork=False) as pool:
            answers = dict(pool.replay(requests))
        statuses = [answers[i].status for i in range(len(requests))]
        assert statuses == ["ran", "ran", "ran", "ran", "raised", "raised", "crashed", "timed out", "ran"]
        assert answers[0].per_iteration("sync", 4) == {1: 1, 2: 1, 3: 1}
        assert answers[2].stdout == "[] torch.float32 False\n"
        assert answers[3].stdout == "1\n"
        assert answers[5].exception is not None
        assert answers[5].exception.type == "PermissionError"

    def test_it_tells_what_it_found(self, pool: Pool) -> None:
        import torch

        assert pool.torch_version() == torch.__version__
        list(pool.replay([Request("x = 1")]))
        assert pool._servers[False].greeting["accelerator"] is None


class TestOnTheWire:
    def test_a_request_is_plain_json(self) -> None:
        request = Request(
            "x",
            lines={1: 2},
            modules=(Module("m", "y"),),
            watch=(Watch("w", "call", 1),),
            device=Device("absent"),
            underflow=2,
        )
        message = json.loads(json.dumps(request.to_json(1)))
        assert message["lines"] == {"1": 2}
        assert message["precision"] == {"underflow": 2}
        assert message["modules"][0]["name"] == "m"
        assert message["device"]["how"] == "absent"

    def test_an_answer_may_have_more_or_less_than_expected(self) -> None:
        answer = Answer.from_json({"status": "crashed", "id": 1, "signal": "SIGSEGV", "news": 1})
        assert (answer.status, answer.signal, answer.events, answer.exception) == (
            "crashed",
            "SIGSEGV",
            (),
            None,
        )


@given(
    st.lists(
        st.sampled_from(
            ["x = 1", "if x:\n    y = [\n        2,\n    ]", "for i in range(2): z = i", "f = lambda: 3"]
        ),
        min_size=1,
    )
)
def test_probes_and_moved_lines_leave_code_that_compiles_and_does_the_same(parts: list[str]) -> None:
    pytest.importorskip("torch")
    from torchlint.verify.worker.source import compile_text

    source = "\n".join(["x = 0", *parts])
    count = len(source.splitlines())
    lines = {str(i): 10 * i for i in range(1, count, 2)}
    watch = [{"id": f"r{i}", "what": "reach", "line": i} for i in range(1, count + 1)]
    watch += [{"id": f"a{i}", "what": "after", "line": i, "expression": "x"} for i in range(1, count + 1)]
    seen: list[str] = []

    class Probe:
        def reach(self, id: str) -> None:
            seen.append(id)

        def look(self, id: str, value: object) -> None:
            seen.append(id)

        def loop(self, id: str, items: object) -> object:
            return items

    code, unmatched = compile_text(source, "t.py", lines, [], watch)
    expected: dict[str, object] = {}
    found: dict[str, object] = {"__torchlint__": Probe()}
    exec(source, expected)
    exec(code, found)
    assert unmatched == []
    assert {k: found[k] for k in "xyz" if k in found} == {k: expected[k] for k in "xyz" if k in expected}
    assert "r1" in seen
    assert "a1" in seen
