"""Fetches of the metadata log by consumers, which wait for the next commit (Q27)."""

from __future__ import annotations

from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Protocol

    from kraftlog.node.quorum.driver import QuorumDriver
    from kraftlog.types import Now

    class WaitingFetch(Protocol):
        """A fetch that waits for records from its offset on: those of handlers, a layer above."""

        @property
        def offset(self) -> int: ...
        def expire(self, now: Now) -> None:
            """Stop waiting, and respond with the records that there are now."""
            ...


class MetadataFetches:
    """Serves the waiting fetches once this node has applied more records."""

    def __init__(self, quorum: QuorumDriver) -> None:
        self._quorum = quorum
        self._waiting: dict[WaitingFetch, None] = {}
        quorum.applied_listeners.append(self._applied)

    def add(self, fetch: WaitingFetch) -> None:
        self._waiting[fetch] = None

    def remove(self, fetch: WaitingFetch) -> None:
        self._waiting.pop(fetch, None)

    def _applied(self, _: int, now: Now) -> None:
        end = self._quorum.core.log.high_watermark
        for fetch in [it for it in self._waiting if it.offset != end]:
            fetch.expire(now)
