"""DEV301: which reads of a number are reported, and why others are not."""

from __future__ import annotations

import pytest
from checking import reported_lines
from steps import IMPORTS, findings, step, texts

from torchlint.check import CheckOptions
from torchlint.findings import Confidence, Safety
from torchlint.fix import fix_source

CODE = "DEV301"


@pytest.mark.parametrize(
    "line",
    [
        "total += loss.item()",
        "total += float(loss)",
        "total = total + loss.item() * x.size(0)",
        "losses.append(loss.detach().item())",
        "losses.append(loss.data.item())",
        "correct += (output.argmax(1) == y).sum().item()",
        "correct += torch.eq(output.argmax(dim=1), y).sum().item()",
        "print('loss', loss.item())",
        "meter.update(loss.item(), x.size(0))",
        "bar.set_postfix(loss=loss.item())",
        "values = output.argmax(1).tolist()",
        "count += int((output.argmax(1) == y).sum())",
        "if writer is not None: writer.add_scalar('loss', loss.item(), step)",
        "with torch.no_grad(): correct += (output.argmax(1) == y).sum().item()",
    ],
)
def test_a_number_read_in_every_step_is_reported(line: str) -> None:
    assert texts(step(line), CODE) == [line]


@pytest.mark.parametrize(
    "body",
    [
        "if step % 10 == 0:\n    print(loss.item())",
        "if (step + 1) % every == 0:\n    print(loss.item())",
        "if not step % every:\n    print(loss.item())",
        "if step % every == 0 and writer is not None:\n    print(loss.item())",
        "if writer and not (step + 1) % 10:\n    print(loss.item())",
        "if step % every != 0:\n    continue\nprint(loss.item())",
        "if step % every:\n    continue\nprint(loss.item())",
        "if step % every != every - 1 or writer is None:\n    continue\nprint(loss.item())",
        "log_now = step % 100 == 0\nif log_now:\n    print(loss.item())",
        "last = step == len(loader) - 1\nif step % every == 0 or last:\n    print(loss.item())",
        "shown = loss.item() if step % 10 == 0 else None",
        "if step & 15 == 0:\n    print(loss.item())",
        "if step == 0:\n    print(loss.item())",
        "if step == len(loader) - 1:\n    print(loss.item())",
        "if step in (10, 100, 1000):\n    print(loss.item())",
        "if should_log(step):\n    print(loss.item())",
        "if args.log_interval and step % args.log_interval == 0:\n    print(loss.item())",
        "seen += 1\nif seen >= 100:\n    print(loss.item())\n    seen = 0",
        "if debug:\n    print(loss.item())",
        "if self.verbose:\n    print(loss.item())",
        "if torch.isnan(loss):\n    print(loss.item())\n    continue",
        "if not torch.isfinite(loss):\n    print(loss.item())\n    raise ValueError",
        "try:\n    check(loss)\nexcept ValueError:\n    print(loss.item())",
        "assert torch.isfinite(loss), loss.item()",
        "match step % every:\n    case 0:\n        print(loss.item())",
    ],
)
def test_a_read_now_and_then_is_silent(body: str) -> None:
    assert texts(step(body, before="seen = 0"), CODE) == []


def test_a_read_every_few_seconds_is_silent() -> None:
    body = "if time.time() - shown > 10:\n    print(loss.item())\n    shown = time.time()"
    assert texts("import time\n" + step(body, before="shown = time.time()"), CODE) == []


def test_a_guard_around_the_loop_is_no_guard() -> None:
    code = IMPORTS + (
        "def fit(model, loader, optimizer, epochs):\n"
        "    for epoch in range(epochs):\n"
        "        if epoch % 2 == 0:\n"
        "            for x in loader:\n"
        "                loss = model(x.cuda()).mean()\n"
        "                loss.backward()\n"
        "                optimizer.step()\n"
        "                print(loss.item())\n"
    )
    assert texts(code, CODE) == ["print(loss.item())"]


def test_a_branch_for_most_steps_is_no_guard() -> None:
    assert texts(step("if step % every != 0:\n    total += loss.item()"), CODE) == ["total += loss.item()"]


def test_a_rank_is_no_guard() -> None:
    assert texts(step("if rank == 0:\n    total += loss.item()"), CODE) == ["total += loss.item()"]


