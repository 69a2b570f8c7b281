"""Where the nodes of the quorum are: what the log says, and who knows better than it."""

from __future__ import annotations

from kraftlog.logstate.voters import Endpoint, endpoint_of
from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any

    from kraftlog.config.broker import BrokerConfig
    from kraftlog.raft.core import RaftCore

    Address = tuple[str, int]


class Addresses:
    """A leader that has moved leads before its record can say where it is: its own word of an epoch
    counts most, then what others have heard of it, for as long as it is reached there. The
    settings of a quorum that never changes may be newer than its log: they count before it."""

    def __init__(
        self,
        core: RaftCore,
        known: Mapping[int, Address],
        named: Mapping[int, Address],
        listener: str,
    ) -> None:
        self._core = core
        self._listener = listener
        self._named = named
        #: Of nodes that are no voters here, or of voters without one.
        self._met = dict(known)
        #: Where the leader of an epoch is: (epoch, leader, address), by its word and by others'.
        self._said: tuple[int, int, Address] | None = None
        self._heard: tuple[int, int, Address] | None = None

    def leader_says(self, address: Address) -> None:
        """The leader that is followed now says where it is."""
        election = self._core.election
        self._said = election.epoch, election.leader_id, address

    def learn(self, peer: int, nodes: Iterable[Any], body: Any) -> None:
        """A peer's answer names these nodes, and perhaps the leader that is followed now."""
        election = self._core.election
        for node in nodes:
            if node.node_id == peer:
                continue  # it was reached just now, and may know of itself what its old record says
            address = node.host, node.port
            self._met[node.node_id] = address
            leader = election.epoch, node.node_id
            if leader == (body.epoch, body.leader_id) and node.node_id == election.leader_id:
                self._heard = *leader, address

    def answered_as_leader(self, peer: int, leader: int) -> None:
        """Only the leader serves a fetch: a bootstrap server that did is where the leader is."""
        if peer != leader and peer in self._met:
            self._met[leader] = self._met[peer]

    def unreached(self, peer: int) -> None:
        """Whoever said where this one is may have known less than the log does."""
        if self._heard is not None and self._heard[1] == peer:
            self._heard = None

    def of(self, peer: int) -> Address | None:
        election = self._core.election
        for known in (self._said, self._heard):
            if known is not None and known[:2] == (election.epoch, peer):
                return known[2]
        named = self._named.get(peer)
        if named is not None:
            return named
        voter = self._core.log.voter_set.voter(peer)
        at = endpoint_of(voter.endpoints, self._listener) if voter is not None else None
        if at is not None:
            return at.host, at.port
        return self._met.get(peer)


def named_voters(settings: BrokerConfig) -> dict[int, Endpoint]:
    """Where the voters are that the settings name, and not only as at any port that is free."""
    name = settings.controller_listener_names[0]
    return {it.id: Endpoint(name, it.host, it.port) for it in settings.voters if it.port}


def reached_at(settings: BrokerConfig) -> list[Endpoint]:
    """Where other nodes reach this controller, if it was said. Where it listens may be the name of
    a machine that others know by another: that counts only where the settings name no voters."""
    if settings.voters and not settings.is_given("advertised.listeners"):
        return []
    learn = settings.advertised_controller_listeners
    return [Endpoint(it.name, it.host, it.port) for it in learn if it.port and not it.is_anywhere]
