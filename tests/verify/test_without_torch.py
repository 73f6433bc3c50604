"""Where torchlint is installed without torch: plans need none, and who asks for a replay is told what is missing."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

#: Runs the command in a process that can't import torch.
COMMAND = """
import sys
sys.modules["torch"] = None
from torchlint.cli import main
sys.exit(main(sys.argv[1:]))
"""

DROPPED = "import torch\n\n\ndef f(device):\n    x = torch.zeros(3)\n    x.to(device)\n    return x\n"


def run(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", COMMAND, "--isolated", "--no-cache", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


def test_nothing_but_the_worker_imports_torch(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("import torch\n")
    outcome = run("--verify", "--verify-python", sys.executable, tmp_path)
    assert (outcome.returncode, outcome.stderr.count("Traceback")) == (0, 0), outcome.stderr


def test_an_interpreter_without_torch_is_told_of_in_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text(DROPPED)
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\necho \"ModuleNotFoundError: No module named 'torch'\" >&2\nexit 1\n")
    python.chmod(0o755)
    outcome = run("--verify", "--verify-python", python, tmp_path)
    assert outcome.returncode == 2
    assert "torch" in outcome.stderr
    assert "Traceback" not in outcome.stderr
