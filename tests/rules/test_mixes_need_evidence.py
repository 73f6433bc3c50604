"""DEV102, DEV104, DEV106, DEV201: what must be known before operands are said to be in different places."""

from __future__ import annotations

from pathlib import Path

import pytest
from checking import expect, findings, reported_lines

CODE = "DEV102"


CHOOSES = """if torch.cuda.is_available() and not os.getenv("NOCUDA", None):
                return x.to(torch.device("cuda"))
            else:
                return x"""


@pytest.mark.parametrize(("body", "reported"), [(CHOOSES, False), ("return x.long()", True)])
def test_a_helper_moves_wherever_an_accelerator_is_there_and_wanted(body: str, reported: bool) -> None:
    code = f"""
        import os
        import torch
        from torch import nn
        import torch.nn.functional as F

        def place(x):
            {body}

        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.layer = nn.Linear(2, 2)

            def loss(self, batch):
                scores = self.layer(batch)
                label = place(torch.LongTensor([3]))
                return F.cross_entropy(scores.view(1, -1), label)
        """
    assert bool(findings(code, CODE, "DEV201")) == reported


@pytest.mark.parametrize(("flag", "reported"), [("self.mixed", False), ("self.alone", True)])
def test_two_flags_need_not_hold_in_one_run(flag: str, reported: bool) -> None:
    code = f"""
        import torch
        class Model:
            def __init__(self, device):
                self.device = device
                self.weight = torch.zeros(3, 3).to(device)

            def learn(self, nodes):
                if self.alone:
                    nodes = nodes.to(self.device)
                grad = torch.ones(3).to(self.device)
                if {flag}:
                    grad = grad.cpu()
                return torch.cat([nodes, grad])
        """
    assert bool(findings(code, CODE)) == reported


def test_an_empty_tensor_may_be_made_without_arguments() -> None:
    code = """
        import torch
        def pick(ids, device):
            table = {made}
            for i in ids:
                table = table + i.to(device)
            return table.gather(0, ids.to(device))
        """
    assert not findings(code.replace("{made}", "torch.Tensor()"), CODE)


@pytest.mark.parametrize(("pinned", "reported"), [(", pin_memory=True", False), ("", True)])
def test_what_is_pinned_is_on_the_cpu_on_purpose(pinned: str, reported: bool) -> None:
    code = f"""
        import torch
        def fetch(rows: torch.Tensor, device):
            out = torch.empty(4, 4{pinned})
            return torch.index_select(rows, 0, torch.zeros(4, device=rows.device), out=out)
        """
    assert bool(findings(code, CODE)) == reported


@pytest.mark.parametrize(("last", "reported"), [("save(x.cpu())", False), ("save(x.cuda())", True)])
def test_a_program_that_only_copies_to_the_cpu_is_one_for_the_cpu(last: str, reported: bool) -> None:
    code = f"""
        import torch
        from torch import nn

        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.layer = nn.Linear(2, 2)

            def forward(self, x):
                return self.layer(x) * torch.ones(2)

        def main(loader):
            net = Net()
            for x in loader:
                net(x).sum().backward()
                {last}

        if __name__ == "__main__":
            main([])
        """
    assert bool(findings(code, CODE, "DEV201")) == reported


MODEL = """
    import torch
    from torch import nn

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(2, 2)

        def forward(self, x: torch.Tensor):
            return self.layer(x) * torch.ones(2)

        def pad(self, g):
            if g.count() == 0:
                return torch.zeros(1, 4)
            return self.layer(g.features).sum(0)
    """
TRAIN = """
    from model import Net

    def main(loader):
        net = Net(){moved}
        for x in loader:
            net(x).sum().backward()

if __name__ == "__main__":
    main([])
    """


@pytest.mark.parametrize(
    ("moved", "package", "reported"),
    [("", False, False), (".cuda()", False, True), ("", True, True)],
    ids=["a program for the CPU", "a program for CUDA", "a package"],
)
def test_the_programs_of_a_folder_say_whether_anything_is_on_an_accelerator(
    tmp_path: Path, moved: str, package: bool, reported: bool
) -> None:
    (tmp_path / "train.py").write_text(TRAIN.replace("{moved}", moved))
    if package:
        (tmp_path / "__init__.py").write_text("")
    (tmp_path / "model.py").write_text(MODEL)
    found = findings(MODEL, CODE, "DEV201", path=str(tmp_path / "model.py"))
    assert len(found) == (2 if reported else 0)


