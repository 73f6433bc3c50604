"""DEV101: which dropped moves are reported, which are not, and what the fix does."""

from __future__ import annotations

import pytest
from checking import expect, findings, fixed, reported_lines, safeties

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


def test_each_part_of_a_tuple_statement_is_judged_alone() -> None:
    expect(
        """
        import torch
        def work(device):
            model, x = torch.nn.Linear(2, 2), torch.ones(2)
            (
                model.to(device),
                x.to(device),  # <-
            )
            return model(x)
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


def test_the_fix_binds_the_result() -> None:
    assert (
        fixed(
            """\
            import torch
            def work(device):
                x = torch.ones(3)
                x.to(device)  # keep
                return x
            """,
            CODE,
        )
        == """\
import torch
def work(device):
    x = torch.ones(3)
    x = x.to(device)  # keep
    return x
"""
    )


def test_no_fix_is_offered_where_a_name_is_not_what_holds_the_tensor() -> None:
    code = """
        import torch
        def work(model: torch.nn.Module, device):
            for p in model.parameters():
                p.to(device)
        """
    assert safeties(code, CODE) == [None]


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


def test_one_fix_binds_all_that_a_tuple_statement_moves() -> None:
    code = """\
        import torch
        def work(device):
            a, b = torch.ones(3), torch.ones(3)
            a.to(device), b.to(device)
            return a + b
        """
    assert "    a, b = a.to(device), b.to(device)\n" in fixed(code, CODE)


@pytest.mark.parametrize(
    "statement", ["torch.zeros(1).cuda()", "torch.ones(2, 2).to(device)", "make().to(device)"]
)
def test_a_temporary_that_warms_the_device_up_is_silent(statement: str) -> None:
    expect(
        f"""
        import torch
        def make():
            return torch.ones(3)
        def warm_up(device):
            {statement}
        """,
        CODE,
    )


def test_a_move_that_is_expected_to_fail_is_silent() -> None:
    expect(
        """
        import pytest, torch
        def test_missing_device(self):
            x = torch.ones(3)
            with pytest.raises(RuntimeError):
                x.to("cuda:99")
            with self.assertRaisesRegex(AssertionError, "not compiled"):
                x.cuda()
        """,
        CODE,
    )


def test_a_loop_that_binds_its_own_variable_alone_is_reported() -> None:
    expect(
        """
        import torch
        def stack(tensors: list[torch.Tensor], device):
            for t in tensors:
                t = t.to(device)  # <-
            return torch.stack(tensors)
        def move(batch: dict[str, torch.Tensor], device):
            for name, value in batch.items():
                if name != "skip":
                    value = value.to(device)  # <-
            return batch
        """,
        CODE,
    )


@pytest.mark.parametrize(
    "last",
    [
        "t = t.to(device)\n                moved.append(t)",
        "t = t.to(device).sum()",
        "moved = t.to(device)",
        "u = t = t.to(device)",
    ],
)
def test_a_loop_that_uses_the_moved_variable_is_silent(last: str) -> None:
    expect(
        f"""
        import torch
        def stack(tensors: list[torch.Tensor], device, moved):
            for t in tensors:
                {last}
            return moved
        """,
        CODE,
    )


def test_a_loop_whose_variable_is_read_afterwards_is_silent() -> None:
    expect(
        """
        import torch
        def last(tensors: list[torch.Tensor], device):
            for t in tensors:
                t = t.to(device)
            return t
        """,
        CODE,
    )


def test_a_loop_over_modules_is_silent() -> None:
    expect(
        """
        from torch import nn
        def move(models: list[nn.Module], device):
            for m in models:
                m = m.to(device)
            return models
        """,
        CODE,
    )


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


@pytest.mark.parametrize(
    "statement",
    [
        "x.cuda().float()",
        "x.to(device).requires_grad_()",
        "x.cuda().zero_()",
        "x.detach().cpu()",
        "x[0].to(device)",
        "x.T.cuda()",
    ],
)
def test_a_chain_around_a_move_is_dropped_as_a_whole(statement: str) -> None:
    expect(
        f"import torch\ndef work(device):\n    x = torch.ones(3, 3)\n    {statement}  # <-\n    return x\n",
        CODE,
    )


@pytest.mark.parametrize(
    "statement", ["x.cuda().sum().backward()", "model(x.cuda())", "x.cuda().numpy()", "x.copy_(x.cpu())"]
)
def test_a_chain_that_does_something_is_silent(statement: str) -> None:
    expect(f"import torch\ndef work(model):\n    x = torch.ones(3)\n    {statement}\n    return x\n", CODE)


def test_moved_elements_that_nothing_keeps_are_reported() -> None:
    expect(
        """
        import torch
        def work(tensors: list[torch.Tensor], named: dict[str, torch.Tensor], models, device):
            [t.to(device) for t in tensors]  # <-
            {k: v.to(device) for k, v in named.items()}  # <-
            [m.to(device) for m in models]
            return tensors, named
        """,
        CODE,
    )


def test_a_helper_that_binds_its_own_name_alone_is_reported() -> None:
    expect(
        """
        import torch
        def send(x: torch.Tensor, y: torch.Tensor, device):
            x = x.to(device)
            y = y.to(device)  # <-
            return x
        def place(x: torch.Tensor, y: torch.Tensor, device):
            x, y = x.to(device), y.to(device)  # <-
            return y
        def module(m: torch.nn.Module, device):
            m = m.to(device)
        """,
        CODE,
    )


@pytest.mark.parametrize(
    "loop",
    [
        "for x, y in DataLoader(data, batch_size=4):",
        "for i, (x, y) in enumerate(DataLoader(data)):",
        "for x, y in tqdm(DataLoader(dataset=data, shuffle=True)):",
    ],
)
def test_parts_of_a_batch_that_a_loader_puts_together_are_tensors(loop: str) -> None:
    expect(
        f"""
        from torch.utils.data import DataLoader
        from tqdm import tqdm
        def train(model, data, device):
            {loop}
                x.to(device)  # <-
                y.to(device)  # <-
                model(x, y)
        """,
        CODE,
    )


@pytest.mark.parametrize(
    "loop, use",
    [
        ("for x, y in DataLoader(data, collate_fn=collate):", "model(x, y)"),
        ("for x, y in DataLoader(data, **options):", "model(x, y)"),
        ("for x, y in loader:", "model(x, y)"),
        ("for x, y in DataLoader(data):", "model(**x, **y)"),
        ("for x, y in DataLoader(data):", "model(x.nodes, y.nodes)"),
    ],
)
def test_parts_of_other_batches_are_silent(loop: str, use: str) -> None:
    expect(
        f"""
        from torch.utils.data import DataLoader
        def train(model, data, device, collate, options, loader):
            {loop}
                x.to(device)
                {use}
        """,
        CODE,
    )


def test_what_goes_into_a_loss_of_torch_is_a_tensor() -> None:
    expect(
        """
        import torch
        from torch import nn
        class Trainer:
            def __init__(self):
                self.loss = nn.MSELoss()
            def step(self, batch, device):
                x, y = batch
                x.to(device)
                y.to(device)  # <-
                return self.loss(self.model(x), y)
        def step(model, loader, device):
            criterion = nn.CrossEntropyLoss()
            for images, labels in loader:
                labels.to(device)  # <-
                criterion(model(images), labels).backward()
        """,
        CODE,
    )


def test_two_parts_of_one_batch_are_more_likely_tensors_than_one() -> None:
    code = """
        def train(model, loader, device):
            for x, y in loader:
                x.to(device)  # <-
                y.to(device)  # <-
                model(x, y)
            for graph, name in loader:
                graph.to(device)
                model(graph, name)
        """
    expect(code, CODE)
    assert reported_lines(code, CODE, confidence=Confidence.POSSIBLE) == [4, 5, 8]


def _in_a_loop(body: str, imports: str = "", source: str = "x, y") -> str:
    lines = "\n".join(f"            {line}" for line in body.splitlines())
    return f"""
        import torch
        {imports}
        def train(model, loader, criterion, optimizer, device):
          for {source} in loader:
{lines}
            loss = criterion(model(x), y)
            loss.backward()
            optimizer.step()
        """


def test_a_part_of_a_batch_beside_one_whose_move_is_kept_is_a_tensor() -> None:
    expect(_in_a_loop("x = x.to(device)\ny.to(device)  # <-"), CODE)


def test_a_part_that_is_compared_counts_as_used() -> None:
    expect(
        """
        def evaluate(model, loader, device):
            right = 0
            for x, y in loader:
                x = x.to(device)
                y.to(device)  # <-
                right += (model(x).argmax(1) == y).sum()
            return right
        """,
        CODE,
    )


def test_beside_graphs_that_move_themselves_one_dropped_move_proves_nothing() -> None:
    code = _in_a_loop("x.to(device)\ny = y.to(device)", "from torch_geometric.loader import DataLoader")
    assert not reported_lines(code, CODE)


@pytest.mark.parametrize(
    "moves",
    [
        "[t.to(device) for t in batch]  # <-",
        "for t in batch:\n    t.to(device)  # <-",
        "for t in batch:\n    t = t.to(device)  # <-",
    ],
)
def test_the_elements_of_a_batch_that_is_unpacked_are_tensors(moves: str) -> None:
    expect(_in_a_loop(f"{moves}\nx, y = batch", source="batch"), CODE)


def test_two_parts_of_a_parameter_that_are_moved_in_vain_and_handed_on_are_tensors() -> None:
    expect(
        """
        class Trainer:
            def step(self, batch):
                images, targets = batch
                images.to(self.device)  # <-
                targets.to(self.device)  # <-
                return self.model(images, targets)
        """,
        CODE,
    )


@pytest.mark.parametrize("use", ["optimize(a.parameters(), b.parameters())", "return a(b(x))", "return a, b"])
def test_a_pair_of_models_is_no_batch(use: str) -> None:
    code = f"""
        def prepare(models, x, device):
            a, b = models
            a.to(device)
            b.to(device)
            for m in models:
                m.to(device)
            [m.to(device) for m in models]
            {use}
        """
    assert not reported_lines(code, CODE)


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


@pytest.mark.parametrize("drop", ["x.half() if fast else x.float()", "fast and x.half()", "not fast or x.float()"])
def test_a_move_in_an_arm_of_an_expression_that_is_dropped_is_dropped(drop: str) -> None:
    expect(
        f"""
        import torch
        def infer(model, fast):
            x = torch.ones(3)
            {drop}  # <-
            return model(x)
        """,
        CODE,
    )


def test_an_arm_that_moves_a_model_is_silent() -> None:
    code = """
        import torch
        def infer(fast):
            model = torch.nn.Linear(3, 3)
            model.half() if fast else model.float()
            return model
        """
    assert not reported_lines(code, CODE)


def test_parts_of_a_batch_in_a_row_are_tensors() -> None:
    expect(
        """
        def evaluate(model, loader, device):
            for images, labels in loader:
                [t.to(device) for t in (images, labels)]  # <-
                model(images).sub(labels)
        def train(model, loader, device):
            for images, labels in loader:
                for t in [images, labels]:
                    t = t.to(device)  # <-
                model(images).sub(labels)
        """,
        CODE,
    )


@pytest.mark.parametrize(
    "move",
    [
        "for k, v in batch.items(): v.to(device)",
        "for v in batch.values(): v.to(device)",
        "{k: v.to(device) for k, v in batch.items()}",
        "for k, v in batch.items(): v = v.to(device)",
    ],
)
def test_the_entries_of_a_batch_that_a_model_takes_apart_are_tensors(move: str) -> None:
    expect(
        f"""
        def step(model, batch, device):
            {move}  # <-
            return model(**batch)
        """,
        CODE,
    )


@pytest.mark.parametrize("use", ["return Pipeline(**parts)", "return parts['unet'](2)", "return cls(**parts)"])
def test_the_entries_of_a_mapping_may_be_modules(use: str) -> None:
    code = f"""
        def place(parts, device, cls):
            for name, part in parts.items():
                part.to(device)
            {use}
        """
    assert not findings(code, CODE)


def test_what_is_stacked_is_a_list_of_tensors() -> None:
    expect(
        """
        import torch
        def merge(tensors, device):
            for i, t in enumerate(tensors):
                t = t.to(device)  # <-
            return torch.stack(tensors).mean(0)
        """,
        CODE,
    )


@pytest.mark.parametrize("key", ["key", '"labels"', "0"])
def test_an_entry_of_a_batch_that_a_model_takes_apart_is_a_tensor(key: str) -> None:
    expect(
        f"""
        def train(model, loader, device):
            for batch in loader:
                for key in batch:
                    batch[{key}].to(device)  # <-
                model(**batch)
        """,
        CODE,
    )


def test_an_entry_of_what_a_loop_goes_through_is_a_tensor_beside_another_that_moves() -> None:
    expect(
        """
        def fit(net, loader, criterion, device):
            for i, data in enumerate(loader, 0):
                inputs = data[0].to(device)
                labels = data[1]
                labels.to(device)  # <-
                criterion(net(inputs), labels)
        """,
        CODE,
    )


@pytest.mark.parametrize("loop", ["for part in self.parts", "for part in model.children()"])
def test_an_entry_of_something_else_may_be_a_module(loop: str) -> None:
    code = f"""
        def place(self, model, device):
            {loop}:
                part["head"].to(device)
        """
    assert not findings(code, CODE)


def test_the_targets_of_a_detector_hold_tensors() -> None:
    expect(
        """
        def train(model, loader, device):
            for images, targets in loader:
                for target in targets:
                    for k, v in target.items():
                        v = v.to(device)  # <-
                model(images, targets)
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


@pytest.mark.parametrize(
    "statement, expected",
    [
        ("x.add_(y).to(kind)", []),
        ("x.data.add_(y).to(dtype=x.dtype)", []),
        ("x.add_(y).half()", [CODE]),
        ("x.add_(y).to(torch.float16)", [CODE]),
        ("x.add_(y).to(y.device)", [CODE]),
        ("x.add(y).to(kind)", [CODE]),
        ("x.to(kind)", [CODE]),
    ],
)
def test_a_write_in_place_that_is_brought_to_some_type_has_done_its_work(statement: str, expected: list[str]) -> None:
    code = f"""
        import torch
        def merge(x: torch.Tensor, y: torch.Tensor):
            kind = x.dtype
            {statement}
            return x
        """
    assert [f.code for f in findings(code, CODE)] == expected


@pytest.mark.parametrize("use", ["x[~mask]", "x * mask", "x + 1 - mask"])
def test_what_is_moved_and_computed_with_is_a_tensor(use: str) -> None:
    expect(
        f"""
        import torch
        def features(encoder, x, mask):
            mask.to(torch.bool)  # <-
            x = encoder(x)
            return {use}
        """,
        CODE,
    )


def test_entries_of_a_batch_may_be_taken_apart_in_one_row() -> None:
    expect(
        """
        def run(net, loader, device):
            for sample in loader:
                image, mask = sample["image"], sample["mask"]
                image.to(device)  # <-
                mask.to(device)  # <-
                net(image, mask)
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
