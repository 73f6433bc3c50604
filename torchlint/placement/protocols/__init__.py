"""The Must engine: typestate automata that run along the paths of functions, fed by events of placement."""

from __future__ import annotations

from torchlint.placement.protocols.observe import observe_protocols

__all__ = ["observe_protocols"]
