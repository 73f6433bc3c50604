"""False alarms that reading findings in public code by hand brought up, each with what is still to be reported."""

from __future__ import annotations

import json

import pytest
from checking import expect, reported_lines
from steps import step, texts

from torchlint.findings import Confidence

# ---------------------------------------------------------------------- loads


@pytest.mark.parametrize("holder", ["lr_scheduler", "self.scheduler", "scaler", "self.grad_scaler"])
def test_the_state_of_a_scheduler_or_a_scaler_holds_no_tensors(holder: str) -> None:
    expect(
        f"""
        import torch
        class Checkpoints:
            def resume(self, path, lr_scheduler, scaler):
                state_dict = torch.load(path)
                {holder}.load_state_dict(state_dict)
        """,
        "DEV107",
    )


def test_an_annotated_scheduler_is_none_of_the_optimizers() -> None:
    expect(
        """
        import torch
        from torch.optim.lr_scheduler import LRScheduler
        def resume(path, schedule: LRScheduler):
            schedule.load_state_dict(torch.load(path))
        """,
        "DEV107",
    )


def test_a_checkpoint_that_a_scheduler_takes_a_part_of_is_reported() -> None:
    expect(
        """
        import torch
        def resume(path, model, scheduler):
            checkpoint = torch.load(path)  # <-
            model.load_state_dict(checkpoint["model"])
            scheduler.load_state_dict(checkpoint["scheduler"])
        """,
        "DEV107",
    )


# ---------------------------------------------------------------------- graphs


def test_a_sum_that_begins_anew_within_the_loop_is_possible_alone() -> None:
    body = "total += loss\nif step % 8 == 0:\n    print(total)\n    total = 0"
    assert texts(step(body, before="total = 0"), "DEV304") == []
    assert texts(step(body, before="total = 0"), "DEV304", sure=Confidence.POSSIBLE) == ["total += loss"]


@pytest.mark.parametrize(
    "added, marked",
    [("momentum * (mean.detach() - self.running_mean)", ""), ("momentum * (mean - self.running_mean)", "  # <-")],
)
def test_state_grows_by_what_has_a_graph_alone(added: str, marked: str) -> None:
    expect(
        f"""
        import torch
        from torch import nn
        from elsewhere import reduce
        class Norm(nn.BatchNorm2d):
            def forward(self, x: torch.Tensor):
                mean = x.mean(dim=[0, 2, 3])
                if self.by_size:
                    momentum = reduce(x)[-1].detach().clamp(max=1) * self.momentum
                else:
                    momentum = self.momentum
                self.running_mean += {added}{marked}
                return x - mean[None, :, None, None]
        """,
        "DEV304",
    )


# ---------------------------------------------------------------------- leaves


@pytest.mark.parametrize("place, marked", [(".to(device)", ""), ("", "  # <-")])
def test_a_leaf_that_is_there_already_stays_one(place: str, marked: str) -> None:
    expect(
        f"""
        import torch
        device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        content = torch.rand(3, 4){place}
        target = content.clone().requires_grad_(True).to(device){marked}
        optimizer = torch.optim.Adam([target], lr=0.003)
        """,
        "DEV105",
    )


# ---------------------------------------------------------------------- places


def test_a_module_that_a_helper_moves_and_hands_back_is_moved() -> None:
    expect(
        """
        import torch
        from torch import nn
        def fit(net, place):
            net.to(place)
        def prepared(net, verbose=True):
            device = torch.device("cuda:0" if torch.cuda.is_available() else "cpu")
            fit(net, place=device)
            return net
        device = torch.device("cuda:0" if torch.cuda.is_available() else "cpu")
        model = nn.Linear(2, 2)
        model = prepared(model)
        model(torch.ones(2, device=device))
        other = nn.Linear(2, 2)
        other(torch.ones(2, device=device))  # <-
        """,
        "DEV102",
    )


