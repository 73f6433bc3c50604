"""DEV102: which values on the host join others elsewhere, by which ways, and what refutes that."""

from __future__ import annotations

import pytest
from checking import expect, findings, fixed, reported_lines, safeties

from torchlint.findings import Confidence, Safety

CODE = "DEV102"


def test_a_helper_with_a_device_at_hand_is_reported_where_it_creates() -> None:
    expect(
        """
        import torch
        def mask(lengths, device):
            lengths = lengths.to(device)
            positions = torch.arange(10)  # <-
            return positions[None, :] < lengths[:, None]
        """,
        CODE,
    )


def test_a_function_offered_to_callers_is_taken_to_get_tensors_of_any_device() -> None:
    expect(
        """
        import torch
        def split(fixed: torch.Tensor, n):
            return fixed[torch.isin(fixed, torch.arange(n))]  # <-
        def pad(rows: torch.Tensor, n):
            return torch.cat([rows, torch.tensor([0.0, 1.0])])  # <-
        """,
        CODE,
    )


@pytest.mark.parametrize(
    "around",
    [
        "from torch.utils.data import Dataset",
        "import cv2",
        "print(split(torch.ones(3), 2))",
        "for i in range(3): split(torch.ones(3), i)",
    ],
)
def test_what_the_callers_have_is_only_possible_where_the_host_is_at_work(around: str) -> None:
    code = f"""
        import torch
        def split(fixed: torch.Tensor, n):
            return fixed[torch.isin(fixed, torch.arange(n))]
        {around}
        """
    assert not findings(code, CODE)
    assert findings(code, CODE, confidence=Confidence.POSSIBLE)


def test_what_is_made_of_data_may_meet_data() -> None:
    code = """
        import torch
        def split(fixed: torch.Tensor, rows):
            return fixed[torch.isin(fixed, torch.tensor([len(r) for r in rows]))]
        """
    assert not findings(code, CODE)


@pytest.mark.parametrize("path", ["src/datasets/parts.py", "pkg/dataio/parts.py", "examples/parts.py"])
def test_files_that_prepare_data_or_show_something_are_of_the_host(path: str) -> None:
    code = """
        import torch
        def split(fixed: torch.Tensor, n):
            return fixed[torch.isin(fixed, torch.arange(n))]
        """
    assert not findings(code, CODE, path=path)


@pytest.mark.parametrize("name", ["ComputeLoss", "FocalLoss", "SetCriterion", "LossComputation"])
def test_a_class_that_computes_a_loss_gets_what_a_model_gave(name: str) -> None:
    expect(
        f"""
        import torch
        class {name}:
            def __call__(self, outputs, labels):
                target = torch.from_numpy(labels)  # <-
                return torch.nn.functional.l1_loss(outputs, target)
        """,
        CODE,
    )


def test_a_class_that_keeps_a_device_computes_on_it() -> None:
    expect(
        """
        import torch
        class Planner:
            def __init__(self, horizon, device):
                self.horizon, self.device = horizon, device
            def line(self, start: torch.Tensor):
                return torch.cat([start, torch.zeros(start.shape[0], 1)], dim=1)  # <-
        """,
        CODE,
    )


def test_a_class_that_reads_data_is_of_the_host_all_the_same() -> None:
    code = """
        import torch
        class RowReader:
            def __init__(self, device):
                self.device = device
            def line(self, start: torch.Tensor):
                return torch.cat([start, torch.zeros(start.shape[0], 1)], dim=1)
        """
    assert not findings(code, CODE)


def test_a_function_that_tells_one_tensor_its_device_is_written_for_devices() -> None:
    expect(
        """
        import torch
        import cv2
        from settings import device
        def grid(points: torch.Tensor, n):
            out = torch.zeros(n, 2, device=device)
            return out, points + torch.arange(n)  # <-
        """,
        CODE,
    )


@pytest.mark.parametrize("constant", ["math.pi", "np.pi", "torch.pi", "np.inf"])
def test_constants_of_libraries_are_numbers(constant: str) -> None:
    expect(
        f"""
        import math
        import numpy as np
        import torch
        def encode(v: torch.Tensor, m):
            scale = 2 * {constant} * torch.arange(m)  # <-
            return scale * v.to(v.device)
        """,
        CODE,
    )


