"""Probes of mixed precision: lost gradients, scalers used against their protocol, autocast."""

from __future__ import annotations

import re
from dataclasses import dataclass

from torchlint.verify.probes.base import (
    CONFIRMED,
    INCONCLUSIVE,
    REFUTED,
    Ask,
    Probe,
    Said,
    Site,
    raised,
    reach,
    reached,
    short,
    undecided,
)
from torchlint.verify.protocol import Answer, Event


@dataclass(frozen=True)
class UnderflowProbe(Probe):
    """fp16 without loss scaling: confirmed by the share of gradients that flush to zero unless the loss is scaled.

    least: a share from which on it counts. Below it nothing is said: data that is made up seldom underflows.
    """

    least: float = 0.001

    def asks(self, site: Site) -> tuple[Ask, ...]:
        return (Ask(watch=reach(site), iterations=4, precision=True, underflow=3),)

    def judge(self, answers: tuple[Answer, ...], site: Site) -> Said:
        answer = answers[0]
        entered = [
            e
            for _, e in answer.sequence
            if e.kind == "autocast" and e.api == "enter" and e.detail.get("enabled")
        ]
        backward = [e for _, e in answer.sequence if e.kind == "backward"]
        here = [e for e in entered if site.here(e.path, e.line)] or entered
        if not reached(answer):
            return undecided(answer, site)
        if here and all("float16" not in str(e.detail.get("dtype")).replace("bfloat16", "") for e in here):
            return Said(
                REFUTED, f"autocast runs in {here[0].detail.get('dtype')}, which has the range of float32"
            )
        if backward and all(float(e.detail.get("factor", 1.0)) > 1.0 for e in backward):
            return Said(REFUTED, f"the loss is scaled by {backward[0].detail['factor']:g} before backward")
        if not backward:
            if answer.status == "ran" and entered:
                return Said(REFUTED, "no backward pass follows")
            return undecided(answer, site)
        measured = (answer.precision or {}).get("underflow") or []
        lost = [float(m["lost"]) for m in measured if m["low"] or m["elements"]]
        worst = max(lost, default=0.0)
        if worst >= self.least:
            elements = max(int(m["elements"]) for m in measured)
            return Said(
                CONFIRMED,
                f"{worst:.1%} of {elements} gradients become zero, and don't with the loss scaled by 65536",
            )
        unscaled = sum(e.count for e in backward if float(e.detail.get("factor", 1.0)) == 1.0)
        low = sum(int(e.detail.get("low", 0)) for e in backward)
        if low:
            return Said(
                INCONCLUSIVE,
                f"{len(backward)} backward passes through {low} casts to float16 were not scaled; on this data "
                f"{worst:.2%} of the gradients became zero, under the {self.least:.1%} that would confirm it",
            )
        return undecided(
            answer, site, f"{unscaled} backward passes were not scaled, but held no cast to float16"
        )


@dataclass(frozen=True)
class ScalerProbe(Probe):
    """A GradScaler used against its protocol: confirmed by the error, or by gradients that are off by the scale."""

    def asks(self, site: Site) -> tuple[Ask, ...]:
        return (Ask(watch=reach(site), iterations=4, precision=True),)

    def judge(self, answers: tuple[Answer, ...], site: Site) -> Said:
        answer = answers[0]
        error = answer.exception
        if error is not None and not error.gap and _PROTOCOL_ERRORS.search(error.message):
            return Said(CONFIRMED, raised(answer, site))
        steps = (answer.precision or {}).get("steps") or []
        for step in steps:
            if float(step["factor"]) > 1.0 and step["line"] in {*site.lines, *_all(site)}:
                return Said(
                    CONFIRMED,
                    f"line {step['line']}: the optimizer steps with gradients {step['factor']:g} times too large",
                )
        events = [e for _, e in answer.sequence]
        for event in events:
            if (
                event.kind == "gradient"
                and float(event.detail.get("factor", 1)) > 1
                and site.here(event.path, event.line)
            ):
                return Said(
                    CONFIRMED,
                    f"gradients are clipped while they are {event.detail['factor']:g} times too large",
                )
        doubled = _stepped_twice(answer, site)
        if doubled:
            return Said(CONFIRMED, doubled)
        if not reached(answer) or error is not None:
            return undecided(answer, site)
        scalers = [e for e in events if e.kind == "scaler"]
        if scalers and not any(e.detail.get("enabled") for e in scalers):
            return Said(REFUTED, "the scaler is disabled, and its calls do nothing")
        if (
            scalers
            and any(e.kind == "step" for e in events)
            and any(site.here(e.path, e.line) for e in events)
        ):
            return Said(REFUTED, "all steps were made with unscaled gradients, and nothing was raised")
        return undecided(answer, site)


_PROTOCOL_ERRORS = re.compile(
    r"has already been called|No inf checks|unscale_\(\) is being called after|Attempting to unscale|update\(\)"
    r"|GradScaler|inf checks"
)


def _all(site: Site) -> set[int]:
    return {line for lines in site.also.values() for line in lines}


def _stepped_twice(answer: Answer, site: Site) -> str:
    """Whether a plain step applies gradients that a scaler's step has applied already."""
    before: Event | None = None
    for _, event in answer.sequence:
        if event.kind == "backward":
            before = None
        elif event.kind == "step":
            if before is not None and site.here(event.path, event.line) != site.here(
                before.path, before.line
            ):
                return f"the gradients that line {before.line} applied are applied again in line {event.line}"
            before = event
    return ""


@dataclass(frozen=True)
class AutocastProbe(Probe):
    """Autocast of another device than the one computed on, or in another place: confirmed by what it does not cast."""

    def asks(self, site: Site) -> tuple[Ask, ...]:
        return (Ask(watch=reach(site), iterations=2, precision=True),)

    def judge(self, answers: tuple[Answer, ...], site: Site) -> Said:
        answer = answers[0]
        error = answer.exception
        if error is not None and not error.gap and any(site.here(p, n) for p, n in error.lines):
            if re.search(r"autocast|dtype|type", error.message):
                return Said(CONFIRMED, raised(answer, site))
        depth = 0
        for _, event in answer.sequence:
            if event.kind == "autocast" and event.detail.get("enabled"):
                depth += 1 if event.api == "enter" else -1
            elif event.kind == "backward" and site.here(event.path, event.line):
                if depth > 0:
                    return Said(CONFIRMED, "the backward pass ran while autocast was on")
                return Said(REFUTED, "autocast was off when the backward pass ran")
        entered = [
            e
            for _, e in answer.sequence
            if e.kind == "autocast" and e.api == "enter" and site.here(e.path, e.line)
        ]
        if not entered:
            return undecided(answer, site)
        event = entered[0]
        warned = re.search(r"\w*Warning: [^\n]*autocast[^\n]*", answer.stderr)
        if warned and not event.detail.get("enabled"):
            return Said(CONFIRMED, short(warned[0]))
        return undecided(
            answer, site, f"autocast casts to {event.detail.get('dtype')} on {event.detail.get('device')}"
        )
