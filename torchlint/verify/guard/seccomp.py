"""Seccomp: the Linux kernel refuses new processes, new sockets and signals to others, for good.

Numbers of system calls: the kernel's tables for x86-64 and arm64; on other machines this layer is absent.
"""

from __future__ import annotations

import ctypes
import errno
import platform
import struct
import sys

_PR_SET_NO_NEW_PRIVS, _PR_SET_SECCOMP, _MODE_FILTER = 38, 22, 2
_ALLOW, _ERRNO = 0x7FFF0000, 0x00050000
_LOAD, _JUMP_EQUAL, _JUMP_GREATER_EQUAL, _JUMP_SET, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
#: Offsets in `struct seccomp_data`.
_NUMBER, _ARCH, _FIRST_ARGUMENT = 0, 4, 16
_CLONE_THREAD = 0x10000
#: System calls of the x32 interface have numbers from here on.
_X32 = 0x40000000

_TABLES: dict[str, tuple[int, dict[str, int]]] = {
    "x86_64": (
        0xC000003E,
        {
            "execve": 59, "execveat": 322, "fork": 57, "vfork": 58, "clone": 56, "clone3": 435, "socket": 41,
            "socketpair": 53, "kill": 62, "tkill": 200, "ptrace": 101, "process_vm_writev": 311,
            "pidfd_send_signal": 424, "pidfd_open": 434, "unshare": 272, "setns": 308, "mount": 165,
            "io_uring_setup": 425, "bpf": 321, "shmget": 29, "msgget": 68, "semget": 64, "mq_open": 240,
        },
    ),
    "aarch64": (
        0xC00000B7,
        {
            "execve": 221, "execveat": 281, "clone": 220, "clone3": 435, "socket": 198, "socketpair": 199,
            "kill": 129, "tkill": 130, "ptrace": 117, "process_vm_writev": 271, "pidfd_send_signal": 424,
            "pidfd_open": 434, "unshare": 97, "setns": 268, "mount": 40, "io_uring_setup": 425, "bpf": 280,
            "shmget": 194, "msgget": 186, "semget": 190, "mq_open": 180,
        },
    ),
}  # fmt: skip


class _Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("filter", ctypes.c_void_p)]


def restrict() -> str:
    """Refuse what starts processes and opens sockets, but not threads; "" where there is no table for it."""
    machine = {"AMD64": "x86_64", "arm64": "aarch64"}.get(platform.machine(), platform.machine())
    table = _TABLES.get(machine)
    if table is None or not sys.platform.startswith("linux") or struct.calcsize("P") != 8:
        return ""
    code = _filter(*table)
    buffer = ctypes.create_string_buffer(code, len(code))
    program = _Program(len(code) // 8, ctypes.addressof(buffer))
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0):
        return ""
    if libc.prctl(_PR_SET_SECCOMP, _MODE_FILTER, ctypes.byref(program), 0, 0):
        return ""
    return "seccomp"


def _filter(architecture: int, numbers: dict[str, int]) -> bytes:
    """The program: each refused call is compared with, answered, and otherwise passed over."""
    refused = _ERRNO | errno.EPERM
    # glibc falls back to clone, whose flags can be looked at, where the kernel has no clone3.
    missing = _ERRNO | errno.ENOSYS
    lines = [
        _line(_LOAD, _ARCH),
        _line(_JUMP_EQUAL, architecture, 1, 0),
        _line(_RETURN, _ALLOW),
        _line(_LOAD, _NUMBER),
        _line(_JUMP_GREATER_EQUAL, _X32, 0, 1),
        _line(_RETURN, refused),
    ]
    for name, number in numbers.items():
        if name == "clone":
            continue
        lines += [_line(_JUMP_EQUAL, number, 0, 1), _line(_RETURN, missing if name == "clone3" else refused)]
    lines += [
        _line(_JUMP_EQUAL, numbers["clone"], 0, 3),
        _line(_LOAD, _FIRST_ARGUMENT),
        _line(_JUMP_SET, _CLONE_THREAD, 1, 0),
        _line(_RETURN, refused),
        _line(_RETURN, _ALLOW),
    ]
    return b"".join(lines)


def _line(code: int, value: int, if_true: int | None = 0, if_false: int | None = 0) -> bytes:
    return struct.pack("HBBI", code, if_true, if_false, value)
