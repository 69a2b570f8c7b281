"""`Addresses`: the addresses of quorum nodes, from the voters record and newer sources."""

from __future__ import annotations

from kraftlog.logstate.voters import Endpoint, endpoint_of
from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any

    from kraftlog.config.broker import BrokerConfig
    from kraftlog.node.quorum.known_nodes import KnownNodes
    from kraftlog.raft.core import RaftCore

    Address = tuple[str, int]


class Addresses:
    """Finds the address of a quorum node.

    A leader whose address has changed leads before its voters record is updated. So the order of
    sources is: the BeginQuorumEpoch request of this epoch's leader; the responses of peers, while
    the leader is reachable there; the report of the node's last start (R9); static voters of the
    settings; the voters record; at last the bootstrap servers and older responses. An address that
    works is kept. If the reported address fails, it and the others are tried in turn, so a false
    report costs one attempt.
    """

    def __init__(
        self,
        core: RaftCore,
        known_nodes: KnownNodes,
        bootstrap_addresses: Mapping[int, Address],
        static_addresses: Mapping[int, Address],
        listener: str,
    ) -> None:
        self._core = core
        self._known_nodes = known_nodes
        self._listener = listener
        self._static_addresses = static_addresses
        #: Addresses of bootstrap servers, and from responses of peers; the last resort.
        self._discovered = dict(bootstrap_addresses)
        #: (epoch, leader, address), as reported by the leader itself and by peers.
        self._leader_report: tuple[int, int, Address] | None = None
        self._peer_report: tuple[int, int, Address] | None = None
        #: By peer: the address of the last request, and the one that works.
        self._used: dict[int, Address | None] = {}
        self._working: dict[int, Address | None] = {}
        #: By peer: the address that failed last, since the peer's last report; the one after it is
        #: tried next.
        self._failed: dict[int, Address | None] = {}
        #: The peers whose connection is unknown or broken; `Discovery` asks for them.
        self.unreached: set[int] = set()

    def leader_reported(self, address: Address) -> None:
        """Note the address that the current leader reports of itself: it is the next to use."""
        election = self._core.election
        report = election.epoch, election.leader_id, address
        if report != self._leader_report:
            self._leader_report = report
            self._working.pop(election.leader_id, None)
            self._failed.pop(election.leader_id, None)

    def learn(self, peer: int, nodes: Iterable[Any], body: Any) -> None:
        """Note the node endpoints in a peer's response; the current leader may be among them."""
        election = self._core.election
        for node in nodes:
            if node.node_id == peer:
                continue  # its address has just worked, and its own record may be outdated
            address = node.host, node.port
            self._discovered[node.node_id] = address
            leader = election.epoch, node.node_id
            if leader == (body.epoch, body.leader_id) and node.node_id == election.leader_id:
                self._peer_report = *leader, address

    def served_as_leader(self, peer: int, leader: int) -> None:
        """Note the address of a bootstrap server that served a fetch: only the leader does."""
        if peer != leader and peer in self._discovered:
            self._discovered[leader] = self._discovered[peer]

    def moved(self, peer: int) -> None:
        """A peer has a new report: its address is the next to use, unless another works."""
        self._failed.pop(peer, None)
        if peer not in self._working:
            self.unreached.add(peer)

    def works(self, peer: int, address: Address | None) -> None:
        """A peer has been reached at this address."""
        self._working[peer] = address
        self.unreached.discard(peer)

    def answered(self, peer: int) -> None:
        """A peer has served the last request, so the address of that request works."""
        if self._used.get(peer) is not None:
            self._working[peer] = self._used[peer]

    def unreachable(self, peer: int) -> None:
        """Try another address next.

        The address that peers reported is dropped, as it may be older than the one in the log.
        """
        if self._peer_report is not None and self._peer_report[1] == peer:
            self._peer_report = None
        if self._working.pop(peer, None) is None:
            self._failed[peer] = self._used.get(peer)
        else:
            self._failed.pop(peer, None)
        if peer >= 0:
            self.unreached.add(peer)

    def use(self, peer: int) -> Address | None:
        """The address for a request; `answered` or `unreachable` reports its outcome."""
        self._used[peer] = address = self.of(peer)
        return address

    def last_used(self, peer: int) -> Address | None:
        """The address of the last request to a peer."""
        return self._used.get(peer)

    def of(self, peer: int) -> Address | None:
        """The address to use next."""
        leader = self._core.election.epoch, peer
        by_itself, by_peers = [
            [report[2]] if report is not None and report[:2] == leader else []
            for report in (self._leader_report, self._peer_report)
        ]
        if by_peers and not by_itself:
            return by_peers[0]  # until it fails
        candidates = [*dict.fromkeys([*by_itself, *by_peers, *self.candidates(peer)])]
        if len(candidates) <= 1:
            return candidates[0] if candidates else None
        working = self._working.get(peer)
        if working in candidates:
            return working
        failed = self._failed.get(peer)
        index = candidates.index(failed) + 1 if failed in candidates else 0
        return candidates[index % len(candidates)]

    def candidates(self, peer: int) -> list[Address]:
        """A peer's reported and recorded address; a report that it made itself comes first."""
        report = self._known_nodes.of(peer)
        recorded = self.recorded(peer)
        addresses = [] if report is None else [report.address]
        if recorded is not None and recorded not in addresses:
            addresses.append(recorded)
        return addresses if report is None or report.is_self_reported else addresses[::-1]

    def recorded(self, peer: int) -> Address | None:
        """The address from the settings, the voters record, or responses of peers."""
        named = self._static_addresses.get(peer)
        if named is not None:
            return named
        voter = self._core.log.voter_set.voter(peer)
        endpoint = endpoint_of(voter.endpoints, self._listener) if voter is not None else None
        if endpoint is not None:
            return endpoint.host, endpoint.port
        return self._discovered.get(peer)


def named_voters(settings: BrokerConfig) -> dict[int, Endpoint]:
    """The endpoints of the static voters with a fixed port."""
    name = settings.controller_listener_names[0]
    return {it.id: Endpoint(name, it.host, it.port) for it in settings.voters if it.port}


def advertised_endpoints(settings: BrokerConfig) -> list[Endpoint]:
    """The endpoints that this controller advertises.

    If controller.quorum.voters names an address of this node, only advertised.listeners count: the
    host in `listeners` may be unknown to other machines.
    """
    if settings.own_voter is not None and not settings.is_given("advertised.listeners"):
        return []
    listeners = settings.advertised_controller_listeners
    return [
        Endpoint(it.name, it.host, it.port) for it in listeners if it.port and not it.is_wildcard
    ]