@pytest.mark.parametrize(
    ("program", "reported"),
    [
        ("import net\ntorch.set_default_device('cuda')\n", False),
        ("from net.ops import shift\ntorch.set_default_tensor_type(torch.cuda.FloatTensor)\n", False),
        ("import net\ntorch.set_default_device('cpu')\n", True),
        ("import torch\ntorch.set_default_device('cuda')\n", False),
        ("import torch\nif use_cuda:\n    torch.set_default_tensor_type('torch.cuda.FloatTensor')\n", False),
        ("import torch\n# torch.set_default_device('cuda')\n", True),
        ("import torch\ntorch.set_default_tensor_type(torch.FloatTensor)\n", True),
    ],
    ids=["device", "type", "the CPU", "another program", "where CUDA is", "said only", "type of the CPU"],
)
def test_what_programs_make_the_default_device_is_followed(tmp_path: Path, program: str, reported: bool) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / "pyproject.toml").write_text("")
    (tmp_path / "examples").mkdir()
    (tmp_path / "examples" / "run.py").write_text(program)
    (tmp_path / "net").mkdir()
    (tmp_path / "net" / "__init__.py").write_text("")
    code = """
        import torch
        def shift(x: torch.Tensor):
            return x + torch.arange(3)
        """
    assert bool(findings(code, CODE, path=str(tmp_path / "net" / "ops.py"))) == reported


@pytest.mark.parametrize(("where", "reported"), [("        ", False), ("            ", True)])
def test_what_the_loop_of_a_script_calls_is_part_of_its_training(where: str, reported: bool) -> None:
    code = f"""
        import torch
        device = "cuda" if torch.cuda.is_available() else "cpu"
        def scaled(x: torch.Tensor, std):
            x *= torch.tensor([1.0, 2.0])
            return x
        x, y = next(iter(loader))
        model.to(device)
        for a, b in loader:
            model(a.to(device)).sum().backward()
{where}z = scaled(x, 2)
        """
    assert bool(findings(code, CODE, "DEV201", path="page.py")) == reported


def test_a_loader_that_a_framework_prepared_moves_its_batches() -> None:
    code = """
        import torch
        from torch import nn
        def train(model, loader, device):
            criterion = nn.BCEWithLogitsLoss()
            for labels, data in loader:
                scores = model(data.to(device))
                loss = criterion(scores, labels.float())  # <-
                loss.backward()
        {prepared}
        """
    expect(code.replace("{prepared}", ""), CODE)
    prepared = "def main(model, loader, accelerator):\n            return accelerator.prepare(model, loader)"
    assert not findings(code.replace("{prepared}", prepared), CODE)


def test_a_loss_of_the_callers_is_judged_where_the_function_places_the_model() -> None:
    code = """
        def train(model, loader, criterion, optimizer, device):
            {moved}
            for labels, data in loader:
                loss = criterion(model(data.to(device)), labels)  # <-
                loss.backward()
                optimizer.step()
        """
    expect(code.replace("{moved}", "model.to(device)"), CODE)
    assert not findings(code.replace("{moved}", "model.train()").replace("  # <-", ""), CODE)


def test_what_a_module_computed_was_not_left_where_the_batch_was() -> None:
    code = """
        import torch.nn.functional as F
        from torch import nn
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.layer = nn.Linear(2, 2)

            def forward(self, x):
                return self.layer(x)

            def training_step(self, batch, index):
                labels = batch.labels.to("cuda")
                return F.cross_entropy({out}, labels)
        """
    assert not findings(code.replace("{out}", "self(batch.features)"), CODE)