def test_a_module_that_registers_what_it_is_given_is_where_that_is() -> None:
    expect(
        """
        import torch
        from torch import nn
        from transformers import GenerationMixin
        class Adapter(nn.Module, GenerationMixin):
            def __init__(self, embedded):
                super().__init__()
                self.register_buffer("embedded", embedded)
        class Captioner(nn.Module):
            def write(self, image: torch.Tensor):
                text = torch.full((2, 2), 2, device=image.device)
                adapter = Adapter(self.encode(image))
                return adapter.generate(text)
        """,
        "DEV102",
    )


def test_a_count_is_a_number_and_what_is_computed_from_it_too() -> None:
    expect(
        """
        import math
        import torch
        def embed(timesteps: torch.Tensor, width):
            half = width // 2
            emb = math.log(10000) / (half - 1)
            emb = torch.exp(torch.arange(half, dtype=torch.float32) * -emb)
            emb = emb.to(device=timesteps.device)
            emb = timesteps.float()[:, None] * emb[None, :]
            if width % 2 == 1:
                emb = torch.nn.functional.pad(emb, (0, 1, 0, 0))
            return emb
        """,
        "DEV102",
    )


def test_a_row_that_a_single_number_picks_is_copied_into() -> None:
    expect(
        """
        import torch
        def assign(overlap: torch.Tensor, device):
            overlap = overlap.to(device)
            gone = torch.full((overlap.shape[0],), -1)
            best = torch.argmax(overlap)
            column = (best % 3).long()
            overlap[:, column] = gone
            return overlap
        def assign_many(overlap: torch.Tensor, device):
            overlap = overlap.to(device)
            gone = torch.full((overlap.shape[0],), -1)  # <-
            columns = torch.argmax(overlap, dim=1)
            overlap[columns] = gone
            return overlap
        """,
        "DEV102",
    )


def test_what_is_computed_from_a_batch_and_moved_says_nothing_of_the_batch() -> None:
    expect(
        """
        import torch
        import torch.nn.functional as F
        class Trainer:
            def compute(self, model, inputs):
                device = self.accelerator.device
                scores = model(**inputs).logits.sum(dim=1)
                mask = inputs["mask"]
                lengths = torch.cat([mask.sum(1), mask.sum(1)], dim=0).to(device)
                first, second = (scores * lengths).chunk(2, dim=0)
                epsilon = torch.tensor(0.1, device=device)
                return F.logsigmoid(first - second) - torch.log(epsilon)
        """,
        "DEV102",
    )


def test_a_stand_in_without_elements_is_of_use_to_a_join_alone() -> None:
    expect(
        """
        import torch
        from torch import nn
        class Up(nn.Module):
            def __init__(self):
                super().__init__()
                self.ups = nn.ModuleList([nn.Conv2d(2, 2, 1)] * 3)
                self.final = nn.Conv2d(2, 2, 1)
            def forward(self, x: torch.Tensor):
                out = torch.empty(0)
                started = False
                for i, up in enumerate(self.ups):
                    if started:
                        out = up(x + out)
                    elif self.flags[i]:
                        started = True
                        out = up(x)
                return self.final(out)
        """,
        "DEV201",
    )


def test_an_attribute_is_where_its_method_leaves_it() -> None:
    code = """
        import numpy as np
        import torch
        class Schedule:
            def __init__(self):
                self.sigmas = torch.zeros(10)
            def coefficient(self, step):
                return np.asarray(self.sigmas[step]){0}
            def set_timesteps(self, count, device):
                self.sigmas = torch.linspace(0, 1, count).to(device){1}
        """
    expect(code.format("", "\n                self.sigmas = self.sigmas.to('cpu')"), "DEV106")
    expect(code.format("  # <-", ""), "DEV106")


def test_scipy_integrates_over_any_number() -> None:
    expect(
        """
        import torch
        from scipy import integrate
        def area(function, device):
            bounds = torch.linspace(0, 1, 3).to(device)
            return integrate.quad(function, bounds[0], bounds[1])[0]
        """,
        "DEV106",
    )


