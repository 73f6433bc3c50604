"""Probes of values: tests that come out the same everywhere, checkpoints read elsewhere."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torchlint.verify.probes.base import (
    CONFIRMED,
    REFUTED,
    Ask,
    Probe,
    Said,
    Site,
    at,
    reach,
    short,
    undecided,
)
from torchlint.verify.protocol import Answer, Device, Watch


@dataclass(frozen=True)
class ValueProbe(Probe):
    """An expression whose value can't be what was meant: confirmed where it is the same on every machine.

    Two replays, one with and one without an accelerator: `always` is what a faulty test gives in both.
    """

    def asks(self, site: Site) -> tuple[Ask, ...]:
        look = Watch("look", "value", site.line, column=site.column, limit=4)
        absent = Device(how="absent", kind="none")
        return (
            Ask(watch=(*reach(site), look), iterations=2),
            Ask(watch=(*reach(site), look), iterations=2, device=absent),
        )

    def judge(self, answers: tuple[Answer, ...], site: Site) -> Said:
        seen = [[r.get("value", {}) for r in a.watched.get("look", ())] for a in answers]
        if not seen[0]:
            return undecided(answers[0], site)
        first = seen[0][0]
        if first.get("type") in (
            "builtin_function_or_method",
            "function",
            "method",
            "functools._lru_cache_wrapper",
        ):
            return Said(
                CONFIRMED, f"`{site.code}` is a function, which is true with and without an accelerator"
            )
        if len(seen) < 2:
            return undecided(answers[0], site, "it was looked at with an accelerator alone")
        if first.get("type") != "bool":
            return undecided(answers[0], site, f"`{site.code}` is of type {first.get('type')}")
        if not seen[1]:
            return undecided(answers[1], site)
        if seen[1][0].get("value") != first.get("value"):
            return Said(
                REFUTED,
                f"`{site.code}` is {first['value']} with an accelerator, {seen[1][0]['value']} without",
            )
        return Said(CONFIRMED, f"`{site.code}` is {first['value']}, with an accelerator and without")


@dataclass(frozen=True)
class LoadProbe(Probe):
    """`torch.load` without `map_location`: confirmed where a checkpoint of a machine with a device can't be read."""

    alone: ClassVar[bool] = True

    def asks(self, site: Site) -> tuple[Ask, ...]:
        return (Ask(watch=reach(site), iterations=2, device=Device(how="absent", kind="none")),)

    def judge(self, answers: tuple[Answer, ...], site: Site) -> Said:
        answer = answers[0]
        loads = at(answer.of("load"), site)
        if loads and all(e.detail.get("mapped") for e in loads):
            return Said(REFUTED, "the call names where its tensors go")
        error = answer.exception
        if error is not None and "Attempting to deserialize" in error.message:
            return Said(
                CONFIRMED,
                f"a checkpoint saved on cuda:0, read without one: {error.type}: {short(error.message)}",
            )
        if loads and answer.status == "ran":
            return Said(REFUTED, "a checkpoint saved on cuda:0 is read where no accelerator is")
        return undecided(answer, site)
