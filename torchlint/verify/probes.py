"""What would confirm a finding and what would refute it: the probes that rules declare beside their code.

A rule says `probe = Probe("sync")` and no more. A probe asks for a replay (`ask`) and reads its answer (`judge`).
Evidence counts only if it rests on nothing but code that ran, and on what the finding itself assumes of the caller:
marks that start with `caller: `. Whatever else was stood in for never confirms.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, ClassVar

from torchlint.rule import Rule
from torchlint.verify.protocol import Answer, Device, Event, Watch

CONFIRMED, REFUTED, INCONCLUSIVE = "confirmed", "refuted", "inconclusive"
#: Marks of what the finding itself assumes; `standins/makers.py` has it, too, for the other side of the pipe.
CALLER = "caller: "
_DEVICE_ERRORS = re.compile(
    r"same device|Input type|device type tensor to numpy|not compiled with|linked with support"
    r"|Attempting to deserialize"
)


@dataclass(frozen=True)
class Site:
    """The place of a finding in the text that is replayed.

    line, end: the first and the last line. column: from 0. code: the text of the finding. message: its own.
    also: lines of its related places by role. loops: the lines of the loops around it, the outermost first.
    interval: the n of `step % n` around it, 0 if not known, None without such a condition.
    """

    path: str
    line: int
    end: int
    column: int
    code: str
    message: str = ""
    also: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    interval: int | None = None
    hot: bool = False

    @property
    def lines(self) -> range:
        return range(self.line, self.end + 1)

    def here(self, path: str, line: int) -> bool:
        return path == self.path and line in self.lines


#: The accelerator of this machine, or a simulated one.
_HERE = Device()


@dataclass(frozen=True)
class Ask:
    """What a probe wants of a replay."""

    watch: tuple[Watch, ...] = ()
    iterations: int = 6
    graph: bool = False
    precision: bool = False
    underflow: int = 0
    device: Device = _HERE
    substitute: tuple[str, str] | None = None


@dataclass(frozen=True)
class Said:
    """What an answer says of a finding."""

    status: str
    evidence: str


@dataclass(frozen=True)
class Probe:
    """Asks for nothing, and finds nothing; the base of all."""

    #: Reached, or not: said where there is nothing better to say.
    iterations: int = 6
    #: How the device is set up, as a finding may need a second replay with another (see `asks`).
    name: ClassVar[str] = "probe"

    def asks(self, site: Site) -> tuple[Ask, ...]:
        """The replays to make, in this order."""
        return (Ask(watch=_reach(site), iterations=self.iterations),)

    def judge(self, answers: tuple[Answer, ...], site: Site) -> Said:
        raise NotImplementedError

    def key(self) -> str:
        """What names the probe in the cache."""
        return repr(self)


def _reach(site: Site) -> tuple[Watch, ...]:
    return (Watch("reach", "reach", site.line, limit=1),)


def reached(answer: Answer) -> bool:
    return bool(answer.watched.get("reach")) or ("reach" in answer.unmatched and answer.status == "ran")


def allowed(marks: Iterable[str], more: tuple[str, ...] = ()) -> bool:
    """Whether evidence may rest on values so marked."""
    return all(mark.startswith((CALLER, *more)) for mark in marks)


def undecided(answer: Answer, site: Site, why: str = "") -> Said:
    """Says why nothing follows from a replay."""
    if answer.status == "refused":
        reason = answer.refusals[0][1] if answer.refusals else "the code does what a replay may not"
        return Said(INCONCLUSIVE, f"not run: the code {reason}, which a replay may not")
    if answer.status == "crashed":
        return Said(INCONCLUSIVE, f"the replay's process died ({answer.signal})")
    if answer.status == "timed out" and not reached(answer):
        return Said(INCONCLUSIVE, "the replay took too long before it came to the line")
    error = answer.exception
    if error is not None and error.gap:
        return Said(INCONCLUSIVE, f"the simulator stops at {error.type}: {_short(error.message)}")
    if not reached(answer):
        after = f": {error.type} in line {error.line}: {_short(error.message)}" if error is not None else ""
        return Said(INCONCLUSIVE, f"the replay never came to the line{after}")
    return Said(INCONCLUSIVE, why or "the line ran, and showed neither the fault nor its absence")


def _short(text: str, most: int = 160) -> str:
    text = " ".join(text.split())
    return text if len(text) <= most else f"{text[: most - 1]}…"


def _at(events: Iterable[Event], site: Site) -> list[Event]:
    return [e for e in events if site.here(e.path, e.line)]


def _raised(answer: Answer, site: Site) -> str:
    """The error that the replay ended with, in words."""
    error = answer.exception
    assert error is not None
    where = "there" if site.here(error.path, error.line) else f"line {error.line}"
    return f"{where}: {error.type}: {_short(error.message)}"


# ---- moves -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class DiscardedMoveProbe(Probe):
    """Confirmed where the receiver stays and the result is elsewhere; refuted where the receiver moved itself."""

    def asks(self, site: Site) -> tuple[Ask, ...]:
        watch = [*_reach(site), Watch("move", "call", site.line, text=_call_of(site), limit=4)]
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
        return (Ask(watch=(*_reach(site), call), iterations=2),)

    def judge(self, answers: tuple[Answer, ...], site: Site) -> Said:
        records = answers[0].watched.get("move", ())
        for record in records:
            given = _devices([*record["arguments"], *record["keywords"].values()])
            result = _devices([record["result"]])
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


def _devices(records: Iterable[Mapping[str, Any]]) -> set[str]:
    """Where the tensors in descriptions of values live."""
    found: set[str] = set()
    for record in records:
        if "device" in record and record.get("type") != "device":
            found.add(str(record["device"]))
        items = record.get("items")
        found |= _devices(items.values() if isinstance(items, Mapping) else items or ())
    return found


@dataclass(frozen=True)
class MixProbe(Probe):
    """Confirmed by the error for mixed devices in which the accused value takes part; refuted where it runs.

    origins: the finding is where the accused value is made, not where it meets the other. copies: confirmed also by
    as many copies to the device as there are iterations.
    """

    origins: bool = True
    copies: bool = False

    def judge(self, answers: tuple[Answer, ...], site: Site) -> Said:
        answer = answers[0]
        for event in answer.of("mix"):
            accused = self._accused(event, site)
            if accused is None:
                continue
            place = "there" if site.here(event.path, event.line) else f"line {event.line}"
            if not allowed(event.marks):
                return Said(INCONCLUSIVE, f"devices mix at {place}, but what is accused was stood in for")
            return Said(CONFIRMED, f"{place}: RuntimeError: {_short(str(event.detail['message']))}")
        if self.copies:
            said = self._copied(answer, site)
            if said is not None:
                return said
        error = answer.exception
        if (
            error is not None
            and not error.gap
            and site.here(error.path, error.line)
            and _DEVICE_ERRORS.search(error.message)
        ):
            return Said(CONFIRMED, _raised(answer, site))
        if (
            answer.status in ("crashed", "refused")
            or not reached(answer)
            or (error is not None and error.gap)
        ):
            return undecided(answer, site)
        created = [e for e in _at(answer.of("create"), site) if e.detail.get("reason") != "template"]
        if created and all(e.target != "cpu" for e in created) and all(allowed(e.marks) for e in created):
            return Said(REFUTED, f"the tensor is made on {created[0].target}")
        if answer.status in ("raised", "timed out"):
            return undecided(answer, site)
        if self._rests_on_bridges(answer):
            return undecided(answer, site)
        return Said(REFUTED, "the line ran, and its operands were in one place (or may mix)")

    def _accused(self, event: Event, site: Site) -> bool | None:
        """True where the finding speaks of this event."""
        related = {line for lines in site.also.values() for line in lines}
        at_site = site.here(event.path, event.line)
        from_site = any(line in site.lines for line in event.origins)
        if (
            at_site
            or (self.origins and from_site)
            or (event.line in related and related & set(event.origins))
        ):
            return True
        return None

    def _rests_on_bridges(self, answer: Answer) -> bool:
        return any(
            "does not fit" in words or "unknown" in words or "left out" in words for words in answer.assumed
        )

    def _copied(self, answer: Answer, site: Site) -> Said | None:
        """Whether what is made at the line is copied to the device over and over."""
        made = sum(e.count for e in _at(answer.of("create"), site) if e.target == "cpu")
        copies = [e for e in answer.of("copy") if e.source == "cpu" and set(e.origins) & set(site.lines)]
        copied = sum(e.count for e in copies if allowed(e.marks))
        iterations = max([int(v.get("iterations", 0)) for v in answer.loops.values()], default=0)
        if copied and copied >= max(1, iterations - 1):
            where = copies[0].target
            each = f" in {iterations} iterations" if iterations else ""
            return Said(CONFIRMED, f"{made or copied} times made on the CPU and copied to {where}{each}")
        created = _at(answer.of("create"), site)
        if created and not copied and all(e.target != "cpu" and allowed(e.marks) for e in created):
            return Said(REFUTED, f"the tensor is made on {created[0].target}")
        return None


# ---- waiting -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class SyncProbe(Probe):
    """Confirmed where the host waits about as often as the loop turns; refuted where it seldom or never does."""

    #: Waits an iteration from which on it is a fault, and up to which it is none.
    often: float = 0.5
    seldom: float = 0.1
    #: The call waits by what it is for: that it is made is enough.
    explicit: bool = False

    def asks(self, site: Site) -> tuple[Ask, ...]:
        watch = (*_reach(site), Watch("each", "reach", site.line, limit=256))
        return (Ask(watch=watch, iterations=_enough(site, 12)),)

    def judge(self, answers: tuple[Answer, ...], site: Site) -> Said:
        answer = answers[0]
        iterations = max([int(v.get("iterations", 0)) for v in answer.loops.values()], default=0)
        waits = [e for e in _at(answer.of("sync"), site) if e.source != "cpu"]
        sound = [e for e in waits if allowed(e.marks)]
        number = sum(e.count for e in sound)
        if iterations == 0 or not reached(answer):
            return undecided(answer, site)
        times = len(answer.watched.get("each", ()))
        if self.explicit and times / iterations >= self.often:
            return Said(CONFIRMED, f"the call was made {times} times in {iterations} iterations")
        if sound and number / iterations >= self.often:
            api = sound[0].via or sound[0].api
            return Said(CONFIRMED, f"`{api}` made the host wait {number} times in {iterations} iterations")
        if waits and not sound:
            return Said(INCONCLUSIVE, "the host waits here, but for a value that was stood in for")
        if answer.status in ("crashed", "refused") or (answer.exception is not None and iterations < 3):
            return undecided(answer, site)
        if number / iterations <= self.seldom or (site.interval is not None and number < iterations):
            if not waits and any(f.startswith("what has") for f in answer.assumed):
                return undecided(answer, site)
            return Said(REFUTED, f"the host waited here {number} times in {iterations} iterations")
        return Said(
            INCONCLUSIVE, f"the host waited here {number} times in {iterations} iterations: now and then"
        )


def _enough(site: Site, least: int) -> int:
    """Iterations that show a logging interval: more than twice its length."""
    return min(240, max(least, 2 * (site.interval or 0) + 2))


@dataclass(frozen=True)
class GraphProbe(Probe):
    """Confirmed where the autograd graph that is alive grows with every iteration; refuted where it doesn't."""

    def asks(self, site: Site) -> tuple[Ask, ...]:
        return (Ask(watch=_reach(site), iterations=8, graph=True),)

    def judge(self, answers: tuple[Answer, ...], site: Site) -> Said:
        answer = answers[0]
        sizes = [int(m["nodes"]) for v in answer.loops.values() for m in v.get("graph", ())]
        if not reached(answer) or len(sizes) < 4:
            return undecided(answer, site)
        later = sizes[1:]
        if all(b > a for a, b in pairwise(later)):
            return Said(
                CONFIRMED,
                f"the graph kept alive grew from {sizes[0]} to {sizes[-1]} nodes in {len(sizes)} iterations",
            )
        if max(later) <= later[0]:
            return Said(
                REFUTED, f"the graph kept alive stayed at {sizes[-1]} nodes in {len(sizes)} iterations"
            )
        return undecided(answer, site, "the graph kept alive grew in some iterations")