def test_after_the_loop_is_silent() -> None:
    assert texts(step("pass", after="print(loss.item())"), CODE) == []


def test_once_an_epoch_is_silent() -> None:
    code = IMPORTS + (
        "def fit(model, loader, optimizer, epochs):\n"
        "    for epoch in range(epochs):\n"
        "        for x in loader:\n"
        "            loss = model(x.cuda()).mean()\n"
        "            loss.backward()\n"
        "            optimizer.step()\n"
        "        print(epoch, loss.item())\n"
        "        for x in loader:\n"
        "            print(model(x.cuda()).mean().item())\n"
    )
    assert texts(code, CODE) == []


def test_evaluation_within_the_loop_is_silent() -> None:
    body = "model.eval()\nwith torch.no_grad():\n    print(criterion(model(x), y).item())"
    assert texts(step(body), CODE) == []


def test_a_number_of_numpy_is_silent() -> None:
    assert (
        texts("import numpy as np\n" + step("print(np.mean([1.0]).item(), np.float32(3).item())"), CODE) == []
    )


def test_a_value_on_the_host_is_silent() -> None:
    assert texts(step("n += torch.tensor([1, 2]).sum().item()"), CODE) == []


def test_a_step_of_an_environment_needs_its_number() -> None:
    body = "action = output.argmax().item()\nstate, reward, done, info = env.step(action)"
    assert texts(step(body), CODE) == []


def test_the_end_of_a_slice_needs_its_number() -> None:
    assert texts(step("longest = y.max().item()\npadded = x[:, :longest]"), CODE) == []


def test_a_test_is_silent() -> None:
    assert texts(step("total += loss.item()"), CODE, path="tests/test_train.py") == []


def test_a_benchmark_is_silent() -> None:
    assert texts(step("total += loss.item()"), CODE, path="benchmarks/train.py") == []


def test_reads_of_one_loss_are_one_finding() -> None:
    found = findings(
        step("a += loss.item()\nprint(loss.item())\nwriter.add_scalar('l', loss.item(), step)"), CODE
    )
    assert len(found) == 1
    assert [r.role for r in found[0].related] == ["also", "also"]


def test_reads_in_one_statement_are_one_finding() -> None:
    assert len(findings(step("print(loss.item(), output.mean().item())"), CODE)) == 1


def test_reads_of_two_losses_are_two() -> None:
    assert len(findings(step("a += loss.item()\nb += output.mean().item()"), CODE)) == 2


def test_small_loops_in_the_step_count() -> None:
    body = "for name, value in losses.items():\n    total[name] += value.item()"
    assert texts(step(body, before="losses = {}"), CODE) == ["total[name] += value.item()"]


@pytest.mark.parametrize("method", ["training_step", "train_step", "update"])
def test_a_function_that_is_one_step_counts(method: str) -> None:
    code = IMPORTS + (
        "class Agent:\n"
        f"    def {method}(self, batch):\n"
        "        loss = self.model(batch.cuda()).mean()\n"
        "        loss.backward()\n"
        "        self.optimizer.step()\n"
        "        return loss.item()\n"
    )
    assert texts(code, CODE) == ["return loss.item()"]


def test_a_lightning_step_counts() -> None:
    code = (
        "import lightning as L\n"
        + IMPORTS
        + (
            "class Lit(L.LightningModule):\n"
            "    def training_step(self, batch, index):\n"
            "        loss = F.mse_loss(self(batch[0]), batch[1])\n"
            "        self.log('loss', loss.item())\n"
            "        return loss\n"
            "    def validation_step(self, batch, index):\n"
            "        self.log('loss', F.mse_loss(self(batch[0]), batch[1]).item())\n"
        )
    )
    assert texts(code, CODE) == ["self.log('loss', loss.item())"]


def test_a_loop_that_calls_the_step_counts() -> None:
    code = IMPORTS + (
        "def one(model, optimizer, x):\n"
        "    loss = model(x).mean()\n"
        "    loss.backward()\n"
        "    optimizer.step()\n"
        "    return loss.detach()\n"
        "def fit(model, loader, optimizer, device):\n"
        "    total = 0.0\n"
        "    for x in loader:\n"
        "        total += one(model, optimizer, x.to(device)).item()\n"
    )
    assert texts(code, CODE) == ["total += one(model, optimizer, x.to(device)).item()"]


