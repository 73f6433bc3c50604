"""First-party modules: what an import of the project's own code denotes, resolved when something asks."""

from __future__ import annotations

from torchlint.placement.values import Value


class Project:
    """The modules around the file that is checked."""

    def resolve(self, name: str, path: str) -> Value | None:
        """What a qualified name denotes, seen from the file at `path`; None if it is none of the project's."""
        return None
