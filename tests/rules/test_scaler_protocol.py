"""DEV402: what breaks the protocol of a GradScaler on some path, what does not, and what the fixes do."""

from __future__ import annotations

import pytest
from checking import expect, findings, fixed

from torchlint.findings import Confidence, Severity

CODE = "DEV402"
CLIP = "torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)"


def loop(*lines: str, name: str = "scaler") -> str:
    """A training loop with these lines after the loss is known."""
    body = "\n".join(f"        {line}" for line in lines)
    return (
        f"import torch\ndef train(net, batches, optimizer, {name}, n, limit, flag):\n"
        f"    for i, batch in enumerate(batches):\n        loss = net(batch).mean()\n{body}\n"
    )


BACK, STEP, UPDATE = "scaler.scale(loss).backward()", "scaler.step(optimizer)", "scaler.update()"
UNSCALE, ZERO = "scaler.unscale_(optimizer)", "optimizer.zero_grad()"


@pytest.mark.parametrize(
    "lines",
    [
        pytest.param((BACK, STEP + "  # <-"), id="update never comes"),
        pytest.param((BACK, "optimizer.step()  # <-"), id="the optimizer steps on scaled gradients"),
        pytest.param((BACK, UPDATE + "  # <-", STEP), id="update comes before step"),
        pytest.param((BACK, STEP, UPDATE, "optimizer.step()  # <-"), id="the optimizer steps again"),
        pytest.param(
            (BACK, STEP, "optimizer.step()  # <-", UPDATE), id="the optimizer steps again before update"
        ),
        pytest.param((BACK, CLIP + "  # <-", STEP, UPDATE), id="clipping scaled gradients"),
        pytest.param((BACK, CLIP + "  # <-", UNSCALE, STEP, UPDATE), id="clipping before unscale_"),
        pytest.param((BACK, STEP, UNSCALE + "  # <-", UPDATE), id="unscale_ after step"),
        pytest.param(
            (BACK, UNSCALE + "  # <-", CLIP, "if (i + 1) % n == 0:", f"    {STEP}", f"    {UPDATE}"),
            id="unscale_ in every micro-batch",
        ),
        pytest.param(
            (
                BACK,
                "if limit is not None:",
                f"    {UNSCALE}  # <-",
                f"    {CLIP}",
                "if (i + 1) % n == 0:",
                f"    {STEP}",
                f"    {UPDATE}",
            ),
            id="unscale_ behind a test that does not change",
        ),
        pytest.param(
            (BACK, UNSCALE, f"norm = {CLIP}", "if norm > limit:", "    continue  # <-", STEP, UPDATE),
            id="update skipped by continue",
        ),
        pytest.param(
            (BACK, "if (i + 1) % n == 0:", f"    {STEP}", f"    {ZERO}", UPDATE + "  # <-"),
            id="update where nothing stepped",
        ),
        pytest.param(("loss.backward()  # <-", STEP, UPDATE), id="the loss is never scaled"),
    ],
)
def test_a_broken_protocol_is_reported_where_it_breaks(lines: tuple[str, ...]) -> None:
    expect(loop(ZERO, *lines), CODE)


