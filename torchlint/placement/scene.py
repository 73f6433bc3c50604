"""Where code stands: its role, the loops around it, and what holds while it runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import libcst as cst


#: Tests behind which code does not run for every batch.
SELDOM = frozenset(["periodic", "first", "rare", "debug", "inference"])


class Scene(NamedTuple):
    """The circumstances of an event.

    role: `script`, `function`, `init` (`__init__`, or a method that only it calls), `forward`, `loss`, `step`
        (holds a backward, or a training_step), `evaluation`, `data` (Dataset, Sampler, collate, transform),
        `optimizer` (its step), `test`.
    function: the innermost function's node; owner: its Class, if any.
    loops: the loops around it, outermost first; hot: the innermost one that counts holds a backward.
    stepwise: it is part of what runs for every batch: the hot loop and small loops within it, or a function that is
        one step (`forward`, a training step, `optimizer.step`), tests apart.
    step_loop: the innermost loop that goes from step to step.
    evaluating: a model was switched to evaluation.
    tests: what the conditions around it say (see Value.tests), and "rare" where the code is left or went wrong.
    conditions: the conditions around it, as (text, truth).
    no_grad: gradients are off; autocast: the device type of the autocast region around, `unknown`, or empty outside
        of one;
        default_device: the code set one.
    device_aware: the function reads or chooses devices, or code that trains reaches it, so that it is written for
        tensors on any device. offered: a plain function of a file that only defines what others call, and that
        reads no data of the host: whoever has tensors calls it. reached: code that trains, or a forward, in the file
        calls the function. host_only: the file trains and never speaks of a
        device. host_program: it does, and is a program, so that all of it runs on the CPU. converts: the file's
        name says that it converts checkpoints.
    caught: inside a `try` whose handlers go on. expects_error: what stands here is there to fail (`with
        pytest.raises(…)`).
    """

    role: str = "script"
    function: cst.FunctionDef | None = None
    owner: object = None
    loops: tuple[cst.CSTNode, ...] = ()
    hot: bool = False
    stepwise: bool = False
    step_loop: cst.CSTNode | None = None
    evaluating: bool = False
    tests: frozenset[str] = frozenset()
    conditions: frozenset[tuple[str, bool]] = frozenset()
    no_grad: bool = False
    autocast: str = ""
    default_device: bool = False
    is_test: bool = False
    device_aware: bool = False
    offered: bool = False
    reached: bool = False
    host_only: bool = False
    host_program: bool = False
    converts: bool = False
    expects_error: bool = False
    caught: bool = False

    def given(self, tests: frozenset[str], condition: tuple[str, bool] | None) -> Scene:
        """The scene where more is known: what a test says of the run, and the condition itself."""
        if not tests and condition is None:
            return self
        # Written out: `_replace` takes five times as long, and every branch comes through here.
        known = (self.tests | tests, self.conditions if condition is None else self.conditions | {condition})
        return tuple.__new__(Scene, (*self[:_TESTS], *known, *self[_TESTS + 2 :]))

    @property
    def accelerator_is_tested(self) -> bool:
        """Whether some condition around says that an accelerator is there, or is not."""
        return "accelerator" in self.tests or "no-accelerator" in self.tests

    @property
    def every_step(self) -> bool:
        """Whether the code runs for every batch, not only now and then, and not to evaluate or to test."""
        if not self.stepwise or self.is_test or self.tests & SELDOM:
            return False
        return not (self.evaluating and self.no_grad)

    @property
    def only_host(self) -> bool:
        """Whether a condition around says that no accelerator is there, so that nothing is elsewhere."""
        return "no-accelerator" in self.tests and "accelerator" not in self.tests

    @property
    def asks_for_accelerator(self) -> bool:
        """Whether the code around asks for an accelerator first, by test or flag, or handles its absence."""
        return self.accelerator_is_tested or self.caught or bool(self.tests & {"flag", "-flag"})


#: Where `tests` stands, before `conditions`.
_TESTS = Scene._fields.index("tests")
