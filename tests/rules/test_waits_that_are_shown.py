"""A wait is reported where the code shows that it costs something in every step; else it is no more than possible."""

from __future__ import annotations

import pytest
from checking import reported_lines
from steps import step, texts

LAYER = """
import math
import torch
from torch import nn


class Layer(nn.Module):
    def __init__(self, kind={default}, clip=True):
        super().__init__()
        self.kind = kind
        self.clip = clip

    def {method}(self, x: torch.Tensor, batch=None, codes: torch.Tensor = None, checked=False):
        {body}
        return x
"""


def read_in(body: str, default: str = "'plain'", method: str = "forward") -> list[str]:
    code = LAYER.replace("{default}", default).replace("{method}", method).replace("{body}", body.replace("\n", "\n        "))
    return texts(code, "DEV303")


@pytest.mark.parametrize(
    ("test", "default"),
    [
        ("if self.kind == 'dss':", "'plain'"),
        ("if self.kind is not None:", "None"),
        ("if self.kind:", "False"),
        ("if checked:", "'plain'"),
        ("if not self.clip:", "'plain'"),
    ],
)
def test_a_branch_that_defaults_leave_out_is_not_shown_to_run(test: str, default: str) -> None:
    assert read_in(f"{test}\n    assert torch.isinf(x).any()", default) == []


@pytest.mark.parametrize(
    ("test", "default"),
    [
        ("if self.kind == 'dss':", "'dss'"),
        ("if self.kind is not None:", "'plain'"),
        ("if self.kind:", "True"),
        ("if not checked:", "'plain'"),
        ("if self.clip:", "'plain'"),
    ],
)
def test_a_branch_that_defaults_take_runs(test: str, default: str) -> None:
    assert read_in(f"{test}\n    assert torch.isinf(x).any()", default) == ["assert torch.isinf(x).any()"]


def test_a_branch_of_a_layer_that_nothing_shows_to_be_taken_is_not_reported() -> None:
    body = "if self.other == 'dss':\n    assert torch.isinf(x).any()"
    assert read_in(body) == []
    assert read_in(body, method="training_step") == ["assert torch.isinf(x).any()"]


def test_an_attribute_that_is_set_elsewhere_too_has_no_default() -> None:
    body = "self.kind = pick(batch)\nif self.kind == 'dss':\n    assert torch.isinf(x).any()"
    assert read_in(body, method="training_step") == ["assert torch.isinf(x).any()"]


def test_a_parameter_that_is_bound_anew_has_no_default() -> None:
    body = "checked = pick(batch)\nif checked:\n    assert torch.isinf(x).any()"
    assert read_in(body, method="training_step") == ["assert torch.isinf(x).any()"]


def test_what_callers_may_leave_out_is_read_only_where_someone_asks_for_it() -> None:
    given = "found = exists(codes)\nif found:\n    assert not torch.any(codes == -1)"
    asked = "if codes is not None:\n    assert not torch.any(codes == -1)"
    assert read_in(given) == []
    assert read_in(asked, method="training_step") == ["assert not torch.any(codes == -1)"]


def test_what_a_mapping_holds_is_a_text_unless_it_is_computed() -> None:
    loop = "losses = {'all': loss}\nprint(f\"{%s}\")"
    assert (
        texts(step(loop % "batch['name']", before="batch: dict[str, torch.Tensor] = next(loader)"), "DEV303")
        == []
    )
    assert texts(step(loop % "losses['all']"), "DEV303") == ["print(f\"{losses['all']}\")"]


def test_numbers_give_a_layer_a_tensor_on_the_cpu() -> None:
    assert read_in("n = math.floor(torch.true_divide(x.size(1) + pad, 2))") == []
    assert read_in("n = math.floor(torch.true_divide(x.sum(), 2))") != []


def test_a_method_of_a_layer_takes_a_tensor() -> None:
    assert read_in("for layer in (self.first, self.second):\n    x = layer.norm(x.relu())") == []
    assert read_in("x = x.relu().norm(x.mean())") == ["x = x.relu().norm(x.mean())"]


@pytest.mark.parametrize(
    "needed",
    [
        "torch.cuda.synchronize()",
        "state = env.step(output.argmax().item())",
        "score = output.mean().item()\nif score > best:\n    best = score\n    torch.save(model, 'best.pt')",
    ],
)
def test_what_waits_anyway_later_in_the_step_costs_no_more(needed: str) -> None:
    assert texts(step(f"total = loss.item()\n{needed}", before="best = 0.0"), "DEV301") == []
    seldom = "if step % every == 0:\n    " + needed.replace("\n", "\n    ")
    assert texts(step(f"total = loss.item()\n{seldom}", before="best = 0.0"), "DEV301") == [
        "total = loss.item()"
    ]