def test_a_buffer_that_a_method_sets_from_its_argument_is_where_that_is() -> None:
    expect(
        """
        import torch
        from torch import nn
        class Packed(nn.Module):
            def __init__(self):
                super().__init__()
                self.register_buffer("scales", torch.zeros(2, 2))
            def pack(self, weight: torch.Tensor, scales: torch.Tensor):
                self.scales = scales.t().contiguous()
                return (weight / self.scales).to(torch.int).numpy()
        """,
        "DEV106",
    )


# ---------------------------------------------------------------------- how often


@pytest.mark.parametrize(
    "test", ["abs(value - before) < tolerance", "value < 1e-3", "value <= best and step > 3"]
)
def test_a_number_that_ends_the_loop_is_needed_at_once(test: str) -> None:
    body = f"value = loss.item()\nif {test}:\n    break\nbefore = value"
    assert texts(step(body, before="before, tolerance, best = 1e10, 1e-4, 0"), "DEV301") == []


def test_a_loss_that_is_no_number_is_no_such_end() -> None:
    body = "value = loss.item()\nif not math.isfinite(value):\n    break"
    assert texts("import math\n" + step(body), "DEV301") == ["value = loss.item()"]


def test_the_first_steps_are_not_every_step() -> None:
    assert texts(step("if step < 10:\n    torch.cuda.empty_cache()"), "DEV306") == []
    assert texts(step("if epoch < 10:\n    torch.cuda.empty_cache()", before="epoch = 3"), "DEV306") != []


@pytest.mark.parametrize("test, marked", [("init", ""), ("init is True", ""), ("self.training", "  # <-")])
def test_what_initialises_runs_once(test: str, marked: str) -> None:
    expect(
        f"""
        import torch
        from torch import nn
        class Scaled(nn.Module):
            def forward(self, x: torch.Tensor, init=False):
                if {test}:
                    x = x + torch.ones(x.shape).to(x.device){marked}
                return x
        """,
        "DEV202",
    )


# ---------------------------------------------------------------------- helpers


def test_a_function_that_trains_is_no_helper_that_moves() -> None:
    expect(
        """
        import torch
        def train_step(model: torch.nn.Module, loader, optimizer, device):
            total = 0
            for x, y in loader:
                x, y = x.to(device), y.to(device)
                loss = (model(x) - y).mean()
                loss.backward()
                optimizer.step()
                total += loss.item()
            accuracy = total / len(loader)
            return total, accuracy
        def train(model, loader, optimizer, device):
            results = {"loss": []}
            for epoch in range(3):
                loss, accuracy = train_step(model, loader, optimizer, device)
                results["loss"].append(loss)
            return results
        train(model=model, loader=loader, optimizer=optimizer, device=device)
        """,
        "DEV111",
    )


# ---------------------------------------------------------------------- portability


def test_a_set_of_device_types_that_was_asked_for_is_no_mps() -> None:
    expect(
        """
        import torch
        device = "mps" if torch.backends.mps.is_available() else "cpu"
        def project(x: torch.Tensor, y: torch.Tensor):
            if x.device.type in {"mps", "npu"}:
                a, b = x.cpu().double(), y.cpu().double()
            else:
                a, b = x.double(), y.double()
            return a * b
        """,
        "DEV504",
    )


def test_work_of_many_processes_may_name_cuda_whatever_else_is_asked() -> None:
    expect(
        """
        import torch
        def place(options):
            if options.world_size > 1 and options.mode == "tensor_parallel":
                device = torch.device("cuda")
            else:
                device = torch.device("cpu")
            return device
        """,
        "DEV501",
    )


@pytest.mark.parametrize(
    "said, marked",
    [
        ("This needs a GPU with 24GB memory.", ""),
        ("Requires CUDA.", ""),
        ("No GPU is required; CUDA is used if it is there.", "  # <-"),
        ("Trains a model.", "  # <-"),
    ],
)
def test_a_program_may_say_that_it_is_for_cuda(said: str, marked: str) -> None:
    expect(
        f'''"""{said}"""
import torch


def work(model):
    torch.cuda.reset_peak_memory_stats(){marked}
    return model
''',
        "DEV502",
    )