@pytest.mark.parametrize(
    "lines",
    [
        pytest.param((BACK, STEP, UPDATE), id="plain"),
        pytest.param((BACK, UNSCALE, CLIP, STEP, UPDATE), id="with clipping"),
        pytest.param((BACK, "if (i + 1) % n == 0:", f"    {STEP}", f"    {UPDATE}"), id="accumulation"),
        pytest.param(
            (BACK, "if (i + 1) % n == 0:", f"    {UNSCALE}", f"    {CLIP}", f"    {STEP}", f"    {UPDATE}"),
            id="accumulation with clipping",
        ),
        pytest.param(
            (
                BACK,
                "last = (i + 1) % n == 0",
                "if last:",
                f"    {UNSCALE}",
                f"    {CLIP}",
                "if (i + 1) % n == 0:",
                f"    {STEP}",
                f"    {UPDATE}",
            ),
            id="one test under two names",
        ),
        pytest.param(
            (BACK, "if (i + 1) % n != 0:", "    continue", UNSCALE, CLIP, STEP, UPDATE),
            id="continue before unscale_",
        ),
        pytest.param(
            (
                BACK,
                UNSCALE,
                f"norm = {CLIP}",
                "if norm > limit:",
                f"    {UPDATE}",
                "    continue",
                STEP,
                UPDATE,
            ),
            id="both ways update",
        ),
        pytest.param(
            (
                "if flag:",
                f"    {BACK}",
                "else:",
                "    loss.backward()",
                "if flag:",
                f"    {STEP}",
                f"    {UPDATE}",
                "else:",
                "    optimizer.step()",
            ),
            id="two branches on one test",
        ),
        pytest.param(
            (
                "if flag:",
                f"    {BACK}",
                "else:",
                "    loss.backward()",
                "if not flag:",
                "    optimizer.step()",
                "else:",
                f"    {STEP}",
                f"    {UPDATE}",
            ),
            id="two branches on a test and its negation",
        ),
        pytest.param(
            (
                "if flag:",
                f"    {BACK}",
                "else:",
                "    loss.backward()",
                "if scaler is not None:",
                f"    {STEP}",
                f"    {UPDATE}",
                "else:",
                "    optimizer.step()",
            ),
            id="two tests of one meaning",
        ),
        pytest.param((BACK, UNSCALE, "optimizer.step()", UPDATE), id="a step by hand after unscale_"),
        pytest.param((BACK, "try:", f"    {STEP}", "finally:", f"    {UPDATE}"), id="update in finally"),
        pytest.param((BACK, "step_with(scaler, optimizer)"), id="code that is not seen gets the scaler"),
        pytest.param(
            (BACK, "unscale_gradients(optimizer)", CLIP, STEP, UPDATE),
            id="a helper that is not seen unscales",
        ),
        pytest.param(("scaler(loss, optimizer, clip=limit)", CLIP), id="a scaler that is called"),
        pytest.param(
            (BACK, STEP, UPDATE, "total = net(batch).sum()", "total.backward()", "optimizer.step()"),
            id="a phase of its own",
        ),
    ],
)
def test_a_kept_protocol_is_silent(lines: tuple[str, ...]) -> None:
    expect(loop(ZERO, *lines), CODE)


def test_two_optimizers_share_one_update() -> None:
    expect(
        """
        import torch
        def train(maker, judge, batches, first, second, scaler):
            for batch in batches:
                first.zero_grad()
                scaler.scale(judge(maker(batch).detach()).mean()).backward()
                scaler.step(first)
                second.zero_grad()
                scaler.scale(judge(maker(batch)).mean()).backward()
                scaler.step(second)
                scaler.update()
        """,
        CODE,
    )


def test_optimizers_of_a_loop_are_told_apart() -> None:
    expect(
        """
        import torch
        def train(losses, optimizers, scaler):
            for loss in losses:
                scaler.scale(loss).backward()
                for optimizer in optimizers:
                    scaler.unscale_(optimizer)
                for optimizer in optimizers:
                    scaler.step(optimizer)
                scaler.update()
        """,
        CODE,
    )


def test_what_accelerate_owns_is_not_called_beside_it() -> None:
    code = """
        from accelerate import Accelerator
        def train(net, loader, optimizer):
            accelerator = Accelerator(mixed_precision="fp16")
            net, optimizer, loader = accelerator.prepare(net, optimizer, loader)
            scaler = accelerator.scaler
            for batch in loader:
                accelerator.backward(net(batch).loss)
                scaler.step(optimizer)  # <-
                scaler.update()  # <-
        """
    expect(code, CODE)
    assert len(findings(code, CODE)) == 1


def test_accelerate_alone_is_silent() -> None:
    expect(
        """
        from accelerate import Accelerator
        def train(net, loader, optimizer):
            accelerator = Accelerator(mixed_precision="fp16")
            for batch in loader:
                accelerator.backward(net(batch).loss)
                optimizer.step()
        """,
        CODE,
    )