# ---- state of modules --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class UnregisteredProbe(Probe):
    """Confirmed where the attribute is still on the CPU after the module has moved; refuted where it moved along."""

    def asks(self, site: Site) -> tuple[Ask, ...]:
        return (Ask(watch=_reach(site), iterations=2),)

    def judge(self, answers: tuple[Answer, ...], site: Site) -> Said:
        answer = answers[0]
        match = re.match(r"\s*self\.(\w+)", site.code)
        state = answer.state or {}
        if match is None:
            match = re.search(r"`?self\.(\w+)", site.message)
        if match is None or not state:
            return MixProbe().judge(answers, site) if answer.of("mix") else undecided(answer, site)
        name = match[1]
        others = state.get("devices") or []
        held = state.get("held", {}).get(name)
        if held and "cpu" in held and others != ["cpu"]:
            moved = f", while its parameters are on {others[0]}" if others else ""
            return Said(CONFIRMED, f"after `.to` of the module, `self.{name}` is still on the CPU{moved}")
        if name in state.get("registered", ()):
            return Said(REFUTED, f"`self.{name}` moved along with the module")
        return undecided(answer, site)


# ---- errors ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ErrorProbe(Probe):
    """Confirmed where the line raises an error of these words; refuted where it runs.

    texts: alternatives, as a regular expression. elsewhere: the error may come from another line.
    quiet_refutes: that the line runs without it refutes. needs_device: the accused value is on an accelerator.
    """

    texts: str = ""
    elsewhere: bool = False
    quiet_refutes: bool = True

    def judge(self, answers: tuple[Answer, ...], site: Site) -> Said:
        answer = answers[0]
        error = answer.exception
        if error is not None and not error.gap and re.search(self.texts, f"{error.type}: {error.message}"):
            if self.elsewhere or any(site.here(path, line) for path, line in error.lines):
                return Said(CONFIRMED, _raised(answer, site))
        if not reached(answer) or answer.status in ("crashed", "refused", "timed out") or error is not None:
            return undecided(answer, site)
        if not self.quiet_refutes or any("does not fit" in words for words in answer.assumed):
            return undecided(answer, site)
        return Said(REFUTED, "the line ran without that error")


