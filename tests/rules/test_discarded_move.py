"""DEV101: which dropped moves are reported, and which are not."""

from __future__ import annotations

import pytest
from checking import expect, findings

from torchlint.findings import Confidence

CODE = "DEV101"


@pytest.mark.parametrize(
    "imports, made",
    [
        ("import torch", "torch.zeros(3)"),
        ("import torch as th", "th.zeros(3)"),
        ("from torch import zeros", "zeros(3)"),
        ("import torch, numpy as np", "torch.from_numpy(np.ones(3))"),
        ("import torch", "torch.rand(3).mul(2).softmax(dim=0)"),
        ("import torch", "torch.nn.Parameter(torch.ones(3))"),
        ("import torch.nn.functional as F, torch", "F.pad(torch.ones(3), (1, 1))"),
    ],
)
@pytest.mark.parametrize(
    "move", ["to(device)", "cuda()", "cpu()", "half()", "type(torch.float16)", "to(device=device)"]
)
def test_a_tensor_that_is_moved_and_dropped_is_reported(imports: str, made: str, move: str) -> None:
    expect(
        f"""
        import torch
        {imports}
        def work(device):
            x = {made}
            x.{move}  # <-
            return x
        """,
        CODE,
    )


def test_what_is_on_the_way_back_from_a_function_of_the_file_is_known() -> None:
    expect(
        """
        import torch
        def make(n):
            return torch.arange(n), torch.ones(n)
        def work(n, device):
            a, b = make(n)
            a.to(device)  # <-
            b.to(device)  # <-
            return a + b
        """,
        CODE,
    )


def test_a_type_test_tells_the_items_of_a_mapping() -> None:
    expect(
        """
        import torch
        def work(batch, device):
            for key in batch:
                if isinstance(batch[key], torch.Tensor):
                    batch[key].to(device)  # <-
                else:
                    batch[key].to(device)
            if torch.is_tensor(batch["x"]):
                batch["x"].cuda()  # <-
            batch["x"].cuda()
            return batch
        """,
        CODE,
    )


def test_a_name_given_to_functions_of_torch_is_a_tensor() -> None:
    expect(
        """
        import torch
        from torch.nn import functional as F
        def work(batch, device):
            x = batch[0]
            x.to(device)  # <-
            return F.relu(x)
        """,
        CODE,
    )


@pytest.mark.parametrize(
    "use",
    [
        "x.parameters()",
        "x(1)",
        "f(**x)",
        'x["key"]',
        "x.state_dict()",
        "x.requires_grad_(False)",
        "torch.save(x, 'p')",
        "",
    ],
)
def test_an_unknown_value_is_silent(use: str) -> None:
    expect(
        f"""
        import torch
        def work(f, x, device):
            {use or "pass"}
            x.to(device)
            x.cuda()
            x.cpu()
            return x
        """,
        CODE,
    )


@pytest.mark.parametrize(
    "imports, made",
    [
        ("import torch", "torch.nn.Linear(2, 2)"),
        ("from torchvision.models import resnet18", "resnet18()"),
        ("from transformers import AutoModel", "AutoModel.from_pretrained('x')"),
        ("from diffusers import StableDiffusionPipeline", "StableDiffusionPipeline.from_pretrained('x')"),
        ("from torchmetrics import Accuracy", "Accuracy()"),
        ("from torch_geometric.data import Data", "Data()"),
        ("from torch_ema import ExponentialMovingAverage", "ExponentialMovingAverage([])"),
        (
            "from transformers import AutoTokenizer",
            "AutoTokenizer.from_pretrained('x')('a', return_tensors='pt')",
        ),
    ],
)
def test_what_moves_in_place_is_silent(imports: str, made: str) -> None:
    expect(
        f"""
        {imports}
        def work(device):
            x = {made}
            x.to(device)
            return x
        """,
        CODE,
    )


def test_the_confidence_is_that_of_the_receiver() -> None:
    known, inferred = findings(
        """
        import torch
        def work(x, y: torch.Tensor, device):
            y.to(device)
            x.to(device)
            return x.unsqueeze(0), y
        """,
        CODE,
    )
    assert (known.confidence, inferred.confidence) == (Confidence.CERTAIN, Confidence.LIKELY)


@pytest.mark.parametrize("cast", ["long", "int", "bool"])
def test_a_dropped_conversion_is_reported(cast: str) -> None:
    expect(
        f"""
        import torch
        def work():
            x = torch.ones(3)
            x.{cast}()  # <-
            return x.{cast}()
        """,
        CODE,
    )


def test_other_things_whose_move_returns_a_copy_are_reported() -> None:
    expect(
        """
        import dgl
        from torch_sparse import SparseTensor
        def work(edges, device):
            adjacency = SparseTensor(edges)
            adjacency.to(device)  # <-
            graph = dgl.graph(edges)
            graph.to(device)  # <-
            return graph, adjacency
        """,
        CODE,
    )


def test_a_module_has_no_cuda_that_is_non_blocking() -> None:
    expect(
        """
        def move(data, device):
            for value in data.values():
                value.cuda(device, non_blocking=True)  # <-
            return data
        """,
        CODE,
    )


def test_the_data_of_a_parameter_is_a_tensor_whatever_the_model() -> None:
    expect(
        """
        import torch
        from timm import create_model
        def load(name, state, device):
            model = create_model(name)
            model.load_state_dict(state)
            model.pos_embed.data.to(device)  # <-
            return model
        """,
        CODE,
    )


def test_a_conversion_to_the_type_that_a_factory_gives_is_said_to_do_nothing() -> None:
    code = """
        import torch
        x = torch.{made}
        x.{kind}()
        """
    (nothing,) = findings(code.format(made="ones(3, 4)", kind="float"), CODE)
    assert "without effect" in nothing.message
    for made, kind in [("arange(12)", "float"), ("ones(3, dtype=torch.int)", "float"), ("ones(3)", "double")]:
        (lost,) = findings(code.format(made=made, kind=kind), CODE)
        assert "converted copy" in lost.message
