"""DEV110: which devices that were asked for decide nothing, and which are read or imposed."""

from __future__ import annotations

import pytest
from checking import expect, findings


@pytest.mark.parametrize(
    "body",
    ["return torch.arange(n)", "return torch.zeros(n, 2).float()", "return x.cuda()"],
)
def test_an_unread_device_is_reported_where_it_should_decide(body: str) -> None:
    expect(f"import torch\ndef work(x, n, device):\n    {body}  # <-\n", "DEV110")


def test_an_object_that_prefers_its_own_device_is_reported() -> None:
    expect(
        """
        class Sampler:
            def __init__(self, device):
                self.device = device
            def draw(self, x, device=None):
                return x.to(self.device)  # <-
        """,
        "DEV110",
    )


@pytest.mark.parametrize(
    "code",
    [
        "def work(n, device):\n    return torch.arange(n, device=device)",
        "def work(n, device):\n    made = torch.arange(n)\n    def send():\n        return made.to(device)\n    return send()",
        "def work(n, device):\n    return n + 1",
        "def work(n, device):\n    raise NotImplementedError",
        "def work(n, device):\n    return make(**locals())",
        "class A(Base):\n    def work(self, n, device):\n        return torch.arange(n)",
        "class A:\n    @abstractmethod\n    def work(self, n, device):\n        return torch.arange(n)",
        "class A:\n    def work(self, n, device):\n        return n\nclass B(A):\n    def work(self, n, device):\n        return torch.arange(n)",
    ],
)
def test_a_device_that_is_read_or_imposed_is_silent(code: str) -> None:
    expect("import torch\nfrom base import Base, abstractmethod, make\n" + code + "\n", "DEV110")


@pytest.mark.parametrize("made", ["torch.Tensor([1.0], device=device)", "torch.FloatTensor(3, device='cuda')"])
def test_a_constructor_that_takes_the_cpu_alone_is_reported(made: str) -> None:
    expect(f"import torch\ndef work(device):\n    return {made}  # <-\n", "DEV110")


@pytest.mark.parametrize(
    "made", ["torch.Tensor([1.0], device='cpu')", "torch.tensor([1.0], device=device)", "torch.Tensor(device)"]
)
def test_a_constructor_that_gets_what_it_takes_is_silent(made: str) -> None:
    expect(f"import torch\ndef work(device):\n    return {made}, device\n", "DEV110")


OVERRIDDEN = """
    from transformers import AutoTokenizer
    class Pipeline:
        def __init__(self, name, device):
            self.device = device
            self.tokenizer = AutoTokenizer.from_pretrained(name)
        def encode(self, texts, device=None):
            {default}
            batch = self.tokenizer(texts, return_tensors="pt").to({target})  # <-
            return batch.input_ids.to(device)
    """


@pytest.mark.parametrize(
    "default",
    [
        "device = device or self.device",
        "device = device if device is not None else self.device",
        "if device is None: device = self.device",
    ],
)
def test_a_device_that_overrides_the_object_s_own_is_ignored_by_its_own(default: str) -> None:
    expect(OVERRIDDEN.format(default=default, target="self.device"), "DEV110")
    assert not findings(OVERRIDDEN.format(default=default, target="device"), "DEV110")
    assert not findings(OVERRIDDEN.format(default=default, target="self.text.device"), "DEV110")


def test_a_parameter_that_is_read_otherwise_says_nothing_of_the_own_device() -> None:
    code = OVERRIDDEN.format(default="print(device)", target="self.device")
    assert not findings(code, "DEV110")
