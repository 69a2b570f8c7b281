"""`Discovery`: nodes find the members of the quorum at new addresses (R9, R10).

A controller reports its endpoint to the other members and requests theirs, with DiscoverBrokers,
after its start and as long as a member's connection is unknown or broken. This works without a
leader. The bootstrap servers get the request, too: a node that knows no voters yet has at first
only these to ask. Discovery only provides addresses; it has no part in elections.
"""

from __future__ import annotations

from kraftlog import effects
from kraftlog.backoff import Backoff
from kraftlog.errors import ErrorCode
from kraftlog.node.channels import DISCOVERY_CHANNEL
from kraftlog.node.quorum.known_nodes import NOT_REPORTED, NodeReport
from kraftlog.part import Part
from kraftlog.value import TYPE_CHECKING
from kraftlog.wire.apis import ApiKey

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence
    from typing import Any

    from kraftlog.effects import RequestReport
    from kraftlog.logstate.voters import VoterSet
    from kraftlog.node.quorum.driver import QuorumDriver
    from kraftlog.types import Now
    from kraftlog.wire.messages.discover_brokers import (
        DiscoverBrokersRequest,
        DiscoverBrokersResponse,
    )

    Address = tuple[str, int]

#: The version of the DiscoverBrokers requests.
VERSION = 0
#: Bootstrap servers have no known node id, so requests to them name the peers -2, -3 and so on.
FIRST_BOOTSTRAP_ID = -2
#: First and longest wait between two rounds of requests.
RETRY_MS, LONGEST_RETRY_MS = 200, 10_000
#: The longest wait without a leader: nothing else provides addresses then.
LEADERLESS_RETRY_MS = 1000
#: How often a controller repeats its report while it knows no leader: a false report may have
#: replaced it at another node.
REPEAT_REPORT_MS = 10_000
#: How often a node logs that it still knows no voters.
LOG_INTERVAL_MS = 60_000


