"""Voter sets, and which one is in force at each offset of a log (R1).

A set is in force as soon as its record is in the log, committed or not. If the record is truncated,
the previous set is in force again.
"""

from __future__ import annotations

from kraftlog.types import NULL_UUID, Uuid
from kraftlog.value import TYPE_CHECKING, Value

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Protocol, TypeVar

    class NamedEndpoint(Protocol):
        """An endpoint of a wire message, or an `Endpoint`."""

        @property
        def name(self) -> str: ...

    E = TypeVar("E", bound=NamedEndpoint)


class ReplicaKey(Value):
    """A replica is its id and its directory id: a wiped disk makes it another replica."""

    id: int
    directory_id: Uuid = NULL_UUID

    def __hash__(self) -> int:
        return hash((self.id, self.directory_id))


class Endpoint(Value):
    name: str
    host: str
    port: int


class Voter(Value):
    """One voter; with a null directory id, which means unknown, its id alone identifies it."""

    key: ReplicaKey
    endpoints: tuple[Endpoint, ...] = ()
    min_version: int = 0
    max_version: int = 1


#: How many removed voters are remembered.
MAX_REMOVED = 100


class VoterSet(Value):
    """The voters by ascending id, the target ids of a reassignment, and the cluster id.

    `removed` are former voters, which do not join by themselves again (R12): the newest last.
    `targets`, `cluster_id` and `removed` are kraftlog's tagged fields of VotersRecord; a configured
    set has none of them.
    """

    voters: tuple[Voter, ...] = ()
    targets: tuple[int, ...] | None = None
    cluster_id: str | None = None
    removed: tuple[ReplicaKey, ...] = ()

    @property
    def ids(self) -> tuple[int, ...]:
        return tuple([voter.key.id for voter in self.voters])

    @property
    def majority(self) -> int:
        return len(self.voters) // 2 + 1

    @property
    def is_recorded(self) -> bool:
        """Whether these voters are from a record; configured ones have no directory ids."""
        return self.cluster_id is not None or any(any(v.key.directory_id) for v in self.voters)

    @property
    def kraft_version(self) -> int:
        """The level of kraft.version: 1 once all voters support it with recorded directory ids."""
        supports_level_1 = [any(v.key.directory_id) and v.max_version >= 1 for v in self.voters]
        return int(bool(supports_level_1) and all(supports_level_1))

    def voter(self, replica_id: int) -> Voter | None:
        for voter in self.voters:
            if voter.key.id == replica_id:
                return voter
        return None

    def holds(self, key: ReplicaKey) -> bool:
        """Whether this replica is a voter; an unknown directory id matches any."""
        voter = self.voter(key.id)
        if voter is None:
            return False
        known, given = voter.key.directory_id, key.directory_id
        return known == given or known == NULL_UUID or given == NULL_UUID  # noqa: PLR1714 - called often

    def with_voter(self, added: Voter) -> VoterSet:
        others = [voter for voter in self.voters if voter.key.id != added.key.id]
        ordered = sorted([*others, added], key=lambda voter: voter.key.id)
        removed = tuple([key for key in self.removed if key != added.key])
        return self.replace(voters=tuple(ordered), removed=removed)

    def with_directory(self, key: ReplicaKey) -> VoterSet:
        """The same voters, with this directory id unless the voter has one already."""
        voter = self.voter(key.id)
        if voter is None or voter.key.directory_id != NULL_UUID:
            return self
        return self.with_voter(voter.replace(key=key))

    def without_voter(self, replica_id: int) -> VoterSet:
        kept = [voter for voter in self.voters if voter.key.id != replica_id]
        removed_now = [voter.key for voter in self.voters if voter.key.id == replica_id]
        removed = (*self.removed, *removed_now)[-MAX_REMOVED:]
        return self.replace(voters=tuple(kept), removed=removed)


def endpoint_of(endpoints: Sequence[E], listener: str) -> E | None:
    """The endpoint of a listener, ignoring case; otherwise the first one, or None."""
    for each in endpoints:
        if each.name.upper() == listener.upper():
            return each
    return endpoints[0] if endpoints else None


