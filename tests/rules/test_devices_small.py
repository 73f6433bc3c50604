"""DEV107 to DEV110, DEV405 and DEV503 to DEV505: what they report, what they leave alone, what their fixes write."""

from __future__ import annotations

import pytest
from checking import expect, findings, fixed, reported_lines

from torchlint.findings import Confidence

# ---------------------------------------------------------------------- DEV107


@pytest.mark.parametrize(
    "imports, call",
    [
        ("import torch", "torch.load(path)"),
        ("import torch as th", "th.load(path, weights_only=True)"),
        ("from torch import load", "load(path)"),
        ("import torch", 'torch.load(path)["state_dict"]'),
        ("from torch.hub import load_state_dict_from_url", "load_state_dict_from_url(path)"),
    ],
)
def test_a_load_without_map_location_is_reported(imports: str, call: str) -> None:
    expect(f"{imports}\ndef resume(path):\n    return {call}  # <-\n", "DEV107")


@pytest.mark.parametrize(
    "call",
    [
        "torch.load(path, 'cpu')",
        "torch.load(path, map_location=device)",
        "torch.load(path, **options)",
        "torch.load(*options)",
        "torch.load(path) if torch.cuda.is_available() else torch.load(path, map_location='cpu')",
        "torch.save(model.state_dict(), path)\n    model.load_state_dict(torch.load(path))",
        "torch.utils.model_zoo.load_url('https://example.org/w.pth')",
        "torch.utils.model_zoo.load_url(urls['resnet18'])",
    ],
)
def test_a_load_that_is_mapped_or_known_to_fit_is_silent(call: str) -> None:
    expect(f"import torch\ndef resume(path, device, options, model, urls):\n    {call}\n", "DEV107")


def test_a_cache_that_the_same_code_fills_is_silent() -> None:
    expect(
        """
        import os
        import torch
        def vectors(path, make):
            if os.path.isfile(path):
                made = torch.load(path)
            else:
                made = make()
                torch.save(made, path)
            return made
        """,
        "DEV107",
    )


def test_a_checkpoint_that_is_saved_later_on_is_no_cache() -> None:
    expect(
        """
        import torch
        def main(model, path, resume):
            if resume:
                model.load_state_dict(torch.load(path))  # <-
            train(model)
            torch.save(model.state_dict(), path)
        """,
        "DEV107",
    )


def test_the_fix_maps_to_the_device_at_hand() -> None:
    assert "torch.load(path, map_location=device)" in fixed(
        "import torch\ndef resume(path, device):\n    return torch.load(path)\n", "DEV107"
    )
    assert 'torch.load(path, map_location="cpu")' in fixed(
        "import torch\ndef resume(path):\n    return torch.load(path)\n", "DEV107"
    )


# ---------------------------------------------------------------------- DEV108


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


# ---------------------------------------------------------------------- DEV109


@pytest.mark.parametrize(
    "code",
    [
        "device = 'cuda' if torch.cuda.is_available else 'cpu'",
        "if torch.cuda.is_available:\n    pass",
        "if not torch.cuda.is_available:\n    pass",
        "use = flag and torch.cuda.is_available",
        "if flag or torch.backends.mps.is_available:\n    pass",
        "while torch.cuda.is_available:\n    pass",
        "assert torch.cuda.is_available",
    ],
)
def test_an_uncalled_question_is_reported_and_called(code: str) -> None:
    code = "import torch\nflag = True\n" + code + "\n"
    assert len(findings(code, "DEV109")) == 1
    assert findings(fixed(code, "DEV109"), "DEV109") == ()


@pytest.mark.parametrize(
    "code",
    [
        "f = torch.cuda.is_available",
        "call(torch.cuda.is_available)",
        "if torch.cuda.is_available():\n    pass",
    ],
)
def test_a_function_that_is_passed_on_or_called_is_silent(code: str) -> None:
    assert findings("import torch\n" + code + "\n", "DEV109") == ()


# ---------------------------------------------------------------------- DEV110


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


# ---------------------------------------------------------------------- DEV405


@pytest.mark.parametrize("made", ["torch.Tensor([1.0], device=device)", "torch.FloatTensor(3, device='cuda')"])
def test_a_constructor_that_takes_the_cpu_alone_is_reported(made: str) -> None:
    expect(f"import torch\ndef work(device):\n    return {made}  # <-\n", "DEV110")


@pytest.mark.parametrize(
    "made", ["torch.Tensor([1.0], device='cpu')", "torch.tensor([1.0], device=device)", "torch.Tensor(device)"]
)
def test_a_constructor_that_gets_what_it_takes_is_silent(made: str) -> None:
    expect(f"import torch\ndef work(device):\n    return {made}, device\n", "DEV110")


