"""DEV501: which named devices are reported, defaults and autocast among them, and what the fix writes."""

from __future__ import annotations

import pytest
from checking import expect, findings, fixed, reported_lines

from torchlint.findings import Confidence

CODE = "DEV501"


@pytest.mark.parametrize(
    "imports, use",
    [
        ("import torch", "x.cuda()"),
        ("import torch", 'x.to("cuda")'),
        ("import torch", 'x.to(device="cuda:0")'),
        ("import torch", 'torch.ones(3, device="cuda")'),
        ("import torch as th", 'th.device("cuda")'),
        ("from torch import device as Device", 'Device("cuda")'),
        ("from torch import zeros", 'zeros(3, device="mps")'),
        ("import torch", "torch.cuda.FloatTensor(3)"),
        ("from torch.cuda import LongTensor", "LongTensor(3)"),
        ("import torch", 'x.type("torch.cuda.FloatTensor")'),
        ("import torch", "x.type(torch.cuda.FloatTensor)"),
        ("import torch", 'x.new_zeros(3, device="cuda")'),
        ("import torch", 'torch.Generator("cuda")'),
        ("import torch", 'torch.set_default_tensor_type("torch.cuda.FloatTensor")'),
    ],
)
def test_a_named_device_is_reported_where_nothing_asks_for_it(imports: str, use: str) -> None:
    expect(
        f"""
        {imports}
        def work(x):
            y = {use}  # <-
            return y
        """,
        CODE,
    )


def test_a_literal_is_reported_where_it_stands_and_not_where_it_is_used() -> None:
    expect(
        """
        import torch
        device = "cuda"  # <-
        class Runner:
            where = "cuda:1"  # <-
            def run(self, x, model):
                model.to(device)
                return model(x.to(self.where))
        """,
        CODE,
    )


def test_all_places_of_a_file_are_one_finding() -> None:
    (finding,) = findings(
        """
        import torch
        def work(x, y):
            return x.cuda() + y.to("cuda")
        def more(x):
            return x.cuda()
        """,
        CODE,
    )
    assert finding.range.start.line == 4
    assert [(r.role, r.range.start.line) for r in finding.related] == [("also", 4), ("also", 6)]


@pytest.mark.parametrize(
    "line",
    [
        'parser.add_argument("--device", default="cuda")',
        'names = ["cuda", "cpu"]',
        'table = {"cuda": 1, "where": "cuda"}',
        'trainer = Trainer(accelerator="cuda")',
        'same = x.device == torch.device("cuda")',
        "torch.cuda.manual_seed_all(0)",
        "torch.cuda.empty_cache()",
        "y = x.cuda(args.gpu)",
        'y = x.to(f"cuda:{args.rank}")',
        'y = torch.device("cuda", args.local_rank)',
        'model = torch.load("x", map_location="cpu")',
    ],
)
def test_what_is_data_or_chosen_elsewhere_is_silent(line: str) -> None:
    expect(
        f"""
        import torch
        def work(x, args, parser, Trainer):
            {line}
            return x
        """,
        CODE,
    )


def test_one_unguarded_use_of_a_literal_is_enough() -> None:
    expect(
        """
        import torch
        where = "cuda"  # <-
        def work(x):
            if torch.cuda.is_available():
                x = x.to(where)
            return x
        def more(x):
            return x.to(where)
        """,
        CODE,
    )


def test_a_default_is_possible_only() -> None:
    code = 'import torch\ndef work(x, device="cuda"):\n    return x.to(device)\n'
    expect(code, CODE)
    assert reported_lines(code, CODE, confidence=Confidence.POSSIBLE) == [2]


def test_a_default_of_a_field_is_possible_alone() -> None:
    code = """
        import torch
        class Options:
            device: torch.device = torch.device("cuda:0"){}
        """
    expect(code.format(""), "DEV501")
    expect(code.format("  # <-"), "DEV501", confidence=Confidence.POSSIBLE)


