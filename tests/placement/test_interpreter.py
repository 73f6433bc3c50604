"""What interpretation knows of values, said of small programs."""

from __future__ import annotations

from textwrap import dedent

import libcst as cst
import pytest

from torchlint.placement.events import Mix, Wrap
from torchlint.placement.observer import Observation, observe


def observed(code: str, path: str = "module.py") -> Observation:
    return observe(cst.parse_module(dedent(code)), path)


def mixes(code: str) -> list[Mix]:
    return [e for e in observed(code).events if isinstance(e, Mix)]


def test_a_host_tensor_that_joins_a_device_tensor_is_mixed() -> None:
    assert mixes("""
        import torch
        def f(device):
            return torch.ones(3) + torch.ones(3, device=device)
    """)


def test_two_host_tensors_are_not_mixed() -> None:
    assert not mixes("""
        import torch
        counts = torch.ones(3)
        weights = counts.sum() / counts
    """)


def test_where_a_test_found_no_accelerator_nothing_is_mixed() -> None:
    assert not mixes("""
        import torch
        def f(x):
            if x.is_cuda:
                return x
            return torch.mm(torch.ones(3, 3), x)
    """)


def test_a_number_that_fills_a_tensor_is_no_tensor() -> None:
    assert not mixes("""
        import torch
        def f(start):
            return torch.ones(1, 1).fill_(start)
    """)


def test_device_or_default_is_a_device_even_if_no_device_is_given() -> None:
    assert not mixes("""
        import torch
        class Eraser:
            def values(self, device=None):
                device = device or self.device
                return torch.full((3,), 1.0, device=device)
            def erase(self, patches):
                patches[0] = self.values() * patches.unsqueeze(0)
    """)


def test_a_fault_in_one_function_leaves_the_others() -> None:
    deep = "x" + " ** (x" * 400 + ")" * 400
    observation = observed(f"""
        import torch
        def deep(x):
            return {deep}
        def f(device):
            return torch.ones(3) + torch.ones(3, device=device)
    """)
    assert any(isinstance(e, Mix) for e in observation.events)


def test_chains_of_operators_and_of_elif_are_walked_without_recursion() -> None:
    terms = " + ".join(["x"] * 3000)
    branches = "".join(f"    elif x == {n}:\n        y = {n}\n" for n in range(900))
    code = f"def f(x):\n    return {terms}\n\ndef g(x):\n    if x == -1:\n        y = 0\n{branches}    return y\n"
    try:
        module = cst.parse_module(code)
    except Exception:  # LibCST itself may refuse such a chain
        return
    assert observe(module, "m.py").failures == []


_WRAPPED = """
    import torch
    from torch import nn
    from torch.nn.parallel import DistributedDataParallel as DDP

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(10, 5)
        def forward(self, x):
            return self.layer(x)

    def step(rank):
        model = Net().to(rank)
        model = {wrapped}
        labels = torch.randn(20, 5, device=rank)
        return nn.functional.mse_loss(model(torch.randn(20, 10)), labels)
"""


def test_a_wrapper_that_moves_its_inputs_mixes_nothing_in_the_module_that_it_wraps() -> None:
    assert not mixes(_WRAPPED.format(wrapped="DDP(model, device_ids=[rank])"))


def test_without_the_wrapper_the_same_input_is_mixed() -> None:
    assert mixes(_WRAPPED.format(wrapped="model"))


def moved_kinds(code: str) -> dict[str, str]:
    from torchlint.placement.events import Move

    module = cst.parse_module(dedent(code))
    moves = [e for e in observe(module, "module.py").events if isinstance(e, Move)]
    return {module.code_for_node(m.receiver): m.value.kind.value for m in moves}


def test_parts_of_a_batch_that_are_moved_and_handed_on_are_tensors() -> None:
    kinds = moved_kinds("""
        def train(model, loader, criterion, device):
            for i, (inputs, labels) in enumerate(loader):
                inputs = inputs.to(device)
                labels = labels.to(device)
                criterion(model(inputs), labels).backward()
    """)
    assert kinds == {"inputs": "tensor", "labels": "tensor"}


