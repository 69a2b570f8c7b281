"""What a node counts while it serves: nothing but integers, looked at when somebody asks."""

from __future__ import annotations

from kraftlog.node.request_latency import RequestLatency
from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_VERSIONS = 8  # bits


class Counts:
    """`requests` by `key << 8 | version`: one small number instead of a pair for each request."""

    def __init__(self) -> None:
        self.requests: dict[int, int] = {}
        self.times = RequestLatency()
        #: How often a replica was elected that was not known to hold everything committed.
        self.unclean_elections = 0
        #: How often this node became the active controller.
        self.activations = 0

    @staticmethod
    def key_of(key: int, version: int) -> int:
        """Under which number `requests` counts these."""
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
        """API key, version, how many requests of it."""
        for what, count in list(self.requests.items()):
            yield what >> _VERSIONS, what & ((1 << _VERSIONS) - 1), count
