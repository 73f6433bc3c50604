"""DEV107: a checkpoint is read without saying where its tensors shall go."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cached_property

from torchlint.findings import Confidence, Safety, Severity
from torchlint.placement.events import Backward, Build, Demand, DeviceName, Load, Move, Save, Step, Wrap
from torchlint.rule import NodeEdit, NodeFix, Probe, Report, Rule, RuleContext


class LoadWithoutMapLocation(Rule):
    """A checkpoint is read without `map_location`.

    What it does
        Finds `torch.load` (and the helpers of `torch.hub` around it) without `map_location`. Silent where a scheduler
        or a GradScaler takes what is read: their state is numbers. Possible only where the run wrote the file itself,
        what writes it brings its tensors to the CPU, it holds states of generators, or a program of one process needs
        the first CUDA device before it reads.

    Why it matters
        Tensors go back to the device that they were saved from: reading fails where there is none, and fills the
        first GPU where many processes read at once.

    Example
        import torch


        def resume(path, model, device):
            model.load_state_dict(torch.load(path))  # <-
            return model.to(device)

    Use instead
        import torch


        def resume(path, model, device):
            model.load_state_dict(torch.load(path, map_location=device))
            return model.to(device)

    Fix
        Unsafe. Takes the device at hand, else the CPU; `load_state_dict` copies from there.

    References
        https://docs.pytorch.org/docs/stable/generated/torch.load.html
        https://github.com/KaidiXu/Beta-CROWN/pull/1
    """

    code = "DEV107"
    name = "load-without-map-location"
    severity = Severity.WARNING
    probe = Probe("load")

    def __init__(self, context: RuleContext) -> None:
        super().__init__(context)
        self._saved: list[Save] = []
        self._unmapped: list[Load] = []
        self._brings_to_host: set[object] = set()
        self._offloads = False
        self._needs_cuda = self._has_ranks = self._prepares = False
        self._named: list[DeviceName] = []
        #: The classes that train.
        self._training: set[object] = set()

    def on_move(self, move: Move) -> None:
        if move.target and all(p.place.is_host for p in move.target):
            self._brings_to_host.add(move.scene.function)

    def on_device_name(self, named: DeviceName) -> None:
        self._named.append(named)

    def on_backward(self, backward: Backward) -> None:
        self._training.add(backward.scene.owner)
        # `optimizer.backward(loss)` is apex's, which spreads nothing by itself.
        self._prepares |= bool(backward.owner) and not backward.owner.endswith("optimizer")

    def on_step(self, step: Step) -> None:
        self._training.add(step.scene.owner)

    def on_build(self, build: Build) -> None:
        self._offloads |= build.what == "offloaded state"

    def on_demand(self, demand: Demand) -> None:
        self._needs_cuda |= demand.why != "nccl"
        self._has_ranks |= demand.why == "nccl"

    def on_wrap(self, wrap: Wrap) -> None:
        self._has_ranks |= "Distributed" in wrap.api

    def on_save(self, save: Save) -> None:
        self._saved.append(save)

    def on_load(self, load: Load) -> None:
        if load.mapped or load.scene.is_test or load.scene.role == "test" or load.scene.asks_for_accelerator:
            return
        if not any(_is_of(save, load) for save in self._saved):
            self._unmapped.append(load)  # else the run reads back what it wrote itself

    def finish(self) -> Iterator[Report]:
        saved_from_cpu = bool(self._saved) and (self._offloads or any(map(self._is_from_host, self._saved)))
        for load in self._unmapped:
            if load.numbers or load.written:
                continue
            if any(_is_of(save, load) and _is_alternative(save, load) for save in self._saved):
                continue  # a cache: what isn't there yet is made and saved, by the same code on the same machine
            device = load.at_hand or '"cpu"'
            fix = NodeFix(
                f"map to `{device}`",
                Safety.UNSAFE,
                (NodeEdit(load.node, "argument", f"map_location={device}"),),
            )
            message = "without `map_location` the tensors go back to the device that they were saved from"
            # Where the code that saves brings its tensors to the CPU first, they come back to it.
            from_cpu = saved_from_cpu or (load.scene.host_program and bool(self._saved))
            # A file that is shipped with the source was read on many machines before.
            known = from_cpu or (load.shipped and not self._saved)
            # What can't run without CUDA finds the device that it saved from itself, unless it has one a process.
            known |= self._needs_cuda and bool(self._saved) and not self._has_ranks
            # Nothing beside it speaks of a device, so the tensors never left the CPU.
            known |= load.of_host
            # The run itself wrote what it reads, or an object in it that keeps its best state; of many processes, one
            # wrote for all.
            known |= (load.of_run or load.trained) and not self._has_ranks and not self._prepares
            known |= any(self._keeps(save, load) for save in self._saved)
            known |= self._is_for_cuda(load) or self._never_elsewhere
            known |= self._starts_on_cuda or self._fails_before(load)
            # Counts of steps and seeds were on no device.
            known |= any(save.counts and _share_name(save, load) for save in self._saved)
            sure = Confidence.POSSIBLE if known else _confidence(load)
            yield self.finding(load, message, confidence=sure, fix=fix)

    def _keeps(self, save: Save, load: Load) -> bool:
        """Whether an object that does not train keeps a file: it reads what it wrote, if nothing asks for it first."""
        owner = load.scene.owner
        if owner is None or owner is not save.scene.owner or owner in self._training:
            return False
        asked = any("exist" in condition for condition, _ in load.scene.conditions)
        return load.what == save.what and load.what.startswith("self.") and not asked

    def _is_for_cuda(self, load: Load) -> bool:
        """Whether the file saves, and the function that reads goes to the first CUDA device, whatever there is."""
        beside = [named for named in self._named if named.scene.function is load.scene.function]
        asks = any(named.guarded or named.chosen or named.what == "choice" for named in beside)
        if asks or self._has_ranks or not self._saved:
            return False
        return any(_is_fixed(named) and named.scene.conditions <= load.scene.conditions for named in beside)

    def _fails_before(self, load: Load) -> bool:
        """Whether a program of one process went to the first CUDA device before it reads, and so runs on that alone."""
        beside = [named for named in self._named if named.scene.function is load.scene.function]
        if self._has_ranks or any(named.chosen for named in beside):
            return False
        before = [n for n in beside if not n.guarded and n.scene.conditions <= load.scene.conditions]
        if any(n.what == "api" and n.api in _CURRENT for n in before):
            return True
        asks = any(named.guarded or named.what == "choice" for named in beside)
        return load.scene.function is None and not asks and any(n.what in _USING and _is_fixed(n) for n in before)

    @cached_property
    def _starts_on_cuda(self) -> bool:
        """Whether a program of one process has all that it makes on the first CUDA device before it does anything."""
        begins = [n for n in self._named if n.scene.function is None and not (n.guarded or n.chosen)]
        return not self._has_ranks and any(
            (n.what == "tensor type" or (n.api == "torch.set_default_device" and _is_fixed(n)))
            and all("__name__" in condition for condition, _ in n.scene.conditions)
            for n in begins
        )

    @cached_property
    def _never_elsewhere(self) -> bool:
        """Whether the file goes to CUDA, whatever there is, and nothing of it shows that it is to run without.

        A parameter for a device shows nothing where no file of the project chooses one.
        """
        fixed = [n for n in self._named if _is_fixed(n) and n.what in _USING and not (n.guarded or n.chosen)]
        asks = any(n.guarded or n.chosen or n.what == "choice" for n in self._named)
        alone = not asks and all(named.around == "alone" for named in fixed)
        return bool(fixed) and not self._has_ranks and (alone or all(named.shown != "file" for named in fixed))

    def _is_from_host(self, save: Save) -> bool:
        """Whether what is saved lives on the host, or the function that saves brings something there."""
        return save.value.on_host or save.scene.function in self._brings_to_host


def _is_of(save: Save, load: Load) -> bool:
    return (save.scene.function, save.what) == (load.scene.function, load.what)


def _is_fixed(named: DeviceName) -> bool:
    return named.device == "cuda" and (named.what == "cuda()" or named.literal in ("cuda", "cuda:0"))


def _share_name(save: Save, load: Load) -> bool:
    """Whether both paths end in one fixed name."""
    named = _FIXED_NAME.search(load.what)
    return named is not None and save.what.endswith(named[0])


#: The name at the end of a path: `"state.pt"` in `os.path.join(folder, "state.pt")`.
_FIXED_NAME = re.compile(r"""["'][^"'/]+["']\)*$""")


def _is_alternative(save: Save, load: Load) -> bool:
    """Whether one condition decides between the two."""
    return any((condition, not truth) in save.scene.conditions for condition, truth in load.scene.conditions)


def _confidence(load: Load) -> Confidence:
    """Weights that are published under an address are saved from the CPU as a rule; other things hold no tensors."""
    published = load.published or (load.api != "torch.load" and load.what.endswith("[…]"))
    function = load.scene.function.name.value if load.scene.function is not None else ""
    named = _words(f"{load.what} {load.into} {function}")
    told = named & _STATE and not _words(load.what) & _OTHERWISE
    if _words(f"{load.what} {load.into}") & _BESIDE_STATE:
        return Confidence.POSSIBLE
    if "rng" in named or ("random" in named and named & {"state", "states"}):
        return Confidence.POSSIBLE  # the state of a generator is a CPU tensor, whatever it draws for
    return Confidence.LIKELY if told and not published else Confidence.POSSIBLE


def _words(text: str) -> set[str]:
    return {word.lower() for word in re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])", text)}


#: Words for a model and for the state of a run.
_STATE = frozenset(
    "model models net nets network networks weight weights state ckpt checkpoint checkpoints cpt pretrained"
    " pretrain resume resumed restore snapshot pth mdl encoder decoder generator discriminator optimizer optim"
    " ema unet vae backbone params parameters policy actor critic agent".split()
)
#: Words for what is kept beside the state of a model, and holds numbers and texts.
_BESIDE_STATE = frozenset("metadata meta vocab tokenizer stats statistics score scores metric metrics accuracy".split())
#: Words for what holds numbers alone, and for what the program has in memory, which it may have written itself.
_OTHERWISE = frozenset("group groups bytes buffer buf stream serialized".split())
#: What fails where there is no CUDA, and tells, takes or waits for the device of the process.
_CURRENT = frozenset(["torch.cuda.current_device", "torch.cuda.set_device", "torch.cuda.synchronize"])
#: Names of a device that put something there.
_USING = frozenset(["literal", "cuda()"])