def voters_by_id(*ids: int) -> VoterSet:
    """Voters with ids only."""
    return VoterSet(tuple([Voter(ReplicaKey(voter_id)) for voter_id in sorted(ids)]))


class VoterHistory:
    """The voter sets of a log: the base set, and later sets by the offset of their records."""

    __slots__ = ("base", "entries")

    def __init__(self, base: VoterSet, entries: tuple[tuple[int, VoterSet], ...] = ()) -> None:
        self.base = base
        self.entries = entries

    @property
    def latest(self) -> VoterSet:
        """The set in force."""
        return self.entries[-1][1] if self.entries else self.base

    @property
    def latest_offset(self) -> int:
        """The offset of the set in force, or -1 if it is the base."""
        return self.entries[-1][0] if self.entries else -1

    @property
    def members_since(self) -> int:
        """The offset since which the voters are unchanged, or -1 if the base set already has them.

        Their endpoints and versions count, too. Later records may have changed the targets.
        """
        since, members = -1, self.latest.voters
        for offset, voters in reversed(self.entries):
            if voters.voters != members:
                return since
            since = offset
        return -1 if self.base.voters == members else since

    @property
    def before_latest(self) -> VoterSet:
        """The newest set with other voters, endpoints or versions than the one in force.

        If no record has such a set: the base, or the set in force if the first voters record is at
        offset 0, because the base is then only configuration.
        """
        members = self.latest.voters
        for _, voters in reversed(self.entries):
            if voters.voters != members:
                return voters
        return self.latest if self.entries and self.entries[0][0] == 0 else self.base

    def has_removed(self, key: ReplicaKey) -> bool:
        """Whether this replica, with this directory, was a voter and no longer is.

        A leader of Apache Kafka does not record which voters it removes. An earlier set shows it,
        as long as the log has one with that voter.
        """
        return key in self.latest.removed or key in self._former_voters()

    def with_removed(self, voters: VoterSet) -> VoterSet:
        """`voters`, the next set, with `removed` completed.

        A Kafka leader does not record which voters it removed.
        """
        listed = (*voters.removed, *[voter.key for voter in voters.voters])
        missing = [key for key in self._former_voters() if key not in listed]
        if not missing:
            return voters
        return voters.replace(removed=(*missing, *voters.removed)[-MAX_REMOVED:])

    def _former_voters(self) -> list[ReplicaKey]:
        """The voters of earlier sets, and their removed ones, that the latest set does not hold.

        Only those with a known directory id.
        """
        sets = [voters for _, voters in self.entries]
        if not self.entries or self.entries[0][0] > 0:  # else the base is only configuration
            sets.insert(0, self.base)
        keys = [
            key
            for voters in sets
            for key in (*voters.removed, *[voter.key for voter in voters.voters])
            if key.directory_id != NULL_UUID and not self.latest.holds(key)
        ]
        return list(dict.fromkeys(keys))

    def append(self, offset: int, voters: VoterSet) -> None:
        assert offset > self.latest_offset, "voter sets come in the order of the log"
        self.entries = (*self.entries, (offset, voters))

    def truncate(self, end: int) -> bool:
        """The log now ends at `end`; return whether that changes the set in force."""
        kept = tuple([entry for entry in self.entries if entry[0] < end])
        changed = len(kept) < len(self.entries)
        self.entries = kept
        return changed

    def committed(self, high_watermark: int) -> VoterSet:
        """The newest set whose record is committed, or the base."""
        for offset, voters in reversed(self.entries):
            if offset < high_watermark:
                return voters
        return self.base

    def trim(self, start: int) -> None:
        """The log now starts at `start`; make the set in force before that offset the base."""
        for offset, voters in self.entries:
            if offset < start:
                self.base = voters
        self.entries = tuple([entry for entry in self.entries if entry[0] >= start])

    def copy(self) -> VoterHistory:
        return VoterHistory(self.base, self.entries)