def test_deprecated_names_are_reported_on_request() -> None:
    expect(
        """
        import torch
        from torch.cuda.amp import GradScaler, autocast
        scaler = GradScaler()  # <-
        other = torch.amp.GradScaler("cuda")
        with autocast():  # <-
            pass
        with torch.autocast("cuda"):
            pass
        """,
        "DEV405",
    )


# ---------------------------------------------------------------------- DEV503


@pytest.mark.parametrize(
    "choice, reported",
    [
        ('"cpu" if device == "cpu" else "cuda"', True),
        ('"cuda" if device != "cpu" else "cpu"', True),
        ('"cuda" if torch.cuda.is_available() else "cpu"', False),
        ('"cuda" if args.cuda else "cpu"', False),
        ('"cuda" if device.type == "cuda" else "cpu"', False),
        ('"mps" if torch.backends.mps.is_available() else "cpu"', False),
    ],
)
def test_taking_all_but_the_cpu_for_cuda_is_reported(choice: str, reported: bool) -> None:
    code = f"import torch\ndef work(device, args):\n    return {choice}\n"
    assert bool(findings(code, "DEV503")) is reported
    possible = reported_lines(code, "DEV503", confidence=Confidence.POSSIBLE)
    assert possible == ([] if "mps" in choice else [3])


# ---------------------------------------------------------------------- DEV504


@pytest.mark.parametrize(
    "line, reported",
    [
        ("torch.arange(3, dtype=torch.float64, device=device)", True),
        ("x.to(device).double()", True),
        ("x.to(device, torch.float64)", True),
        ("torch.arange(3, dtype=torch.float64)", False),
        ("torch.arange(3, dtype=torch.float32, device=device)", False),
        ("torch.arange(3, dtype=torch.float64, device='cuda')", False),
    ],
)
def test_float64_where_the_file_speaks_of_mps(line: str, reported: bool) -> None:
    code = f"import torch\ndef work(x: torch.Tensor, device):\n    ready = torch.backends.mps.is_available()\n    return ready, {line}\n"
    assert bool(findings(code, "DEV504")) is reported


def test_float64_behind_a_test_of_mps_is_silent() -> None:
    expect(
        """
        import torch
        def work(n, device):
            if device.type == "mps":
                return torch.arange(n, dtype=torch.float32, device=device)
            return torch.arange(n, dtype=torch.float64, device=device)
        """,
        "DEV504",
    )


@pytest.mark.parametrize(
    "test",
    [
        'x.device.type in {"mps", "npu"}',
        'x.device.type == "mps"',
        'device in ("mps", "cpu")',
        'x.device.type != "cuda"',
        "x.is_mps",
    ],
)
def test_float64_where_a_test_of_the_device_fails_is_silent(test: str) -> None:
    code = f"""
import torch
def work(x: torch.Tensor, device):
    x = x.to(device)
    if {test}:
        y = x.cpu().double()
    else:
        y = x.double()
    return y
"""
    assert findings(code, "DEV504") == ()


def test_float64_elsewhere_is_possible_only() -> None:
    code = "import torch\ndef work(x: torch.Tensor):\n    return x.double()\n"
    assert findings(code, "DEV504") == ()
    assert reported_lines(code, "DEV504", confidence=Confidence.POSSIBLE) == [3]


# ---------------------------------------------------------------------- DEV505

_VARIABLE = "PYTORCH_ENABLE_MPS_FALLBACK"


@pytest.mark.parametrize(
    "setting",
    [
        f'os.environ["{_VARIABLE}"] = "1"',
        f'os.environ.setdefault("{_VARIABLE}", "1")',
        f'os.environ.update({{"{_VARIABLE}": "1"}})',
        f"os.environ.update({_VARIABLE}='1')",
    ],
)
def test_the_fallback_counts_before_torch_is_imported(setting: str) -> None:
    assert len(findings(f"import os\nimport torch\n{setting}\n", "DEV505")) == 1
    assert len(findings(f"import os\nimport torchvision\ndef main():\n    {setting}\n", "DEV505")) == 1
    assert findings(f"import os\n{setting}\nimport torch\n", "DEV505") == ()
    assert findings(f"import os, torch\n{setting.replace(_VARIABLE, 'OTHER')}\n", "DEV505") == ()


def test_a_message_quotes_code_of_several_lines_on_one() -> None:
    code = """
        import torch.distributed as dist
        assert (
            dist.is_initialized
        ), "call init_process_group first"
    """
    (finding,) = findings(code, "DEV109")
    assert finding.message == "`(dist.is_initialized)` is not called, and a function is always true"
    assert ")()," in fixed(code, "DEV109")
