"""`Peers`: how a host carries requests to other nodes."""

from __future__ import annotations

from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Protocol

    from kraftlog.effects import Ask

    class Peers(Protocol):
        def ask(self, ask: Ask) -> None:
            """Send a request; PeerAnswered or PeerSilent follows, once, in a later turn."""
            ...