def test_a_function_that_runs_once_does_not_count() -> None:
    code = (
        IMPORTS
        + "def main():\n    x = torch.ones(3, device='cuda', requires_grad=True)\n"
        + "    y = x.sum()\n    y.backward()\n    print(y.item())\n"
    )
    assert texts(code, CODE) == []


@pytest.mark.parametrize(
    ("line", "fixed"),
    [
        ("total += loss.item()", "total += loss.detach()"),
        ("total += float(loss)", "total += loss.detach()"),
        ("total += loss.detach().item()", "total += loss.detach()"),
        ("total += loss.item() * x.size(0)", "total += loss.detach() * x.size(0)"),
        ("total += (loss / 2).item()  # mean", "total += (loss / 2).detach()  # mean"),
    ],
)
def test_a_sum_is_kept_on_the_device(line: str, fixed: str) -> None:
    code = step(line, before="total = 0.0", after="return total")
    done = fix_source(code.encode(), "train.py", CheckOptions(frozenset([CODE])), unsafe=True)
    expected = code.replace(line, fixed).replace(
        "    return total", "    total = float(total)\n    return total"
    )
    assert done.data.decode().replace("\n\n", "\n") == expected.replace("\n\n", "\n")


def test_where_the_number_goes_elsewhere_the_fix_is_only_told() -> None:
    (found,) = findings(step("losses.append(loss.item())"), CODE)
    assert found.fix is not None
    assert found.fix.safety is Safety.DISPLAY


def test_a_sum_that_is_shown_every_round_would_only_wait_elsewhere() -> None:
    (found,) = findings(
        step("total += loss.item()\nbar.set_postfix(mean=total / n)", before="total = 0.0"), CODE
    )
    assert found.fix is not None
    assert found.fix.safety is Safety.DISPLAY


def test_a_sum_that_is_shown_now_and_then_is_kept_on_the_device() -> None:
    lines = "total += loss.item()\nif i % 100 == 0:\n    print(total / i)"
    (found,) = findings(step(lines, before="total = 0.0"), CODE)
    assert found.fix is not None
    assert found.fix.safety is Safety.UNSAFE


def test_a_named_device_makes_it_certain() -> None:
    code = IMPORTS + (
        "model = nn.Linear(3, 3).cuda()\n"
        "optimizer = torch.optim.SGD(model.parameters(), 0.1)\n"
        "for _ in range(9):\n"
        "    x = torch.randn(3, 3, device='cuda')\n"
        "    loss = F.mse_loss(model(x), x)\n"
        "    loss.backward()\n"
        "    optimizer.step()\n"
        "    print(loss.item())\n"
    )
    assert [f.confidence for f in findings(code, CODE)] == [Confidence.CERTAIN]


@pytest.mark.parametrize(
    "line",
    [
        "found = [names[i.item()] for i in ids]",
        "for i in ids: print(i.item())",
        "found = {i.item() for i in ids}",
    ],
)
def test_elements_read_one_by_one_cost_a_wait_each(line: str) -> None:
    code = IMPORTS + f"def show(names, device):\n    ids = torch.arange(9, device=device)\n    {line}\n"
    assert texts(code, CODE) == [line]


@pytest.mark.parametrize("made", ["torch.arange(9)", "ids.tolist()", "load()"])
def test_elements_that_may_be_on_the_host_are_silent(made: str) -> None:
    code = IMPORTS + f"def show(ids, names):\n    ids = {made}\n    return [names[i.item()] for i in ids]\n"
    assert texts(code, CODE) == []


@pytest.mark.parametrize(
    "test",
    ["if 'scale' not in state:", "if len(state) == 0:", "if not state:"],
)
def test_what_is_made_once_is_silent(test: str) -> None:
    body = f"{test}\n    state['scale'] = loss.item()"
    assert texts(step(body, before="state = {}"), CODE) == []


def test_what_is_made_anew_in_every_step_is_reported() -> None:
    body = "if value is None:\n    value = loss.item()"
    assert texts(step(body, before="value = None"), CODE) == ["value = loss.item()"]


