"""Probes of moves: copies that are dropped, tensors that mix, tensors that are made on the CPU."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from torchlint.verify.probes.base import (
    CALLER,
    CONFIRMED,
    DEVICE_ERRORS,
    HERE,
    INCONCLUSIVE,
    REFUTED,
    Ask,
    Probe,
    Said,
    Site,
    allowed,
    at,
    raised,
    reach,
    reached,
    short,
    undecided,
)
from torchlint.verify.protocol import Answer, Device, Event, Watch


@dataclass(frozen=True)
class DiscardedMoveProbe(Probe):
    """Confirmed where the receiver stays and the result is elsewhere; refuted where the receiver moved itself."""

    def asks(self, site: Site) -> tuple[Ask, ...]:
        watch = [*reach(site), Watch("move", "call", site.line, text=_call_of(site), limit=4)]
        source = _receiver(site)
        if re.fullmatch(r"[\w.]+(\[[\w'\"]+\])?", source):
            watch.append(Watch("after", "after", site.end, expression=source, limit=4))
        return (Ask(watch=tuple(watch), iterations=2),)

    def judge(self, answers: tuple[Answer, ...], site: Site) -> Said:
        records = [r for r in answers[0].watched.get("move", ()) if r.get("receiver")]
        later = [r.get("value", {}) for r in answers[0].watched.get("after", ())]
        source = _receiver(site)
        looped = "loop" in site.message or "iterated" in site.message
        for i, record in enumerate(records):
            before, after, result = record["receiver"], record["receiver_after"], record["result"]
            if before["type"] in ("Module", "Optimizer"):
                return Said(REFUTED, f"`{source}` is a module, and a module's `.to` moves it in place")
            if before["type"] not in ("Tensor", "Parameter") or result["type"] not in ("Tensor", "Parameter"):
                continue
            what = "device" if before["device"] != result["device"] else "dtype"
            if before[what] == result[what]:
                continue
            held = after if looped or i >= len(later) else later[i]
            if held.get(what) == result[what]:
                return Said(REFUTED, f"after the line `{source}` is {_on(result[what])}")
            if held.get(what) == before[what] and allowed(before["marks"], ("host: ",)):
                here, there = _on(before[what]), _on(result[what])
                kept = "what is iterated over" if looped else f"`{source}`"
                return Said(CONFIRMED, f"after the line {kept} is still {here}; the copy {there} is gone")
        if records and all(r["receiver"].get("type") in ("Tensor", "Parameter") for r in records):
            marks = {m for r in records for m in r["receiver"]["marks"]}
            if allowed(marks):
                return Said(
                    REFUTED, f"`{source}` is {_on(records[0]['receiver']['device'])} already: nothing is lost"
                )
        return undecided(answers[0], site, f"what `{source}` is was stood in for")


def _call_of(site: Site) -> str:
    """The call of the finding, without the name that its result may be bound to."""
    return re.sub(r"^[\w.]+\s*=\s*(?!=)", "", site.code)


def _receiver(site: Site) -> str:
    """What is moved, as it is written."""
    match = re.match(r"(?:[\w.]+\s*=\s*)?(.+?)\.\w+\(", site.code)
    return match[1] if match else site.code


def _on(place: str) -> str:
    return place if place.startswith("torch.") else f"on {place}"


@dataclass(frozen=True)
class HelperProbe(Probe):
    """A helper that moves copies: confirmed where what it was given stays and what it returns is elsewhere."""

    def asks(self, site: Site) -> tuple[Ask, ...]:
        call = Watch("move", "call", site.line, text=_call_of(site), limit=4)
        watch = [*reach(site), call]
        given = _first_argument(site)
        if given:
            watch.append(Watch("after", "after", site.end, expression=given, limit=4))
        return (Ask(watch=tuple(watch), iterations=2),)

    def judge(self, answers: tuple[Answer, ...], site: Site) -> Said:
        records = answers[0].watched.get("move", ())
        later = [r.get("value", {}) for r in answers[0].watched.get("after", ())]
        for i, record in enumerate(records):
            given = _devices([*record["arguments"], *record["keywords"].values()])
            result = _devices([record["result"]])
            if i < len(later) and result and _devices([later[i]]) == result:
                return Said(
                    REFUTED, f"after the line `{_first_argument(site)}` is on {', '.join(sorted(result))}"
                )
            if given and result and not result & given:
                there = ", ".join(sorted(result))
                return Said(
                    CONFIRMED,
                    f"what it was given is still on {', '.join(sorted(given))}; the result on {there} is gone",
                )
            if given and not result:
                return Said(
                    REFUTED,
                    f"it returns nothing that was moved; what it was given is on {', '.join(sorted(given))}",
                )
        return undecided(answers[0], site)


def _first_argument(site: Site) -> str:
    """The name that the call of the finding is given first; empty where that is no name."""
    match = re.search(r"\w\(\s*([A-Za-z_][\w.]*)\s*[,)]", site.code)
    return match[1] if match else ""


def _devices(records: Iterable[Mapping[str, Any]]) -> set[str]:
    """Where the tensors in descriptions of values live."""
    found: set[str] = set()
    for record in records:
        if "device" in record and record.get("type") != "device":
            found.add(str(record["device"]))
        items = record.get("items")
        found |= _devices(items.values() if isinstance(items, Mapping) else items or ())
    return found


#: A machine with more of them than this is not simulated.
MOST_ACCELERATORS = 16
#: The number of an accelerator in a message: `cuda:1`, `1`.
_NUMBER = re.compile(r"`(?:[a-z]+:)?(\d+)`")


@dataclass(frozen=True)
class MixProbe(Probe):
    """Confirmed by the error for mixed devices in which the accused value takes part; refuted where it runs.

    origins: the finding is where the accused value is made, not where it meets the other. numbered: the finding tells
    accelerators apart by number, so that the replay needs as many; the machine's own may be too few.
    """

    origins: bool = True
    numbered: bool = False

    def asks(self, site: Site) -> tuple[Ask, ...]:
        meeting = site.also.get("context", ())[:1]
        watch = (*reach(site), *(Watch("meet", "reach", line, limit=1) for line in meeting))
        numbers = [int(n) for n in _NUMBER.findall(site.message)] if self.numbered else []
        device = Device(count=min(max(numbers) + 1, MOST_ACCELERATORS)) if numbers else HERE
        return (Ask(watch=watch, iterations=self.iterations, device=device),)

    def judge(self, answers: tuple[Answer, ...], site: Site) -> Said:
        answer = answers[0]
        for event in answer.of("mix"):
            accused = self._accused(event, site)
            if accused is None:
                continue
            here = site.here(event.path, event.line)
            place = "there" if here else f"in line {event.line}"
            if not allowed(event.marks) or not _is_told(event, site):
                return Said(INCONCLUSIVE, f"devices mix {place}, but what meets there was stood in for")
            line = "there" if here else f"line {event.line}"
            return Said(CONFIRMED, f"{line}: RuntimeError: {short(str(event.detail['message']))}")
        made = [e for e in at(answer.of("create"), site) if e.target == "cpu"]
        returned = answer.state.get("returned")
        if "another exit" in site.message and made and returned == ["cpu"]:
            return Said(
                CONFIRMED, "called with tensors on the accelerator, it returned one on cpu, made here"
            )
        error = answer.exception
        if (
            error is not None
            and not error.gap
            and site.here(error.path, error.line)
            and DEVICE_ERRORS.search(error.message)
            and allowed(answer.state.get("blame", ()))
        ):
            return Said(CONFIRMED, raised(answer, site))
        if (
            answer.status in ("crashed", "refused")
            or not reached(answer)
            or (error is not None and error.gap)
        ):
            return undecided(answer, site)
        created = [e for e in at(answer.of("create"), site) if e.detail.get("reason") != "template"]
        if created and all(e.target != "cpu" for e in created) and all(allowed(e.marks) for e in created):
            return Said(REFUTED, f"the tensor is made on {created[0].target}")
        if answer.status in ("raised", "timed out"):
            return undecided(answer, site)
        moved = [e for e in answer.of("copy") if e.source == "cpu" and set(e.origins) & set(site.lines)]
        met = "meet" not in answer.watched or answer.watched["meet"]
        if moved and met and not answer.of("mix") and all(allowed(e.marks) for e in moved):
            where = "there" if moved[0].line in site.lines else f"in line {moved[0].line}"
            return Said(REFUTED, f"it is copied to {moved[0].target} {where}, and nothing mixed")
        if answer.assumed or answer.of("mix"):
            return undecided(answer, site, "nothing mixed here, but that rests on what was stood in for")
        return Said(REFUTED, "the line ran, and its operands were in one place (or may mix)")

    def _accused(self, event: Event, site: Site) -> bool | None:
        """True where the finding speaks of this event."""
        related = {line for lines in site.also.values() for line in lines}
        at_site = site.here(event.path, event.line)
        from_site = any(line in site.lines for line in event.origins)
        if at_site or (self.origins and from_site) or event.line in related:
            return True
        return None

    def _copied(self, answer: Answer, site: Site) -> Said | None:
        """Whether what is made at the line is copied to the device over and over."""
        made = sum(e.count for e in at(answer.of("create"), site) if e.target == "cpu")
        copies = [e for e in answer.of("copy") if e.source == "cpu" and set(e.origins) & set(site.lines)]
        copied = sum(e.count for e in copies if allowed(e.marks))
        iterations = max([int(v.get("iterations", 0)) for v in answer.loops.values()], default=0)
        if copied and copied >= max(1, iterations - 1):
            where = copies[0].target
            each = f" in {iterations} iterations" if iterations else ""
            return Said(CONFIRMED, f"{made or copied} times made on the CPU and copied to {where}{each}")
        created = at(answer.of("create"), site)
        if created and not copied and all(e.target != "cpu" and allowed(e.marks) for e in created):
            return Said(REFUTED, f"the tensor is made on {created[0].target}")
        return None


def _is_told(event: Event, site: Site) -> bool:
    """Whether what the accused value meets is real, or is what the finding says of the caller."""
    marks = {mark for operand in event.detail["operands"] if not operand[5] for mark in operand[4]}
    names = {mark[len(CALLER) :].rpartition(".")[2] for mark in marks if mark.startswith(CALLER)}
    if not names and allowed(marks):
        return True
    return any(re.search(rf"\b{re.escape(name)}\b", site.told) for name in names)


@dataclass(frozen=True)
class CopiesProbe(MixProbe):
    """A tensor made on the CPU only to be moved: confirmed by the copies; refuted where it is made on the device."""

    def judge(self, answers: tuple[Answer, ...], site: Site) -> Said:
        said = self._copied(answers[0], site)
        if said is not None:
            return said
        made = at(answers[0].of("create"), site)
        if reached(answers[0]) and made and answers[0].status == "ran" and not answers[0].exception:
            if not any(set(e.origins) & set(site.lines) for e in answers[0].of("move")):
                return Said(REFUTED, f"what is made on {made[0].target} is not moved")
        return undecided(answers[0], site)


@dataclass(frozen=True)
class IgnoredDeviceProbe(Probe):
    """A device that nothing reads: confirmed where a tensor is made on the CPU though another device was asked for."""

    def judge(self, answers: tuple[Answer, ...], site: Site) -> Said:
        answer = answers[0]
        made = at(answer.of("create"), site)
        moved = [e for e in at(answer.of("move"), site) if e.target != "cpu"]
        if not reached(answer) or not (made or moved):
            return undecided(answer, site)
        if made and all(e.target == "cpu" for e in made):
            return Said(
                CONFIRMED,
                f"called with a device of its own, it made a tensor on {made[0].target} all the same",
            )
        if made:
            return Said(REFUTED, f"the tensor is made on {made[-1].target}, as asked")
        return undecided(answer, site)
