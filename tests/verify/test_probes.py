"""What probes conclude from answers: what confirms, what refutes, and what does neither."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from torchlint.rule import find_rules
from torchlint.verify.probes import KINDS, Probe, Site, probe_of
from torchlint.verify.protocol import Answer, Event, Raised

SITE = Site("train.py", 9, 9, 4, "loss.item()", told="it joins `x`")
REACHED: Mapping[str, Any] = {"reach": ({"iteration": 1},)}
MISMATCH = "Expected all tensors to be on the same device"


def event(kind: str, line: int = 9, count: int = 1, **fields: Any) -> Event:
    given: dict[str, Any] = {"source": "", "target": "", "origins": (), "marks": (), "detail": {}, **fields}
    return Event(kind, "Tensor.item", "train.py", line, "", count=count, by_iteration={1: count}, **given)


def answer(*events: Event, iterations: int = 12, **fields: Any) -> Answer:
    loops = {"hot": {"iterations": iterations, "graph": []}}
    return Answer("ran", "simulated cuda:0", events=events, **{"loops": loops, "watched": REACHED, **fields})


def judged(kind: str, *answers: Answer, site: Site = SITE, **options: Any) -> str:
    return KINDS[kind](**options).judge(answers, site).status


class TestSync:
    def test_as_many_waits_as_iterations_confirm(self) -> None:
        assert judged("sync", answer(event("sync", count=12, source="cuda:0"))) == "confirmed"

    def test_waits_now_and_then_refute(self) -> None:
        assert judged("sync", answer(event("sync", count=3, source="cuda:0"), iterations=102)) == "refuted"

    def test_waits_of_another_line_do_not_count(self) -> None:
        assert judged("sync", answer(event("sync", line=8, count=12, source="cuda:0"))) == "refuted"

    def test_waits_for_what_was_stood_in_for_never_confirm(self) -> None:
        waits = event("sync", count=12, source="cuda:0", marks=("lib.f()",))
        assert judged("sync", answer(waits)) == "inconclusive"

    def test_waits_for_what_the_caller_has_on_the_device_do(self) -> None:
        waits = event("sync", count=12, source="cuda:0", marks=("caller: model",))
        assert judged("sync", answer(waits)) == "confirmed"

    def test_a_line_that_was_never_reached_says_nothing(self) -> None:
        assert judged("sync", answer(watched={})) == "inconclusive"


def mix(line: int = 9, marks: tuple[str, ...] = (), partner: tuple[str, ...] = (), **fields: Any) -> Event:
    operands = (["self", "cpu", 1, [9], list(marks), True], ["other", "cuda:0", 1, [], list(partner), False])
    return event("mix", line, marks=marks, detail={"message": MISMATCH, "operands": operands}, **fields)


class TestMix:
    def test_the_error_at_the_line_confirms(self) -> None:
        assert judged("mix", answer(mix())) == "confirmed"

    def test_the_error_where_what_is_made_there_meets_another_confirms(self) -> None:
        assert judged("mix", answer(mix(line=20, origins=(9,)))) == "confirmed"

    def test_an_error_elsewhere_is_none_of_it(self) -> None:
        assert judged("mix", answer(mix(line=20, origins=(3,)))) == "inconclusive"

    def test_an_accused_stand_in_never_confirms(self) -> None:
        assert judged("mix", answer(mix(marks=("vocabulary",)))) == "inconclusive"

    def test_a_partner_that_the_finding_names_is_assumed(self) -> None:
        assert judged("mix", answer(mix(partner=("caller: x",)))) == "confirmed"

    def test_a_partner_that_the_finding_does_not_name_is_not(self) -> None:
        assert judged("mix", answer(mix(partner=("caller: step",)))) == "inconclusive"

    def test_a_copy_before_anything_meets_refutes(self) -> None:
        copy = event("copy", source="cpu", target="cuda:0", origins=(9,))
        assert judged("mix", answer(copy)) == "refuted"

    def test_silence_that_rests_on_stand_ins_does_not_refute(self) -> None:
        assert judged("mix", answer(assumed=("`x` is 4",))) == "inconclusive"


def moved(kind: str, before: str, after: str, result: str, marks: list[str]) -> Answer:
    tensor = {"type": kind, "dtype": "torch.float32"}
    record = {
        "receiver": {**tensor, "device": before, "marks": marks},
        "receiver_after": {**tensor, "device": after},
        "result": {**tensor, "device": result},
    }
    return answer(watched={**REACHED, "move": (record,)})


MOVE = Site("train.py", 9, 9, 4, "x.to(device)")


class TestDiscardedMove:
    def test_a_tensor_that_stays_confirms(self) -> None:
        assert judged("discarded-move", moved("Tensor", "cpu", "cpu", "cuda:0", []), site=MOVE) == "confirmed"

    def test_a_module_refutes(self) -> None:
        assert (
            judged("discarded-move", moved("Module", "cpu", "cuda:0", "cuda:0", []), site=MOVE) == "refuted"
        )

    def test_a_tensor_that_is_there_already_refutes(self) -> None:
        assert (
            judged("discarded-move", moved("Tensor", "cuda:0", "cuda:0", "cuda:0", []), site=MOVE)
            == "refuted"
        )

    def test_something_unknown_never_confirms(self) -> None:
        unknown = moved("Tensor", "cpu", "cpu", "cuda:0", ["tokenizer()"])
        assert judged("discarded-move", unknown, site=MOVE) == "inconclusive"


def failed(message: str, line: int = 9) -> Answer:
    raised = Raised("AssertionError", message, "train.py", line, (("train.py", line),))
    return Answer("raised", "none", exception=raised, watched=REACHED)


NO_CUDA = "Torch not compiled with CUDA enabled"


class TestHardcoded:
    def test_a_failure_that_the_cpu_removes_confirms(self) -> None:
        assert judged("hardcoded", failed(NO_CUDA), answer()) == "confirmed"

    def test_a_failure_that_stays_says_nothing(self) -> None:
        assert judged("hardcoded", failed(NO_CUDA), failed(NO_CUDA)) == "inconclusive"

    def test_what_is_reached_with_an_accelerator_alone_refutes(self) -> None:
        seen = answer(watched={**REACHED, "name": ({"iteration": 0},)})
        assert judged("hardcoded", answer(), answer(), seen) == "refuted"


def backward(factor: float, low: int) -> tuple[tuple[int, Event], ...]:
    enter = event("autocast", 8, detail={"enabled": True, "dtype": "torch.float16"})
    return (
        (1, Event(**{**vars(enter), "api": "enter"})),
        (1, event("backward", detail={"factor": factor, "low": low})),
    )


class TestUnderflow:
    @pytest.mark.parametrize(
        ("lost", "status"), [(0.02, "confirmed"), (0.0, "inconclusive"), (0.0005, "inconclusive")]
    )
    def test_concludes_from_what_was_measured(self, lost: float, status: str) -> None:
        measured = {"steps": [], "underflow": [{"lost": lost, "low": 4, "elements": 1000}]}
        assert judged("underflow", answer(sequence=backward(1.0, 4), precision=measured)) == status

    def test_a_scaled_loss_refutes(self) -> None:
        assert judged("underflow", answer(sequence=backward(65536.0, 4))) == "refuted"


class TestGraph:
    def sizes(self, *nodes: int) -> Answer:
        graph = [{"iteration": i, "nodes": n} for i, n in enumerate(nodes, 1)]
        return answer(loops={"hot": {"iterations": len(nodes), "graph": graph}})

    def test_growth_in_every_iteration_confirms(self) -> None:
        assert judged("graph", self.sizes(10, 20, 30, 40, 50)) == "confirmed"

    def test_no_growth_refutes(self) -> None:
        assert judged("graph", self.sizes(10, 12, 12, 12, 12)) == "refuted"


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("status", ["crashed", "refused", "timed out"])
def test_a_replay_that_did_not_come_to_its_end_decides_nothing(kind: str, status: str) -> None:
    probe: Probe = KINDS[kind]()
    answers = tuple(Answer(status, signal="SIGSEGV") for _ in probe.asks(SITE))
    said = probe.judge(answers, SITE)
    assert said.status == "inconclusive"
    assert said.evidence


def test_every_declared_probe_is_one_that_there_is() -> None:
    declared = [rule for rule in find_rules().values() if rule.probe is not None]
    assert declared
    assert all(isinstance(probe_of(rule), Probe) for rule in declared)
