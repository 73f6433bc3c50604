"""What runs inside of a replay: the methods of `__torchlint__`, which probes in the code and stand-ins call."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

import torch

from ..simdevice.loading import saved_on
from ..simdevice.reports import Reports
from . import graph
from .describe import Describer

_DEFAULT_LIMIT = 16


class Enough(BaseException):
    """A loop has run the iterations that were asked for; no error of the code."""

    def __init__(self, loop: str) -> None:
        super().__init__(loop)
        self.loop = loop


class Probe:
    """Counts iterations, looks at values, marks stand-ins. One for each replay.

    trusted: a context in which the worker's own code may do what the guard rails forbid.
    """

    def __init__(
        self,
        observer: Reports,
        loops: Sequence[Mapping[str, Any]],
        watch: Sequence[Mapping[str, Any]],
        cap: int,
        trusted: Callable[[], AbstractContextManager[Any]],
    ) -> None:
        self._observer = observer
        self._describe = Describer(observer)
        self._loops = {str(loop["id"]): loop for loop in loops}
        self._watch = {w["id"]: w for w in watch}
        self._cap = cap
        self._trusted = trusted
        self._entered: dict[str, int] = {}
        #: Where the code is elastic: what runs its steps.
        self.bridge: Any = None
        self.iterations = dict.fromkeys(self._loops, 0)
        self.graphs: dict[str, list[dict[str, int]]] = {id: [] for id in self._loops}
        self.watched: dict[str, list[dict[str, Any]]] = {str(w["id"]): [] for w in watch}

    # Loops.

    def loop(self, id: str, items: Iterable[Any]) -> Iterator[Any]:
        """The items of a `for` loop, until it has run often enough."""
        self.enter(id)
        empty = True
        for item in items:
            empty = False
            if self.tick(id):
                break
            yield item
        if empty and id in self._loops and hasattr(items, "made_up"):
            for item in items.made_up():
                if self.tick(id):
                    break
                yield item
        self.leave(id)

    def enter(self, id: str) -> None:
        self._entered[id] = 0

    def tick(self, id: str) -> bool:
        """An iteration begins; true where the loop is to end before it. Raises Enough where the replay is."""
        named = self._loops.get(id)
        if named is None:
            self._entered[id] += 1
            return self._entered[id] > self._cap
        self._measure(id)
        if self.iterations[id] >= int(named.get("iterations", 12)):
            if named.get("then", "stop") == "stop":
                raise Enough(id)
            return True
        self.iterations[id] += 1
        if named.get("hot", True):
            self._observer.recorder.iteration = self.iterations[id]
        return False

    def leave(self, id: str) -> None:
        """A loop ended by itself: its last iteration is over."""
        if id in self._loops:
            self._measure(id)

    def _measure(self, id: str) -> None:
        iteration = self.iterations[id]
        taken = self.graphs[id]
        if iteration and self._loops[id].get("graph") and not (taken and taken[-1]["iteration"] == iteration):
            with self._trusted(), self._observer.quiet():
                taken.append({"iteration": iteration, **graph.size()})

    # Values.

    def method(self, id: Any, receiver: Any, name: str, /, *args: Any, **kwargs: Any) -> Any:
        """A watched call of a method: what becomes of its receiver, and of its result."""
        if self.bridge is not None:
            receiver = self.bridge.receiver(receiver, name)
        before = self._described(id, receiver)
        result = self._run(getattr(receiver, name), args, kwargs)
        after = self._described(id, receiver)
        self._called(id, args, kwargs, result, receiver=before, receiver_after=after, same=result is receiver)
        return result

    def function(self, id: Any, function: Any, /, *args: Any, **kwargs: Any) -> Any:
        """A watched call of anything else."""
        result = self._run(function, args, kwargs)
        self._called(id, args, kwargs, result)
        return result

    def _run(self, function: Any, args: Any, kwargs: Any) -> Any:
        return (
            function(*args, **kwargs) if self.bridge is None else self.bridge.call(function, *args, **kwargs)
        )

    def _called(self, id: Any, args: Any, kwargs: Any, result: Any, **more: Any) -> None:
        arguments = [self._described(id, a) for a in args[:4]]
        named = {k: self._described(id, v) for k, v in list(kwargs.items())[:4]}
        self._record(id, result=self._described(id, result), arguments=arguments, keywords=named, **more)

    def value(self, id: Any, value: Any) -> Any:
        """A watched expression."""
        self.look(id, value)
        return value

    def look(self, id: Any, value: Any) -> None:
        self._record(id, value=self._described(id, value))

    def reach(self, id: Any) -> None:
        self._record(id)

    def missed(self, id: Any) -> None:
        """A watched expression could not be evaluated."""
        error = sys.exc_info()[1]
        self._record(id, error=f"{type(error).__name__}: {error}"[:300])

    def _described(self, id: Any, value: Any) -> dict[str, Any]:
        if len(self.watched[str(id)]) >= int(self._watch[id].get("limit", _DEFAULT_LIMIT)):
            return {}
        return self._describe(value, digest=bool(self._watch[id].get("digest")))

    def _record(self, id: Any, **record: Any) -> None:
        records = self.watched[str(id)]
        if len(records) < int(self._watch[id].get("limit", _DEFAULT_LIMIT)):
            records.append({"iteration": self._observer.recorder.iteration, **record})

    # For stand-ins.

    def standin(self, value: Any, mark: str) -> Any:
        """Mark a value as a stand-in; use what is returned. See `Reports.mark`."""
        return self._observer.mark(value, mark)

    def checkpoint(self, path: str, value: Any, device: str = "cuda:0") -> None:
        """Save `value` to `path` as a machine with that device would, all its tensors on it."""
        with torch._C.DisableTorchFunction(), self._observer.quiet(), saved_on(device):
            torch.save(value, path)

    @property
    def iteration(self) -> int:
        """The iteration of the hot loop, 0 before it."""
        return self._observer.recorder.iteration
