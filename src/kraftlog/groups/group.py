"""`Group`: the members of a group, its generation, leader and state.

It exists only in memory and is rebuilt from the group's record when a partition is loaded; at the
end of a rebalance, a new record with the assignments is written. The methods keep counts and maps
consistent; `rebalance`, `join` and `members` decide what happens and what clients receive.
"""

from __future__ import annotations

from kraftlog.errors import ErrorCode, ProtocolError
from kraftlog.groups.member import Member, protocol_names
from kraftlog.groups.states import VALID_PREVIOUS_STATES, GroupState
from kraftlog.groups.timers import Timer
from kraftlog.value import TYPE_CHECKING
from kraftlog.wire.codec import decode_request
from kraftlog.wire.messages.consumer_protocol import ConsumerProtocolSubscription

if TYPE_CHECKING:
    from typing import Any

    from kraftlog.groups.member import Protocols
    from kraftlog.types import Now
    from kraftlog.wire.messages.group_records import GroupMetadataValue

#: The protocol type whose member metadata can be decoded.
CONSUMER = "consumer"


class Group:
    """A group; `enter` changes its state, `VALID_PREVIOUS_STATES` has the legal changes."""

    __slots__ = (
        "generation",
        "group_id",
        "initial_remaining_ms",
        "join_timer",
        "joining_count",
        "leader",
        "member_added",
        "members",
        "pending_joins",
        "pending_syncs",
        "previous_state",
        "protocol",
        "protocol_type",
        "state",
        "state_since",
        "static_members",
        "subscribed_topics",
        "supporter_counts",
        "sync_timer",
    )

    def __init__(self, group_id: str, now: Now | None = None) -> None:
        self.group_id = group_id
        self.state = GroupState.EMPTY
        self.previous_state = GroupState.DEAD
        #: Wall time of the last state change; -1: unknown, from an old record.
        self.state_since = now.wall_ms if now is not None else -1
        self.generation = 0
        self.protocol_type: str | None = None
        self.protocol: str | None = None
        self.leader: str | None = None
        self.members: dict[str, Member] = {}
        #: Instance id -> member id.
        self.static_members: dict[str, str] = {}
        #: Member ids that were returned but have not joined yet, and their deadlines.
        self.pending_joins: dict[str, Timer] = {}
        #: Members that have not sent SyncGroup in this generation. A dict, as its order is
        #: deterministic.
        self.pending_syncs: dict[str, None] = {}
        #: Number of members with a pending JoinGroup, and of members that support each protocol.
        self.joining_count = 0
        self.supporter_counts: dict[str, int] = {}
        #: Subscribed topics; None: unknown.
        self.subscribed_topics: frozenset[str] | None = None
        #: How much longer the initial rebalance delay may get; None outside of it.
        self.initial_remaining_ms: int | None = None
        #: Whether a member has joined since the initial rebalance delay began or was last extended.
        self.member_added = False
        self.join_timer: Timer = Timer(_nothing)
        self.sync_timer: Timer = Timer(_nothing)

    # State ---------------------------------------------------------------------------------------

    def enter(self, state: str, now: Now) -> None:
        assert self.state in VALID_PREVIOUS_STATES[state], (
            f"{self.group_id}: {self.state} -> {state}"
        )
        self.previous_state = self.state
        self.state = state
        if GroupState.DEAD not in {self.previous_state, state}:
            # A failed deletion changes nothing: the group is Empty since the same time as before.
            self.state_since = now.wall_ms

    @property
    def can_rebalance(self) -> bool:
        return self.state in VALID_PREVIOUS_STATES[GroupState.PREPARING]

    def next_generation(self, now: Now) -> None:
        """Start a generation: choose a protocol and wait for assignments."""
        self.generation += 1
        self.protocol = self.select_protocol() if self.members else None
        self.subscribed_topics = self.subscriptions()
        self.enter(GroupState.COMPLETING if self.members else GroupState.EMPTY, now)
        self.pending_syncs.clear()

    # Members -------------------------------------------------------------------------------------

    def add(self, member: Member, protocol_type: str | None, pending: object = None) -> None:
        if not self.members:
            self.protocol_type = protocol_type
        if member.instance_id is not None:
            assert member.instance_id not in self.static_members
            self.static_members[member.instance_id] = member.member_id
        if self.leader is None:
            self.leader = member.member_id
        self.members[member.member_id] = member
        self._count(member.protocols, 1)
        self.pending_joins.pop(member.member_id, None)
        if pending is not None:
            self.set_joining(member, pending)

    def remove(self, member_id: str) -> Member | None:
        """Remove a member without pending requests; the oldest member replaces a leader."""
        member = self.members.pop(member_id, None)
        if member is not None:
            assert member.joining is None
            self._count(member.protocols, -1)
            if member.instance_id is not None:
                del self.static_members[member.instance_id]
        if self.leader == member_id:
            self.leader = next(iter(self.members), None)
        self.pending_joins.pop(member_id, None)
        self.pending_syncs.pop(member_id, None)
        return member

    def rename(self, member: Member, member_id: str) -> None:
        """Give a static member a new id; it keeps its position among the members."""
        assert member.instance_id is not None
        old = member.member_id
        self.members = {
            (member_id if key == old else key): value for key, value in self.members.items()
        }
        member.member_id = member_id
        self.static_members[member.instance_id] = member_id
        if self.leader == old:
            self.leader = member_id
        if old in self.pending_syncs:
            del self.pending_syncs[old]
            self.pending_syncs[member_id] = None

    def update(
        self, member: Member, protocols: Protocols, rebalance_ms: int, session_ms: int
    ) -> None:
        self._count(member.protocols, -1)
        member.protocols = protocols
        self._count(protocols, 1)
        member.rebalance_timeout_ms = rebalance_ms
        member.session_timeout_ms = session_ms

    def set_joining(self, member: Member, pending: object) -> Any:
        """Store the response of a pending JoinGroup; return that of an earlier one, if any."""
        earlier, member.joining = member.joining, pending
        self.joining_count += earlier is None
        return earlier

    def take_joining(self, member: Member) -> Any:
        """Remove and return the response of the member's pending JoinGroup, if any."""
        pending, member.joining = member.joining, None
        self.joining_count -= pending is not None
        return pending

    def _count(self, protocols: Protocols, by: int) -> None:
        for name, _ in protocols:
            left = self.supporter_counts.get(name, 0) + by
            if left:
                self.supporter_counts[name] = left
            else:
                del self.supporter_counts[name]

    # Queries -------------------------------------------------------------------------------------

    @property
    def all_joined(self) -> bool:
        return len(self.members) == self.joining_count and not self.pending_joins

    @property
    def rebalance_timeout_ms(self) -> int:
        """The longest rebalance timeout of its members."""
        return max([member.rebalance_timeout_ms for member in self.members.values()], default=0)

    def supports(self, protocol_type: str, protocols: Protocols) -> bool:
        """Whether all members support one of these protocols."""
        if self.state == GroupState.EMPTY:
            return bool(protocol_type and protocols)
        member_count = len(self.members)
        return protocol_type == self.protocol_type and any(
            self.supporter_counts.get(name, 0) == member_count for name in protocol_names(protocols)
        )

    def select_protocol(self) -> str:
        """The protocol with most votes among those that all members support."""
        member_count = len(self.members)
        candidates = {
            name for name, count in self.supporter_counts.items() if count == member_count
        }
        votes: dict[str, int] = {}
        for member in self.members.values():
            vote = member.vote(candidates)
            votes[vote] = votes.get(vote, 0) + 1
        return max(votes, key=votes.__getitem__)

    def elect_leader(self) -> bool:
        """Keep a leader that has joined, or else choose the first joined member; False if none."""
        leader = self.members.get(self.leader or "")
        if leader is not None and leader.joining is not None:
            return True
        for member in self.members.values():
            if member.joining is not None:
                self.leader = member.member_id
                return True
        return False

    def membership_error(self, member_id: str, instance_id: str | None) -> int:
        """The error code for an unknown or fenced member; NONE for a member."""
        if instance_id is not None:
            current_id = self.static_members.get(instance_id)
            if current_id is None:
                return ErrorCode.UNKNOWN_MEMBER_ID
            if current_id != member_id:
                return ErrorCode.FENCED_INSTANCE_ID
        return ErrorCode.NONE if member_id in self.members else ErrorCode.UNKNOWN_MEMBER_ID

    def subscribes_to(self, topic: str) -> bool:
        """Whether members subscribe to the topic; assumed of consumers with unreadable metadata."""
        if self.subscribed_topics is None:
            return self.protocol_type == CONSUMER
        return topic in self.subscribed_topics

    def subscriptions(self) -> frozenset[str] | None:
        """Subscribed topics of the members, if their metadata can be decoded."""
        if self.protocol_type != CONSUMER:
            return None
        topics: set[str] = set()
        # Most members send the same metadata, so each distinct value is decoded once.
        distinct = {member.metadata(self.protocol) for member in self.members.values()}
        try:
            for metadata in distinct:
                topics.update(_topics_of(metadata))
        except ProtocolError:
            return None
        return frozenset(topics)


