"""DEV304: losses kept with their graph."""

from __future__ import annotations

import pytest
from checking import expect, fixed
from steps import IMPORTS, step, texts

from torchlint.findings import Confidence

CODE = "DEV304"


@pytest.mark.parametrize(
    "line",
    [
        "total += loss",
        "total += loss * x.size(0)",
        "total += loss.mean()",
        "total += loss / len(loader)",
        "losses.append(loss)",
        "losses.append(loss.cpu())",
        "sums['loss'] += loss",
        "if step > 10: total += loss",
    ],
)
def test_a_loss_kept_with_its_graph_is_reported(line: str) -> None:
    before = "total = 0.0\nlosses = []\nsums = {'loss': 0.0}"
    assert texts(step(line, before=before), CODE) == [line]


@pytest.mark.parametrize(
    "line",
    [
        "total += loss.item()",
        "total += float(loss)",
        "total += loss.detach()",
        "total += loss.data",
        "total += loss.detach().mean() * x.size(0)",
        "losses.append(loss.item())",
        "losses.append(output.argmax(1))",
        "losses.append(step)",
        "with torch.no_grad(): total += loss",
        "loss += penalty",
        "total += x.size(0)",
        "total += accuracy(output, y)",
    ],
)
def test_what_holds_no_graph_is_silent(line: str) -> None:
    assert texts(step(line, before="total = 0.0\nlosses = []"), CODE) == []


def test_a_sum_that_begins_anew_in_every_step_is_silent() -> None:
    assert texts(step("total = 0\ntotal += loss"), CODE) == []


def test_a_sum_that_backward_runs_on_is_silent() -> None:
    body = "total += loss\nif step % 4 == 3:\n    total.backward()\n    total = 0"
    assert texts(step(body, before="total = 0"), CODE) == []


def test_a_list_that_flows_into_a_backward_is_silent() -> None:
    body = (
        "losses.append(loss)\nif step % 4 == 3:\n    mean = torch.stack(losses).mean()\n    mean.backward()"
    )
    assert texts(step(body, before="losses = []"), CODE) == []


def test_losses_added_up_before_one_backward_are_silent() -> None:
    code = IMPORTS + (
        "def one_step(heads, features, labels, optimizer, criterion):\n"
        "    loss = 0\n"
        "    for head, label in zip(heads, labels):\n"
        "        loss += criterion(head(features), label)\n"
        "    loss.backward()\n"
        "    optimizer.step()\n"
    )
    assert texts(code, CODE) == []


METER = (
    "class Meter:\n"
    "    def __init__(self):\n"
    "        self.sum = 0.0\n"
    "    def update(self, value, n=1):\n"
    "        {}\n"
)


@pytest.mark.parametrize(
    "call", ["meter.update(loss)", "meter.update(loss, x.size(0))", "meter.update(value=loss)"]
)
def test_a_meter_that_sums_what_it_gets_keeps_the_graph(call: str) -> None:
    code = METER.format("self.sum += value * n") + step(call, before="meter = Meter()")
    assert texts(code, CODE) == [call]


@pytest.mark.parametrize(
    "body",
    [
        "self.sum += value.item() * n",
        "self.sum += value.detach()",
        "value = value.item()\n        self.sum += value",
        "self.last = n",
    ],
)
def test_a_meter_that_cuts_the_graph_is_silent(body: str) -> None:
    assert texts(METER.format(body) + step("meter.update(loss)", before="meter = Meter()"), CODE) == []


def test_a_meter_that_gets_a_number_is_silent() -> None:
    code = METER.format("self.sum += value") + step("meter.update(loss.item())", before="meter = Meter()")
    assert texts(code, CODE) == []


def test_an_attribute_of_the_trainer_keeps_the_graph() -> None:
    code = IMPORTS + (
        "class Trainer:\n"
        "    def train_step(self, batch):\n"
        "        loss = self.model(batch).mean()\n"
        "        loss.backward()\n"
        "        self.optimizer.step()\n"
        "        self.total += loss\n"
    )
    assert texts(code, CODE) == ["self.total += loss"]


