"""DEV102: where modules are, their parts, their buffers and what optimizers keep of them."""

from __future__ import annotations

import pytest
from checking import expect, findings, reported_lines

CODE = "DEV102"


def test_an_optimizer_that_allocates_its_state_wants_the_model_in_its_place() -> None:
    expect(
        """
        import torch
        def build(model, device):
            optimizer = torch.optim.Adagrad(model.parameters(), lr=0.1)
            model.to(device)  # <-
            return optimizer
        def build_well(model, device):
            model.to(device)
            return torch.optim.Adagrad(model.parameters(), lr=0.1)
        def build_adam(model, device):
            optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
            model.to(device)
            return optimizer
        def resume(model, state, device):
            optimizer = torch.optim.Adam(model.parameters())
            optimizer.load_state_dict(state)
            model.cuda()  # <-
            return optimizer
        """,
        CODE,
    )


def test_a_module_built_for_one_call_is_on_the_host() -> None:
    expect(
        """
        import torch
        from torch import nn
        class Net(nn.Module):
            def pool(self, x):
                conv = nn.Conv1d(3, 3, 1)
                return conv(x)  # <-
            def forward(self, x):
                return self.pool(x)
        """,
        CODE,
    )


def test_registered_modules_are_wherever_the_module_is_in_whatever_container() -> None:
    expect(
        """
        import torch
        from torch import nn
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                body = []
                for _ in range(3):
                    body.append(nn.Linear(3, 3))
                self.body = body
                self.body = nn.ModuleList(self.body)
                self.heads = nn.ModuleDict({"a": nn.Linear(3, 3)})
                self.tail = nn.Sequential(*[nn.Linear(3, 3)])
                self.scale = nn.ParameterList([nn.Parameter(torch.ones(3))])
            def forward(self, x):
                for layer in self.body:
                    x = layer(x)
                x = self.heads["a"](x) + self.body[0](x)
                return self.tail(x) * self.scale[0]
        """,
        CODE,
    )


def test_a_model_that_another_object_was_given_may_have_been_moved() -> None:
    expect(
        """
        import torch
        from torch import nn
        class Trainer:
            def __init__(self, model, device):
                self.model = model.to(device)
        def main(device):
            model = nn.Linear(3, 3)
            trainer = Trainer(model, device)
            return model(torch.ones(1, 3, device=device))
        """,
        CODE,
    )


def test_a_wrapper_moves_its_inputs() -> None:
    expect(
        """
        import torch
        from torch import nn
        from torch.nn.parallel import DistributedDataParallel as DDP
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.a = nn.Linear(3, 3)
            def forward(self, x):
                return self.a(x)
        def main(rank):
            net = DDP(Net().to(rank), device_ids=[rank])
            out = net(torch.randn(2, 3))
            return nn.functional.mse_loss(out, torch.zeros(2, 3).to(rank))
        """,
        CODE,
    )


def test_a_module_that_is_never_moved_runs_where_its_caller_keeps_the_tensors() -> None:
    code = """
import torch
from torch import nn

def fit(features, labels):
    net = nn.Sequential(nn.Linear(4, 1))
    loss = nn.MSELoss()(net(features.float()), labels.float())
    loss.backward()
"""
    assert not findings(code, "DEV102", "DEV201")


def test_a_forward_moves_what_may_be_there_already() -> None:
    code = """
        import torch
        from torch import nn
        class Layer(nn.Module):
            def forward(self, inputs):
                adjacency = inputs[0].to(self.device)
                nodes = inputs[1].to(self.device)
                hidden = inputs[2]
                return adjacency @ torch.cat((hidden, nodes), -1)
        """
    assert not reported_lines(code, "DEV102")