def group_from_record(group_id: str, value: GroupMetadataValue) -> Group:
    """The group that a record describes: Stable with members, Empty without."""
    group = Group(group_id)
    group.state = GroupState.STABLE if value.members else GroupState.EMPTY
    group.state_since = value.current_state_timestamp
    group.generation = value.generation
    group.protocol_type = value.protocol_type or None
    group.protocol = (value.protocol or "") if value.members else value.protocol
    group.leader = value.leader
    for recorded in value.members:
        rebalance_ms = recorded.rebalance_timeout
        member = Member(
            recorded.member_id,
            recorded.group_instance_id,
            recorded.client_id,
            recorded.client_host,
            recorded.session_timeout if rebalance_ms == -1 else rebalance_ms,
            recorded.session_timeout,
            ((group.protocol or "", recorded.subscription),),
            recorded.assignment,
        )
        group.add(member, group.protocol_type)
    group.subscribed_topics = group.subscriptions()
    return group


def _topics_of(metadata: bytes) -> tuple[str, ...]:
    """Topics of a subscription; every version starts with the fields of version 0."""
    if len(metadata) < 2:
        raise ProtocolError("the subscription is too short: it has no version")
    return tuple(decode_request(ConsumerProtocolSubscription, 0, metadata, 2).topics)


def _nothing(now: Now) -> None:
    """The action of a timer that has none yet."""
