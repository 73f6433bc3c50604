"""DEV102: what was sent to a device stays known as a tensor through conversions, indices and metrics."""

from __future__ import annotations

import pytest
from checking import reported_lines

MASK = """
    import torch

    def select(layers, mask):
        rows = torch.ones(8)
        mask = mask{}
        return rows[mask]
    """


@pytest.mark.parametrize("sent", [".cuda().bool()", ".to('cuda').long()", ".cuda()"])
def test_an_index_that_was_sent_away_and_converted_meets_a_tensor_of_the_host(sent: str) -> None:
    assert reported_lines(MASK.format(sent), "DEV102") == [5]


@pytest.mark.parametrize("sent", [".bool()", ".cpu().bool()"])
def test_an_index_of_unknown_place_or_of_the_host_is_fine(sent: str) -> None:
    assert reported_lines(MASK.format(sent), "DEV102") == []


PROPOSALS = """
    import torch

    def keep(proposals, scores: torch.Tensor):
        proposals = proposals{}
        chosen = (scores.cuda() > 0.5).nonzero().squeeze(1)
        return proposals[chosen]
    """


def test_what_was_copied_to_the_host_takes_no_index_from_a_device() -> None:
    assert reported_lines(PROPOSALS.format(".cpu()"), "DEV102") == [7]


@pytest.mark.parametrize("sent", ["", ".cuda()"])
def test_what_was_not_copied_to_the_host_may_take_it(sent: str) -> None:
    assert reported_lines(PROPOSALS.format(sent), "DEV102") == []


METRIC = """
    import torch
    import torchmetrics

    def evaluate(model, loader, device):
        model.to(device)
        accuracy = torchmetrics.Accuracy(task="multiclass", num_classes=10){}
        for x, y in loader:
            accuracy{}(model(x.to(device)), y.to(device))
        return accuracy.compute()
    """


@pytest.mark.parametrize("method", ["", ".update"])
def test_a_metric_of_the_host_gets_what_was_moved(method: str) -> None:
    assert reported_lines(METRIC.format("", method), "DEV102") == [9]


@pytest.mark.parametrize("method", ["", ".update"])
def test_a_metric_that_is_moved_is_fine(method: str) -> None:
    assert reported_lines(METRIC.format(".to(device)", method), "DEV102") == []


MASKED = """
    import torch
    from torch import nn

    class Shrinkage(nn.Module):
        def __init__(self):
            super().__init__()
            self.alpha = nn.Parameter(torch.zeros(1))

        def forward(self, x):
            target = torch.eye(x.shape[-1]{}).expand_as(x) * x
            return self.alpha * target
    """


def test_what_is_expanded_has_at_least_the_dimensions_that_it_had() -> None:
    assert reported_lines(MASKED.format(""), "DEV201") == [11]
    assert reported_lines(MASKED.format(", device=x.device"), "DEV201") == []


MODEL = """
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    class Writer:
        def __init__(self, name, device):
            self.tokenizer = AutoTokenizer.from_pretrained(name)
            self.model = AutoModelForCausalLM.from_pretrained(name)
            self.model{}.to(device)

        def write(self, prompt):
            ids = self.tokenizer.encode(prompt, return_tensors="pt")
            return self.model.generate(ids)
    """


@pytest.mark.parametrize("chain", ["", ".half()", ".eval().half()"])
def test_a_module_is_moved_at_the_end_of_a_chain_as_well(chain: str) -> None:
    assert reported_lines(MODEL.format(chain), "DEV102") == [13]


TOKENS = """
    import torch

    def states(model, tokenizer, texts, device):
        model.to(device)
        for text in texts:
            batch = tokenizer(text, return_tensors="pt")
            {}
            yield model(**batch)
    """


def test_a_batch_whose_entries_are_all_replaced_is_where_they_are() -> None:
    loop = "for key in batch: batch[key] = batch[key].to(device)"
    assert reported_lines(TOKENS.format(loop), "DEV102") == []
    assert reported_lines(TOKENS.format("pass"), "DEV102") == [9]


GRAPH = """
    import torch
    import torch_geometric.transforms as T
    from torch_geometric.datasets import Planetoid

    def main(Net, device):
        data = Planetoid("data", "Cora", transform={})[0]{}
        model = Net(16).to(device)
        x = data.x.to(device)
        return model(x, data.edge_index)
    """


def test_the_rest_of_a_graph_stays_on_the_host() -> None:
    assert reported_lines(GRAPH.format("T.NormalizeFeatures()", ""), "DEV102") == [10]


@pytest.mark.parametrize(
    ("transform", "moved"),
    [("T.ToDevice(device)", ""), ("T.Compose([T.ToDevice(device)])", ""), ("of_mine", ""), ("None", ".to(device)")],
)
def test_a_graph_that_is_moved_or_may_be_is_fine(transform: str, moved: str) -> None:
    assert reported_lines(GRAPH.format(transform, moved), "DEV102") == []


POLICY = """
    import torch
    from torch.utils.data import DataLoader

    def clone(policy, dataset, device):
        policy = policy.to(device)
        for batch in DataLoader(dataset, batch_size=32):
            logits = policy(batch["seen"].to(device))
            done = batch["done"]{}
            loss = -torch.distributions.Categorical(logits=logits).log_prob(done).mean()
            loss.backward()
    """


def test_a_distribution_is_asked_about_what_stayed_on_the_host() -> None:
    assert reported_lines(POLICY.format(""), "DEV102") == [10]
    assert reported_lines(POLICY.format(".to(device)"), "DEV102") == []


VIDEO = """
    def reconstruct(generator, loader, host=False):
        for x in loader:
            video = x["video"]
            if not host:
                {}video.cuda()
            yield generator(video[:, :, 0])
    """


def test_what_is_indexed_along_several_dimensions_is_a_tensor_and_stays_where_it_is() -> None:
    assert reported_lines(VIDEO.format(""), "DEV101") == [6]
    assert reported_lines(VIDEO.format("video = "), "DEV101") == []


SPOKEN = """
    from PIL import Image
    from transformers import AutoModelForCausalLM, AutoProcessor

    def describe(name, prompt, path, device):
        model = AutoModelForCausalLM.from_pretrained(name).to(device)
        processor = AutoProcessor.from_pretrained(name)
        inputs = processor(text=prompt, images=Image.open(path), return_tensors="pt"{}){}
        return model.generate(**inputs)
    """


def test_what_a_processor_gives_is_on_the_host() -> None:
    assert reported_lines(SPOKEN.format("", ""), "DEV102") == [9]


@pytest.mark.parametrize(("told", "moved"), [(", device=device", ""), ("", ".to(device)")])
def test_a_processor_may_be_told_its_device_and_what_it_gives_be_moved(told: str, moved: str) -> None:
    assert reported_lines(SPOKEN.format(told, moved), "DEV102") == []


PENALTY = """
    import torch

    def penalty(critic, real, fake):
        alpha = torch.rand(real.shape[0], 1{}).expand(real.shape[0], 9).contiguous().view(*real.shape)
        mixed = alpha * real + (1 - alpha) * fake
        return critic(mixed).mean()

    def train(critic, batches, fake):
        for real in batches:
            penalty(critic, real.cuda(), fake.cuda()).backward()
    """


def test_what_is_laid_out_like_something_else_has_its_dimensions() -> None:
    assert reported_lines(PENALTY.format(""), "DEV102", "DEV201") == [5]
    assert reported_lines(PENALTY.format(", device=real.device"), "DEV102", "DEV201") == []
