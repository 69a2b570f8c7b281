"""`Peers`: how a host carries requests to other nodes."""

from __future__ import annotations

from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Any, Protocol

    class Peers(Protocol):
        def send(self, effect: Any, /) -> None:
            """Send the request of a SendRequest; exactly one report follows in a later turn."""
            ...