@dataclass(frozen=True)
class NumpyProbe(ErrorProbe):
    """NumPy is handed a tensor that is on an accelerator, or that requires grad."""

    texts: str = r"to numpy|Can't call numpy\(\)|can't convert"


# ---- devices by name ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class HardcodedProbe(Probe):
    """The counterfactual: no accelerator is there. Fails, and with "cpu" in place of the name it doesn't: confirmed.

    warns: confirmed by a warning that the name brings, too.
    """

    def asks(self, site: Site) -> tuple[Ask, ...]:
        absent = Device(how="absent", kind="none")
        watch = (*_reach(site), Watch("name", "value", site.line, column=site.column, limit=1))
        first = Ask(watch=watch, iterations=2, device=absent)
        return (first, replace(first, substitute=("cuda", "cpu")), replace(first, device=_HERE))

    def judge(self, answers: tuple[Answer, ...], site: Site) -> Said:
        first = answers[0]
        error = first.exception
        if error is not None and _speaks_of_devices(error.message):
            return self._fails(answers, site)
        if not reached(first) or first.status != "ran":
            return undecided(first, site)
        warned = re.search(r"\w*Warning: [^\n]*(not available|isabling)[^\n]*", first.stderr)
        if warned:
            return Said(CONFIRMED, f"without an accelerator: {_short(warned[0])}")
        if not _evaluated(first):
            if len(answers) > 2 and _evaluated(answers[2]):
                return Said(REFUTED, "the code does not come to it where no accelerator is")
            return undecided(first, site, "the replay never came to the name itself")
        if re.match(r"[\w.]+\(", site.code) and not site.code.startswith("torch.device("):
            return Said(REFUTED, "it runs where no accelerator is")
        return undecided(
            first, site, "without an accelerator nothing failed, but nothing was seen to use it either"
        )

    def _fails(self, answers: tuple[Answer, ...], site: Site) -> Said:
        """It fails for want of the device: is it this name's fault?"""
        first, error = answers[0], answers[0].exception
        assert error is not None
        if len(answers) < 2:
            return undecided(first, site, "no counterfactual was run")
        second = answers[1].exception
        if second is not None and second.message == error.message and second.line == error.line:
            return undecided(first, site, f"it fails with `cpu` here, too: {_short(error.message)}")
        where = "there" if site.here(error.path, error.line) else f"line {error.line}"
        failed = f"{error.type}: {_short(error.message)}"
        return Said(
            CONFIRMED, f"without an accelerator, {where}: {failed}; with `cpu` in its place it gets past that"
        )