@pytest.mark.parametrize("built", ["nn.Linear(16, 8).to(rank)", "DDP(nn.Linear(16, 8).cuda(rank))"])
def test_a_module_that_places_its_parts_itself_is_not_on_the_host(built: str) -> None:
    code = f"""
        import torch
        from torch import nn
        from torch.nn.parallel import DistributedDataParallel as DDP

        class Hybrid(nn.Module):
            def __init__(self, rank):
                super().__init__()
                self.fc = {built}

            def forward(self, x):
                return self.fc(x)

        def train(rank, loader):
            model, criterion = Hybrid(rank), nn.CrossEntropyLoss()
            for x, y in loader:
                criterion(model(x.to(rank)), y.to(rank)).backward()
    """
    assert not findings(code, CODE)


def test_a_container_of_modules_grows_before_anything_moves() -> None:
    code = """
        import torch
        from torch import nn

        class Blocks(nn.Module):
            def __init__(self, shape):
                super().__init__()
                self.shape, self.first = shape, nn.Linear(3, 3)
            def {name}(self, layer):
                return self.first(torch.zeros(self.shape))
    """
    assert not findings(code.format(name="append"), CODE)
    assert findings(code.format(name="probe"), CODE)


@pytest.mark.parametrize(
    ("state", "reported"),
    [
        ("torch.as_tensor(best)", False),
        ("torch.tensor(1.0)", False),
        ("best.clone()", False),
        ("torch.zeros(3)", True),
        ("nn.Parameter(torch.zeros(3))", True),
    ],
)
def test_a_module_whose_own_state_may_stay_is_not_said_to_be_on_the_host(state: str, reported: bool) -> None:
    code = f"""
        import torch
        from torch import nn
        class Gain(nn.Module):
            def __init__(self, model, best):
                super().__init__()
                self.model = model
                self.{'best = ' + state if 'Parameter' in state else f'register_buffer("best", {state})'}
            def forward(self, x):
                return self.model(x) - self.best
        def plot(gain, rows, device):
            x = torch.tensor(rows).to(device)
            return gain(x)
        def show(model, rows, device):
            best = max(rows)
            gain = Gain(model, best)
            return plot(gain, rows, device)
    """
    assert bool(findings(code, CODE)) is reported


def test_a_module_that_a_helper_moves_and_hands_back_is_moved() -> None:
    expect(
        """
        import torch
        from torch import nn
        def fit(net, place):
            net.to(place)
        def prepared(net, verbose=True):
            device = torch.device("cuda:0" if torch.cuda.is_available() else "cpu")
            fit(net, place=device)
            return net
        device = torch.device("cuda:0" if torch.cuda.is_available() else "cpu")
        model = nn.Linear(2, 2)
        model = prepared(model)
        model(torch.ones(2, device=device))
        other = nn.Linear(2, 2)
        other(torch.ones(2, device=device))  # <-
        """,
        "DEV102",
    )


def test_a_module_that_registers_what_it_is_given_is_where_that_is() -> None:
    expect(
        """
        import torch
        from torch import nn
        from transformers import GenerationMixin
        class Adapter(nn.Module, GenerationMixin):
            def __init__(self, embedded):
                super().__init__()
                self.register_buffer("embedded", embedded)
        class Captioner(nn.Module):
            def write(self, image: torch.Tensor):
                text = torch.full((2, 2), 2, device=image.device)
                adapter = Adapter(self.encode(image))
                return adapter.generate(text)
        """,
        "DEV102",
    )


def test_a_module_that_moves_a_part_of_itself_places_itself() -> None:
    expect(
        """
        import torch
        from torch import nn
        class Hybrid(nn.Module):
            def __init__(self, rank):
                super().__init__()
                self.fc = nn.DataParallel(nn.Linear(16, 8).to(rank))
            def forward(self, x):
                return self.fc(x)
        def train(rank):
            model = Hybrid(rank)
            target = torch.zeros(3).to(rank)
            return nn.functional.mse_loss(model(torch.zeros(3, 16).to(rank)), target)
        """,
        "DEV102",
    )
