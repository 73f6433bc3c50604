"""DEV114 to DEV116: models that bitsandbytes placed, and models in DataParallel."""

from __future__ import annotations

import pytest
from checking import expect, fixed, reported_lines

LOAD = """from transformers import AutoModelForCausalLM, BitsAndBytesConfig
def load(name, device, flag):
    config = BitsAndBytesConfig({bits}=True)
    maybe = config if flag else None
    model = AutoModelForCausalLM.from_pretrained(name, {argument})
    {move}
    return model
"""


@pytest.mark.parametrize(
    "bits, argument, move",
    [
        ("load_in_8bit", "quantization_config=config", "model.to(device)"),
        ("load_in_4bit", "quantization_config=config", "model.cuda()"),
        ("load_in_4bit", "quantization_config=config", "model.half()"),
        ("load_in_4bit", "load_in_8bit=True, device_map='auto'", "model = model.to(device)"),
    ],
)
def test_a_move_of_a_quantised_model_is_reported(bits: str, argument: str, move: str) -> None:
    expect(LOAD.format(bits=bits, argument=argument, move=f"{move}  # <-"), "DEV114")


@pytest.mark.parametrize(
    "argument", ["device_map='auto'", "quantization_config=maybe", "load_in_8bit=flag", "load_in_8bit=False", ""]
)
def test_a_move_of_a_model_that_may_not_be_quantised_is_silent(argument: str) -> None:
    expect(LOAD.format(bits="load_in_8bit", argument=argument, move="model.to(device)"), "DEV114")


MODEL = """import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(3, 3)
    def forward(self, x):
        return self.body(x)
    def penalty(self):
        return self.body.weight.sum()
"""


@pytest.mark.parametrize(
    "wrap", ["nn.DataParallel(Net()).to(device)", "DDP(Net().to(device), device_ids=[0])", "nn.DataParallel(Net())"]
)
@pytest.mark.parametrize("read", ["model.penalty()", "model.body.weight", "model.eval().train().parameters"])
def test_an_attribute_behind_a_wrapper_is_reported(wrap: str, read: str) -> None:
    mark = "" if "parameters" in read else "  # <-"
    expect(f"{MODEL}def work(device):\n    model = {wrap}\n    return {read}{mark}\n", "DEV115")


def test_an_attribute_behind_a_wrapper_is_read_through_module_by_the_fix() -> None:
    code = f"{MODEL}def work(device):\n    model = nn.DataParallel(Net())\n    return model.penalty()\n"
    assert "return model.module.penalty()" in fixed(code, "DEV115")


def test_a_wrapped_attribute_of_an_object_is_reported_in_its_other_methods() -> None:
    expect(
        MODEL
        + """
class Trainer:
    def __init__(self, device):
        self.model = nn.DataParallel(Net().to(device))
    def step(self, x):
        return self.model(x).mean() + self.model.penalty()  # <-
""",
        "DEV115",
    )


def test_a_model_that_is_wrapped_on_some_paths_is_reported_once() -> None:
    code = (
        MODEL
        + """
def work(x, device, several):
    model = Net().to(device)
    if several:
        model = nn.DataParallel(model)
    return model(x) + model.penalty() + model.body.bias
"""
    )
    assert reported_lines(code, "DEV115") == [17]


@pytest.mark.parametrize(
    "lines",
    [
        "return model.module.penalty(), model.device_ids, model.state_dict()",
        "model.step = 1\n    return model.step",
        "return model.penalty() if hasattr(model, 'penalty') else None",
        "return getattr(model, 'module', model).penalty()",
        "model = model.module\n    return model.penalty()",
    ],
)
def test_what_the_wrapper_has_or_the_code_asks_for_is_silent(lines: str) -> None:
    expect(f"{MODEL}def work():\n    model = nn.DataParallel(Net())\n    {lines}\n", "DEV115")


def test_a_file_that_takes_some_models_out_of_their_wrappers_is_silent() -> None:
    expect(
        MODEL
        + """
def work(x, several, flag):
    model = Net()
    if several:
        model = nn.DataParallel(model)
    if flag:
        return model.penalty()
    inner = model.module if several else model
    return inner.penalty()
""",
        "DEV115",
    )


@pytest.mark.parametrize(
    "wrap, marked",
    [
        ("nn.DataParallel(Net().cuda(1))", True),
        ("nn.DataParallel(Net().to('cuda:0'), device_ids=[1, 2])", True),
        ("nn.DataParallel(Net().to('cuda:1'), [0, 1])", True),
        ("nn.DataParallel(Net().cuda(1), device_ids=[1, 2])", False),
        ("nn.DataParallel(Net().cuda(1), device_ids=[0])", False),
        ("nn.DataParallel(Net().cuda())", False),
        ("nn.DataParallel(Net().cuda(1), device_ids=ids)", False),
        ("nn.DataParallel(Net().to(device))", False),
    ],
)
def test_a_model_is_wrapped_on_the_first_of_its_devices(wrap: str, marked: bool) -> None:
    expect(f"{MODEL}def work(device, ids):\n    return {wrap}{'  # <-' if marked else ''}\n", "DEV116")


