"""Whether a file can hold anything to judge, told from its bytes, with next to no imports."""

from __future__ import annotations

import re
from collections.abc import Iterable

#: A file that holds none of these has nothing that a built-in rule could judge, and is not even parsed.
TRIGGERS = (b"torch", b"lightning", b".to(", b".cuda(", b".cpu(", b".item(", b".backward(", b".numpy(", b"cuda",
            b"load_in_", b"\0")  # fmt: skip

_COMMON = re.compile(b"|".join(map(re.escape, TRIGGERS)))


def is_relevant(data: bytes, triggers: Iterable[bytes] = ()) -> bool:
    """Whether the bytes hold a common trigger, or one of those that rules have beside them."""
    return _COMMON.search(data) is not None or any(trigger in data for trigger in triggers)