def test_parts_unpacked_from_the_batch_in_a_statement_are_tensors() -> None:
    kinds = moved_kinds("""
        def train(model, loader, device):
            for batch in loader:
                inputs, labels = batch
                inputs.to(device)
                model(inputs).backward()
    """)
    assert kinds == {"inputs": "tensor"}


def test_a_whole_batch_may_be_anything() -> None:
    kinds = moved_kinds("""
        def train(model, loader, device):
            for batch in loader:
                batch = batch.to(device)
                model(batch).backward()
    """)
    assert kinds == {"batch": "unknown"}


def test_pairs_of_names_and_modules_are_no_parts_of_a_batch() -> None:
    kinds = moved_kinds("""
        def place(models, run, device):
            for name, model in models.items():
                model.to(device)
                run(model)
    """)
    assert kinds == {"model": "unknown"}


def test_a_tensor_that_fills_may_be_on_the_host() -> None:
    assert not mixes("""
        import torch
        def f(device, weights, mask, rows):
            x = torch.zeros(3, device=device)
            drawn = torch.multinomial(weights.cpu(), 1)[0]
            x.fill_(drawn)
            x = x.masked_fill(mask, torch.ones(4)[0])
            return x.index_fill(0, rows, torch.ones(4).sum())
    """)


@pytest.mark.parametrize(
    "wrapper",
    ["torch.nn.DataParallel", "torch.nn.parallel.DistributedDataParallel", "torch.distributed.fsdp.FullyShardedDataParallel"],
)
def test_what_wraps_a_module_is_seen_whatever_torch_documents_of_it(wrapper: str) -> None:
    events = observed(f"""
        import torch
        import torch.distributed.fsdp
        model = {wrapper}(torch.nn.Linear(3, 3))
    """).events
    assert [e.api for e in events if isinstance(e, Wrap)] == [wrapper]


def test_batches_of_a_loader_are_not_taken_to_be_on_the_accelerator() -> None:
    assert not [
        m
        for m in mixes("""
            import torch
            def count(batches):
                total = torch.zeros(1)
                for inputs, labels in batches:
                    total += (labels != 0).sum(dim=0).unsqueeze(0)
                return total
        """)
        if "assumed" not in m.other[0].value.facts
    ]


def test_an_attribute_whose_items_are_replaced_has_no_known_place() -> None:
    assert not mixes("""
        import torch
        from torch import nn
        class Detect(nn.Module):
            def __init__(self, layers):
                super().__init__()
                self.grid = [torch.empty(1, 2) for _ in range(layers)]
            def forward(self, x):
                for i in range(2):
                    if self.stale:
                        self.grid[i] = self.make(x)
                    y = x.sigmoid() * self.grid[i]
                return y
    """)


def test_ids_that_a_tokenizer_left_on_the_host_meet_a_model_on_the_device() -> None:
    found = mixes("""
        from transformers import AutoModelForCausalLM, AutoTokenizer
        def chat(prompt, device):
            tokenizer = AutoTokenizer.from_pretrained("gpt2")
            model = AutoModelForCausalLM.from_pretrained("gpt2").to(device)
            inputs = tokenizer(prompt, return_tensors="pt")
            return model.generate(**inputs)
    """)
    assert len(found) == 1


def test_ids_that_were_moved_with_their_batch_do_not() -> None:
    assert not mixes("""
        from transformers import AutoModelForCausalLM, AutoTokenizer
        def chat(prompt, device):
            tokenizer = AutoTokenizer.from_pretrained("gpt2")
            model = AutoModelForCausalLM.from_pretrained("gpt2").to(device)
            inputs = tokenizer(prompt, return_tensors="pt").to(device)
            return model.generate(**inputs)
    """)