def _evaluated(answer: Answer) -> bool:
    return bool(answer.watched.get("name"))


def _speaks_of_devices(message: str) -> bool:
    return (
        re.search(
            r"not compiled with|linked with support|NVIDIA driver|No .*GPU|CUDA|cuda|mps|xpu|Cannot access accelerator",
            message,
        )
        is not None
    )


# ---- mixed precision ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class UnderflowProbe(Probe):
    """fp16 without loss scaling: confirmed by the share of gradients that flush to zero unless the loss is scaled.

    least: a share from which on it counts. Below it nothing is said: data that is made up seldom underflows.
    """

    least: float = 0.001

    def asks(self, site: Site) -> tuple[Ask, ...]:
        return (Ask(watch=_reach(site), iterations=4, precision=True, underflow=3),)

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
        return (Ask(watch=_reach(site), iterations=4, precision=True),)

    def judge(self, answers: tuple[Answer, ...], site: Site) -> Said:
        answer = answers[0]
        error = answer.exception
        if error is not None and not error.gap and _PROTOCOL_ERRORS.search(error.message):
            return Said(CONFIRMED, _raised(answer, site))
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
        return (Ask(watch=_reach(site), iterations=2, precision=True),)

    def judge(self, answers: tuple[Answer, ...], site: Site) -> Said:
        answer = answers[0]
        error = answer.exception
        if error is not None and not error.gap and any(site.here(p, n) for p, n in error.lines):
            if re.search(r"autocast|dtype|type", error.message):
                return Said(CONFIRMED, _raised(answer, site))
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
            return Said(CONFIRMED, _short(warned[0]))
        backward = [e for e in answer.events if e.kind == "backward" and site.here(e.path, e.line)]
        if backward:
            return Said(CONFIRMED, "backward runs inside of autocast")
        return undecided(
            answer, site, f"autocast casts to {event.detail.get('dtype')} on {event.detail.get('device')}"
        )


