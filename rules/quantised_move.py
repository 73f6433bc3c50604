"""DEV114: a model that bitsandbytes quantised and placed is moved or cast."""

from __future__ import annotations

from collections.abc import Iterator

from torchlint.findings import Confidence, Severity
from torchlint.placement.events import Move
from torchlint.rule import Note, Report, Rule


class QuantisedMove(Rule):
    """A model that bitsandbytes quantised and placed is moved or cast.

    What it does
        Finds `.to(device)`, `.cuda()`, `.half()` and their like on a model that transformers loads with
        `load_in_8bit=True`, `load_in_4bit=True` or a `BitsAndBytesConfig` of these.

    Why it matters
        Loading has put the model on its devices. A move or a cast raises ValueError for 8 bits, and a cast does for
        4 bits; a move of 4 bits does before transformers 4.46 with bitsandbytes 0.43.2.

    Example
        from transformers import AutoModelForCausalLM, BitsAndBytesConfig


        def load(name, device):
            config = BitsAndBytesConfig(load_in_8bit=True)
            model = AutoModelForCausalLM.from_pretrained(name, quantization_config=config)
            model.to(device)  # <-
            return model

    Use instead
        from transformers import AutoModelForCausalLM, BitsAndBytesConfig


        def load(name, device):
            config = BitsAndBytesConfig(load_in_8bit=True)
            return AutoModelForCausalLM.from_pretrained(name, quantization_config=config, device_map=device)

    Fix
        None. Say where the model goes with `device_map`, when it is loaded.

    References
        https://huggingface.co/docs/transformers/quantization/bitsandbytes
        https://github.com/kyegomez/swarms/pull/450
    """

    code = "DEV114"
    name = "quantised-move"
    severity = Severity.ERROR

    def on_move(self, move: Move) -> Iterator[Report]:
        if not move.value.is_module or move.scene.expects_error or move.scene.caught:
            return
        casts = move.dtype is not None or not move.moves_device
        if "8 bits" in move.value.facts:
            message = "the model is quantised to 8 bits and placed already: this raises ValueError"
        elif "4 bits" in move.value.facts and casts:
            message = "the model is quantised to 4 bits: a cast raises ValueError"
        elif "4 bits" in move.value.facts:
            message = "the model is quantised to 4 bits and placed already: this raises with older releases"
        else:
            return
        yield self.finding(move, message, confidence=Confidence.LIKELY, notes=self._loaded(move))

    def _loaded(self, move: Move) -> tuple[Note, ...]:
        origin = move.value.origin
        return () if origin is None else (Note("origin", origin, "it is loaded here"),)
