"""Guard rails around replayed code: layers that keep an honest mistake from doing harm. They are no sandbox.

What runs here was cut out of a file that the user asked to verify, so that the danger is an accident (a
training script
that removes its output folder, downloads a data set, starts a server), not an attack. Each layer covers for
the others:

- `policy`: code that reaches for processes, sockets, foreign functions or the interpreter's insides is not
  even started. Everywhere.
- `audit`: files outside the temporary directory, processes, sockets, at the interpreter's audit events.
  Everywhere.
- `natives`: functions of torch that open files or sockets in C++, unseen by the audit hook. Everywhere.
- `limits`: run-away time, memory and file sizes. POSIX.
- `landlock`: writes outside the temporary directory and TCP, in the kernel. Linux 5.13 and newer.
- `seccomp`: new processes and sockets, in the kernel. Linux on x86-64 and arm64.

Code that somebody means to do harm with belongs in a container or a virtual machine of its own.
"""

from __future__ import annotations

from collections.abc import Iterable

from . import audit, landlock, limits, seccomp
from .audit import AuditHook
from .limits import Limits

__all__ = ["AuditHook", "Limits", "install"]


def install(
    directory: str, readable: Iterable[str], modules: Iterable[str], limit: Limits
) -> tuple[AuditHook, list[str]]:
    """Put all layers but the policy around this process, for good; gives the hook and the names of active layers.

    directory: the only one that may be written to. readable: folders that may be read beside it.
    modules: top-level modules that may be imported beside the harmless ones of the standard library.
    """
    from . import natives  # needs torch, which is not there where plans are made

    active = [limits.apply(limit)]
    natives.install(directory)
    active.append("natives")
    active.append(landlock.restrict(directory))
    active.append(seccomp.restrict())
    hook = audit.install(directory, readable, modules)
    active.append("audit")
    return hook, [name for name in active if name]