def test_a_scaler_that_is_switched_off_changes_nothing() -> None:
    code = loop("loss.backward()", "optimizer.step()").replace(
        "    for i", '    scaler = torch.amp.GradScaler("cuda", enabled=False)\n    for i'
    )
    expect(code.replace("loss.backward()", BACK), CODE)


def test_a_scaler_of_an_unknown_class_is_not_accused_by_default() -> None:
    code = loop(BACK, STEP).replace("    for i", "    scaler = make_scaler()\n    for i")
    expect(code, CODE)
    assert len(findings(code, CODE, confidence=Confidence.POSSIBLE)) == 1


def test_tests_break_the_protocol_on_purpose() -> None:
    assert findings(loop(BACK, STEP), CODE, path="tests/test_amp.py") == ()


def test_what_surely_raises_is_certain() -> None:
    code = loop(BACK, STEP).replace("    for i", '    scaler = torch.amp.GradScaler("cuda")\n    for i')
    (found,) = findings(code, CODE)
    assert (found.confidence, found.severity) == (Confidence.CERTAIN, Severity.ERROR)


def test_the_trace_is_told() -> None:
    (found,) = findings(loop(BACK, CLIP, STEP, UPDATE), CODE)
    assert [(r.range.start.line, r.message) for r in found.related] == [
        (5, "the gradients are scaled since here")
    ]


@pytest.mark.parametrize("cast", ["net.half()", "net = net.half().cuda()", "net = net.to(torch.float16)"])
def test_parameters_in_float16_can_not_be_unscaled(cast: str) -> None:
    expect(
        f"""
        import torch
        from torch import nn
        def train(batches):
            net = nn.Linear(2, 2)
            {cast}
            optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
            scaler = torch.amp.GradScaler("cuda")
            for batch in batches:
                scaler.scale(net(batch).mean()).backward()
                scaler.step(optimizer)  # <-
                scaler.update()
                optimizer.zero_grad()
        """,
        CODE,
    )


@pytest.mark.parametrize(
    "lines",
    [
        "net = net.half().float()",
        "net = net.bfloat16()",
        "if flag:\n                net = net.half()",
        "net.half()\n            net.head.float()\n            net.float()",
        "other.half()",
    ],
)
def test_parameters_that_are_float32_can(lines: str) -> None:
    expect(
        f"""
        import torch
        from torch import nn
        def train(batches, flag, other: nn.Module):
            net = nn.Linear(2, 2)
            {lines}
            optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
            scaler = torch.amp.GradScaler("cuda")
            for batch in batches:
                scaler.scale(net(batch).mean()).backward()
                scaler.step(optimizer)
                scaler.update()
                optimizer.zero_grad()
        """,
        CODE,
    )


def test_gradients_that_are_bounded_one_by_one_are_clipped() -> None:
    code = """
        import torch
        def train(net, batches, optimizer, scaler):
            for batch in batches:
                scaler.scale(net(batch).mean()).backward()
                for p in net.parameters():
                    p.grad.data.clamp_(-1, 1)  # <-
                scaler.step(optimizer)
                scaler.update()
        """
    expect(code, CODE)
    assert fixed(code, CODE).count("unscale_") == 0


def test_clipping_gets_its_unscale() -> None:
    before, after = loop(ZERO, BACK, CLIP, STEP, UPDATE), loop(ZERO, BACK, UNSCALE, CLIP, STEP, UPDATE)
    assert fixed(before, CODE) == after


def test_the_second_step_is_deleted() -> None:
    assert fixed(loop(ZERO, BACK, STEP, UPDATE, "optimizer.step()"), CODE) == loop(ZERO, BACK, STEP, UPDATE)


def test_the_loss_is_scaled() -> None:
    assert fixed(loop(ZERO, "loss.backward()", STEP, UPDATE), CODE) == loop(ZERO, BACK, STEP, UPDATE)
