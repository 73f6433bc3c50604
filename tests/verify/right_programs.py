"""Programs that are right on one device: they take its name and return numbers that must be the CPU's, bit for bit."""

from __future__ import annotations

import right_layers
import right_tensors
import right_training
from right_registry import RIGHT

#: The modules whose import fills RIGHT.
ROOMS = (right_layers, right_tensors, right_training)

__all__ = ["RIGHT", "ROOMS"]
