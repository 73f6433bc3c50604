"""DEV102, DEV118 and DEV201: what a program hands to its own functions beside a Module that is on a device."""

from __future__ import annotations

import pytest
from checking import expect, reported_lines

MASKED = """
    import torch
    from torch import nn

    class Crf(nn.Module):
        def _score(self, logits, mask):
            return {score}

        def forward(self, inputs: torch.Tensor, tags: torch.Tensor, mask: torch.Tensor = None):
            if mask is None:
                mask = {made}
            return self._score({given})
    """
ON_CPU, NEARBY = "torch.ones(*tags.size(), dtype=torch.bool)", "torch.ones_like(tags, dtype=torch.bool)"


@pytest.mark.parametrize("score", ["logits * mask", "logits * mask.transpose(0, 1)", "torch.where(mask, logits, logits)"])
@pytest.mark.parametrize("given", ["inputs, mask", "inputs, mask=mask", "mask=mask, logits=inputs"])
def test_a_mask_that_is_made_where_none_is_given_meets_the_input_in_a_method(score: str, given: str) -> None:
    code = MASKED.format(score=score, made=ON_CPU, given=given)
    assert reported_lines(code, "DEV201") == [11]


@pytest.mark.parametrize(
    "made, score", [(NEARBY, "logits * mask"), (ON_CPU, "logits * mask.to(logits.device)"), (ON_CPU, "logits")]
)
def test_a_mask_that_is_made_or_brought_there_is_fine(made: str, score: str) -> None:
    assert reported_lines(MASKED.format(score=score, made=made, given="inputs, mask"), "DEV201") == []


PROGRAM = """
import torch
from chapters import Net, load

def tokens(text, tokenizer):
    return torch.tensor(tokenizer.encode(text)).unsqueeze(0)

def generate(model, ids, count):
    for _ in range(count):
        logits = model(ids)
        ids = torch.cat((ids, logits[:, -1].argmax(dim=-1, keepdim=True)), dim=1)
    return ids

def fit(model, loader, device, place=None):
    for x in loader:
        score(x, model, device).backward()

def score(x, model, device):
    return model(x.to(device)).sum()

def fit_there(model, loader, device):
    model.to(device)
    fit(model, loader, device)

def main(text, tokenizer, loader, device):
    net = Net()
    load(net)
    net.to(device)
    net.eval()
"""


@pytest.mark.parametrize(
    "lines, marked",
    [
        ("generate(\n        model=net,\n        ids=tokens(text, tokenizer),  # <-\n        count=3)", True),
        ("generate(net, tokens(text, tokenizer), 3)  # <-", True),
        ("generate(net, tokens(text, tokenizer).to(device), 3)", False),
        ("generate(load(net), tokens(text, tokenizer), 3)", False),
    ],
)
def test_a_module_that_is_moved_and_handed_on_beside_a_tensor_of_the_host(lines: str, marked: bool) -> None:
    assert marked is ("# <-" in lines)
    expect(f"{PROGRAM}    {lines}\n", "DEV102")


def test_what_moves_itself_is_no_module_by_its_mode_alone() -> None:
    expect(PROGRAM.replace("net.to(device)", "net.prepare()") + "    generate(net, tokens(text, tokenizer), 3)\n", "DEV102")


@pytest.mark.parametrize("used", ["fit(net, loader, device)", "fit(loader=loader, device=device, model=net)"])
def test_a_layer_that_comes_after_the_move_is_reported_where_the_files_functions_run_the_module(used: str) -> None:
    expect(f"{PROGRAM}    net.head = torch.nn.Linear(3, 2)  # <-\n    {used}\n", "DEV118")


@pytest.mark.parametrize(
    "used", ["fit_there(net, loader, device)", "load(net)\n    fit(net, loader, device)", "fit(loader, loader, net)"]
)
def test_a_layer_is_silent_where_something_that_gets_the_module_may_move_it(used: str) -> None:
    expect(f"{PROGRAM}    net.head = torch.nn.Linear(3, 2)\n    {used}\n", "DEV118")


def test_a_layer_that_comes_after_the_move_on_one_path_is_reported() -> None:
    code = """
        import torch
        from torch import nn
        def work(x, small):
            net = nn.Sequential(nn.Linear(3, 3))
            if small:
                net.to("cpu")
            else:
                net.to("cuda")
            net.head = nn.Linear(3, 7)  # <-
            return net(x)
        """
    expect(code, "DEV118")


@pytest.mark.parametrize("processor", ["Wav2Vec2Processor", "WhisperProcessor", "AutoFeatureExtractor", "AutoTokenizer"])
@pytest.mark.parametrize("mask", ["batch.attention_mask", "batch['attention_mask']", "batch.get('attention_mask', None)"])
def test_one_of_two_inputs_of_a_model_that_is_not_moved_is_reported_where_it_stands(processor: str, mask: str) -> None:
    code = f"""
        from torch import nn
        from transformers import AutoModel, {processor}
        class Expert(nn.Module):
            def __init__(self, name):
                super().__init__()
                self.processor = {processor}.from_pretrained(name)
                self.model = AutoModel.from_pretrained(name)
            def forward(self, waves):
                device = waves[0].device
                batch = self.processor([w.cpu().numpy() for w in waves], return_tensors="pt")
                return self.model(
                    batch.input_values.to(device),
                    attention_mask={mask},  # <-
                )
        """
    expect(code, "DEV102")
    expect(code.replace(mask + ",  # <-", mask + ".to(device),"), "DEV102")


def test_what_a_processor_makes_of_pictures_may_be_where_they_are() -> None:
    code = """
        from torch import nn
        from transformers import AutoModel, CLIPProcessor
        def work(name, images, device):
            model = AutoModel.from_pretrained(name).to(device)
            batch = CLIPProcessor.from_pretrained(name)(images=images, return_tensors="pt")
            return model(pixel_values=batch.pixel_values)
        """
    expect(code, "DEV102")


HELPER = """
    import torch
    from torch import nn

    def helper(a, b):
        return {joined}

    class Net(nn.Module):
        def forward(self, x: torch.Tensor, y: torch.Tensor):
            return helper({given})
    """
MADE = "torch.zeros(x.shape)"


@pytest.mark.parametrize("joined", ["a + b", "a >= b", "a == b", "a @ b"])
@pytest.mark.parametrize("given", [f"x, {MADE}", f"{MADE}, x", f"b={MADE}, a=x"])
def test_what_operators_join_in_a_helper_that_says_nothing_of_its_arguments(joined: str, given: str) -> None:
    assert reported_lines(HELPER.format(joined=joined, given=given), "DEV201") == [10]


@pytest.mark.parametrize(
    "joined, given",
    [
        ("a + b", "x, y"),
        ("a + b", "x, 3"),
        ("a + b", f"{MADE}, {MADE}"),
        ("a + b", "x, torch.tensor(1.0)"),
        ("a.to('cpu') + b", f"x, {MADE}"),
        ("a, b", f"x, {MADE}"),
        ("a is b", f"x, {MADE}"),
        ("a.mean() + b.mean()", f"x, {MADE}"),
        ("a + len(b)", f"x, {MADE}"),
    ],
)
def test_a_helper_that_joins_no_two_tensors_of_different_places_is_silent(joined: str, given: str) -> None:
    assert reported_lines(HELPER.format(joined=joined, given=given), "DEV201") == []