def test_gradients_read_one_by_one_cost_a_wait_each() -> None:
    code = IMPORTS + (
        "def grad_norm(model):\n"
        "    total = 0.0\n"
        "    for p in model.parameters():\n"
        "        if p.grad is not None:\n"
        "            total += p.grad.detach().data.norm(2).item() ** 2\n"
        "    return total ** 0.5\n"
    )
    assert texts(code, CODE) == ["total += p.grad.detach().data.norm(2).item() ** 2"]


@pytest.mark.parametrize(
    "call", ["trainer.train_step(x)", "self.training_step(x)", "agent.train_on_batch(x, y)"]
)
def test_a_loop_over_steps_of_another_file_counts(call: str) -> None:
    code = (
        IMPORTS
        + f"def fit(trainer, agent, loader):\n    for x, y in loader:\n        loss = {call}\n        print(loss.item())\n"
    )
    assert texts(code, CODE) == ["print(loss.item())"]


def test_a_step_that_goes_through_a_loader_is_an_epoch() -> None:
    code = (
        IMPORTS
        + "for epoch in range(9):\n    loss = engine.train_step(model, train_loader)\n    print(loss.item())\n"
    )
    assert texts(code, CODE) == []


@pytest.mark.parametrize(
    ("base", "method"),
    [
        ("L.Callback", "on_train_batch_end"),
        ("L.LightningModule", "on_before_optimizer_step"),
        ("Trainer", "compute_loss"),
    ],
)
def test_what_a_framework_calls_in_every_step_counts(base: str, method: str) -> None:
    code = (
        "import lightning as L\nfrom transformers import Trainer\n"
        + IMPORTS
        + f"class Mine({base}):\n    def {method}(self, model, outputs: torch.Tensor):\n        self.seen.append(outputs.item())\n"
    )
    assert texts(code, CODE) == ["self.seen.append(outputs.item())"]


@pytest.mark.parametrize(
    "lines",
    [
        "if x.max().item() > 10:\n                    x = x / 10",
        "n = (x > 0).sum().item()\n                if n == 0:\n                    return x",
        "x = x / max(1, (x > 0).sum().item())",
        "x = x.masked_fill(x > 0, float(x.min()))",
        'self.stats = {"mean": x.mean().item()}',
    ],
)
def test_a_layer_that_reads_a_number_where_a_tensor_would_do_is_reported(lines: str) -> None:
    code = f"""
        from torch import nn, Tensor
        class Layer(nn.Module):
            def forward(self, x: Tensor):
                {lines}
                return x
        """
    assert reported_lines(code, CODE) == [5]


@pytest.mark.parametrize(
    "lines",
    [
        "return x[: int((x > 0).sum())]",
        "n = (x > 0).sum().item()\n                return x.new_zeros(n)",
        "n = x.max().item()\n                return [i for i in range(n)]",
        "return self.solve(x.norm().item())",
    ],
)
def test_a_layer_that_reads_a_size_is_at_most_possible(lines: str) -> None:
    code = f"""
        from torch import nn, Tensor
        class Layer(nn.Module):
            def forward(self, x: Tensor):
                {lines}
        """
    assert reported_lines(code, CODE) == []


def test_a_helper_that_the_training_step_calls_runs_in_every_step() -> None:
    code = """
        import torch
        def accuracy(output: torch.Tensor, labels: torch.Tensor):
            return output.argmax(dim=-1).eq(labels).sum().item() / len(labels)  # line 4
        def rarely(loss: torch.Tensor):
            print(loss.item())
        def train(model, loader, criterion, optimizer, device):
            for step, (x, y) in enumerate(loader):
                output = model(x.to(device))
                loss = criterion(output, y.to(device))
                loss.backward()
                optimizer.step()
                hits = accuracy(output, y)
                if step % 100 == 0:
                    rarely(loss)
        def evaluate(model, loader, device):
            with torch.no_grad():
                return [rarely(model(x.to(device))) for x in loader]
        """
    assert reported_lines(code, CODE) == [4]


def test_a_method_that_the_step_of_its_class_calls_runs_in_every_step() -> None:
    code = """
        import torch
        class Trainer:
            def run_step(self, data):
                losses = self.model(data)
                loss = sum(losses.values())
                loss.backward()
                self.write(losses)
                self.optimizer.step()
            def write(self, losses):
                self.storage = {k: v.detach().cpu().item() for k, v in losses.items()}  # line 11
        """
    assert reported_lines(code, "DEV302") == [11]
