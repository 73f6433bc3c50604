"""DEV108 and DEV117: devices that are asked for what they have not, texts that name none."""

from __future__ import annotations

import pytest
from checking import expect

IN_FUNCTION = "import torch\ndef work(x: torch.Tensor, device: torch.device, name='cuda', given=None):\n"


@pytest.mark.parametrize(
    "line",
    [
        "device.startswith('cuda')",
        "x.device.split(':')",
        "torch.device('cuda').index >= 1",
        "torch.device('cuda' if torch.cuda.is_available() else 'cpu').index + 1",
        "torch.device(name).index < 3",
        "x.device is torch.device('cpu')",
        "x.device.type == 'cuda:0'",
        "('cuda' if given else 'cpu').type == 'cuda'",
    ],
)
def test_a_device_that_is_asked_for_what_it_has_not_is_reported(line: str) -> None:
    expect(f"{IN_FUNCTION}    return {line}  # <-\n", "DEV108")


@pytest.mark.parametrize(
    "line",
    [
        "str(device).startswith('cuda')",
        "device.type.startswith('cuda')",
        "torch.device('cuda:1').index >= 1",
        "torch.device('cuda', 1).index >= 1",
        "device.index >= 1",
        "0 if torch.device('cuda').index is None else torch.device('cuda').index + 1",
        "name.startswith('cuda') and name.split(':')",
        "x.device == torch.device('cpu')",
        "x.device.type == 'cuda'",
        "str(x.device) == 'cuda:0'",
        "str(device) == 'cuda:0'",
        "f'{x.device}' == 'cuda:0'",
        "str(given.body.weight.device) == 'cuda:1'",
        "device is None",
    ],
)
def test_a_device_that_is_asked_for_what_it_has_is_silent(line: str) -> None:
    expect(f"{IN_FUNCTION}    return {line}\n", "DEV108")


def test_a_parameter_that_is_a_device_or_a_text_is_told_apart_by_its_type() -> None:
    expect(
        """
        import torch
        def kind(device):
            if isinstance(device, torch.device):
                return device.type
            if "cuda" in device and device.startswith("cuda"):
                return "cuda"
            return "cpu" if device == "cpu" else device.split(":")[0]
        def other(device):
            if isinstance(device, str):
                return device.startswith("cuda")
            return device.startswith("cuda")  # <-
        """,
        "DEV108",
    )


def test_what_callers_pass_makes_a_parameter_a_torch_device() -> None:
    expect(
        """
        import torch
        def prepare(device):
            if device.startswith("cuda"):  # <-
                torch.cuda.set_device(device)
            return device
        def tolerance(value):
            return 1e-2 if "cuda" in value.device else 1e-5  # <-
        def build(net: torch.nn.Module, x: torch.Tensor):
            return tolerance(x), net.to(prepare(next(net.parameters()).device))
        """,
        "DEV108",
    )


def test_what_nobody_passes_or_some_pass_as_text_is_silent() -> None:
    expect(
        """
        import torch
        def prepare(device):
            return device.startswith("cuda")
        def choose(device):
            return device.startswith("cuda")
        def build(net: torch.nn.Module):
            return prepare("cuda:0"), prepare(next(net.parameters()).device)
        """,
        "DEV108",
    )


OPTIONS = """import argparse
import torch
parser = argparse.ArgumentParser()
parser.add_argument("--device", default="cuda:0")
parser.add_argument("--gpu", type=str, default="0")
parser.add_argument("--index", type=int, default="0")
parser.add_argument("-d", "--dev-name", default="cpu")
args = parser.parse_args()
"""


@pytest.mark.parametrize(
    "line",
    [
        'torch.device(f"cuda:{args.device}")',
        'torch.device("cuda:" + args.device if torch.cuda.is_available() else "cpu")',
        'torch.zeros(3, device="cuda:{}".format(args.device))',
        'torch.zeros(3).to("cuda:%s" % args.dev_name)',
        "torch.device(args.gpu)",
        "torch.cuda.set_device(args.gpu)",
        'torch.device("gpu")',
        'torch.device("cuda0")',
        'torch.device(f"{args.device}:0")',
    ],
)
def test_a_text_that_names_no_device_is_reported(line: str) -> None:
    expect(f"{OPTIONS}made = {line}  # <-\n", "DEV117")


