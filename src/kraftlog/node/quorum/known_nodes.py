"""`KnownNodes`: where the nodes of the quorum listen, by the newest report of each (R9).

A node reports its endpoint with its leader epoch and the time of its start, and others pass the
report on. The report with the higher epoch wins; with equal epochs, the one of the later start.
Endpoints from records and from the configuration have no such time, so they count as the oldest.
"""

from __future__ import annotations

from kraftlog.value import TYPE_CHECKING, Value

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

#: The epoch and boot timestamp of an endpoint that its node has not reported.
NOT_REPORTED = -1
#: A report whose boot timestamp is further in the future is ignored as false: clocks differ by
#: less. If it was accepted, the reports of the node itself would seem older.
MAX_AHEAD_MS = 24 * 3600 * 1000
#: The longest host name, as in DNS.
LONGEST_HOST = 255
#: The maximum number of nodes that are remembered while no voters are known.
MAX_UNCONFIRMED = 100


class NodeReport(Value):
    """Where a node listens for other controllers, and since when."""

    node_id: int
    host: str
    port: int
    leader_epoch: int = NOT_REPORTED
    boot_timestamp_ms: int = NOT_REPORTED

    @property
    def address(self) -> tuple[str, int]:
        return self.host, self.port

    @property
    def recency(self) -> tuple[int, int]:
        """Orders the reports of a node: the largest is the newest."""
        return self.leader_epoch, self.boot_timestamp_ms

    @property
    def is_self_reported(self) -> bool:
        """Whether the report comes from the node itself, not from a record or the configuration."""
        return self.boot_timestamp_ms > NOT_REPORTED

    def is_valid(self, wall_ms: int) -> bool:
        """Whether the host and port are possible, and the start is not too far in the future."""
        return (
            0 < len(self.host) <= LONGEST_HOST
            and 0 < self.port <= 0xFFFF
            and NOT_REPORTED <= self.boot_timestamp_ms <= wall_ms + MAX_AHEAD_MS
        )


class KnownNodes:
    """The newest report of each other member of the quorum.

    While no voters are known, it remembers up to `MAX_UNCONFIRMED` nodes, which may be members.
    `members` returns the ids of the voters and target voters: see `QuorumDriver.member_ids`.
    """

    def __init__(self, me: int, members: Callable[[], Collection[int]]) -> None:
        self._me = me
        self._members = members
        self._reports: dict[int, NodeReport] = {}

    def of(self, node_id: int) -> NodeReport | None:
        return self._reports.get(node_id)

    def __iter__(self) -> Iterator[NodeReport]:
        return iter(self._reports.values())

    @property
    def ids(self) -> list[int]:
        return list(self._reports)

    def take(self, report: NodeReport, wall_ms: int) -> bool:
        """Remember a report unless a newer one is known; return whether the address is new."""
        node_id = report.node_id
        if node_id == self._me or not report.is_valid(wall_ms) or not self._may_remember(node_id):
            return False
        before = self._reports.get(node_id)
        if before is not None and before.recency >= report.recency:
            return False
        self._reports[node_id] = report
        return before is None or before.address != report.address

    def _may_remember(self, node_id: int) -> bool:
        """While no voters are known, the nodes that a bootstrap server names may be voters."""
        members = self._members()
        if members:
            return node_id in members
        has_room = node_id in self._reports or len(self._reports) < MAX_UNCONFIRMED
        return node_id >= 0 and has_room

    def keep_members(self) -> None:
        """Forget the nodes that are no longer members."""
        members = self._members()
        if members:
            self._reports = {i: it for i, it in self._reports.items() if i in members}