@pytest.mark.parametrize("default", ['"cuda"', 'torch.device("cuda:0")'])
def test_a_default_is_reported_where_a_tensor_is_given_along(default: str) -> None:
    expect(
        f"""
        import torch
        def one_hot(x, classes, device={default}):  # <-
            x = x.long().view(-1, 1)
            return torch.zeros((x.size(0), classes), device=device).scatter_(1, x, 1.0)
        """,
        CODE,
    )


@pytest.mark.parametrize(
    "body",
    [
        "return model.to(device)(x.to(device))",
        "x = x.to(device)\n            return torch.zeros(3, device=device) + x",
        "return torch.zeros(3).to(device)",
    ],
)
def test_a_default_says_what_the_author_has_where_what_is_given_is_moved(body: str) -> None:
    expect(
        f"""
        import torch
        def work(model, x: torch.Tensor, device="cuda"):
            {body}
        """,
        CODE,
    )


def test_a_default_is_only_possible_where_no_tensor_is_given() -> None:
    code = 'import torch\ndef grid(n, device="cuda"):\n    return torch.arange(n, device=device)\n'
    assert not findings(code, CODE)
    (finding,) = findings(code, CODE, confidence=Confidence.POSSIBLE)
    assert finding.confidence is Confidence.POSSIBLE


def test_an_accelerator_of_a_framework_is_named() -> None:
    expect(
        """
        import lightning as L
        import torch
        def main():
            fabric = L.Fabric(accelerator="cuda", devices=1)  # <-
            return fabric
        def other():
            return L.Fabric(accelerator="auto"), L.Fabric(accelerator="cpu")
        """,
        CODE,
    )


@pytest.mark.parametrize(
    "body, reported",
    [
        ("with torch.autocast('cuda'):\n        y = model(x.to(device))\n    return y", True),
        ("with torch.autocast('cuda', enabled=flag):\n        y = model(x.to(device))\n    return y", False),
        ("if args.amp:\n        with torch.autocast('cuda'):\n            return model(x.to(device))", False),
    ],
)
def test_autocast_for_cuda_is_reported_where_a_device_is_at_hand(body: str, reported: bool) -> None:
    code = f"import torch\ndef run(model, x, device, flag, args):\n    {body}\n"
    assert bool(findings(code, CODE)) is reported


def test_the_accelerator_of_a_trainer_has_a_device_at_hand_for_autocast() -> None:
    expect(
        """
        import torch
        class Trainer:
            def prepare(self, model):
                self.model = self.accelerator.prepare(model)
            def evaluate(self, batch):
                with torch.amp.autocast("cuda"):  # <-
                    return self.model(batch)
        """,
        CODE,
    )


def test_an_autocast_for_what_is_available_is_reported_where_a_device_is_at_hand() -> None:
    expect(
        """
        import torch
        class Runner:
            def __init__(self, device):
                self.device = torch.device(device)
            def run(self, model, batch):
                kind = "cuda" if torch.cuda.is_available() else "cpu"
                with torch.autocast(device_type=kind, dtype=torch.bfloat16):  # <-
                    return model(batch)
        def run(model, x: torch.Tensor):
            with torch.autocast("cuda" if torch.cuda.is_available() else "cpu"):  # <-
                return model(x)
        """,
        CODE,
    )


def test_an_autocast_chosen_as_the_device_is_chosen_is_silent() -> None:
    expect(
        """
        import torch
        class Runner:
            def __init__(self):
                self.device = "cuda" if torch.cuda.is_available() else "cpu"
            def run(self, model, batch):
                with torch.autocast("cuda" if torch.cuda.is_available() else "cpu"):
                    return model(batch)
        def run(model, batch):
            with torch.autocast("cuda" if torch.cuda.is_available() else "cpu"):
                return model(batch)
        """,
        CODE,
    )