def test_what_is_printed_where_cuda_is_missing_counts_too() -> None:
    expect(
        """
        import torch
        def start():
            if torch.cuda.is_available():
                torch.cuda.reset_peak_memory_stats()
            else:
                print("This notebook is intended for CUDA GPUs but CUDA is not available.")
        def clean():
            torch.cuda.reset_peak_memory_stats()
        """,
        "DEV502",
    )


def test_a_program_that_tells_about_its_gpu_is_for_one() -> None:
    expect(
        """
        import torch
        print(torch.cuda.get_device_properties(0))
        """,
        "DEV502",
    )


def test_a_default_of_a_field_is_possible_alone() -> None:
    code = """
        import torch
        class Options:
            device: torch.device = torch.device("cuda:0"){}
        """
    expect(code.format(""), "DEV501")
    expect(code.format("  # <-"), "DEV501", confidence=Confidence.POSSIBLE)


def test_a_multi_gpu_demonstration_in_a_program_is_for_gpus() -> None:
    expect(
        """
        import torch
        with torch.cuda.device(1):
            x = torch.zeros(3)
        def work(x):
            with torch.cuda.device(1):  # <-
                return x + 1
        """,
        "DEV502",
    )


# ---------------------------------------------------------------------- where a program runs

_PROGRAM = """
import torch
from torch import nn
model = nn.Linear(2, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x, y in loader:
    loss = (model(x) - y).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(loss.item()){}
"""


def test_a_program_that_moves_nothing_waits_for_nothing() -> None:
    expect(_PROGRAM.format(""), "DEV301")
    expect(_PROGRAM.format("  # <-"), "DEV301", confidence=Confidence.POSSIBLE)


@pytest.mark.parametrize(
    "line",
    [
        "model = model.cuda()",
        "model.to(place)",
        "model = Accelerator().prepare(model)",
        "torch.set_default_device('cuda')",
    ],
)
def test_a_program_that_moves_its_model_waits(line: str) -> None:
    code = _PROGRAM.format("  # <-").replace("optimizer = ", f"{line}\noptimizer = ", 1)
    expect(code.replace("from torch import nn", "from torch import nn\nfrom accelerate import Accelerator"), "DEV301")


def test_functions_that_others_call_may_run_anywhere() -> None:
    expect(
        """
        def fit(model, loader, optimizer):
            for x, y in loader:
                loss = (model(x) - y).pow(2).mean()
                loss.backward()
                optimizer.step()
                print(loss.item())  # <-
        """,
        "DEV301",
    )


def test_a_module_that_moves_a_part_of_itself_places_itself() -> None:
    expect(
        """
        import torch
        from torch import nn
        class Hybrid(nn.Module):
            def __init__(self, rank):
                super().__init__()
                self.fc = nn.DataParallel(nn.Linear(16, 8).to(rank))
            def forward(self, x):
                return self.fc(x)
        def train(rank):
            model = Hybrid(rank)
            target = torch.zeros(3).to(rank)
            return nn.functional.mse_loss(model(torch.zeros(3, 16).to(rank)), target)
        """,
        "DEV102",
    )


def test_a_type_is_no_tensor() -> None:
    expect(
        """
        import torch
        from torch import nn
        class Block(nn.Module):
            def forward(self, x, image):
                dtype = torch.float16 if self.half_precision else torch.float32
                x = self.conv(x.to(dtype=dtype)) if x is not None else self.first(image)
                assert x.dtype == dtype
                return x
        """,
        "DEV303",
    )


def test_priorities_go_to_the_host() -> None:
    body = "buffer.update_priorities(indices, loss.detach().cpu().numpy())"
    assert texts(step(body), "DEV302") == []
    assert texts(step(body.replace("update_priorities", "extend")), "DEV302") != []


def test_what_refuses_other_devices_may_name_its_own() -> None:
    code = """
        import torch
        def quantize(weight: torch.Tensor, device=None):
            device = device or torch.device("cuda"){}
            if {}:
                raise RuntimeError("wrong device")
            return weight.to(device)
        """
    expect(code.format("", 'device.type != "cuda"'), "DEV501")
    expect(code.format("  # <-", "weight.dim() != 2"), "DEV501")