def test_a_caller_that_passes_an_accelerator_tensor_confirms() -> None:
    expect(
        """
        import torch
        def split(fixed: torch.Tensor, n):
            return fixed[torch.isin(fixed, torch.arange(n))]  # <-
        def use(device):
            return split(torch.ones(3, device=device), 2)
        """,
        CODE,
    )


def test_callers_that_all_pass_host_tensors_refute() -> None:
    code = """
        import torch
        def embed(w: torch.Tensor, device):
            return (w[:, None] * torch.arange(8)[None, :]).to(device)
        def use(device):
            return embed(torch.tensor([1.0, 2.0]), device)
        """
    assert not findings(code, CODE, confidence=Confidence.POSSIBLE)


def test_a_result_that_is_moved_at_once_speaks_for_operands_on_the_host() -> None:
    expect(
        """
        import torch
        def bins(x: torch.Tensor, edges: torch.Tensor):
            edges = torch.cat([torch.tensor([0.0]), edges]).to(x.device)
            return torch.bucketize(x, edges)
        """,
        CODE,
    )


@pytest.mark.parametrize("how", ["nn.CrossEntropyLoss(weight=w)", "nn.CrossEntropyLoss(w)", "nn.BCEWithLogitsLoss(pos_weight=w)"])
def test_the_weight_of_a_loss_stays_where_it_was_made(how: str) -> None:
    expect(
        f"""
        import torch
        from torch import nn
        def train(model, loader, optimizer, device):
            w = torch.tensor([1.0, 2.0])
            criterion = {how}
            model.to(device)
            for x, y in loader:
                loss = criterion(model(x.to(device)), y.to(device))  # <-
                loss.backward()
                optimizer.step()
        """,
        CODE,
    )
    expect(
        f"""
        import torch
        from torch import nn
        def train(model, loader, optimizer, device):
            w = torch.tensor([1.0, 2.0])
            criterion = {how}.to(device)
            model.to(device)
            for x, y in loader:
                loss = criterion(model(x.to(device)), y.to(device))
                loss.backward()
                optimizer.step()
        """,
        CODE,
    )


def test_tokens_that_nobody_moved_meet_a_model_that_was_moved() -> None:
    expect(
        """
        class Scorer:
            def __init__(self, model, tokenizer, device):
                self.device = device
                self.model = model.to(device).eval()
                self.tokenizer = tokenizer
            def score(self, text):
                ids = self.tokenizer(text, return_tensors="pt")["input_ids"]
                return self.model(ids).logits  # <-
            def score_moved(self, text):
                batch = self.tokenizer(text, return_tensors="pt").to(self.device)
                return self.model(batch["input_ids"]).logits
        """,
        CODE,
    )


def test_a_table_on_the_host_cannot_be_indexed_from_elsewhere() -> None:
    expect(
        """
        import torch
        class Schedule:
            def __init__(self, n):
                self.alphas = torch.linspace(0, 1, n).cumprod(0)
            def at(self, t: torch.Tensor):
                t = t.to("cuda")
                return self.alphas[t]  # <-
            def at_moved(self, t: torch.Tensor):
                t = t.to("cuda")
                return self.alphas.to(t.device)[t]
            def at_number(self, t: torch.Tensor):
                return self.alphas[t.to("cuda").argmax()]
        """,
        CODE,
    )


def test_an_optimizer_that_allocates_its_state_wants_the_model_in_its_place() -> None:
    expect(
        """
        import torch
        def build(model, device):
            optimizer = torch.optim.Adagrad(model.parameters(), lr=0.1)
            model.to(device)  # <-
            return optimizer
        def build_well(model, device):
            model.to(device)
            return torch.optim.Adagrad(model.parameters(), lr=0.1)
        def build_adam(model, device):
            optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
            model.to(device)
            return optimizer
        def resume(model, state, device):
            optimizer = torch.optim.Adam(model.parameters())
            optimizer.load_state_dict(state)
            model.cuda()  # <-
            return optimizer
        """,
        CODE,
    )


def test_exits_that_disagree() -> None:
    expect(
        """
        import torch
        def match(similarity: torch.Tensor):
            if similarity.shape[0] == 0:
                return -1 * torch.ones(similarity.shape[1], dtype=torch.long)  # <-
            best = similarity.argmax(dim=0)
            return best
        """,
        CODE,
    )