def test_the_fix_cuts_the_graph() -> None:
    code = step("total += loss / 2", before="total = 0.0")
    assert fixed(code, CODE) == code.replace("total += loss / 2", "total += (loss / 2).detach()")


@pytest.mark.parametrize(
    "line",
    [
        "total = total + loss",
        "total = loss + total",
        "total = 0.9 * total + 0.1 * loss",
        "losses = losses + [loss]",
        "losses += [loss]",
        "losses.append((step, loss))",
        "losses.append({'loss': loss})",
    ],
)
def test_other_ways_to_keep_a_graph_are_reported(line: str) -> None:
    assert texts(step(line, before="total = 0.0\nlosses = []"), CODE) == [line]


@pytest.mark.parametrize(
    "line", ["total = total + loss.item()", "loss = loss + penalty", "losses = [loss]", "total = loss + 1"]
)
def test_other_sums_are_silent(line: str) -> None:
    assert texts(step(line, before="total = 0.0\nlosses = []"), CODE) == []


STATE = (
    "class M(nn.Module):\n"
    "    def __init__(self):\n"
    "        super().__init__()\n"
    "        self.register_buffer('mean', torch.zeros(3))\n"
    "    def forward(self, x: torch.Tensor):\n"
    "        {}\n"
    "        return x - self.mean\n"
)


@pytest.mark.parametrize(
    "line",
    [
        "self.mean = 0.9 * self.mean + 0.1 * x.mean(0)",
        "self.mean += x.mean(0)",
        "self.mean = self.mean + x.mean(0) / 2",
    ],
)
def test_state_that_forward_adds_to_keeps_the_graph(line: str) -> None:
    assert texts(IMPORTS + STATE.format(line), CODE) == [line]


@pytest.mark.parametrize(
    "line",
    [
        "self.mean = 0.9 * self.mean + 0.1 * x.detach().mean(0)",
        "with torch.no_grad(): self.mean = 0.9 * self.mean + 0.1 * x.mean(0)",
        "self.mean = self.mean * 2",
        "self.count += x.size(0)",
        "self.mean = x.mean(0)",
    ],
)
def test_state_without_a_graph_is_silent(line: str) -> None:
    assert texts(IMPORTS + STATE.format(line), CODE) == []


@pytest.mark.parametrize(
    "cut",
    [
        "self.mean = self.mean.detach()",
        "self.mean = self.mean.data",
        "self.mean.detach_()",
        "self.mean = torch.stack([m.detach() for m in self.mean])",
    ],
)
def test_state_that_the_class_cuts_off_its_graph_is_silent(cut: str) -> None:
    grows = "self.mean = 0.9 * self.mean + 0.1 * x.mean(0)"
    assert texts(IMPORTS + STATE.format(f"{cut}\n        {grows}"), CODE) == []
    beside = f"    def begin(self):\n        {cut}\n"
    assert texts(IMPORTS + STATE.format(grows) + beside, CODE) == []


def test_what_else_the_class_cuts_says_nothing() -> None:
    grows = "self.mean = 0.9 * self.mean + 0.1 * x.mean(0)"
    beside = "    def begin(self):\n        self.other = self.mean.detach() + 1\n"
    assert texts(IMPORTS + STATE.format(grows) + beside, CODE) == [grows]


def test_a_name_of_another_function_says_nothing() -> None:
    code = IMPORTS + (
        "def train(model, x, optimizer):\n"
        "    loss = model(x).mean()\n"
        "    loss.backward()\n"
        "    optimizer.step()\n"
        "    return loss.item()\n"
        "total = 0.0\n"
        "for x in loader:\n"
        "    loss = train(model, x, optimizer)\n"
        "    total += loss\n"
    )
    assert texts(code, CODE) == []


def test_a_loss_that_a_function_returns_with_its_graph_is_reported() -> None:
    code = IMPORTS + (
        "def train(model, x, y, optimizer):\n"
        "    loss = F.mse_loss(model(x), y)\n"
        "    loss.backward()\n"
        "    optimizer.step()\n"
        "    return loss\n"
        "total = 0.0\n"
        "for x, y in loader:\n"
        "    loss = train(model, x, y, optimizer)\n"
        "    total += loss\n"
    )
    assert texts(code, CODE) == ["total += loss"]