# ---- comparisons, loading ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class ValueProbe(Probe):
    """An expression whose value can't be what was meant: confirmed where it is the same on every machine.

    Two replays, one with and one without an accelerator: `always` is what a faulty test gives in both.
    """

    def asks(self, site: Site) -> tuple[Ask, ...]:
        look = Watch("look", "value", site.line, column=site.column, limit=4)
        absent = Device(how="absent", kind="none")
        return (
            Ask(watch=(*_reach(site), look), iterations=2),
            Ask(watch=(*_reach(site), look), iterations=2, device=absent),
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
        if first.get("type") != "bool":
            return undecided(answers[0], site, f"`{site.code}` is of type {first.get('type')}")
        if len(seen) > 1 and seen[1] and seen[1][0].get("value") != first.get("value"):
            return Said(
                REFUTED,
                f"`{site.code}` is {first['value']} with an accelerator, {seen[1][0]['value']} without",
            )
        return Said(CONFIRMED, f"`{site.code}` is {first['value']}, with an accelerator and without")


@dataclass(frozen=True)
class LoadProbe(Probe):
    """`torch.load` without `map_location`: confirmed where a checkpoint of a machine with a device can't be read."""

    def asks(self, site: Site) -> tuple[Ask, ...]:
        return (Ask(watch=_reach(site), iterations=2, device=Device(how="absent", kind="none")),)

    def judge(self, answers: tuple[Answer, ...], site: Site) -> Said:
        answer = answers[0]
        error = answer.exception
        if error is not None and "Attempting to deserialize" in error.message:
            return Said(
                CONFIRMED,
                f"a checkpoint saved on cuda:0, read without one: {error.type}: {_short(error.message)}",
            )
        loads = _at(answer.of("load"), site)
        if loads and all(e.detail.get("mapped") for e in loads):
            return Said(REFUTED, "the call names where its tensors go")
        if loads and answer.status == "ran":
            return Said(REFUTED, "a checkpoint saved on cuda:0 is read where no accelerator is")
        return undecided(answer, site)


#: The probes that rules may declare, by kind.
KINDS: Mapping[str, type[Probe]] = {
    "discarded-move": DiscardedMoveProbe,
    "discarded-helper": HelperProbe,
    "mix": MixProbe,
    "sync": SyncProbe,
    "graph": GraphProbe,
    "unregistered": UnregisteredProbe,
    "error": ErrorProbe,
    "numpy": NumpyProbe,
    "hardcoded": HardcodedProbe,
    "underflow": UnderflowProbe,
    "scaler": ScalerProbe,
    "autocast": AutocastProbe,
    "value": ValueProbe,
    "load": LoadProbe,
}


def probe_of(rule: type[Rule]) -> Probe | None:
    """The probe that a rule declares. Raises KeyError or TypeError where there is no such one."""
    return None if rule.probe is None else KINDS[rule.probe.kind](**rule.probe.options)
