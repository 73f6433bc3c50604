"""DEV108: which comparisons of devices can't hold, which may, and what the fix compares."""

from __future__ import annotations

import pytest
from checking import expect, fixed


@pytest.mark.parametrize(
    "test",
    [
        'x.device == "cuda"',
        '"cpu" != x.device',
        'torch.device(name) == "cuda"',
        'device == "cuda"',
        '"cuda" in x.device',
        'name is "cuda"',
        'name is not "cpu"',
        'x.device == torch.device("cuda")',
        'torch.device("mps") != x.device',
        'x.device in ("cuda", "mps")',
        'str(x.device) == "cuda"',
    ],
)
def test_a_comparison_that_can_not_hold_is_reported(test: str) -> None:
    expect(
        f"""
        import torch
        def work(x: torch.Tensor, name, device: torch.device):
            if {test}:  # <-
                return 1
            return 2
        """,
        "DEV108",
    )


@pytest.mark.parametrize(
    "test",
    [
        'x.device.type == "cuda"',
        'name == "cuda"',
        'str(x.device) == "cuda:0"',
        'str(x.device) == "cpu"',
        'str(device) == "cuda"',
        "x.device in (y.device, device)",
        'x.device.type in ("cuda", "mps")',
        '"cuda" in str(x.device)',
        'x.device == torch.device("cpu")',
        'x.device == torch.device("cuda:0")',
        'x.device == torch.device("cuda", 0)',
        "x.device == y.device",
        'args.device == "cuda"',
        'device == torch.device("cuda")',
        "name is None",
    ],
)
def test_a_comparison_that_may_hold_is_silent(test: str) -> None:
    expect(
        f"""
        import torch
        def work(x: torch.Tensor, y: torch.Tensor, name, args, device: torch.device):
            if {test}:
                return 1
            return 2
        """,
        "DEV108",
    )


@pytest.mark.parametrize(
    "test, reported",
    [
        ("type(x) == torch.Tensor", True),
        ("type(x) is torch.Tensor", True),
        ("type(x) in (torch.Tensor, torch.LongTensor)", True),
        ("not type(x) != torch.Tensor", True),
        ("type(x) != torch.Tensor", False),
        ("type(x) in (torch.Tensor, Spec)", False),
        ("type(y) == torch.Tensor", False),
    ],
)
def test_what_is_of_the_type_of_a_tensor_is_one(test: str, reported: bool) -> None:
    expect(
        f"""
        import torch
        from specs import Spec
        def work(x, y):
            if {test}:
                return x.device != torch.device("cuda"){"  # <-" if reported else ""}
        """,
        "DEV108",
    )


def test_a_class_of_arguments_with_a_backward_flag_is_no_tensor() -> None:
    expect(
        """
        import torch
        def work(parser):
            args = parser.parse_args()
            x = torch.ones(3, device=args.device)
            return x, args.backward, args.device == "cpu"
        """,
        "DEV108",
    )


def test_the_fix_compares_what_can_be_equal() -> None:
    code = "import torch\ndef work(x: torch.Tensor):\n    return {}\n"
    assert 'x.device.type == "cuda"' in fixed(code.format('x.device == "cuda"'), "DEV108")
    assert 'str(x.device) == "cuda:0"' in fixed(code.format('x.device == "cuda:0"'), "DEV108")
    assert '"cuda" in str(x.device)' in fixed(code.format('"cuda" in x.device'), "DEV108")


@pytest.mark.parametrize(
    ("text", "calls", "marked"),
    [
        ("cuda", "", "  # <-"),
        ("cuda", "self.to(torch.device('cpu'))", "  # <-"),
        ("pinned", "", ""),
        ("cuda", "self.to('cuda')", ""),
    ],
)
def test_an_annotated_device_may_be_given_as_text(text: str, calls: str, marked: str) -> None:
    expect(
        f"""
        import torch
        class Graph:
            def to(self, device: torch.device):
                if device == "{text}":{marked}
                    return self.pin()
                return self.copy(device)
            def ready(self):
                return {calls}
        """,
        "DEV108",
    )


@pytest.mark.parametrize(
    ("text", "reported"), [("auto", False), ("none", False), ("pinned", False), ("cuda", True)]
)
def test_a_text_that_names_no_device_says_that_texts_are_given_too(text: str, reported: bool) -> None:
    mark = "  # <-" if reported else ""
    expect(
        f"""
        import torch
        def work(device: torch.device):
            if device == "{text}":{mark}
                return 1
            return 2
        """,
        "DEV108",
    )


@pytest.mark.parametrize(
    ("before", "reported"),
    [
        ("config.device = torch.device(config.device)", True),
        ("device = torch.device(config.device)", False),
        ("config.device = 'cpu'", False),
    ],
)
def test_a_setting_is_a_text_until_a_device_is_assigned_to_it(before: str, reported: bool) -> None:
    mark = "  # <-" if reported else ""
    expect(
        f"""
        import torch
        def work(config, model):
            {before}
            scores = torch.relu(config)
            if config.device != "cpu":{mark}
                return model(scores)
            return scores
        """,
        "DEV108",
    )