@pytest.mark.parametrize(
    "exits",
    [
        "if x.numel() == 0:\n        return torch.tensor([])\n    return x.abs()",
        "if x.numel() == 0:\n        return torch.tensor(0.0)\n    return x.abs().mean()",
        "if not isinstance(x, torch.Tensor):\n        return torch.from_numpy(x)\n    return x",
        "if x.numel() == 0:\n        return torch.zeros(3, device=x.device)\n    return x.abs()",
    ],
)
def test_exits_that_may_well_disagree(exits: str) -> None:
    expect(f"import torch\ndef f(x: torch.Tensor):\n    {exits}\n", CODE)


def test_a_module_built_for_one_call_is_on_the_host() -> None:
    expect(
        """
        import torch
        from torch import nn
        class Net(nn.Module):
            def pool(self, x):
                conv = nn.Conv1d(3, 3, 1)
                return conv(x)  # <-
            def forward(self, x):
                return self.pool(x)
        """,
        CODE,
    )


def test_registered_modules_are_wherever_the_module_is_in_whatever_container() -> None:
    expect(
        """
        import torch
        from torch import nn
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                body = []
                for _ in range(3):
                    body.append(nn.Linear(3, 3))
                self.body = body
                self.body = nn.ModuleList(self.body)
                self.heads = nn.ModuleDict({"a": nn.Linear(3, 3)})
                self.tail = nn.Sequential(*[nn.Linear(3, 3)])
                self.scale = nn.ParameterList([nn.Parameter(torch.ones(3))])
            def forward(self, x):
                for layer in self.body:
                    x = layer(x)
                x = self.heads["a"](x) + self.body[0](x)
                return self.tail(x) * self.scale[0]
        """,
        CODE,
    )


def test_a_model_that_another_object_was_given_may_have_been_moved() -> None:
    expect(
        """
        import torch
        from torch import nn
        class Trainer:
            def __init__(self, model, device):
                self.model = model.to(device)
        def main(device):
            model = nn.Linear(3, 3)
            trainer = Trainer(model, device)
            return model(torch.ones(1, 3, device=device))
        """,
        CODE,
    )


def test_a_wrapper_moves_its_inputs() -> None:
    expect(
        """
        import torch
        from torch import nn
        from torch.nn.parallel import DistributedDataParallel as DDP
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.a = nn.Linear(3, 3)
            def forward(self, x):
                return self.a(x)
        def main(rank):
            net = DDP(Net().to(rank), device_ids=[rank])
            out = net(torch.randn(2, 3))
            return nn.functional.mse_loss(out, torch.zeros(2, 3).to(rank))
        """,
        CODE,
    )


def test_worlds_of_a_device_test_do_not_mix() -> None:
    for test in ("torch.cuda.is_available()", "use_cuda", "device != 'cpu'", "device.type == 'cuda'", "not device == 'cpu'"):
        expect(
            f"""
            import torch
            def step(x: torch.Tensor, device, use_cuda):
                h = torch.zeros(3)
                x = x.to("cpu")
                if {test}:
                    h = h.cuda()
                    x = x.cuda()
                return h + x
            """,
            CODE,
        )


def test_what_is_brought_back_under_the_same_flag_is_on_the_host() -> None:
    expect(
        """
        import torch
        def predict(net, x: torch.Tensor, use_cuda):
            if use_cuda:
                x = x.cuda()
            p = x.softmax(dim=1)
            if use_cuda:
                p = p.cpu()
            return p * torch.ones(3)
        """,
        CODE,
    )


def test_defaults_of_a_function_decide_its_branches() -> None:
    expect(
        """
        import torch
        def mask(lengths: torch.Tensor, n, device=None):
            if device is None:
                device = lengths.device
            return torch.arange(n, device=device)[None, :] < lengths[:, None]
        def use(lengths: torch.Tensor, x: torch.Tensor):
            x, lengths = x.cuda(), lengths.cuda()
            return x.masked_fill(mask(lengths, 3), 0.0)
        """,
        CODE,
    )


def test_a_cpu_chosen_by_name_is_no_accusation_of_the_callers_tensors() -> None:
    expect(
        """
        import torch
        class Masks:
            def __init__(self, tensor):
                self.tensor = torch.as_tensor(tensor, device="cpu")
            def crop(self, boxes: torch.Tensor):
                rows = torch.arange(3, device=self.tensor.device)
                return torch.cat([rows[:, None].to(boxes.dtype), boxes], dim=1)
        """,
        CODE,
    )


