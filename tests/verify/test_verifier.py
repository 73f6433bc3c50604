"""Findings replayed from end to end: verdicts, what they rest on, the cache, proved fixes, the command."""

from __future__ import annotations

import json
import os
import stat
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from torchlint.cache import Cache
from torchlint.check import CheckOptions, check_source
from torchlint.cli import command
from torchlint.findings import Confidence, Finding, Position, Range, Severity, Verdict
from torchlint.rule import find_rules
from torchlint.verify.pool import Interpreter
from torchlint.verify.proving import prove
from torchlint.verify.verifier import Verifier

RULES = find_rules()
HERE = Interpreter(sys.executable, "this one")


@pytest.fixture(scope="module")
def verifier() -> Iterator[Verifier]:
    with Verifier(HERE, RULES, root=Path("/nonexistent")) as verifier:
        yield verifier


def claim(code: str, text: str, needle: str, message: str = "") -> tuple[Finding, bytes]:
    """A finding of the rule `code` at the first place of `needle`, whatever the rule itself would say."""
    text = textwrap.dedent(text).strip() + "\n"
    start = text.index(needle)
    line, column = text.count("\n", 0, start) + 1, start - text.rfind("\n", 0, start)
    place = Range(Position(line, column), Position(line, column + len(needle)))
    finding = Finding(code, "x", message, Severity.ERROR, Confidence.LIKELY, "train.py", place)
    return finding, text.encode()


def verdict(verifier: Verifier, code: str, text: str, needle: str, message: str = "") -> Verdict:
    (finding,) = verifier.verify([claim(code, text, needle, message)])
    assert finding.verdict is not None
    return finding.verdict


TRAINING = """
def train(model, loader, optimizer, criterion, device, every=50):
    for step, (x, y) in enumerate(loader):
        loss = criterion(model(x.to(device)), y.to(device))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        {line}
"""