@pytest.mark.parametrize(("item", "reported"), [(".item()", False), ("", True)])
def test_numbers_and_tensors_in_one_tuple_are_told_apart_by_position_alone(item: str, reported: bool) -> None:
    code = f"""
        import numpy as np
        import torch
        def evaluate(model, x, device):
            model.to(device)
            results = ()
            for part in range(3):
                loss = torch.zeros(3, device=device).sum()
                results += (loss, loss{item})
            return results
        def main(model, x, device):
            kept = []
            for run in range(3):
                loss, accuracy, *rest = evaluate(model, x, device)
                kept.append(accuracy)
            return np.array(kept)
        """
    assert bool(findings(code, "DEV106")) == reported


@pytest.mark.parametrize(("method", "reported"), [("forward", False), ("__init__", True)])
def test_a_list_of_modules_that_a_forward_makes_is_a_cache(method: str, reported: bool) -> None:
    code = f"""
        import torch
        from torch import nn
        class Net(nn.Module):
            def {method}(self, x=None):
                super().__init__()
                self.made = [nn.Linear(2, 2) for i in range(3)]
            def use(self, x):
                return self.made[0](x)
        """
    assert bool(findings(code, "DEV104")) == reported


@pytest.mark.parametrize(("picked", "reported"), [("best[i] // width", False), ("best // width", True)])
def test_an_element_of_an_index_divided_by_a_width_is_read_like_a_number(picked: str, reported: bool) -> None:
    code = f"""
        import torch
        from torch import nn
        class Search(nn.Module):
            def __init__(self):
                super().__init__()
                self.layer = nn.Linear(2, 2)

            def forward(self, x, width):
                done = torch.zeros(4, 4)
                _, best = self.layer(x).topk(dim=-1, k=4)
                for i in range(4):
                    if done[{picked}].sum() == 0:
                        return best
                return best
        """
    assert bool(reported_lines(code, CODE, "DEV201")) == reported


@pytest.mark.parametrize(
    ("whole", "reported"),
    [("if self.whole: return torch.zeros(3, 3), x * 2", False), ("x = torch.zeros(3, 3)", True)],
    ids=["on one path", "always"],
)
def test_what_one_exit_returns_in_a_tuple_hangs_on_its_test(whole: str, reported: bool) -> None:
    code = f"""
        import torch
        from torch import nn
        class Part(nn.Module):
            def forward(self, x: torch.Tensor):
                {whole}
                return x, self.given(x)
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.part = Part()
            def forward(self, x: torch.Tensor):
                place, feature = self.part(x)
                return place + x
        """
    assert bool(findings(code, CODE, "DEV201")) == reported


@pytest.mark.parametrize(("ids", "reported"), [("book.look_up(state)", False), ("state.ids.long()", True)])
def test_what_unknown_calls_give_is_no_evidence_in_what_is_computed_from_it(ids: str, reported: bool) -> None:
    code = f"""
        import torch
        def process(state: torch.Tensor, book):
            device = state.device
            data = torch.full((4,), 1.0)
            rows = torch.nonzero({ids.replace("state.ids", "state")} == 3).squeeze(1)
            data[rows] = 2.0
            return data
        """
    assert bool(findings(code, CODE)) == reported


@pytest.mark.parametrize(
    ("around", "reported"),
    [("if True", False), ("for epoch in range(9)", True)],
    ids=["once", "in each epoch"],
)
def test_a_loss_function_that_a_program_calls_once_copies_once(around: str, reported: bool) -> None:
    code = f"""
        import torch
        device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        def compute_loss_weights(adj: torch.Tensor):
            weights = torch.ones(adj.size(0)).to(device)
            return weights * adj.sum()
        def main(adj, model):
            {around}:
                weights = compute_loss_weights(adj)
            for epoch in range(9):
                model(weights).backward()
        main(load(), make())
        """
    assert bool(findings(code, "DEV202")) == reported


@pytest.mark.parametrize(("name", "reported"), [("5_net.py", False), ("net.py", True)])
def test_a_page_that_nobody_can_import_and_that_speaks_of_no_device_runs_on_the_cpu(
    tmp_path: Path, name: str, reported: bool
) -> None:
    (tmp_path / name).write_text(MODEL)
    assert bool(findings(MODEL, CODE, "DEV201", path=str(tmp_path / name))) == reported