def test_lazily_made_attributes_have_no_known_place() -> None:
    expect(
        """
        import torch
        from torch import nn
        class Search(nn.Module):
            def __init__(self):
                super().__init__()
                self.overlap = torch.empty(3)
            def forward(self, x, rows):
                if x.dim() == 1:
                    self.overlap = torch.zeros(3, device=x.device)
                return x.float() * self.overlap
        """,
        CODE,
    )


def test_the_fix_of_random_numbers_is_unsafe() -> None:
    code = """
        import torch
        def noisy(x: torch.Tensor, device):
            x = x.to(device)
            return x + torch.randn(3)
        """
    assert safeties(code, CODE) == [Safety.UNSAFE]
    assert "torch.randn(3, device=device)" in fixed(code, CODE)


def test_a_module_that_is_never_moved_runs_where_its_caller_keeps_the_tensors() -> None:
    from torchlint.check import CheckOptions, check_source

    code = b"""
import torch
from torch import nn

def fit(features, labels):
    net = nn.Sequential(nn.Linear(4, 1))
    loss = nn.MSELoss()(net(features.float()), labels.float())
    loss.backward()
"""
    options = CheckOptions(frozenset({"DEV102", "DEV201"}))
    assert not check_source(code, "fit.py", options).findings


@pytest.mark.parametrize("made", ["torch.arange(0, 3)", "torch.linspace(0, 1, 3)", "torch.full((3,), 0)"])
def test_a_tensor_that_begins_with_zero_is_not_empty(made: str) -> None:
    expect(
        f"""
        import torch
        def match(similarity: torch.Tensor):
            if similarity.shape[0] == 0:
                return {made}  # <-
            best = similarity.argmax(dim=0)
            return best
        """,
        CODE,
    )


def test_what_was_computed_from_an_argument_says_nothing_when_it_is_moved() -> None:
    code = """
        import torch
        import torch.nn.functional as F
        def activation(dist, device):
            near = (dist < 3).to(device)
            return F.relu(3 - dist) * near
        """
    assert not reported_lines(code, "DEV102")


def test_a_forward_moves_what_may_be_there_already() -> None:
    code = """
        import torch
        from torch import nn
        class Layer(nn.Module):
            def forward(self, inputs):
                adjacency = inputs[0].to(self.device)
                nodes = inputs[1].to(self.device)
                hidden = inputs[2]
                return adjacency @ torch.cat((hidden, nodes), -1)
        """
    assert not reported_lines(code, "DEV102")


@pytest.mark.parametrize("built", ["nn.Linear(16, 8).to(rank)", "DDP(nn.Linear(16, 8).cuda(rank))"])
def test_a_module_that_places_its_parts_itself_is_not_on_the_host(built: str) -> None:
    code = f"""
        import torch
        from torch import nn
        from torch.nn.parallel import DistributedDataParallel as DDP

        class Hybrid(nn.Module):
            def __init__(self, rank):
                super().__init__()
                self.fc = {built}

            def forward(self, x):
                return self.fc(x)

        def train(rank, loader):
            model, criterion = Hybrid(rank), nn.CrossEntropyLoss()
            for x, y in loader:
                criterion(model(x.to(rank)), y.to(rank)).backward()
    """
    assert not findings(code, CODE)


def test_an_index_that_was_none_and_is_made_is_not_none() -> None:
    code = """
        import torch

        class Scheduler:
            def __init__(self):
                self._step_index = None

            def set_timesteps(self, n):
                self.sigmas = torch.linspace(0, 1, n).to("cpu")
                self._step_index = None

            def first(self, timestep):
                self._step_index = int(timestep)

            @property
            def step_index(self) -> int:
                return self._step_index

            def step(self, output: torch.Tensor, timestep, device):
                output = output.to(device)
                if self.step_index is None:
                    self.first(timestep)
                sigma = self.sigmas[self.step_index]
                return output * (sigma**2 + 1) ** 0.5
    """
    assert not findings(code, CODE)


def test_a_programs_own_data_and_model_may_both_stay_where_they_are() -> None:
    code = """
        import torch
        train_x = torch.linspace(0, 1, 100)
        def train(model, optimizer, scale):
            for _ in range(50):
                loss = model(train_x).sum().to(scale)
                loss.backward()
                optimizer.step()
    """
    assert not findings(code, CODE)


def test_a_container_of_modules_grows_before_anything_moves() -> None:
    code = """
        import torch
        from torch import nn

        class Blocks(nn.Module):
            def __init__(self, shape):
                super().__init__()
                self.shape, self.first = shape, nn.Linear(3, 3)
            def {name}(self, layer):
                return self.first(torch.zeros(self.shape))
    """
    assert not findings(code.format(name="append"), CODE)
    assert findings(code.format(name="probe"), CODE)