class TestVerdicts:
    def test_a_wait_in_every_step_is_confirmed(self, verifier: Verifier) -> None:
        said = verdict(verifier, "DEV301", TRAINING.format(line="total = loss.item()"), "loss.item()")
        assert said.status == "confirmed"
        assert said.device == "simulated cuda:0"
        assert "12 times in 12 iterations" in said.evidence
        assert any("called with stand-ins" in words for words in said.assumed)

    def test_a_wait_behind_an_interval_is_refuted(self, verifier: Verifier) -> None:
        line = "if step % every == 0: print(loss.item())"
        assert verdict(verifier, "DEV301", TRAINING.format(line=line), "loss.item()").status == "refuted"

    def test_a_value_that_the_host_needs_is_refuted(self, verifier: Verifier) -> None:
        text = """
            import torch
            from torch.nn.utils.rnn import pack_padded_sequence

            class Tagger(torch.nn.Module):
                def forward(self, x, lengths):
                    return pack_padded_sequence(x, lengths.cpu(), enforce_sorted=False)
        """
        assert verdict(verifier, "DEV302", text, "lengths.cpu()").status == "refuted"

    def test_moving_a_module_is_refuted(self, verifier: Verifier) -> None:
        text = "import torch\n\n\ndef f(device):\n    net = torch.nn.Linear(2, 2)\n    net.to(device)\n    return net\n"
        assert verdict(verifier, "DEV101", text, "net.to(device)").status == "refuted"

    def test_moving_what_is_unknown_is_never_confirmed(self, verifier: Verifier) -> None:
        text = """
            def f(tokenizer, texts, device):
                batch = tokenizer.encode(texts)
                batch.to(device)
                return batch
        """
        assert verdict(verifier, "DEV101", text, "batch.to(device)").status != "confirmed"

    def test_a_number_on_the_cpu_that_may_mix_is_never_confirmed(self, verifier: Verifier) -> None:
        text = (
            "import torch\n\n\ndef f(x: torch.Tensor):\n    half = torch.tensor(0.5)\n    return x * half\n"
        )
        assert verdict(verifier, "DEV201", text, "torch.tensor(0.5)", "it joins `x`").status != "confirmed"

    def test_one_fault_does_not_hide_the_next(self, verifier: Verifier) -> None:
        text = """
            import torch

            def f(x: torch.Tensor):
                a = torch.zeros(8)
                b = torch.ones(8)
                return x + a + b
        """
        for needle in ("torch.zeros(8)", "torch.ones(8)"):
            assert verdict(verifier, "DEV201", text, needle, "it joins `x`").status == "confirmed"

    def test_a_guarded_device_is_refuted(self, verifier: Verifier) -> None:
        text = """
            import torch

            def f(x):
                if torch.cuda.is_available():
                    x = x.cuda()
                return x
        """
        assert verdict(verifier, "DEV501", text, "x.cuda()").status == "refuted"

    def test_a_script_with_a_data_set_that_is_not_there_is_replayed(self, verifier: Verifier) -> None:
        text = """
            import argparse
            import torch
            from torch import nn
            from torchvision_of_ours import datasets

            parser = argparse.ArgumentParser()
            parser.add_argument("--lr", type=float, default=0.1)
            parser.add_argument("--data", required=True)
            args = parser.parse_args()
            loader = torch.utils.data.DataLoader(datasets.Digits(args.data), batch_size=8)
            model = nn.Sequential(nn.Conv2d(1, 4, 3), nn.Flatten(), nn.Linear(3600, 10)).to("cuda")
            optimizer = torch.optim.SGD(model.parameters(), lr=args.lr)
            for x, y in loader:
                loss = nn.functional.cross_entropy(model(x.to("cuda")), y.to("cuda"))
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                print(loss.item())
        """
        said = verdict(verifier, "DEV301", text, "loss.item()")
        assert said.status == "confirmed"
        assert any("not at hand" in words for words in said.assumed)

    def test_code_that_the_policy_refuses_is_not_run(self, verifier: Verifier) -> None:
        text = "import os\nos.system('true')\n" + TRAINING.format(line="total = loss.item()")
        said = verdict(verifier, "DEV301", text, "loss.item()")
        assert said.status == "inconclusive"
        assert "not run" in said.evidence

    def test_code_that_kills_its_process_costs_one_verdict(self, verifier: Verifier) -> None:
        dies = claim("DEV301", "def f(x):\n    raise KeyboardInterrupt\n    x.item()\n", "x.item()")
        lives = claim("DEV301", TRAINING.format(line="total = loss.item()"), "loss.item()")
        statuses = [f.verdict.status for f in verifier.verify([dies, lives]) if f.verdict is not None]
        assert statuses == ["inconclusive", "confirmed"]

    def test_a_rule_without_a_probe_has_no_verdict(self, verifier: Verifier) -> None:
        (finding,) = verifier.verify([claim("DEV001", "x = 1\n", "x")])
        assert finding.verdict is None


def test_verdicts_are_kept_between_runs(tmp_path: Path) -> None:
    work = [claim("DEV301", TRAINING.format(line="total = loss.item()"), "loss.item()")]
    cache = Cache(str(tmp_path))
    with Verifier(HERE, RULES, root=tmp_path, cache=cache) as first:
        (before,) = first.verify(work)
    with Verifier(HERE, RULES, root=tmp_path, cache=cache) as second:
        second._pool.replay = None  # type: ignore[method-assign, assignment]
        (after,) = second.verify(work)
    assert after == before


