"""A wait is no finding where the code needs the answer at once, where it seldom runs, or where there is no device."""

from __future__ import annotations

import pytest
from checking import reported_lines
from steps import step, texts

from torchlint.findings import Confidence

STEP = """
import torch, time, cv2, numpy as np
import torch.distributed as dist
import torch.nn.functional as F

def train(model, loader, optimizer, device, args):
    best, waited, last = 1e9, 0, 0
    history = []
    for step, (x, y) in enumerate(loader):
        x, y = x.to(device), y.to(device)
        out = model(x)
        loss = F.mse_loss(out, y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        {body}
"""


def found(body: str, code: str) -> list[int]:
    return reported_lines(STEP.replace("{body}", body.replace("\n", "\n        ")), code)


@pytest.mark.parametrize(
    "body",
    [
        "if loss < best:\n    best = loss\n    torch.save(model.state_dict(), 'best.pt')",
        "if loss < best:\n    waited = 0\nelse:\n    waited += 1",
        "if loss < 0.1:\n    return loss",
        "if out.max() > 0:\n    out = model.refine(out)",
    ],
)
def test_an_answer_that_the_code_acts_on_is_needed(body: str) -> None:
    assert found(body, "DEV303") == []


@pytest.mark.parametrize(
    "body",
    [
        "if out.max() > 0:\n    out = out.clamp(max=1.0)",
        "if (out > 0).any():\n    out = out * 0.5",
        "if out.max() > 9:\n    print('large')",
        "if torch.isnan(loss):\n    return None",
        "if out.min() < 0:\n    torch.save(out, 'bad.pt')\n    raise ValueError('negative')",
    ],
)
def test_an_answer_that_only_picks_a_tensor_or_watches_is_not(body: str) -> None:
    assert found(body, "DEV303") == [16]


def test_what_a_mask_selects_is_waited_for_anyway() -> None:
    assert found("mask = out > 0\nif mask.any():\n    kept = out[mask]", "DEV303") == [18]
    assert found("mask = out > 0\nif mask.any():\n    kept = out * mask", "DEV303") == [17]


def test_what_runs_when_some_steps_have_passed_runs_now_and_then() -> None:
    assert (
        found("if args.save and step - last >= args.save:\n    last = step\n    print(loss)", "DEV303") == []
    )
    assert found("if args.save and step - last >= 0:\n    history = step\n    print(loss)", "DEV303") == [18]


def test_the_last_batch_of_an_epoch_is_smaller() -> None:
    assert found("if x.shape[0] != args.size:\n    print(loss)", "DEV303") == []
    assert found("if x.shape[1] != args.width:\n    print(loss)", "DEV303") == [17]


def test_a_frame_that_is_shown_at_once_is_needed_on_the_host() -> None:
    assert (
        found("image = (out.cpu().numpy() * 255).astype(np.uint8)\ncv2.imshow('out', image[0])", "DEV302")
        == []
    )
    assert found(
        "image = (out.cpu().numpy() * 255).astype(np.uint8)\nhistory.append(image[0])", "DEV302"
    ) == [16]


@pytest.mark.parametrize("flag", ["inference", "is_eval", "args.eval_mode", "not training"])
def test_a_flag_of_evaluation_is_not_set_in_training(flag: str) -> None:
    assert found(f"if {flag}:\n    torch.cuda.empty_cache()", "DEV306") == []


@pytest.mark.parametrize("flag", ["training", "not inference", "step > 3"])
def test_another_flag_may_be_set_in_training(flag: str) -> None:
    assert found(f"if {flag}:\n    torch.cuda.empty_cache()", "DEV306") == [17]


@pytest.mark.parametrize("option", ["args.tidy", "tidy", "args.memory_level >= 2", "self.cfg['tidy']"])
def test_what_a_setting_decides_is_possible(option: str) -> None:
    code = step(f"if {option}:\n    torch.cuda.empty_cache()")
    assert texts(code, "DEV306") == []
    assert texts(code, "DEV306", sure=Confidence.POSSIBLE) == ["torch.cuda.empty_cache()"]
    assert texts(code.replace(option, "args.device == 'cuda'"), "DEV306") == ["torch.cuda.empty_cache()"]


PROGRAM = """
import torch
device = torch.device({device})
w = torch.randn(9, 1, device=device, requires_grad=True)
for t in range(500):
    loss = (torch.randn(64, 9, device=device) @ w).pow(2).sum()
    loss.backward()
    print(t, loss.item())
"""


def test_a_program_whose_only_device_is_the_cpu_waits_for_nothing() -> None:
    assert reported_lines(PROGRAM.replace("{device}", "'cpu'"), "DEV301") == []
    assert reported_lines(PROGRAM.replace("{device}", "'cuda'"), "DEV301") == [8]
    typed = PROGRAM.replace(", device=device", "").replace("device = torch.device({device})", "torch.{set}")
    assert (
        reported_lines(typed.replace("{set}", "set_default_tensor_type(torch.DoubleTensor)"), "DEV301") == []
    )
    assert reported_lines(typed.replace("{set}", "set_default_device(name)"), "DEV301") == [8]
    chosen = PROGRAM.replace("{device}", "'cpu'").replace("w =", "device = 'cuda:0'\nw =")
    assert reported_lines(chosen, "DEV301") == [9]


TIMED = """
import time, torch
import torch.distributed as dist

def train(model, loader, mask, device):
    model.to(device)
    for x in loader:
        start = time.time()
        out = model(x.to(device))
        {body}
        end = time.time()
        print(end - start)
"""


@pytest.mark.parametrize("body", ["dist.barrier()", "out = out[mask]", "out = out[mask.to(device)]"])
def test_a_barrier_and_what_may_be_a_mask_are_waited_for(body: str) -> None:
    assert reported_lines(TIMED.replace("{body}", body), "DEV305") == []


@pytest.mark.parametrize("body", ["dist.get_rank()", "out = out[0]", "out = out[:, None]"])
def test_what_reads_nothing_is_not(body: str) -> None:
    assert reported_lines(TIMED.replace("{body}", body), "DEV305") == [12]


def test_one_operation_after_a_wait_is_not_worth_a_word() -> None:
    short = "out = out[mask]\n        loss = torch.nn.functional.nll_loss(out, out)"
    assert reported_lines(TIMED.replace("{body}", short), "DEV305") == []
    assert reported_lines(TIMED.replace("{body}", f"{short}\n        loss.backward()"), "DEV305") == [14]
    assert reported_lines(TIMED.replace("{body}", "loss = torch.relu(out)"), "DEV305") == [12]