EVALUATION = (
    "def evaluate(model, loader, device):\n"
    "    model.eval()\n"
    "    total = 0.0\n"
    "    {}\n"
    "        for x, y in loader:\n"
    "            loss = F.cross_entropy(model(x.to(device)), y.to(device))\n"
    "            total += {}\n"
    "    return total / len(loader)\n"
)


def test_to_evaluate_with_gradients_keeps_graphs() -> None:
    assert texts(IMPORTS + EVALUATION.format("if True:", "loss"), CODE) == ["total += loss"]
    assert texts(IMPORTS + EVALUATION.format("with torch.no_grad():", "loss"), CODE) == []
    assert texts(IMPORTS + EVALUATION.format("if True:", "loss.item()"), CODE) == []
    assert texts(IMPORTS + "@torch.no_grad()\n" + EVALUATION.format("if True:", "loss"), CODE) == []


@pytest.mark.parametrize(
    "lines",
    [
        "rate = x.detach().size(0) * 0.1\n        self.mean += rate * (x.detach().mean(0) - self.mean)",
        "m = x.mean(0).detach()\n        self.mean += m * 0.1",
        "hits = (x == 3).sum()\n        self.mean += hits",
        "hits = x.argmax(1)\n        self.mean += hits.sum()",
    ],
)
def test_state_that_no_gradient_reaches_is_silent(lines: str) -> None:
    assert texts(IMPORTS + STATE.format(lines), CODE) == []


def test_what_is_computed_without_gradients_holds_no_graph() -> None:
    body = "with torch.no_grad():\n    other = F.mse_loss(model(x), y)\nlosses.append(other)"
    assert texts(step(body, before="losses = []"), CODE) == []
    assert texts(step(body.replace("with torch.no_grad()", "if True"), before="losses = []"), CODE) == [
        "losses.append(other)"
    ]


def test_a_list_in_a_mapping_keeps_graphs_and_so_does_what_a_step_returns() -> None:
    expect(
        """
        import torch
        class Trainer:
            def step(self, batch):
                loss = self.model(batch).sum()
                self.optimizer.zero_grad()
                loss.backward()
                self.optimizer.step()
                self.history["loss"].append(loss)  # <-
                return loss
            def epoch(self, loader):
                for batch in loader:
                    loss = self.step(batch)
                    self.running += loss  # <-
            def other(self, loader):
                for batch in loader:
                    loss = self.step(batch).item()
                    self.running += loss
        """,
        CODE,
    )


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


def test_a_loss_kept_now_and_then_is_possible_alone() -> None:
    body = "if step % 10 == 0:\n    losses.append(loss)"
    assert texts(step(body, before="losses = []"), "DEV304") == []
    assert texts(step("losses.append(loss)", before="losses = []"), "DEV304") == ["losses.append(loss)"]


def test_state_that_another_method_begins_anew_is_possible_only() -> None:
    code = IMPORTS + STATE.format("self.mean += x.mean(0)")
    anew = "    def begin(self):\n        self.mean = torch.zeros(3)\n"
    assert texts(code, CODE) == ["self.mean += x.mean(0)"]
    assert texts(code + anew, CODE) == []


PERPLEXITY = """
        import torch
        def evaluate(model, batches):
            model = model.eval()
            losses = []
            for batch in batches:
                {}
                loss = torch.nn.CrossEntropyLoss()(logits[:, :-1], batch[:, 1:])
                losses.append(loss){}
            return torch.stack(losses).sum()
"""


def test_losses_of_what_was_computed_without_gradients_have_no_graph() -> None:
    without = "with torch.no_grad():\n                    logits = model(batch).logits"
    expect(PERPLEXITY.format(without, ""), CODE)


def test_losses_of_an_evaluation_with_gradients_keep_theirs() -> None:
    expect(PERPLEXITY.format("logits = model(batch).logits", "  # <-"), CODE)