def test_a_module_list_is_copied_to_replicas_and_an_unwrapped_model_has_none() -> None:
    code = """
import torch
from torch import nn
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.held = {held}
        for i, part in enumerate(self.held):
            self.add_module(str(i), part)
    def forward(self, x):
        for part in self.held:{mark}
            x = part(x)
        return x
model = {wrap}
"""
    plain, kept = "[nn.Linear(3, 3), nn.ReLU()]", "nn.ModuleList([nn.Linear(3, 3), nn.ReLU()])"
    expect(code.format(held=plain, mark="  # <-", wrap="nn.DataParallel(Net())"), "DEV116")
    expect(code.format(held=kept, mark="", wrap="nn.DataParallel(Net())"), "DEV116")
    expect(code.format(held=plain, mark="", wrap="Net()"), "DEV116")


@pytest.mark.parametrize(
    "wrap, marked",
    [
        ("DDP(Net(), device_ids=[rank])", True),
        ("DDP(Net().to(rank), device_ids=[0, 1])", True),
        ("DDP(Net().to(rank), device_ids=[rank])", False),
        ("DDP(Net())", False),
        ("DDP(Net(), device_ids=[rank] if rank else None)", False),
        ("DDP(model, device_ids=[rank])", False),
    ],
)
def test_a_distributed_model_is_on_the_one_device_that_it_names(wrap: str, marked: bool) -> None:
    expect(f"{MODEL}def work(rank, model):\n    return {wrap}{'  # <-' if marked else ''}\n", "DEV116")


REPLICAS = """
import torch
from torch import nn
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(3, 3)
    def place(self, x):
        return x.to({own}){mark}
    def forward(self, x):
        return self.body(self.place(x))
class Outer(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = Net()
    def forward(self, x):
        return self.net(x)
model = {wrap}
"""


@pytest.mark.parametrize("wrap", ["nn.DataParallel(Net())", "nn.DataParallel(Outer().cuda())"])
def test_replicas_have_no_parameters_to_ask(wrap: str) -> None:
    expect(REPLICAS.format(own="next(self.parameters()).device", mark="  # <-", wrap=wrap), "DEV116")
    expect(REPLICAS.format(own="self.body.weight.device", mark="", wrap=wrap), "DEV116")
    expect(REPLICAS.format(own="next(self.parameters()).device", mark="", wrap="Outer()"), "DEV116")


UNMOVED = """
import torch
from torch import nn
def train(loader, devices, lr):
    net = nn.DataParallel(nn.Sequential(nn.Linear(3, 3), nn.ReLU()), device_ids={ids}){mark}
    {moved}
    opt = torch.optim.SGD(net.parameters(), lr)
    for x, y in loader:
        x, y = {batch}
        nn.functional.mse_loss(net(x), y).backward()
        opt.step()
"""
SENT = "x.to(devices[0]), y.to(devices[0])"


@pytest.mark.parametrize(
    "ids, moved, batch, marked",
    [
        ("devices", "pass", SENT, True),
        ("None", "pass", SENT, True),
        ("[0]", "pass", SENT, False),
        ("devices", "net.to(devices[0])", SENT, False),
        ("devices", "net = net.cuda()", SENT, False),
        ("devices", "place(net)", SENT, False),
        ("devices", "pass", "x, y", False),
    ],
)
def test_a_model_that_is_wrapped_and_never_moved_is_reported(ids: str, moved: str, batch: str, marked: bool) -> None:
    expect(UNMOVED.format(ids=ids, moved=moved, batch=batch, mark="  # <-" if marked else ""), "DEV116")


@pytest.mark.parametrize(("module", "reported"), [("apex.parallel", False), ("torch.nn.parallel", True)])
def test_a_wrapper_that_is_not_of_torch_may_have_more(module: str, reported: bool) -> None:
    mark = "  # <-" if reported else ""
    expect(
        f"""{MODEL}
def work(args):
    model = Net()
    if args.local_rank != -1:
        try:
            from {module} import DistributedDataParallel as DDP
        except ImportError:
            raise ImportError("install it")
        model = DDP(model)
    elif args.gpus > 1:
        model = nn.DataParallel(model)
    return model.penalty(){mark}
""",
        "DEV115",
    )


@pytest.mark.parametrize(
    ("asserted", "mark"),
    [("not several", ""), ("not several and flag", ""), ("not flag", "  # <-"), ("not several or flag", "  # <-")],
)
def test_an_assert_leaves_out_the_path_that_wraps(asserted: str, mark: str) -> None:
    code = (
        f"{MODEL}def work(several, flag):\n    model = Net()\n    if several:\n        model = nn.DataParallel(model)\n"
        f"    if flag != 2:\n        assert {asserted}, 'not for several'\n        return model.penalty(){mark}\n"
    )
    expect(code, "DEV115")
