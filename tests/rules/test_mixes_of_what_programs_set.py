"""DEV101, DEV102, DEV106, DEV201, DEV202: what the options, the checkpoints and the torch of a program say of places."""

from __future__ import annotations

from pathlib import Path

import pytest
from checking import findings


@pytest.mark.parametrize("kind", ["cuda", "FloatTensor"], ids=["the GPU", "the CPU"])
def test_a_program_above_an_unmarked_folder_sets_the_default_type(tmp_path: Path, kind: str) -> None:
    kind = f"torch.{kind}.FloatTensor" if kind == "cuda" else f"torch.{kind}"
    (tmp_path / "seq" / "models").mkdir(parents=True)
    (tmp_path / "seq" / "train.py").write_text(f"import torch\nif True:\n    torch.set_default_tensor_type('{kind}')\n")
    code = """
        import torch
        from torch import nn

        class Net(nn.Module):
            def forward(self, x):
                return x.float() + torch.ones(3)
        """
    path = tmp_path / "seq" / "models" / "net.py"
    path.write_text(code)
    assert bool(findings(code, "DEV201", path=str(path))) == ("cuda" not in kind)


def test_a_package_sets_the_default_device_for_what_imports_it_alone(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    for folder in ("tools", "net"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "__init__.py").write_text("")
    (tmp_path / "tools" / "shim.py").write_text("def use(kind):\n    torch.set_default_device(kind)\n")
    code = """
        import torch
        from torch import nn

        class Net(nn.Module):
            def forward(self, x):
                return x.float() + torch.ones(3)
        """
    assert findings(code, "DEV201", path=str(tmp_path / "net" / "ops.py"))


@pytest.mark.parametrize(("read", "reported"), [("loss.data[0]", False), ("loss.detach()", True)])
def test_the_first_of_the_data_of_a_loss_is_a_number(read: str, reported: bool) -> None:
    code = f"""
        import numpy as np
        from torch import nn

        net = nn.Linear(2, 2).cuda()
        criterion = nn.MSELoss()
        losses = []
        for x, y in [(1, 2)]:
            loss = criterion(net(x.cuda()), y.cuda())
            losses.append({read})
        np.mean(losses)
        """
    assert bool(findings(code, "DEV106")) == reported


@pytest.mark.parametrize(("read", "reported"), [("loss.data[0]", False), ("loss.detach()", True)])
def test_a_sum_of_the_first_of_the_data_of_losses_is_a_number(read: str, reported: bool) -> None:
    code = f"""
        import numpy as np
        from torch import nn

        net = nn.Linear(2, 2).cuda()
        criterion = nn.MSELoss()
        total = 0
        for x, y in [(1, 2)]:
            loss = criterion(net(x.cuda()), y.cuda())
            total += {read}
        np.exp(total / 3)
        """
    assert bool(findings(code, "DEV106")) == reported


@pytest.mark.parametrize(("first", "reported"), [("cuda", False), ("cpu", True)])
def test_what_is_there_already_is_moved_in_vain_and_nothing_is_lost(first: str, reported: bool) -> None:
    code = f"""
        import torch

        def send():
            mask = torch.ones(3).to(dtype=torch.bool, device="{first}")
            mask.to("cuda")
            return mask
        """
    assert bool(findings(code, "DEV101")) == reported


@pytest.mark.parametrize(("moved", "reported"), [(".to(device)", False), ("", True)])
def test_a_function_of_the_file_has_moved_it_to_the_same_device(moved: str, reported: bool) -> None:
    code = f"""
        import torch

        device = torch.device("cuda" if torch.cuda.is_available() else "cpu")

        def load():
            return torch.ones(3, 3){moved}

        def search(query):
            features = load()
            features.to(device)
            return features
        """
    assert bool(findings(code, "DEV101")) == reported


@pytest.mark.parametrize(("kind", "reported"), [("type(x.data)", False), ("x.type()", True)])
def test_the_class_of_a_tensor_is_no_place(kind: str, reported: bool) -> None:
    code = f"""
        import torch
        from torch import nn

        class Net(nn.Module):
            def forward(self, x):
                return torch.zeros(1).type({kind}) + x.float()
        """
    assert bool(findings(code, "DEV202")) == reported


@pytest.mark.parametrize(("name", "reported"), [("state_dict", False), ("checkpoint", False), ("tensors", True)])
def test_what_a_checkpoint_held_is_rather_on_the_host(name: str, reported: bool) -> None:
    code = f"""
        import torch

        def resize({name}, prefix):
            weight = {name}[prefix + "weight"]
            if weight.shape[0] == 1:
                first = torch.zeros(1, 3)
            else:
                first = weight[:1, :]
            return torch.cat([first, weight[1:, :]], dim=0)
        """
    assert bool(findings(code, "DEV102")) == reported


@pytest.mark.parametrize(
    ("sent", "reported"),
    [("if opt.use_gpu:\n                        hs = hs.cuda()", False), ("pass", True)],
)
def test_an_option_moves_the_state_as_it_moves_the_model(sent: str, reported: bool) -> None:
    code = f"""
        import torch
        from torch import nn
        from config import opt

        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.rnn = nn.GRU(2, 3)

            def forward(self, x, hs=None):
                if hs is None:
                    hs = torch.zeros(1, x.shape[1], 3)
                    {sent}
                return self.rnn(x, hs)
        """
    assert bool(findings(code, "DEV201")) == reported


@pytest.mark.parametrize(("test", "reported"), [("x is not None", False), ("len(shape) > 1", True)])
def test_an_exit_without_a_tensor_has_no_device_to_take(test: str, reported: bool) -> None:
    code = f"""
        import torch
        from torch import nn
        import torch.nn.functional as F

        class Net(nn.Module):
            def make_mask(self, x=None, shape=None):
                if {test}:
                    return F.dropout(torch.ones_like(x), 0.1)
                return F.dropout(torch.ones(shape), 0.1)

            def forward(self, x):
                return x * self.make_mask(x)
        """
    assert bool(findings(code, "DEV102")) == reported


@pytest.mark.parametrize("called", ["net", "net.forward"])
@pytest.mark.parametrize(("moved", "reported"), [("", False), (".to(device)", True)])
def test_what_a_module_that_was_never_moved_gives_is_rather_in_no_other_place(
    called: str, moved: str, reported: bool
) -> None:
    code = f"""
        import torch
        from torch import nn
        import torch.nn.functional as F

        device = torch.device("cuda" if torch.cuda.is_available() else "cpu")

        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.layer = nn.Linear(2, 2)

            def forward(self, x):
                mean = self.layer(x)
                return mean + torch.randn(x.size(0), 2).to(device)

        def main():
            net = Net(){moved}
            weight = torch.ones(4)
            for _ in range(3):
                out = {called}(torch.ones(2, 2){moved})
                F.binary_cross_entropy(out.view(-1), torch.ones(4).to(device), weight=weight).backward()
        """
    found = findings(code, "DEV201")
    assert any("torch.ones(4)" in f.message for f in found) == reported
