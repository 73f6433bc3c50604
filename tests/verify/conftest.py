"""One pool of workers for all tests that replay."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from torchlint.verify.pool import Pool
from torchlint.verify.protocol import Answer, Device, Request

Replays = Callable[..., Answer]


@pytest.fixture(scope="session")
def pool() -> Iterator[Pool]:
    with Pool(jobs=2) as pool:
        yield pool


@pytest.fixture
def replay(pool: Pool) -> Replays:
    """Replay a text; keywords are fields of the request, `how` and `kind` those of its device."""

    def run(source: str, how: str = "simulated", kind: str = "cuda", count: int = 1, **fields: Any) -> Answer:
        device = Device(how, kind, count)
        request = Request(textwrap.dedent(source).strip() + "\n", "train.py", device=device, **fields)
        ((_, answer),) = pool.replay([request])
        return answer

    return run