def test_an_extension_for_cuda_asks_for_it() -> None:
    code = """
        import torch
        import {}
        def count(index):
            return torch.cuda.get_device_properties(index).multi_processor_count{}
        """
    expect(code.format("group_norm_cuda", ""), "DEV502")
    expect(code.format("group_norm", "  # <-"), "DEV502")


def test_rows_of_a_jacobian_are_no_steps() -> None:
    expect(
        """
        import torch
        def saliency(model, x: torch.Tensor):
            rows = []
            for output in model(x.to("cuda")):
                grad_output = torch.ones(3, device="cuda")
                output.backward(grad_output, retain_graph=True)
                rows.append(output.detach().cpu().numpy())
            return rows
        """,
        "DEV302",
    )


def test_a_loop_that_ends_when_all_are_done_has_to_know() -> None:
    expect(
        """
        import torch
        from torch import nn
        class Ponder(nn.Module):
            def forward(self, x: torch.Tensor):
                halted = torch.zeros(x.shape[0], device=x.device)
                for step in range(9):
                    halted = halted + self.halt(x)
                    if halted.sum() == x.shape[0]:
                        break
                if halted.sum() > 3:  # <-
                    x = x + 1
                return x
        """,
        "DEV303",
    )


def test_a_nested_function_of_what_makes_batches_is_for_the_host() -> None:
    expect(
        """
        import torch
        def get_batch(fabric, data):
            def pad_right(x, pad_id):
                return torch.cat((x, torch.full((9 - len(x),), pad_id, dtype=x.dtype)))
            x = torch.stack([pad_right(x, 0) for x in data])
            y = torch.stack([pad_right(x, -1) for x in data])
            return fabric.to_device((x, y))
        def train(fabric, model, optimizer, data):
            for step in range(9):
                x, y = get_batch(fabric, data)
                loss = (model(x) - y).mean()
                loss.backward()
                optimizer.step()
        """,
        "DEV102",
    )


@pytest.mark.parametrize("name, marked", [("format_batch", ""), ("durations", "  # <-")])
def test_a_method_that_puts_batches_together_may_run_on_the_host(name: str, marked: str) -> None:
    expect(
        f"""
        import torch
        from torch import nn
        class Voice(nn.Module):
            def forward(self, x: torch.Tensor):
                return x
            def {name}(self, attention: torch.Tensor):
                found, counts = torch.unique(attention.max(1)[1], return_counts=True)
                durations = torch.ones([9]).to(counts.dtype){marked}
                return durations * counts
        """,
        "DEV102",
    )


@pytest.mark.parametrize(
    "line", ["x = torch.tensor([1.0], device='cuda')", "x = torch.rand(3).cuda(0)", "x = torch.cuda.FloatTensor(2)"]
)
def test_a_page_that_shows_a_tensor_on_cuda_is_possible_alone(line: str) -> None:
    assert reported_lines(f"import torch\n{line}", "DEV501") == [2]
    assert reported_lines(_notebook("import torch", line), "DEV501", path="page.ipynb") == []
    assert reported_lines(_notebook("from torch import nn", "nn.Linear(2, 2).cuda()"), "DEV501", path="page.ipynb") == [1]


def _notebook(*cells: str) -> str:
    made = [
        {"cell_type": "code", "source": source, "metadata": {}, "outputs": [], "execution_count": None}
        for source in cells
    ]
    return json.dumps({"cells": made, "metadata": {}, "nbformat": 4, "nbformat_minor": 5})


def test_what_forward_saved_on_the_host_is_read_there() -> None:
    expect(
        """
        import torch
        class Smoothed(torch.autograd.Function):
            @staticmethod
            def forward(ctx, logits: torch.Tensor, labels: torch.Tensor, smoothing=0.0):
                ctx.save_for_backward(logits, labels, torch.FloatTensor([smoothing]))
                return logits
            @staticmethod
            def backward(ctx, gradient):
                logits, labels, smoothing = ctx.saved_tensors
                if labels.max() > 3:  # <-
                    gradient = gradient * 2
                if smoothing > 0:
                    gradient = gradient + logits
                return gradient, None, None
        """,
        "DEV303",
    )