_SENT_BY = """
import torch
def scale(w, device):
    angles = torch.exp(torch.arange(8) * -0.1)
    return w.unsqueeze(1) * angles[None, :]
def run(model, batch, device):
    model.to(device)
    w = {}
    return scale(w, device)
"""


@pytest.mark.parametrize(
    "argument, reported", [("torch.rand(4, device=device)", True), ("torch.rand(4)", False), ("batch.w * 2", False)]
)
def test_the_callers_in_a_file_say_where_the_argument_of_a_plain_function_is(argument: str, reported: bool) -> None:
    assert bool(reported_lines(_SENT_BY.format(argument), "DEV102")) is reported


@pytest.mark.parametrize(("after", "reported"), [("both.to(device)", False), ("both", True), ("both.to(mask.device)", True), ("both.cpu()", True)])
def test_what_is_put_together_and_then_sent_to_a_device_was_on_the_host(after: str, reported: bool) -> None:
    code = f"""
        import torch
        def pad(mask: torch.Tensor, n, device):
            ones = torch.ones(n)
            both = torch.cat([mask, ones])
            return {after}
    """
    assert bool(findings(code, CODE)) is reported


def test_a_call_tells_what_a_parameter_is_that_meets_the_host() -> None:
    expect(
        """
        import torch
        def to_one_hot(labels, count):
            eye = torch.eye(count)  # <-
            return eye[labels]
        def objective(output, target):
            return (to_one_hot(target, 10) * output).sum()
        def train(model, loader, device):
            for x, y in loader:
                x, y = x.to(device), y.to(device)
                objective(model(x), y).backward()
        """,
        CODE,
    )


@pytest.mark.parametrize("operation", ["positions < length", "positions * length", "torch.cat([positions, length])"])
def test_a_call_tells_what_operations_join(operation: str) -> None:
    expect(
        f"""
        import torch
        def joined(count, length):
            positions = torch.arange(count)  # <-
            return {operation}
        def use(count, device):
            return joined(count, torch.ones(3, device=device))
        """,
        CODE,
    )


@pytest.mark.parametrize("given", ["3", "torch.ones(3)", "torch.tensor([1, 2])", "unknown()"])
def test_a_call_that_passes_what_is_on_the_host_or_unknown_tells_nothing(given: str) -> None:
    code = f"""
        import torch
        def joined(count, length):
            positions = torch.arange(count)
            return positions < length
        def use(count, device):
            return joined(count, {given})
        """
    assert not findings(code, CODE)


@pytest.mark.parametrize(
    "use",
    [
        "scores.gather(1, labels.view(-1, 1))",
        "scores.masked_fill(labels, 0)",
        "torch.nn.functional.nll_loss(scores, labels.view(-1))",
        "scores.sum() + torch.where(labels.bool(), 1.0, 0.0)",
    ],
)
def test_what_methods_and_functions_take_as_tensors_are_tensors(use: str) -> None:
    expect(
        f"""
        import torch
        def objective(scores: torch.Tensor, labels, device):
            part = torch.eye(10)  # <-
            chosen = part[labels.reshape(-1)]
            return {use}
        """,
        CODE,
    )


def test_what_has_a_shape_and_joins_a_tensor_is_one() -> None:
    expect(
        """
        import torch
        def attribute(model, x, baseline=None):
            if baseline is None:
                baseline = torch.zeros(x.shape)  # <-
            return model(x - baseline)
        """,
        CODE,
    )


def test_an_array_has_a_shape_too_and_is_made_a_tensor_first() -> None:
    code = """
        import torch
        def attribute(model, x):
            baseline = torch.zeros(x.shape)
            x = torch.from_numpy(x)
            return model(x - baseline)
        """
    assert not findings(code, CODE)


@pytest.mark.parametrize(
    "use",
    [
        "torch.sqrt(self.table[t])[:, None, None]",
        "self.table[t].view(-1, 1, 1)",
        "self.table[t].sqrt().reshape(-1, 1, 1)",
    ],
)
def test_an_index_whose_numbers_are_laid_out_along_a_batch_is_a_tensor(use: str) -> None:
    expect(
        f"""
        import torch
        class Scheduler:
            def __init__(self, n, device):
                self.device = device
                self.table = 1 - torch.linspace(0, 1, n)
            def scale(self, t):
                return {use}  # <-
        """,
        CODE,
    )


