"""What paths remember of tests: it is forgotten once what a test speaks of is bound anew."""

from __future__ import annotations

import pytest

from torchlint.placement.protocols.conditions import without


@pytest.mark.parametrize(
    ("text", "name", "kept"),
    [
        ("self.scaler", "self.scaler", False),
        ("self.scaler", "self", False),
        ("self.scaler", "self.scaler.scale", False),
        ("step Equal last.step", "last", False),
        ("self.scaler", "self.scaled", True),
        ("self.scaler", "scaler", True),
        ("step Equal 3", "steps", True),
    ],
)
def test_a_test_is_known_until_what_it_reads_changes(text: str, name: str, kept: bool) -> None:
    conditions = frozenset({(text, True), ("other", False)})
    left = without(conditions, frozenset({name, "elsewhere"}))
    assert left == (conditions if kept else frozenset({("other", False)}))
