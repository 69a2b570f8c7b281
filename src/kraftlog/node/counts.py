"""Counters of a node, as plain integers; metrics read them on a scrape."""

from __future__ import annotations

from kraftlog.node.request_latency import RequestLatency
from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_VERSIONS = 8  # bits


class Counts:
    """`requests` is by `key << 8 | version`: an int is cheaper than a pair per request."""

    def __init__(self) -> None:
        self.requests: dict[int, int] = {}
        self.latency = RequestLatency()
        #: Elections of leaders from outside the ISR and the ELR.
        self.unclean_elections = 0
        #: Number of times that this node became the active controller.
        self.activations = 0

    @staticmethod
    def key_of(key: int, version: int) -> int:
        """The key of `requests` for an API and version."""
        return key << _VERSIONS | version

    def count_request(self, key: int, version: int) -> None:
        what = key << _VERSIONS | version
        self.requests[what] = self.requests.get(what, 0) + 1

    def requests_by_api(self) -> dict[int, int]:
        totals: dict[int, int] = {}
        for what, count in self.requests.items():
            totals[what >> _VERSIONS] = totals.get(what >> _VERSIONS, 0) + count
        return totals

    def by_api(self) -> Iterator[tuple[int, int, int]]:
        """API key, version, number of requests."""
        for what, count in list(self.requests.items()):
            yield what >> _VERSIONS, what & ((1 << _VERSIONS) - 1), count