@pytest.mark.parametrize("use", ["self.table[i]", "self.table[i] * 2", "self.rows[i].view(-1, 1)"])
def test_an_index_of_which_nothing_is_known_may_be_a_number(use: str) -> None:
    code = f"""
        import torch
        class Scheduler:
            def __init__(self, n):
                self.table = torch.linspace(0, 1, n)
                self.rows = [torch.ones(3) for _ in range(n)]
            def scale(self, x: torch.Tensor, i):
                return x.sum() * {use}
        """
    assert not [f for f in findings(code, CODE) if "joins `i`" in f.message]


def test_the_classes_of_a_batch_pick_rows_of_an_identity_matrix() -> None:
    code = """
        import torch
        from torch import nn
        class Loss(nn.Module):
            def forward(self, logits, target):
                return (torch.eye(10)[target] * logits.log()).sum(1)
        """
    assert reported_lines(code, "DEV102") or reported_lines(code, "DEV201")


def test_the_dimension_that_a_function_takes_is_no_tensor() -> None:
    code = """
        import torch
        def select(rows: torch.Tensor, dim, index):
            if torch.arange(2).sum() != dim:
                index = index.unsqueeze(dim)
            return torch.gather(rows, dim, index)
        def use(rows, device):
            return select(rows, torch.ones(3, device=device), rows)
        """
    assert not findings(code, CODE)


def test_a_caller_that_passes_on_what_it_got_leaves_a_function_as_it_is() -> None:
    expect(
        """
        import torch
        def mask(lengths):
            return torch.arange(9) < lengths.unsqueeze(1)  # <-
        def parse(outputs, lengths):
            return outputs.masked_fill(mask(lengths), 0.0)
        """,
        CODE,
    )


@pytest.mark.parametrize(("indices", "reported"), [("torch.arange(3)", False), ("torch.arange(6).reshape(2, 3)", True)])
def test_an_element_of_a_range_picks_one_row(indices: str, reported: bool) -> None:
    code = f"""
        import torch
        def pool(states: torch.Tensor, device):
            states = states.to(device)
            result = torch.zeros(3, 4)
            for i in {indices}:
                result[i] = states[i].mean(0)
            return result
    """
    assert bool(findings(code, CODE)) is reported


@pytest.mark.parametrize(
    ("state", "reported"),
    [
        ("torch.as_tensor(best)", False),
        ("torch.tensor(1.0)", False),
        ("best.clone()", False),
        ("torch.zeros(3)", True),
        ("nn.Parameter(torch.zeros(3))", True),
    ],
)
def test_a_module_whose_own_state_may_stay_is_not_said_to_be_on_the_host(state: str, reported: bool) -> None:
    code = f"""
        import torch
        from torch import nn
        class Gain(nn.Module):
            def __init__(self, model, best):
                super().__init__()
                self.model = model
                self.{'best = ' + state if 'Parameter' in state else f'register_buffer("best", {state})'}
            def forward(self, x):
                return self.model(x) - self.best
        def plot(gain, rows, device):
            x = torch.tensor(rows).to(device)
            return gain(x)
        def show(model, rows, device):
            best = max(rows)
            gain = Gain(model, best)
            return plot(gain, rows, device)
    """
    assert bool(findings(code, CODE)) is reported


def test_the_elements_of_a_list_are_named_one_by_one() -> None:
    code = """
        import torch
        def join(boxes, n: int, device):
            boxes = boxes.to(device)
            one = torch.arange(n).reshape(-1, 1)
            return torch.cat([
                one.float(),
                boxes + 1.0,
            ], dim=1)
    """
    (finding,) = findings(code, CODE)
    assert "`boxes + 1.0`" in finding.message
    assert "[" not in finding.message


@pytest.mark.parametrize(
    "joined", ["torch.cat([mask, x])", "torch.stack((x, mask), dim=1)", "mask[x]", "mask[0:1, x]"]
)
def test_the_message_names_the_tensors_and_not_the_list_that_they_stand_in(joined: str) -> None:
    code = f"""
        import torch
        def f(rows: torch.Tensor, device):
            x = rows.to(device)
            mask = torch.from_numpy(rows.cpu().numpy())
            return {joined}
        """
    (found,) = findings(code, CODE)
    assert "joins `x`, which is on `device`" in found.message
