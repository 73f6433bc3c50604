"""What rules about named devices share: which places count, and what to write instead."""

from __future__ import annotations

import re
from collections.abc import Iterator

import libcst as cst

from torchlint.placement.definitions.records import Class, Function
from torchlint.placement.events import Attribute, Call, Demand, DeviceName, Load, Step, Wrap
from torchlint.placement.scene import Scene
from torchlint.placement.syntax import words
from torchlint.rule import Rule, RuleContext

#: Words in the name of a file, a class or a function that is for one vendor's devices on purpose.
_ON_PURPOSE = frozenset(
    "cuda gpu gpus nccl triton tensorrt trt multigpu nvidia cudagraph cudnn parallel distributed ddp fsdp"
    " bitsandbytes bnb".split()
)
#: Words in a condition that only CUDA (or the work of many processes on it) fulfils.
_OF_CUDA = frozenset(
    "nccl mccl rccl flash flex fused kernel kernels triton tensorrt world rank distributed ddp fsdp bnb"
    " quantized".split()
)
#: Words in the path of a file that checks or measures what it has, on the machine that it is written for.
_FOR_THE_DESK = frozenset(
    "test tests testing bench benchmark benchmarks kernel kernels profiling performance".split()
)
#: Classes that drive one vendor's device: who uses them has it.
_DRIVING = frozenset(f"torch.cuda.{name}" for name in ("Event", "Stream", "CUDAGraph"))
#: Words in a condition that asks for half precision, or for the library that had it before torch did.
_HALF = frozenset("amp half apex".split())
_PRECISION = frozenset("amp fp half mixed precision autocast".split())
_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+")

#: What to write where nothing at hand has a device: torch 2.0 has no call that names the accelerator.
CHOICE = '"cuda" if torch.cuda.is_available() else "cpu"'