@pytest.mark.parametrize(
    "code, device",
    [
        ("def work(x, device):\n    return x.cuda()", "device"),
        ("def work(x: torch.Tensor, y):\n    return y.cuda() + x", "x.device"),
        ("def work(x: torch.Tensor):\n    return x.cuda()", '"cuda" if torch.cuda.is_available() else "cpu"'),
        (
            "def work(x: torch.Tensor, y: torch.Tensor):\n    return x.cuda(), y.cuda()",
            '"cuda" if torch.cuda.is_available() else "cpu"',
        ),
        (
            "class A:\n    def __init__(self, device):\n        self.device = device\n    def run(self, y):\n        return y.cuda()",
            "self.device",
        ),
        ("def work(y):\n    return y.cuda()", '"cuda" if torch.cuda.is_available() else "cpu"'),
    ],
)
def test_the_fix_takes_the_device_at_hand(code: str, device: str) -> None:
    assert f".to({device})" in fixed("import torch\n" + code + "\n", CODE)


@pytest.mark.parametrize(
    "before, after",
    [
        ("y.cuda(non_blocking=True)", "y.to(x.device, non_blocking=True)"),
        ("y.cuda(0)", "y.to(x.device)"),
        ('y.to("cuda")', "y.to(x.device)"),
        ('torch.ones(3, device="cuda:0")', "torch.ones(3, device=x.device)"),
        ('torch.device("cuda", 0)', 'torch.device("cuda", 0)'),
    ],
)
def test_the_fix_keeps_the_other_arguments(before: str, after: str) -> None:
    code = "import torch\ndef work(x: torch.Tensor, y):\n    return {} + x\n"
    assert fixed(code.format(before), CODE) == code.format(after)


@pytest.mark.parametrize(
    "code, line",
    [
        (
            'class A:\n    def __init__(self):\n        self.device = torch.device("cuda")\n    def run(self, x):\n        return x.to(self.device)',
            "self.device = torch.device(",
        ),
        ('def work(x, device=None):\n    device = "cuda"\n    return x.to(device)', "device = "),
    ],
)
def test_the_fix_does_not_define_a_device_by_itself(code: str, line: str) -> None:
    choice = '"cuda" if torch.cuda.is_available() else "cpu"'
    assert line + choice in fixed("import torch\n" + code + "\n", CODE)


def test_a_tensor_type_that_the_program_chose_is_silent() -> None:
    expect(
        """
        import torch
        dtype = torch.cuda.FloatTensor if torch.cuda.is_available() else torch.FloatTensor
        def work(x):
            return x.type(dtype)
        """,
        CODE,
    )


LOADED = """
import torch
from sentence_transformers import SentenceTransformer
from transformers import AutoModel, pipeline

def load(name, batch, device):
    return {}, batch.to(device)
"""


@pytest.mark.parametrize(
    ("call", "found"),
    [
        ("AutoModel.from_pretrained(name, device_map='cuda')", True),
        ("pipeline('text-classification', name, device='cuda:0')", True),
        ("SentenceTransformer(name, device='cuda')", True),
        ("SentenceTransformer(name, device=device)", False),
        ("AutoModel.from_pretrained(name, device_map='auto')", False),
        ("AutoModel.from_pretrained(name, device_map='cuda', load_in_4bit=True)", False),
        ("load_model(name, device='cuda')", False),
    ],
)
def test_models_that_libraries_load_to_cuda(call: str, found: bool) -> None:
    assert bool(list(findings(LOADED.format(call), "DEV501"))) is found


def test_a_default_that_moves_a_tensor_runs_where_the_function_is_defined() -> None:
    expect(
        """
        import torch
        def show(x, mean=torch.tensor([0.5]).cuda()):  # <-
            return x - mean
        def scaled(x, scale=torch.ones(1, device="cuda")):  # <-
            return x * scale
        """,
        CODE,
    )


def test_a_default_that_only_names_a_device_is_left_to_who_calls() -> None:
    expect(
        """
        import torch
        def moved(x, device=torch.device("cuda")):
            return x.to(device)
        """,
        CODE,
    )
