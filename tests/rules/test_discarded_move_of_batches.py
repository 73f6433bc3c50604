"""DEV101: which parts of batches and mappings are known to be tensors."""

from __future__ import annotations

import pytest
from checking import expect, findings, reported_lines

from torchlint.findings import Confidence

CODE = "DEV101"


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
                x.to(device)  # <-
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


def test_a_part_that_is_moved_in_vain_beside_one_whose_move_is_kept() -> None:
    code = """
        {}
        def train(model, loader, criterion, device):
            for images, labels in loader:
                images.to(device)  {}
                labels = labels.to(device)
                criterion(model(images), labels).backward()
        """
    expect(code.format("import torch", "# <-"), CODE)
    # The encoding of a tokenizer moves itself.
    expect(code.format("from transformers import AutoTokenizer", ""), CODE)


@pytest.mark.parametrize(
    ("moves", "use"),
    [
        ("for key in batch: batch[key].to(device)", "model(**batch)"),
        ("[t.to(device) for t in batch]", "model(*batch)"),
        ("for t in batch: t.cuda()", "model(*batch)"),
    ],
)
def test_entries_of_a_batch_that_a_model_gets_are_tensors(moves: str, use: str) -> None:
    expect(f"def step(model, batch, device):\n    {moves}  # <-\n    return {use}", CODE)


@pytest.mark.parametrize("use", ["Pipeline(*parts)", "chain(*parts)", "print(*parts)"])
def test_what_is_passed_to_anything_else_in_a_row_may_be_modules(use: str) -> None:
    code = "from tools import Pipeline, build, chain\ndef step(parts, device):\n    {}\n    return " + use
    expect(code.format("[t.to(device) for t in parts]"), CODE)


def test_one_tensor_among_the_names_that_a_loop_goes_through_is_enough() -> None:
    code = """
        import torch
        def step(model, x, mask, device):
            for t in (x, mask):
                t.to(device)  {}
            return model(x, mask) {}
        """
    expect(code.format("# <-", "* torch.sum(mask, dim=1)"), CODE)
    expect(code.format("", ""), CODE)


def test_a_variable_is_a_tensor_whatever_it_wraps() -> None:
    expect(
        """
        from torch.autograd import Variable
        def run(model, x, use_cuda):
            x = Variable(x)
            if use_cuda:
                x.cuda()  # <-
            return model(x)
        """,
        CODE,
    )