def test_keys_of_a_mapping_are_no_tensors() -> None:
    expect(
        """
        import torch
        from torch import nn
        class Relations(nn.Module):
            def forward(self, graph, features: torch.Tensor):
                found = {}
                for source, edge, target in graph.canonical_etypes:
                    found[(source, edge, target)] = torch.sigmoid(features * self.weight[edge])
                out = {}
                for source, edge, target in found:
                    out[target] = torch.stack([found[r] for r in found if r[2] == target])
                return out
        """,
        "DEV303",
    )


@pytest.mark.parametrize("test, marked", [('not hasattr(self, "colours")', ""), ("self.training", "  # <-")])
def test_what_is_made_where_it_is_missing_is_made_once(test: str, marked: str) -> None:
    expect(
        f"""
        import torch
        from torch import nn
        class Painter(nn.Module):
            def forward(self, x: torch.Tensor):
                if {test}:
                    self.colours = torch.randn(3, x.shape[1]).to(x){marked}
                return x @ self.colours
        """,
        "DEV202",
    )


@pytest.mark.parametrize("test, marked", [("dtype == torch.float16", ""), ("verbose", "  # <-")])
def test_half_precision_is_for_accelerators(test: str, marked: str) -> None:
    expect(
        f"""
        import torch
        def verify(net, x, dtype, verbose):
            if {test}:
                return net(x.to("cuda")){marked}
            return net(x)
        """,
        "DEV501",
    )


def test_a_class_that_drives_cuda_by_events_may_name_it() -> None:
    code = """
        import torch
        class Renderer:
            def __init__(self):
                self.device = torch.device("cuda"){}
                self.started = {}
        """
    expect(code.format("", "torch.cuda.Event(enable_timing=True)"), "DEV501")
    expect(code.format("  # <-", "None"), "DEV501")


def test_an_empty_tensor_costs_no_copy() -> None:
    code = """
        import torch
        from torch import nn
        class Crops(nn.Module):
            def forward(self, crops: torch.Tensor):
                output = torch.{}.to(crops.device){}
                return torch.cat([output, crops])
        """
    expect(code.format("empty(0)", ""), "DEV202")
    expect(code.format("empty(3)", "  # <-"), "DEV202")


def test_a_program_that_changes_types_alone_runs_on_the_host() -> None:
    code = _PROGRAM.format("").replace("optimizer = ", "loader = [v.to(torch.float32) for v in loader]\\noptimizer = ", 1)
    expect(code, "DEV301")


def test_a_page_calls_all_its_functions_itself() -> None:
    body = (
        "def extend(x, pairs):\\n"
        "    x = x.to(torch.float64)\\n"
        "    return torch.cat([pairs, torch.zeros(2, 2)])\\n"
    )
    assert reported_lines(_notebook("import torch", body), "DEV102", path="page.ipynb") == []
    assert reported_lines(_notebook("import torch", "x = torch.rand(3)\\nx = x.to('cuda')"), "DEV501", path="p.ipynb") == []


def test_keys_that_things_are_looked_up_by_are_no_tensors() -> None:
    expect(
        """
        import torch
        from torch import nn
        class Fused(nn.Module):
            def forward(self, blocks, features: torch.Tensor, weights):
                for block, layer in zip(blocks, self.layers):
                    features, weights = layer(block, features, weights)
                found = {e: features[(s, e, d)] for s, e, d in features if d == self.kind}
                for s, e, d in features:
                    if d == self.other:
                        found[d] = features[(s, e, d)]
                return found
        """,
        "DEV303",
    )


def test_a_loss_kept_now_and_then_is_possible_alone() -> None:
    body = "if step % 10 == 0:\\n    losses.append(loss)"
    assert texts(step(body, before="losses = []"), "DEV304") == []
    assert texts(step("losses.append(loss)", before="losses = []"), "DEV304") == ["losses.append(loss)"]


