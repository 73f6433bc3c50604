"""Limits of the operating system on a replay: processor time, memory, file sizes."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Limits:
    """What one replay may use.

    wall, cpu: seconds. memory: bytes beyond what the worker holds before it runs, 0 for no limit.
    file: bytes of one file.
    """

    wall: float = 10.0
    cpu: float = 10.0
    memory: int = 1 << 30
    file: int = 64 << 20


def apply(limits: Limits) -> str:
    """Limit this process; gives the layer's name, or "" where the system has no such limits."""
    try:
        import resource
    except ImportError:
        return ""
    wanted = {
        "RLIMIT_CPU": int(limits.cpu + 0.999),
        "RLIMIT_FSIZE": limits.file,
        "RLIMIT_CORE": 0,
        "RLIMIT_NOFILE": 256,
    }
    held = _address_space()
    if held and limits.memory:
        wanted["RLIMIT_AS"] = held + limits.memory
    for name, value in wanted.items():
        kind = getattr(resource, name, None)
        if kind is None:
            continue
        hard = resource.getrlimit(kind)[1]
        value = value if hard == resource.RLIM_INFINITY else min(value, hard)
        try:
            resource.setrlimit(kind, (value, value))
        except (ValueError, OSError):
            continue
    return "limits"


def _address_space() -> int:
    """Bytes of address space in use; 0 where the system does not tell, as on macOS, whose limit means nothing."""
    try:
        with open("/proc/self/statm") as stream:
            pages = int(stream.read().split()[0])
    except (OSError, ValueError):
        return 0
    import resource

    return pages * resource.getpagesize()