class TestProvedFixes:
    SOURCE = (
        b"import torch\nfrom torch import nn\n\n\nclass Shift(nn.Module):\n    def forward(self, x):\n"
        b"        shift = torch.zeros(x.shape[0], 8)\n        return torch.cat([x, shift], dim=1)\n"
    )

    def findings(self, verifier: Verifier, source: bytes) -> list[Finding]:
        options = CheckOptions(frozenset(["DEV101", "DEV102", "DEV201"]))
        return verifier.verify([(f, source) for f in check_source(source, "train.py", options).findings])

    def test_a_fix_that_removes_the_fault_is_applied(self, verifier: Verifier) -> None:
        after, applied = prove(self.SOURCE, self.findings(verifier, self.SOURCE), verifier, unsafe=False)
        assert len(applied) == 1
        assert b"device=x.device" in after

    def test_an_unsafe_one_only_if_that_is_asked_for(self, verifier: Verifier) -> None:
        source = b"import torch\n\n\ndef f(device):\n    w = torch.ones(3)\n    w.to(device)\n    return w\n"
        findings = self.findings(verifier, source)
        assert prove(source, findings, verifier, unsafe=False) == (source, [])
        assert b"    w = w.to(device)\n" in prove(source, findings, verifier, unsafe=True)[0]

    def test_a_fix_that_leaves_the_fault_is_not_applied(self, verifier: Verifier) -> None:
        from dataclasses import replace

        from torchlint.findings import Edit, Fix, Safety

        (finding,) = self.findings(verifier, self.SOURCE)
        start = self.SOURCE.index(b"8)\n")
        useless = Fix("write 8 in another way", Safety.SAFE, (Edit(start, start + 1, "4 + 4"),))
        assert prove(self.SOURCE, [replace(finding, fix=useless)], verifier, unsafe=True) == (self.SOURCE, [])


class TestCommand:
    @pytest.fixture(autouse=True)
    def project(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
        (tmp_path / "pyproject.toml").write_text("")
        (tmp_path / "train.py").write_text(TRAINING.format(line="total = loss.item()").lstrip())
        monkeypatch.chdir(tmp_path)
        return tmp_path

    def run(self, *arguments: str) -> Result:
        return CliRunner().invoke(command, ["--no-cache", "--select", "DEV301", *arguments, "train.py"])

    def test_nothing_is_run_unless_asked(self) -> None:
        assert "replay" not in self.run().output

    def test_the_full_format_says_what_happened_what_was_run_and_what_was_assumed(self) -> None:
        result = self.run("--verify")
        assert result.exit_code == 1
        assert (
            "replay: confirmed on simulated cuda:0: `Tensor.item` made the host wait 12 times"
            in result.output
        )
        assert "`train` was called with stand-ins; the caller's `model` is a module" in result.output
        assert "Replays: 1 confirmed." in result.output

    def test_json_has_the_verdict(self) -> None:
        document = json.loads(self.run("--verify", "--output-format", "json", "-q").output)
        (finding,) = document["findings"]
        assert finding["verdict"]["status"] == "confirmed"
        assert finding["verdict"]["assumed"]
        assert document["summary"]["refuted"] == 0

    def test_statistics_count_verdicts(self) -> None:
        assert "1  DEV301  item-in-step: 1 confirmed" in self.run("--verify", "--statistics").output

    def test_without_torch_it_says_so_and_exits_with_2(self, project: Path) -> None:
        python = project / "python"
        python.write_text("#!/bin/sh\nexit 1\n")
        os.chmod(python, os.stat(python).st_mode | stat.S_IXUSR)
        result = self.run("--verify", "--verify-python", str(python))
        assert result.exit_code == 2
        assert "can't import torch" in result.output

    @pytest.mark.parametrize(
        "arguments", [["--show-refuted"], ["--verify-python", "python"], ["--verify", "--diff"]]
    )
    def test_options_that_make_no_sense_together_are_refused(self, arguments: list[str]) -> None:
        assert self.run(*arguments).exit_code == 2


def test_refuted_findings_are_hidden_counted_and_shown_on_request() -> None:
    from torchlint.findings import FileResult
    from torchlint.report import Run, closing, without_refuted

    finding, _ = claim("DEV301", "x.item()\n", "x.item()")
    from dataclasses import replace

    refuted = replace(finding, verdict=Verdict("refuted", "simulated cuda:0", "it never waited"))
    results, hidden = without_refuted([FileResult("train.py", (finding, refuted))])
    assert [f for r in results for f in r.findings] == [finding]
    assert hidden == (refuted,)
    run = Run(results=results, hidden=hidden, verified=True, files=1)
    assert closing(run).endswith("Replays: 1 refuted (hidden; --show-refuted shows them).")
