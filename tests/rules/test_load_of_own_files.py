"""DEV107: checkpoints whose devices are known to be there, by who wrote them."""

from __future__ import annotations

from pathlib import Path

import pytest
from checking import expect, findings

CODE = "DEV107"

TRAIN = """
    import argparse
    import torch
    def main(args, model, optimizer, stopper, batches):
        {before}
        for x in batches:
            optimizer.zero_grad()
            model(x).mean().backward()
            optimizer.step()
            if stopper.step(model):
                break
        {after}
        return model
    """
READ = "model.load_state_dict(torch.load('best_model.pt'))"


def test_the_best_state_that_is_read_after_training_is_of_the_same_run() -> None:
    expect(TRAIN.format(before="pass", after=READ), CODE)
    expect(TRAIN.format(before=f"{READ}  # <-", after="pass"), CODE)


@pytest.mark.parametrize(
    ("calls", "marked"),
    [
        (["train(model)", "test(model)"], ""),
        (["test(model)", "train(model)"], "  # <-"),
        (["test(model)", "train(model)", "test(model)"], "  # <-"),
        (["if args.train: train(model)", "if args.test: test(model)"], "  # <-"),
        (["if args.train: train(model)", "if args.train: test(model)"], ""),
        (["model.train()", "test(model)"], "  # <-"),
        (["trainer.fit(model)", "test(model)"], ""),
    ],
)
def test_what_is_read_by_a_function_that_is_called_after_training(calls: list[str], marked: str) -> None:
    lines = "\n            ".join(calls)
    expect(
        f"""
        import torch
        def train(model):
            for x in model.batches:
                model(x).mean().backward()
                model.optimizer.step()
        def test(model):
            model.load_state_dict(torch.load(model.path)){marked}
        def main(args, model, trainer):
            {lines}
        """,
        CODE,
    )


@pytest.mark.parametrize(("written", "marked"), [("best_params", ""), ("last_params", "  # <-")])
def test_what_the_run_writes_is_told_by_what_the_paths_spell_out(written: str, marked: str) -> None:
    expect(
        f"""
        import os
        import torch
        def keep(model, folder):
            path = os.path.join(folder, "{written}")
            torch.save(model.state_dict(), path)
        def main(model, folder):
            for epoch in range(3):
                model.run_epoch()
                keep(model, folder)
            path = os.path.join(folder, "best_params")
            model.load_state_dict(torch.load(path)){marked}
        """,
        CODE,
    )


@pytest.mark.parametrize(
    ("call", "marked"), [("export_model(model, save_path=model_path)", ""), ("describe(model, model_path)", "  # <-")]
)
def test_what_is_given_to_an_exporter_is_written_there(call: str, marked: str) -> None:
    expect(
        f"""
        import torch
        def deploy(model, model_path, x):
            {call}
            exported = torch.jit.load(model_path){marked}
            return exported(x)
        """,
        CODE,
    )


KEEPER = """
    import os
    import torch
    class Keeper:
        def save(self, model):
            torch.save(model.state_dict(), self.path)
            {more}
        def load(self, model):
            if {asked}:
                model.load_state_dict(torch.load(self.path)){marked}
    """


@pytest.mark.parametrize(
    ("more", "asked", "marked"),
    [
        ("pass", "self.best", ""),
        ("pass", "os.path.exists(self.path)", "  # <-"),
        ("model.optimizer.step()", "self.best", "  # <-"),
    ],
)
def test_an_object_that_keeps_the_best_state_reads_its_own_file(more: str, asked: str, marked: str) -> None:
    expect(KEEPER.format(more=more, asked=asked, marked=marked), CODE)


def test_every_process_reads_what_one_of_them_wrote() -> None:
    prepared = TRAIN.replace("model(x).mean().backward()", "accelerator.backward(model(x).mean())")
    expect(prepared.format(before="pass", after=f"{READ}  # <-"), CODE)


@pytest.mark.parametrize(
    ("lines", "marked"),
    [
        ("net = Net().cuda()", ""),
        ("net = Net()", "  # <-"),
        ("net = Net().cuda(args.gpu)", "  # <-"),
        ("net = Net().cuda() if args.use_cuda else Net()", "  # <-"),
    ],
)
def test_a_file_that_saves_from_the_first_cuda_device_reads_there(lines: str, marked: str) -> None:
    expect(
        f"""
        import torch
        from net import Net
        def keep(net, path):
            torch.save(net.state_dict(), path)
        def test(args):
            {lines}
            net.load_state_dict(torch.load(args.model_path)){marked}
            return net
        """,
        CODE,
    )


@pytest.mark.parametrize(("name", "marked"), [("small_net.pth", ""), ("own_net.pth", "  # <-")])
def test_a_file_that_is_downloaded_bears_the_name_of_its_address(name: str, marked: str) -> None:
    expect(
        f"""
        import torch
        from tools import download
        def build(net):
            download(url="https://example.org/pretrained/small_net.pth")
            net.load_state_dict(torch.load("{name}")){marked}
        """,
        CODE,
    )


SAVER = """
import torch
def save(net, path):
    weights = []
    for p in net.parameters():
        weights.append({})
    torch.save(weights, path)
def measure(net, x):
    return net(x).cpu()
"""


@pytest.mark.parametrize(("kept", "reported"), [("p.detach().cpu()", False), ('p.to("cpu").half()', False), ("p", True)])
def test_what_the_project_saves_from_the_cpu_comes_back_to_it(tmp_path: Path, kept: str, reported: bool) -> None:
    (tmp_path / "setup.py").write_text("")
    (tmp_path / "library").mkdir()
    (tmp_path / "library" / "saving.py").write_text(SAVER.format(kept))
    reading = tmp_path / "read.py"
    reading.write_text("import torch\ndef patch(net, weights_path):\n    net.load(torch.load(weights_path))\n")
    assert bool(findings(reading.read_text(), CODE, path=str(reading))) is reported


def test_a_save_that_is_a_comment_saves_nothing_from_the_cpu(tmp_path: Path) -> None:
    (tmp_path / "setup.py").write_text("")
    reading = tmp_path / "read.py"
    reading.write_text("import torch\n# torch.save(net, path)\ndef patch(net, path):\n    net.load_state_dict(torch.load(path))\n")
    assert findings(reading.read_text(), CODE, path=str(reading))


def test_a_program_beside_that_saves_from_the_cpu_is_asked_first(tmp_path: Path) -> None:
    read = "import torch\ndef patch(net, path):\n    net.load_state_dict(torch.load(path))\n"
    for folder, kept in (("a", 'net.to("cpu")'), ("b", "net"), ("c", "net.cuda()"), ("d", "net.eval()"), ("e", "net.cpu()")):
        (tmp_path / folder).mkdir()
        saves = f"import torch\ndef main(net, vocab, path, loss):\n    {'pass' if folder == 'e' else 'loss.backward()'}\n    torch.save({kept}, path)\n    torch.save(vocab, 'v')\n"
        (tmp_path / folder / "train.py").write_text(saves)
        (tmp_path / folder / "read.py").write_text(read)
    (tmp_path / "setup.py").write_text("")
    assert not findings(read, CODE, path=str(tmp_path / "a" / "read.py"))
    assert findings(read, CODE, path=str(tmp_path / "c" / "read.py"))
    assert findings(read, CODE, path=str(tmp_path / "e" / "read.py"))  # what is saved there need not be what is read