@pytest.mark.parametrize(
    "line",
    [
        "torch.device(args.device)",
        'torch.device(f"cuda:{args.gpu}")',
        'torch.device(f"cuda:{args.index}")',
        "torch.cuda.set_device(int(args.gpu))",
        'print(f"cuda:{args.device}")',
        'torch.device("cuda:0")',
        'torch.device("npu:0")',
        'torch.device("privateuseone")',
        'torch.device(f"cuda:{args.unheard}")',
    ],
)
def test_a_text_that_names_a_device_or_is_not_known_is_silent(line: str) -> None:
    expect(f"{OPTIONS}made = {line}\n", "DEV117")


def test_an_option_that_the_code_tells_apart_or_sets_itself_is_silent() -> None:
    expect(
        OPTIONS
        + """
if args.device.isdigit():
    device = torch.device(f"cuda:{args.device}")
""",
        "DEV117",
    )
    expect(OPTIONS + "args.device = 0\ndevice = torch.device(f'cuda:{args.device}')\n", "DEV117")


def test_the_default_of_a_parameter_is_what_its_text_comes_to() -> None:
    expect(
        """
        import torch
        def place(x: torch.Tensor, device="cuda", index="1"):
            x.to(f"cuda:{index}")
            return x.to(f"cuda:{device}")  # <-
        """,
        "DEV117",
    )


@pytest.mark.parametrize(
    "line",
    [
        "torch.cuda.set_device('cuda')",
        "torch.cuda.set_device(torch.device('cuda'))",
        "torch.cuda.set_device(torch.device('cuda' if torch.cuda.is_available() else 'cpu'))",
        "x.cuda(True)",
        "x.to(torch.cuda.device(0))",
        "torch.zeros(3, device=torch.cuda.device(1))",
    ],
)
def test_what_is_no_device_or_has_no_index_is_reported(line: str) -> None:
    expect(f"import torch\ndef work(x: torch.Tensor, device: torch.device):\n    {line}  # <-\n", "DEV117")


@pytest.mark.parametrize(
    "line",
    [
        "torch.cuda.set_device(device)",
        "torch.cuda.set_device('cuda:1')",
        "torch.cuda.set_device(0)",
        "torch.cuda.set_device(torch.device('cuda', 1))",
        "x.cuda(0, True)",
        "x.cuda(non_blocking=True)",
        "torch.cuda.synchronize('cuda')",
        "x.to(torch.cuda.current_device())",
    ],
)
def test_an_index_and_a_device_that_has_one_are_silent(line: str) -> None:
    expect(f"import torch\ndef work(x: torch.Tensor, device: torch.device):\n    {line}\n", "DEV117")


@pytest.mark.parametrize(
    "given", ["device or torch.device('cpu')", "device if device is not None else torch.device('cpu')"]
)
def test_a_parameter_that_is_left_out_leaves_a_torch_device(given: str) -> None:
    code = """
        import torch
        class Net:
            def __init__(self, device{default}):
                self.device = {given}
            def config(self):
                return self.device == "cpu"{mark}
        """
    expect(code.format(default="=None", given=given, mark="  # <-"), "DEV108")
    expect(code.format(default="", given=given, mark=""), "DEV108")


@pytest.mark.parametrize(
    "text", ["'gpu:%d' % index", "f'gpu:{index}'", "'gpu:{}'.format(index)", "'gpu:' + str(index)", "('gpu:%d' % (index))"]
)
def test_a_text_of_a_wrong_type_is_reported_whatever_its_index(text: str) -> None:
    expect(f"import torch\ndef work(index):\n    return torch.device({text})  # <-\n", "DEV117")


@pytest.mark.parametrize("text", ["'cuda:%d' % index", "f'{index}:gpu'", "f'{index}gpu:0'", "'%s:0' % index", "index + ':0'"])
def test_a_text_whose_type_may_be_right_is_silent(text: str) -> None:
    expect(f"import torch\ndef work(index):\n    return torch.device({text})\n", "DEV117")


@pytest.mark.parametrize(
    "test, marked",
    [
        ("x.device == y.device == 'cuda'", True),
        ("'cpu' != x.device == y.device", True),
        ("x.device == y.device == z", False),
        ("x.device.type == y.device.type == 'cuda'", False),
        ("str(x.device) == str(y.device) == 'cuda:0'", False),
    ],
)
def test_a_chain_of_comparisons_with_a_text_is_reported(test: str, marked: bool) -> None:
    mark = "  # <-" if marked else ""
    expect(f"import torch\ndef work(x: torch.Tensor, y: torch.Tensor, z):\n    return {test}{mark}\n", "DEV108")