def test_a_buffer_that_is_registered_where_it_is_missing_is_made_once() -> None:
    expect(
        """
        import torch
        from torch import nn
        class Painter(nn.Module):
            def forward(self, x: torch.Tensor):
                if not hasattr(self, "colours"):
                    self.register_buffer("colours", torch.randn(3, x.shape[1]).to(x))
                return x @ self.colours
        """,
        "DEV202",
    )


def test_a_program_on_the_host_reads_back_what_it_saved() -> None:
    code = _PROGRAM.replace("{}", "") + (
        "torch.save(model.state_dict(), PATH)\\n"
        "def check():\\n"
        "    fresh = nn.Linear(2, 2)\\n"
        "    fresh.load_state_dict(torch.load(PATH)){}\\n"
    )
    expect(code.format(""), "DEV107")
    expect(code.format("  # <-").replace("optimizer = ", "model.cuda()\\noptimizer = ", 1), "DEV107")


def test_what_is_compared_with_a_number_of_numpy_is_one() -> None:
    body = (
        "goal = model.act(x) if step > 3 else None\nif goal is None:\n    goal = output.max(1)[1]\n"
        "if goal != np.argmax(state):\n    seen = seen + 1"
    )
    assert texts("import numpy as np\n" + step(body, before="seen, state = 0, [1, 2]"), "DEV303") == []


@pytest.mark.parametrize(
    "line, marked",
    [
        ("torch.cuda.set_device(rank)", ""),
        ("assert torch.backends.cudnn.enabled", ""),
        ("torch.manual_seed(rank)", "  # <-"),
    ],
)
def test_a_program_for_gpus_from_its_start_may_name_them(line: str, marked: str) -> None:
    expect(
        f"""
        import torch
        rank = comm.Get_rank()
        {line}
        model = torch.nn.Linear(2, 2).cuda(){marked}
        """,
        "DEV501",
    )


def test_weights_are_made_to_fit_on_the_host() -> None:
    code = """
        import torch
        from torch import nn
        class Diffusion(nn.Module):
            def __init__(self):
                super().__init__()
                self.weight = nn.Parameter(torch.zeros(3))
            def forward(self, x: torch.Tensor):
                return x * self.weight
            def {}(self, path):
                used = torch.ones(3)
                return self.weight / used{}
        """
    expect(code.format("init_from_ckpt", ""), "DEV102")


@pytest.mark.parametrize("into, marked", [("metadata", ""), ("statistics_dict", ""), ("weights", "  # <-")])
def test_what_is_kept_beside_a_state_is_possible_alone(into: str, marked: str) -> None:
    expect(
        f"""
        import torch
        def load_checkpoint(path):
            {into} = torch.load(path){marked}
            return {into}
        """,
        "DEV107",
    )


@pytest.mark.parametrize(
    "shape, marked", [("torch.onnx.operators.shape_as_tensor(x)", ""), ("x.sum(0)", "  # <-")]
)
def test_a_shape_is_on_the_host(shape: str, marked: str) -> None:
    expect(
        f"""
        import torch
        from torch import nn
        class Positions(nn.Module):
            def forward(self, x: torch.Tensor):
                longest = 1 + {shape}[1]
                if longest > self.weights.size(0):{marked}
                    x = x + 1
                return x
        """,
        "DEV303",
    )


def test_options_may_name_a_state() -> None:
    expect("import torch\ndef load(args):\n    return torch.load(args.model_path)  # <-\n", "DEV107")


@pytest.mark.parametrize("name, marked", [("initialize_tokens", ""), ("init_hidden", "  # <-"), ("embed", "  # <-")])
def test_what_a_function_sets_up_is_set_up_once(name: str, marked: str) -> None:
    expect(
        f"""
        import torch
        def {name}(encoders, loss: torch.Tensor):
            for encoder in encoders:
                encoder.weight = torch.randn(3).to(loss.device){marked}
        """,
        "DEV202",
    )
