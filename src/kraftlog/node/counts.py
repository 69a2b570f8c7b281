"""Counters of a node, as plain integers; metrics read them on a scrape."""

from __future__ import annotations

from kraftlog.node.request_latency import RequestLatency
from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

#: Bits of the version in a key of `Counts.requests`.
_VERSION_BITS = 8


class Counts:
    """`requests` is by `API key << 8 | version`: an int is cheaper than a pair per request."""

    def __init__(self) -> None:
        self.requests: dict[int, int] = {}
        self.latency = RequestLatency()
        #: Elections of leaders from outside the ISR and the ELR.
        self.unclean_elections = 0
        #: Number of times that this node became the active controller.
        self.activations = 0

    @staticmethod
    def key_of(api_key: int, version: int) -> int:
        """The key of `requests` for an API and version."""
        return api_key << _VERSION_BITS | version

    def count_request(self, api_key: int, version: int) -> None:
        key = api_key << _VERSION_BITS | version
        self.requests[key] = self.requests.get(key, 0) + 1

    def requests_by_api(self) -> dict[int, int]:
        totals: dict[int, int] = {}
        for key, count in self.requests.items():
            totals[key >> _VERSION_BITS] = totals.get(key >> _VERSION_BITS, 0) + count
        return totals

    def requests_by_version(self) -> Iterator[tuple[int, int, int]]:
        """Yields API key, version and number of requests."""
        for key, count in list(self.requests.items()):
            yield key >> _VERSION_BITS, key & ((1 << _VERSION_BITS) - 1), count