class Discovery(Part):
    """`poll` sends the requests that are due.

    Once all members are reached, only a controller without a leader sends more. `own_endpoint` is
    the endpoint of this controller; None on a broker, which reports nothing. A boot timestamp is
    durable before it is sent.
    """

    channels = (DISCOVERY_CHANNEL,)

    def __init__(
        self,
        quorum: QuorumDriver,
        emit: Callable[[Any], None],
        now: Now,
        *,
        own_endpoint: Callable[[], Address | None],
        bootstrap_servers: Sequence[Address],
        last_boot_ms: int,
        request_timeout_ms: int,
    ) -> None:
        self._quorum = quorum
        self._known_nodes = quorum.known_nodes
        self._addresses = quorum.addresses
        self._emit = emit
        self._find_own_endpoint = own_endpoint
        self._endpoint: Address | None = None
        self._bootstrap_servers = bootstrap_servers
        self._request_timeout_ms = request_timeout_ms
        #: Later than at the last start, even if the clock was set back since.
        self._boot_ms = max(now.wall_ms, last_boot_ms + 1)
        self._stored_boot_ms = last_boot_ms
        self._is_storing = False
        #: The lowest epoch that this node may report.
        self._min_epoch = 0
        #: The voter set that `_member_ids` were taken from.
        self._checked_voters: VoterSet | None = None
        self._member_ids: frozenset[int] = frozenset()
        #: By request number: the peer and the address.
        self._in_flight: dict[int, tuple[int, Address]] = {}
        self._last_number = 0
        self._rounds = 0
        self._backoff = Backoff(RETRY_MS, LONGEST_RETRY_MS)
        self._was_needed = False
        self._due_ms: int | None = None
        self._last_round_ms = now.monotonic_ms
        #: When it was last logged that this node knows no voters, while that is so.
        self._waiting_logged_ms: int | None = None
        #: By member: the address that was logged last.
        self._logged_addresses: dict[int, Address] = {}

    # Time ----------------------------------------------------------------------------------------

    def deadline(self) -> int | None:
        return None if self._in_flight or self._is_storing else self._due_ms

    def poll(self, now: Now) -> None:
        self._update_members()
        if self._in_flight or self._is_storing:
            return
        self._plan(now)
        if self._due_ms is None or self._due_ms > now.monotonic_ms:
            return
        if self._endpoint is not None and self._stored_boot_ms != self._boot_ms:
            self._store_boot()
        else:
            self._send_requests(now)

    def _plan(self, now: Now) -> None:
        """Decide when the next round is due, if one is needed."""
        needed, time_ms = self._is_needed(), now.monotonic_ms
        if not needed:
            self._backoff.reset()
            repeats = self._endpoint is not None and self._quorum.leader_id < 0 and self._others
            self._due_ms = self._last_round_ms + REPEAT_REPORT_MS if repeats else None
        elif not self._was_needed:
            self._due_ms = time_ms + self._first_wait_ms()
        elif self._due_ms is not None and self._quorum.leader_id < 0:
            self._due_ms = min(self._due_ms, time_ms + LEADERLESS_RETRY_MS)
        self._was_needed = needed

    def _first_wait_ms(self) -> int:
        """The wait once requests have become needed.

        At its start a member reports itself at once; others wait, as the log may have all
        addresses.
        """
        if self._rounds:
            return self._backoff.next_ms()
        return 0 if self._quorum.core.me.id in self._member_ids else LEADERLESS_RETRY_MS

    @property
    def _others(self) -> list[int]:
        me = self._quorum.core.me.id
        return [i for i in sorted(self._member_ids) if i != me]

    def _is_needed(self) -> bool:
        """Whether a member's connection is unknown or broken, or no member is known.

        A broker with a leader gets everything from it.
        """
        if not self._member_ids:
            return True
        core = self._quorum.core
        if self._endpoint is None and core.role.has_live_leader(core):
            return False
        return not self._addresses.unreached.isdisjoint(self._others)

    def _update_members(self) -> None:
        """Note new members as unreached; a broker notes only those without a known address."""
        voters = self._quorum.core.log.voter_set
        if voters is self._checked_voters:
            return
        before, self._checked_voters = self._member_ids, voters
        self._member_ids = frozenset(self._quorum.member_ids())
        self._endpoint = self._find_own_endpoint()
        self._known_nodes.keep_members()
        for node_id in self._member_ids - before - {self._quorum.core.me.id}:
            if self._endpoint is not None or not self._addresses.candidates(node_id):
                self._addresses.unreached.add(node_id)
        if self._member_ids and not before and self._waiting_logged_ms is not None:
            self._waiting_logged_ms = None
            ids = ", ".join([str(i) for i in sorted(self._member_ids)])
            self._emit(effects.LogLine(f"discovery: the voters are {ids}"))

    # Requests ------------------------------------------------------------------------------------

    def _store_boot(self) -> None:
        self._is_storing = True
        self._emit(effects.WriteBootTimestamp(self._boot_ms))

    def boot_written(self, report: effects.BootTimestampWritten) -> None:
        """The boot timestamp is durable: it may be sent now."""
        self._is_storing = False
        self._stored_boot_ms = report.boot_timestamp_ms

    def _own_report(self) -> NodeReport | None:
        """This node's own report, once its boot timestamp is durable."""
        if self._endpoint is None or self._stored_boot_ms != self._boot_ms:
            return None
        core = self._quorum.core
        epoch = max(core.election.epoch, self._min_epoch)
        return NodeReport(core.me.id, *self._endpoint, epoch, self._boot_ms)

    def _send_requests(self, now: Now) -> None:
        from kraftlog.wire.messages.discover_brokers import DiscoverBrokersRequest

        request = DiscoverBrokersRequest(cluster_id=self._quorum.core.cluster_id)
        own = self._own_report()
        if own is not None:
            request.broker_id, request.host, request.port = own.node_id, own.host, own.port
            request.boot_timestamp_ms = own.boot_timestamp_ms
            request.leader_epoch = own.leader_epoch
        self._last_round_ms = now.monotonic_ms
        for peer, address in self._targets():
            self._last_number += 1
            self._in_flight[self._last_number] = peer, address
            self._emit(
                effects.SendRequest(
                    channel=DISCOVERY_CHANNEL,
                    peer=peer,
                    host=address[0],
                    port=address[1],
                    number=self._last_number,
                    api_key=ApiKey.DISCOVER_BROKERS,
                    version=VERSION,
                    request=request,
                    timeout_ms=self._request_timeout_ms,
                    closes=True,
                )
            )
        self._rounds += 1
        if not self._in_flight:
            self._end_round(now)

    def _targets(self) -> Iterator[tuple[int, Address]]:
        """Yield the peers and addresses of a round; two addresses of a node alternate by round."""
        addresses = {self._endpoint}
        for node_id in self._others or self._known_nodes.ids:
            candidates = self._addresses.candidates(node_id)
            if candidates:
                address = candidates[self._rounds % len(candidates)]
                if address not in addresses:
                    addresses.add(address)
                    yield node_id, address
        for index, address in enumerate(self._bootstrap_servers):
            if address not in addresses:
                addresses.add(address)
                yield FIRST_BOOTSTRAP_ID - index, address

    def request_ended(self, report: RequestReport, now: Now) -> None:
        """Take the outcome of a request."""
        target = self._in_flight.pop(report.number, None)
        if target is None:
            return
        if isinstance(report, effects.ResponseReceived):
            self._apply_response(*target, report.response, now)
        elif isinstance(report, effects.VersionUnsupported):
            # A controller of Apache Kafka has no such API; its connection works.
            self._addresses.works(*target)
        if not self._in_flight:
            self._end_round(now)

    def _end_round(self, now: Now) -> None:
        self._due_ms = now.monotonic_ms + self._backoff.next_ms()
        if not self._member_ids:
            self._log_waiting(now)

    def _apply_response(
        self, peer: int, address: Address, response: DiscoverBrokersResponse, now: Now
    ) -> None:
        """Take the addresses of a response, unless it comes from another cluster."""
        core = self._quorum.core
        if response.error_code or core.cluster_id_differs(response.cluster_id):
            return
        is_superseded = False
        for it in response.brokers:
            report = NodeReport(
                it.broker_id, it.host, it.port, it.leader_epoch, it.boot_timestamp_ms
            )
            if it.broker_id == core.me.id:
                is_superseded = self._supersede(report, now)
            else:
                self._remember(report, now)
        if response.node_id == peer >= 0 and not is_superseded:
            self._addresses.works(peer, address)
            core.note_alive(peer)
            self._log_moved(peer, address)

    def _remember(self, report: NodeReport, now: Now) -> None:
        if self._known_nodes.take(report, now.wall_ms):
            self._addresses.moved(report.node_id)
            if not self._member_ids:
                self._quorum.core.discovered = tuple(self._known_nodes.ids)

    def _supersede(self, report: NodeReport, now: Now) -> bool:
        """Plan a newer report of this node if `report` is neither its own nor older.

        Such a report is false, or from an earlier start that this node does not remember. Returns
        whether a newer report is needed.
        """
        own = self._own_report()
        if own is None or not report.is_valid(now.wall_ms):
            return False
        is_own = report.address == own.address and report.recency <= own.recency
        if is_own or report.recency < own.recency:
            return False
        self._min_epoch = max(self._min_epoch, report.leader_epoch)
        self._boot_ms = max(self._boot_ms, report.boot_timestamp_ms) + 1
        self._addresses.unreached.update(self._others)
        return True

    # Responses -----------------------------------------------------------------------------------

    def respond_to(
        self, request: DiscoverBrokersRequest, now: Now, *, may_report: bool
    ) -> DiscoverBrokersResponse:
        """Remember the sender's report, and return the addresses of all members.

        The sender must be a member, and `may_report`: its connection is on a controller listener.
        """
        from kraftlog.wire.messages import discover_brokers as api

        self._update_members()
        core = self._quorum.core
        if core.cluster_id_differs(request.cluster_id):
            error = ErrorCode.INCONSISTENT_CLUSTER_ID
            return api.DiscoverBrokersResponse(
                error_code=error, cluster_id=core.cluster_id, leader_epoch=-1, brokers=()
            )
        if may_report and request.broker_id in self._member_ids:
            sender = request.broker_id, request.host, request.port
            self._remember(
                NodeReport(*sender, request.leader_epoch, request.boot_timestamp_ms), now
            )
        return api.DiscoverBrokersResponse(
            cluster_id=core.cluster_id,
            leader_id=self._quorum.leader_id,
            leader_epoch=core.election.epoch,
            brokers=[
                api.DiscoveredBroker(
                    broker_id=it.node_id,
                    host=it.host,
                    port=it.port,
                    boot_timestamp_ms=it.boot_timestamp_ms,
                    leader_epoch=it.leader_epoch,
                )
                for it in self._reports()
            ],
            node_id=core.me.id,
        )

    def _reports(self) -> Iterator[NodeReport]:
        """Yield the report of each member, or its recorded address if it has not reported."""
        ids: Collection[int] = self._member_ids or self._known_nodes.ids
        for node_id in sorted(ids):
            is_own = node_id == self._quorum.core.me.id
            report = self._own_report() if is_own else self._known_nodes.of(node_id)
            if report is not None:
                yield report
                continue
            address = self._addresses.recorded(node_id)
            if is_own and self._endpoint is not None:
                address = self._endpoint
            if address is not None:
                yield NodeReport(node_id, *address, NOT_REPORTED, NOT_REPORTED)

    # For operators -------------------------------------------------------------------------------

    def _log_waiting(self, now: Now) -> None:
        """Log which servers a node without voters asks; it does not elect itself (R10)."""
        if (
            self._waiting_logged_ms is None
            or now.monotonic_ms >= self._waiting_logged_ms + LOG_INTERVAL_MS
        ):
            self._waiting_logged_ms = now.monotonic_ms
            servers = ", ".join([f"{it[0]}:{it[1]}" for it in self._bootstrap_servers])
            self._emit(
                effects.LogLine(
                    "discovery: this node knows no voters yet and does not elect itself; it asks "
                    f"{servers} (controller.quorum.bootstrap.servers)"
                )
            )

    def _log_moved(self, peer: int, address: Address) -> None:
        """Log a member's address if it is not the last logged one, or at first the recorded one."""
        if address != self._logged_addresses.get(peer, self._addresses.recorded(peer)):
            self._logged_addresses[peer] = address
            self._emit(
                effects.LogLine(
                    f"discovery: controller {peer} listens on {address[0]}:{address[1]}"
                )
            )
