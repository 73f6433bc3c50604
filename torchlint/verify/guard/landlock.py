"""Landlock: the Linux kernel forbids this process, for good, to write outside one directory and to use TCP.

Rights and structures: the kernel's `include/uapi/linux/landlock.h`. Needs no privileges; older kernels know
fewer rights.
"""

from __future__ import annotations

import ctypes
import os
import sys

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_PR_SET_NO_NEW_PRIVS = 38
_O_PATH = 0o10000000
_WRITE_FILE = 1 << 1
#: write_file, remove_dir, remove_file, make_char, make_dir, make_reg, make_sock, make_fifo, make_block,
#: make_sym.
_WRITES = _WRITE_FILE | sum(1 << bit for bit in range(4, 13))
_REFER, _TRUNCATE, _IOCTL_DEV = 1 << 13, 1 << 14, 1 << 15
_NET = 0b11  # bind and connect by TCP
_SCOPES = 0b11  # abstract sockets and signals to processes outside


class _Ruleset(ctypes.Structure):
    _fields_ = [("fs", ctypes.c_uint64), ("net", ctypes.c_uint64), ("scoped", ctypes.c_uint64)]


class _PathBeneath(ctypes.Structure):
    _pack_ = 1
    _layout_ = "ms"
    _fields_ = [("access", ctypes.c_uint64), ("fd", ctypes.c_int32)]


def restrict(directory: str) -> str:
    """Forbid writes outside `directory` (and /dev/null), for good; "" where the kernel can't."""
    if not sys.platform.startswith("linux"):
        return ""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.syscall.restype = ctypes.c_long
    abi = libc.syscall(_CREATE_RULESET, None, ctypes.c_size_t(0), ctypes.c_uint32(1))
    if abi < 1:
        return ""
    rights = _WRITES | (_REFER if abi >= 2 else 0) | (_TRUNCATE if abi >= 3 else 0)
    ruleset = _Ruleset(
        rights | (_IOCTL_DEV if abi >= 5 else 0), _NET if abi >= 4 else 0, _SCOPES if abi >= 6 else 0
    )
    size = 24 if abi >= 6 else 16 if abi >= 4 else 8
    fd = libc.syscall(_CREATE_RULESET, ctypes.byref(ruleset), ctypes.c_size_t(size), ctypes.c_uint32(0))
    if fd < 0:
        return ""
    try:
        _allow(libc, fd, directory, rights)
        _allow(libc, fd, "/dev/null", _WRITE_FILE | (rights & _TRUNCATE))
        if libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0):
            return ""
        if libc.syscall(_RESTRICT_SELF, ctypes.c_int(fd), ctypes.c_uint32(0)):
            return ""
    finally:
        os.close(fd)
    return f"landlock {abi}"


def _allow(libc: ctypes.CDLL, ruleset: int, path: str, rights: int) -> None:
    try:
        fd = os.open(path, _O_PATH | os.O_CLOEXEC)
    except OSError:
        return
    try:
        rule = _PathBeneath(rights, fd)
        libc.syscall(
            _ADD_RULE, ctypes.c_int(ruleset), ctypes.c_int(1), ctypes.byref(rule), ctypes.c_uint32(0)
        )
    finally:
        os.close(fd)
