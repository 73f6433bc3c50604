"""DEV403: what autocast refuses, what switches it off, and the fixes."""

from __future__ import annotations

import pytest
from checking import expect, findings, fixed, safeties

from torchlint.check import CheckOptions, check_source
from torchlint.findings import Safety

CODE = "DEV403"


def program(call: str) -> str:
    return f"""
import torch
def work(net, x: torch.Tensor, device: torch.device, where, name: str, kind=None):
    with {call}:
        return net(x)
"""


@pytest.mark.parametrize(
    "call, better, safety",
    [
        ("torch.autocast(x.device)", "torch.autocast(x.device.type)", Safety.SAFE),
        ("torch.autocast(device_type=device)", "torch.autocast(device_type=device.type)", Safety.SAFE),
        ('torch.autocast("cuda:0")', 'torch.autocast("cuda")', Safety.SAFE),
        ("torch.amp.autocast(device_type='cuda:1')", "torch.amp.autocast(device_type='cuda')", Safety.SAFE),
        ("torch.autocast(str(device))", "torch.autocast(device.type)", Safety.UNSAFE),
        (
            'torch.autocast("cpu", dtype=torch.float32)',
            'torch.autocast("cpu", dtype=torch.bfloat16)',
            Safety.UNSAFE,
        ),
        ("torch.autocast(torch.device('cuda'))", "torch.autocast(torch.device('cuda').type)", Safety.SAFE),
    ],
)
def test_a_wrong_argument_is_reported_and_mended(call: str, better: str, safety: Safety) -> None:
    expect(program(call).replace(f"{call}:", f"{call}:  # <-"), CODE)
    assert safeties(program(call), CODE) == [safety]
    assert fixed(program(call), CODE) == program(better)


@pytest.mark.parametrize(
    "call",
    [
        "torch.autocast()",
        "torch.autocast(dtype=torch.float16)",
        "torch.autocast(enabled=True)",
        "torch.autocast(torch.float16)",
        "torch.amp.autocast(True)",
        'torch.cuda.amp.autocast(device_type="cuda")',
        'torch.cuda.amp.autocast("cuda")',
        "torch.cuda.amp.autocast(torch.float16)",
    ],
)
def test_misplaced_arguments_are_reported_without_a_fix(call: str) -> None:
    expect(program(call).replace(f"{call}:", f"{call}:  # <-"), CODE)
    assert safeties(program(call), CODE) == [None]


@pytest.mark.parametrize(
    "call",
    [
        "torch.autocast(device.type)",
        "torch.autocast(x.device.type, torch.bfloat16)",
        "torch.autocast(name)",
        "torch.autocast(where)",
        'torch.autocast("cuda" if torch.cuda.is_available() else "cpu")',
        "torch.autocast(str(device).split(':')[0])",
        "torch.autocast(kind or 'cuda')",
        'torch.autocast("cpu", dtype=torch.bfloat16)',
        'torch.autocast("cpu", dtype=torch.float32, enabled=False)',
        'torch.autocast("cuda", dtype=torch.float32)',
        "torch.autocast(*where)",
        "torch.autocast(**where)",
        "torch.cuda.amp.autocast()",
        "torch.cuda.amp.autocast(True, torch.float16)",
        "torch.cuda.amp.autocast(enabled=where)",
    ],
)
def test_right_and_unknown_arguments_are_silent(call: str) -> None:
    expect(program(call), CODE)


@pytest.mark.parametrize("body", ["device.type == 'cuda'", "device.type"])
def test_a_device_whose_type_is_read_is_no_text(body: str) -> None:
    expect(
        f"""
        import torch
        def work(net, x, device):
            on = {body}
            with torch.autocast(device, enabled=on):  # <-
                return net(x)
        """,
        CODE,
    )


def test_a_device_parameter_may_be_a_text() -> None:
    expect(
        "import torch\ndef work(net, x, device):\n    with torch.autocast(device):\n        return net(x)\n",
        CODE,
    )


def test_a_decorator_without_parentheses_is_reported() -> None:
    expect("from torch.cuda.amp import autocast\n@autocast  # <-\ndef work(x):\n    return x @ x\n", CODE)
    expect("from torch.cuda.amp import autocast\n@autocast()\ndef work(x):\n    return x @ x\n", CODE)


def test_an_index_is_fine_from_torch_2_4_on() -> None:
    code = program('torch.autocast("cuda:0")')
    options = CheckOptions(frozenset({CODE}), min_torch=(2, 4))
    assert check_source(code.encode(), "train.py", options).findings == ()
    assert len(findings(code, CODE)) == 1


@pytest.mark.parametrize(
    ("imports", "reported"),
    [("from ..util import autocast", False), ("from torch.cuda.amp import autocast", True)],
)
def test_a_projects_own_autocast_takes_the_function_that_it_decorates(imports: str, reported: bool) -> None:
    code = f"import torch\n{imports}\nclass Encoder(torch.nn.Module):\n    @autocast\n    def forward(self, x):\n        return x\n"
    assert bool(findings(code, "DEV403")) is reported