class DeviceNames(Rule):
    """Base of rules that judge the named devices of a file at its end, when all that may excuse them was seen."""

    #: The sorts of `DeviceName` that the rule judges.
    judged: frozenset[str] = frozenset()

    def __init__(self, context: RuleContext) -> None:
        super().__init__(context)
        self._named: list[DeviceName] = []
        path = context.path.replace("\\", "/")
        self._excused = bool(
            _words(path.rsplit("/", 1)[-1]) & _ON_PURPOSE
            or _words("/".join(path.split("/")[-4:])) & _FOR_THE_DESK
        )
        #: Functions (None: the file's own code) that leave where no accelerator is.
        self._demanding: set[cst.FunctionDef | None] = set()
        #: Functions that drive CUDA by its own streams and events.
        self._driving: set[cst.FunctionDef | None] = set()
        self._is_library = False
        #: Whether the file's own code asks somewhere for what it goes to, and so is to run without it.
        self._asks = False
        self._is_program = False
        #: Whether nothing but what its Modules read of files speaks for a program.
        self._only_reads_itself = True
        #: Functions that are called, and whether each call stands behind a question for the accelerator.
        self._called: dict[cst.FunctionDef, bool] = {}

    def on_device_name(self, named: DeviceName) -> None:
        if named.api == "torch.cuda.set_device" and "rank" in words(named.node) and _is_certain(named.scene):
            self._excused = True  # one process for each GPU
        if named.api in _DRIVING:
            self._driving.add(named.scene.function)
        self._asks |= named.guarded and named.scene.function is None
        if named.what in self.judged:
            self._named.append(named)

    def on_demand(self, demand: Demand) -> None:
        if demand.why == "refusal":
            self._demanding.add(demand.scene.function)
        elif demand.why == "said" or _is_certain(demand.scene):
            self._excused = True
        elif demand.why == "exit":
            # Under an option: it speaks for its own function alone.
            self._demanding.add(demand.scene.function)

    def on_wrap(self, wrap: Wrap) -> None:
        # Work for many devices is set up for the vendor's from the start, unless it is only an option.
        of_many = wrap.api.endswith(("DistributedDataParallel", "FullyShardedDataParallel"))
        self._excused |= (of_many or "device_ids" in wrap.keywords) and _is_certain(wrap.scene)

    def on_attribute(self, attribute: Attribute) -> None:
        self._is_library |= isinstance(attribute.owner, Class) and attribute.owner.is_module

    def on_step(self, step: Step) -> None:
        self._is_program, self._only_reads_itself = True, False

    def on_load(self, load: Load) -> None:
        self._is_program = True
        # A Module that reads itself from a file is used by programs, and where they want it.
        owner = load.scene.owner
        self._only_reads_itself &= isinstance(owner, Class) and owner.is_module

    def on_call(self, call: Call) -> None:
        if isinstance(call.function, Function):
            node = call.function.node
            self._called[node] = self._called.get(node, True) and call.scene.asks_for_accelerator

    def unexcused(self) -> Iterator[DeviceName]:
        """The names that nothing around them, in the file or in its callers excuses."""
        if self._excused:
            return
        for named in self._named:
            if named.api == "available" and not named.scene.is_test:
                yield named  # it asks, and of the wrong one
                continue
            if (
                named.guarded
                or named.chosen
                or named.scene.function in self._demanding
                or self._on_purpose(named.scene)
                or self._bears_its_name(named)
                or self._is_self_test(named.scene)
            ):
                continue
            if "autocast" in (named.what, named.api.rsplit(".", 1)[-1]) and _asks_for_precision(named.scene):
                continue
            yield named

    def _is_self_test(self, scene: Scene) -> bool:
        """Whether code stands under `if __name__ == "__main__"` in a file of Modules that is no program."""
        if not self._is_library or self._is_program or self._asks or scene.function is not None:
            return False
        return any("__name__" in condition for condition, _ in scene.conditions)

    def _on_purpose(self, scene: Scene) -> bool:
        if scene.is_test or scene.role == "test":
            return True
        if any(not _words(condition).isdisjoint(_OF_CUDA) for condition, _ in scene.conditions):
            return True
        if any(truth and _asks_for_half(condition) for condition, truth in scene.conditions):
            return True  # half precision is for accelerators
        if scene.function is None:
            return False
        names = scene.function.name.value
        if isinstance(scene.owner, Class):
            names += " " + scene.owner.name
        return bool(_words(names) & _ON_PURPOSE) or self._called.get(scene.function, False)

    def _bears_its_name(self, named: DeviceName) -> bool:
        """Whether what the code stands in is for a device by name: `class HPUDevice`, `if "xpu" in name`."""
        if named.what == "beside":
            return False  # it is there, and goes to the wrong one
        scene, names = named.scene, self.context.path.replace("\\", "/").rpartition("/")[2]
        if scene.function is not None:
            names += " " + scene.function.name.value
        if isinstance(scene.owner, Class):
            names += " " + scene.owner.name
        asked = [condition for condition, truth in scene.conditions if truth]
        return not _words(" ".join([names, *asked])).isdisjoint({named.device, "gpu"})


def _is_certain(scene: Scene) -> bool:
    """Whether code runs whatever the options are."""
    return all("__name__" in condition for condition, _ in scene.conditions)


def hangs_on_unassigned(scene: Scene) -> bool:
    """Whether code runs only where `self` has an attribute that no class which is known of it assigns."""
    owner = scene.owner
    if not isinstance(owner, Class):
        return False
    asked = {_HAS_OWN.match(condition) for condition, truth in scene.conditions if truth}
    return any(match is not None and not _assigns(owner, match[1]) for match in asked)


def _assigns(cls: Class, name: str) -> bool:
    return any(name in {*c.attributes, *c.assigned_in, *c.methods, *c.class_env, *c.registered} for c in cls.lineage())


#: The condition that an object has an attribute.
_HAS_OWN = re.compile(r"""hasattr\(self, ["'](\w+)["']\)$""")


def _asks_for_precision(scene: Scene) -> bool:
    """Whether a condition around asks for mixed precision, which is for CUDA where it is asked for."""
    return any(not _words(condition).isdisjoint(_PRECISION) for condition, _ in scene.conditions)


def _asks_for_half(condition: str) -> bool:
    return "float16" in condition or "fp16" in condition or not _words(condition).isdisjoint(_HALF)


def _words(name: str) -> set[str]:
    return {word.lower() for word in _WORD.findall(name)}
