"""DEV102, DEV106, DEV201: a device that is shown for the programs around, not one that somebody might pass."""

from __future__ import annotations

from pathlib import Path

import pytest
from checking import expect, findings, reported_lines


@pytest.mark.parametrize(
    ("default", "reported"), [('=torch.device("cpu")', False), ('="cpu"', False), ("", True), ("=None", True)]
)
def test_a_model_is_on_the_cpu_by_its_constructors_default(default: str, reported: bool) -> None:
    code = f"""
        import torch
        from torch import nn

        class Net(nn.Module):
            def __init__(self, width, device{default}):
                super().__init__()
                self.device = device
                self.layer = nn.Linear(width, 3).to(device)

            def forward(self, x):
                return self.layer(x.to(self.device)).to(self.device)

        def error(x, net: Net):
            model = Net(3, **net)
            with torch.no_grad():
                out = model(x)
            return out.numpy()  {"# <-" if reported else ""}
        """
    expect(code, "DEV106")


def test_within_the_class_its_device_may_be_any() -> None:
    code = """
        import torch
        from torch import nn

        class Net(nn.Module):
            def __init__(self, width, device=torch.device("cpu")):
                super().__init__()
                self.device = device
                self.layer = nn.Linear(width, 3).to(device)

            def forward(self, x):
                return self.layer(x.to(self.device)).to(self.device)

            def predict(self, x):
                return self(x).detach().numpy()  # <-
        """
    expect(code, "DEV106")


@pytest.mark.parametrize(
    ("loop", "reported"),
    [
        ("for i in range(len(self.layers)):", False),
        ("for layer in self.layers:", False),
        ("for i, layer in enumerate(self.layers):", False),
        ("for layer in (nn.ReLU(), nn.Tanh()):", False),
        ("for layer in layers:", True),
    ],
)
def test_a_module_has_layers_to_go_through(loop: str, reported: bool) -> None:
    code = f"""
        import torch
        from torch import nn

        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.layers = nn.ModuleList([nn.Linear(3, 3), nn.Linear(3, 3)])

            def forward(self, x, layers):
                total = torch.zeros(3)  {"# <-" if reported else ""}
                {loop}
                    total = total.to(x.device) + x
                return total
        """
    expect(code, "DEV102")


@pytest.mark.parametrize(
    ("asked", "reported"),
    [("device > -1", False), ("device >= 0", False), ("device != -1", False), ("size > -1", True)],
)
def test_the_index_of_a_device_says_whether_there_is_one(asked: str, reported: bool) -> None:
    code = f"""
        import torch
        from torch import nn

        def count(size: int, device: int):
            if {asked}:
                return torch.cuda.LongTensor(size, device=device).fill_(1).cumsum(0) - 1
            else:
                return torch.arange(0, size)  {"# <-" if reported else ""}

        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.layer = nn.Linear(3, 3)

            def forward(self, x):
                steps = count(x.shape[1], x.get_device())
                return (steps <= x.long()).float() * self.layer(x)
        """
    expect(code, "DEV201")


ACTOR = """
    import torch
    from torch import nn

    class Actor(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(3, 3)

        def act(self, x):
            with torch.no_grad():
                return self.layer(x).numpy()
    """


@pytest.mark.parametrize(
    ("other", "reported"),
    [
        ("loss.backward()\n", []),
        ("loss.backward()\nmodel.to(where)\n", [12]),
        ("model.eval()\n", [12]),
    ],
)
def test_a_project_that_trains_and_never_speaks_of_devices_runs_on_the_cpu(
    tmp_path: Path, other: str, reported: list[int]
) -> None:
    (tmp_path / "setup.py").touch()
    (tmp_path / "agents").mkdir()
    (tmp_path / "agents" / "__init__.py").touch()
    (tmp_path / "train.py").write_text(other)
    path = tmp_path / "agents" / "actor.py"
    path.write_text(ACTOR)
    assert reported_lines(ACTOR, "DEV106", path=str(path)) == reported
    assert not reported or findings(ACTOR, "DEV106", path=str(path))
