"""DEV501: what follows another tensor to its device, its type or its index alone."""

from __future__ import annotations

import pytest
from checking import expect, findings, fixed

CODE = "DEV501"


def test_following_another_tensor_to_the_current_device_is_reported() -> None:
    code = """\
        import torch
        def mask(lengths):
            steps = torch.arange(3)
            if lengths.is_cuda:
                steps = steps.cuda()  # <-
            return steps < lengths.unsqueeze(1)
        """
    expect(code, CODE)
    assert "steps = steps.to(lengths.device)" in fixed(code, CODE)


@pytest.mark.parametrize(
    "test",
    ["x.is_cuda", "flag and x.is_cuda", "x.is_cuda and x.is_floating_point() and sys.platform != 'win32'"],
)
def test_a_tensor_that_follows_another_one_to_cuda_goes_to_the_current_device(test: str) -> None:
    (finding,) = findings(
        f"""
        import sys
        import torch
        def work(x, y: torch.Tensor, flag):
            if {test}:
                y = y.cuda()
            return x + y
        """,
        CODE,
    )
    assert finding.range.start.line == 6
    assert "`x.device`" in finding.message


@pytest.mark.parametrize(
    "use",
    [
        "y.to(x.device.type)",
        "torch.ones(3, device=x.device.type)",
        'torch.ones(3).to("cuda" if x.is_cuda else "cpu")',
        'torch.ones(3).to("cpu" if not x.is_cuda else "cuda")',
        'torch.ones(3, device=torch.device("cuda" if x.is_cuda else "cpu"))',
    ],
)
def test_the_type_of_a_device_is_the_current_one_of_its_sort(use: str) -> None:
    expect(
        f"""
        import torch
        def work(x: torch.Tensor, y: torch.Tensor):
            return x + {use}  # <-
        """,
        CODE,
    )


def test_the_type_of_a_device_is_the_current_one_of_its_sort_under_a_name_too() -> None:
    expect(
        """
        import torch
        def work(x: torch.Tensor):
            kind = "cuda" if x.is_cuda else "cpu"  # <-
            return x + torch.ones(3, device=kind)
        """,
        CODE,
    )


TYPES = ["x.device.type", '"cuda" if x.is_cuda else "cpu"', '"cpu" if not x.is_cuda else "cuda"']


@pytest.mark.parametrize("kind", TYPES)
def test_the_type_of_a_device_is_what_autocast_wants(kind: str) -> None:
    expect(
        f"""
        import torch
        def work(model, x: torch.Tensor):
            with torch.autocast({kind}, dtype=torch.bfloat16):
                return model(x)
        """,
        CODE,
    )


@pytest.mark.parametrize("kind", TYPES)
def test_the_type_of_a_device_is_all_that_is_asked_of_a_generator(kind: str) -> None:
    expect(
        f"""
        import torch
        def noise(x: torch.Tensor, seed: int):
            kind = {kind}
            draws = torch.Generator({kind}).manual_seed(seed)
            again = torch.Generator(device=kind).manual_seed(seed)
            noise = torch.randn(x.shape, device=x.device, generator=draws)
            return noise + torch.randn(x.shape, device=x.device, generator=again)
        """,
        CODE,
    )


@pytest.mark.parametrize("use", ["torch.ones(3, device=x.get_device())", "y.to(x.get_device())"])
def test_the_index_of_a_tensor_on_the_cpu_is_no_device(use: str) -> None:
    code = f"""
        import torch
        def work(x: torch.Tensor, y: torch.Tensor):
            return x + {use}  # <-
        """
    expect(code, CODE)
    assert use.replace("x.get_device()", "x.device") in fixed(code, CODE)


@pytest.mark.parametrize("test", ["x.is_cuda", "x.get_device() >= 0", "x.device.type == 'cuda'"])
def test_the_index_of_a_tensor_that_is_asked_first_is_one(test: str) -> None:
    expect(
        f"""
        import torch
        def work(x: torch.Tensor, y: torch.Tensor):
            if {test}:
                y = y.to(x.get_device())
            return x + y
        """,
        CODE,
    )


@pytest.mark.parametrize(
    ("used", "reported"),
    [("{}.dim()", True), ("torch.relu({})", True), ("{}(y)", False), ("{}.generate(y)", False), ("None", False)],
)
def test_what_is_asked_for_its_device_by_a_method_may_be_no_tensor(used: str, reported: bool) -> None:
    code = f"import torch\ndef work(a, y: torch.Tensor):\n    b = {used.format('a')}\n    return y.to(a.get_device()), b\n"
    assert bool(findings(code, CODE)) is reported
    method = "import torch\nclass Work:\n    def work(self, y: torch.Tensor):\n        return y.to(self.get_device())\n"
    assert not findings(method, CODE)


@pytest.mark.parametrize(("asked", "marked"), [("self.is_cuda", ""), ("self.scale.is_cuda", "  # <-")])
def test_a_flag_of_the_object_is_no_tensor_that_is_on_cuda(asked: str, marked: str) -> None:
    expect(
        f"""
        import torch
        class Sampler:
            def __init__(self, is_cuda, scale):
                self.is_cuda, self.scale = is_cuda, scale
            def draw(self, y):
                if {asked}:
                    y = y.cuda(){marked}
                return y
        """,
        CODE,
    )