def test_a_copy_by_whose_number_a_search_ends_is_needed() -> None:
    line = "now = loss.detach().cpu().item()\nif every is not None and now > every * best:\n    break"
    assert texts(step(line, before="best = 9.0"), "DEV302", "DEV301") == []
    kept = "now = loss.detach().cpu().item()\nif step > every * best:\n    break"
    assert texts(step(kept, before="best = 9.0"), "DEV302", "DEV301") == ["now = loss.detach().cpu().item()"]


IMPORTANCE = """
import torch

def importance(model, {loader}, device):
    kept, total = [], 0.0
    for x in {loader}:
        out = model(x.to(device))
        loss = out.mean()
        loss.backward()
        {line}
    return kept
"""


def test_what_a_loop_over_evaluation_data_collects_is_needed() -> None:
    code = IMPORTANCE.replace("{line}", "kept.append(out.detach().cpu())")
    assert texts(code.replace("{loader}", "eval_loader"), "DEV302") == []
    assert texts(code.replace("{loader}", "train_loader"), "DEV302") == ["kept.append(out.detach().cpu())"]
    summed = IMPORTANCE.replace("{line}", "total += loss.detach().cpu()")
    assert texts(summed.replace("{loader}", "eval_loader"), "DEV302") == ["total += loss.detach().cpu()"]


GATHERED = """
import torch

class Search:
    def __init__(self, device):
        self.device = device

    def run(self, model, x):
        best, where = torch.topk({scores}, 3)
        return self._gather(best)

    def _gather(self, scores: torch.Tensor):
        found = []
        for score in scores:
            found.append(score.item() if scores.device == self.device else score.item())
        return found
"""


def test_elements_of_what_a_caller_has_on_the_cpu_wait_for_nothing() -> None:
    assert reported_lines(GATHERED.replace("{scores}", "torch.zeros(9)"), "DEV301") == []
    assert reported_lines(GATHERED.replace("{scores}", "model(x.to(self.device))"), "DEV301") == [15]


AGENT = """
import torch

def update(agent, samples, optimizer, info, device):
    for part in samples:
        values = agent(part)
        loss = values.pow(2).mean()
        loss.backward()
        optimizer.step()
        info.loss.append(loss.item())
        {line}
"""


@pytest.mark.parametrize(
    ("line", "waits"),
    [
        ("info.values.extend(values[::10].numpy())", False),
        ("info.values.extend(values[::10].cpu().numpy())", True),
        ("kept = values.detach().cpu()\n        info.values.extend(kept.numpy())", True),
        ("info.device = values.device", True),
    ],
)
def test_where_numpy_reads_tensors_as_they_are_nothing_is_elsewhere(line: str, waits: bool) -> None:
    found = texts(AGENT.replace("{line}", line), "DEV301")
    assert found == (["info.loss.append(loss.item())"] if waits else [])


def test_a_branch_in_which_processes_work_together_needs_the_answer() -> None:
    shared = "if torch.any(x.relu() > 9):\n    torch.distributed.all_gather(parts, x)"
    assert read_in(shared) == []
    assert read_in("if torch.isinf(x).any():\n    x = torch.clamp(x, max=9.0)") == [
        "if torch.isinf(x).any():"
    ]


def test_a_value_that_was_needed_just_before_has_arrived() -> None:
    needed = "top = x.relu().max()\nif top == 0:\n    batch = None\nif top > 9:\n    x = x.clamp(max=9.0)"
    assert read_in(needed) == []
    assert read_in(needed.replace("if top == 0:", "if top > 99:").replace("batch = None", "x = x / 2")) == [
        "if top > 99:",
        "if top > 9:",
    ]


SYNCHRONISED = """
import time
import torch

synchronize = {chosen} if torch.cuda.is_available() else lambda: None

def train(model, loader, optimizer, device):
    total = 0.0
    for x in loader:
        began = time.time()
        loss = model(x.to(device)).mean()
        loss.backward()
        optimizer.step()
        {wait}()
        took = time.time() - began
        total += loss.item()
"""


@pytest.mark.parametrize(("wait", "waits"), [("synchronize", False), ("optimizer.zero_grad", True)])
def test_behind_whatever_waits_for_a_backend_nothing_is_left(wait: str, waits: bool) -> None:
    code = SYNCHRONISED.replace("{chosen}", "torch.cuda.synchronize").replace("{wait}", wait)
    assert len(texts(code, "DEV301")) == waits


LEARNER = """
class Learner:
    def learn(self, batches):
        for batch in batches:
            loss = {loss}
            loss.backward()
            self.optimizer.step()
            self.total += loss.item()
            {line}
"""


def test_what_comes_from_nowhere_in_a_file_without_devices_has_none() -> None:
    without = LEARNER.replace("{line}", "pass")
    assert texts(without.replace("{loss}", "self.agent.loss()"), "DEV301") == []
    assert len(texts(without.replace("{loss}", "self.agent.loss(batch.mean())"), "DEV301")) == 1
    speaks = LEARNER.replace("{line}", "self.agent.to(self.device)").replace("{loss}", "self.agent.loss()")
    assert len(texts(speaks, "DEV301")) == 1
