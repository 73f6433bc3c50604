"""A simulated accelerator over plain CPU tensors: real values, logical devices, the real backend's errors.

What the texts of errors and the rules of mixing are was read off PyTorch's sources and users' reports, and not yet
compared with hardware: `tests/verify/test_real_device.py` does so wherever torch finds an accelerator.

Imports torch and the standard library alone, so that it runs in the interpreter of the code under test.
"""

from .events import Event, Recorder
from .observer import RealDevice, find_accelerator
from .simulator import SimDevice

__all__ = ["Event", "RealDevice", "Recorder", "SimDevice", "find_accelerator"]
