"""Builds the record of a partition change: leader, ISR, ELR, reassignment and epochs.

Every change of a partition's leader, ISR or replicas goes through here, so the rules are in one
place:
 - a leader comes from the ISR, or from the eligible leader replicas (ELR) while the ISR is empty;
   an unclean leader only where that is allowed, and it is marked as recovering (V2);
 - of several replicas that may lead, one whose directory can be written at present (V18);
 - a new leader or a removed replica bumps the leader epoch; a changed ISR alone does not;
 - any change bumps the partition epoch; without a change there is no record;
 - a reassignment is complete when all added replicas are in sync (V10).
"""

from __future__ import annotations

from kraftlog.metadata.replay import SAME_LEADER
from kraftlog.metadata.values import NO_LEADER, RECOVERING, DirectoryId
from kraftlog.value import TYPE_CHECKING, Value
from kraftlog.wire.messages.metadata_records import PartitionChangeRecord

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

    from kraftlog.controller.state import ControllerState
    from kraftlog.metadata.values import BrokerImage, PartitionImage
    from kraftlog.types import Uuid


class Election:
    """Kinds of elections."""

    #: The preferred replica if it can lead, else as ONLINE.
    PREFERRED = 0
    #: The present leader if it can lead, else the first replica that can.
    ONLINE = 1
    #: As ONLINE; otherwise a live replica, which may lose records.
    UNCLEAN = 2


class PartitionTarget(Value):
    """The requested change of a partition; None leaves a field unchanged."""

    isr: tuple[int, ...] | None = None
    replicas: tuple[int, ...] | None = None
    adding: tuple[int, ...] | None = None
    removing: tuple[int, ...] | None = None
    recovery: int | None = None
    #: Pairs of a broker and the directory of its replica.
    directories: tuple[tuple[int, bytes], ...] = ()
    #: Replicas after an unclean shutdown, which are not eligible.
    unclean: frozenset[int] = frozenset()
    #: A kind of `Election`; None: ONLINE, or UNCLEAN if the topic allows it.
    election: int | None = None
    #: The min.insync.replicas that the same decision sets.
    min_isr: int | None = None


class _Change:
    """A change in progress: the future fields of the partition."""

    def __init__(
        self,
        state: ControllerState,
        before: PartitionImage,
        wanted: PartitionTarget,
        is_alive: Callable[[int], bool],
        changed: BrokerImage | None = None,
    ) -> None:
        def or_before(new: tuple[int, ...] | None, before: tuple[int, ...]) -> tuple[int, ...]:
            return before if new is None else new

        self.state = state
        self.before = before
        self.wanted = wanted
        self.is_alive = is_alive
        #: A broker whose change is proposed along with this one.
        self.changed = changed
        self.isr = or_before(wanted.isr, before.isr)
        self.replicas = or_before(wanted.replicas, before.replicas)
        self.adding = or_before(wanted.adding, before.adding)
        self.removing = or_before(wanted.removing, before.removing)
        self.elr = before.elr
        self.recovery = before.recovery if wanted.recovery is None else wanted.recovery
        self.leader = SAME_LEADER
        self.is_leader_unclean = False
        #: The new leader, if it has lost its log.
        self.lost_leader: int | None = None
        self.elr_enabled = state.elr_enabled
        self.min_isr = state.min_isr(before) if wanted.min_isr is None else wanted.min_isr

    # Reassignment --------------------------------------------------------------------------------

    def complete_reassignment(self) -> None:
        """Complete a reassignment when all added replicas are in sync.

        If fewer are added than removed, all remaining replicas must be in sync.
        """
        if not self.adding and not self.removing:
            return
        isr = without(self.isr, self.removing)
        replicas = without(self.replicas, self.removing)
        needed = replicas if len(self.adding) < len(self.removing) else self.adding
        if isr and replicas and set(needed) <= set(isr):
            self.isr, self.replicas, self.adding, self.removing = isr, replicas, (), ()

    # Eligible replicas ---------------------------------------------------------------------------

    def update_elr(self) -> None:
        """While the ISR is below the minimum, keep replicas that leave it as eligible leaders."""
        if not self.elr_enabled or len(self.isr) >= self.min_isr:
            self.elr = ()
            return
        candidates = sorted({*self.before.elr, *self.before.isr})
        self.elr = tuple(
            broker
            for broker in candidates
            if broker in self.replicas and broker not in self.isr
            if broker not in self.wanted.unclean
        )

    # Election ------------------------------------------------------------------------------------

    def can_lead(self, broker: int) -> bool:
        """Whether a broker is alive, and the recorded directory of its replica is online (V19)."""
        registered = self.state.brokers.get(broker)
        if registered is None or not self.is_alive(broker):
            return False
        return registered.online(self._directory(broker))

    def can_write(self, broker: int) -> bool:
        """Whether a replica's directory can be written: else a leader only serves readers."""
        is_changed = self.changed is not None and self.changed.id == broker
        registered = self.changed if is_changed else self.state.brokers.get(broker)
        return registered is None or registered.writable(self._directory(broker))

    def elect(self) -> None:
        elected = self._elected()
        if elected != self.before.leader:
            self.leader = elected
            self._leave_fenced(elected)
        if self.is_leader_unclean:
            # From now on, only the records of the new leader count.
            self.isr, self.elr, self.recovery = (elected,), (), RECOVERING
        elif elected in self.elr and elected not in self.isr:
            self.isr, self.elr = (elected,), without(self.elr, (elected,))
            if self.min_isr == 1:
                self.elr = ()  # from now on, the leader commits records that they do not have
        if self.isr == (elected,):
            # It may be the replica that a reassignment waits for, and no other change may follow.
            self.complete_reassignment()
            self.elr = tuple(broker for broker in self.elr if broker in self.replicas)

    def _leave_fenced(self, elected: int) -> None:
        """A first leader begins without members of the ISR that are fenced: it would wait for them.

        There are such members where eligible replicas became the ISR (V21): all have what counts.
        """
        if self.before.leader == NO_LEADER and elected in self.isr:
            isr = tuple([each for each in self.isr if each == elected or self.is_alive(each)])
            if isr != self.isr:
                self.isr = isr
                self.update_elr()

    def _elected(self) -> int:
        preferred = self.wanted.election == Election.PREFERRED
        order = list(self.replicas)
        order.insert(1 if preferred else 0, self.before.leader)
        leaders = [each for each in order if self._is_eligible(each) and self.can_lead(each)]
        if leaders:
            return next(filter(self.can_write, leaders), leaders[0])
        # A preferred leader election must never lose records.
        unclean_leader = None if preferred else self._unclean_leader()
        if unclean_leader is None:
            return NO_LEADER
        self.is_leader_unclean = True
        return unclean_leader

    def _unclean_leader(self) -> int | None:
        """The last known leader, or where losses are accepted, any replica that is alive.

        Replicas that have lost their logs, or may have, come last, and only if an operator requests
        it: one of them may have kept all (V19).
        """
        leader = self._last_leader()
        if leader is None and self._may_be_unclean():
            leader = next(filter(self.can_lead, self.replicas), None)
        if leader is None and self.wanted.election == Election.UNCLEAN:
            order = (*self.before.last_known_elr, *self.isr, *self.replicas)
            leader = self.lost_leader = next(filter(self._is_lost_and_alive, order), None)
        return leader

    def _is_lost_and_alive(self, broker: int) -> bool:
        """Whether a live replica is in a directory that it no longer has; not if it has failed."""
        directory = self._directory(broker)
        registered = self.state.brokers.get(broker)
        if registered is None or directory == DirectoryId.FAILED or not self.is_alive(broker):
            return False
        return broker in self.replicas and not registered.online(directory)

    def _directory(self, broker: int) -> Uuid:
        return dict(self.wanted.directories).get(broker) or self.before.directory(broker)

    def _may_be_unclean(self) -> bool:
        if self.wanted.election is None:
            return self.state.allows_unclean_election(self.before)
        return self.wanted.election == Election.UNCLEAN

    def _is_eligible(self, broker: int) -> bool:
        return broker in self.isr or (not self.isr and broker in self.elr)

    def _last_leader(self) -> int | None:
        """The last known leader, if it can lead and no replica is eligible (KIP-966)."""
        if not self.elr_enabled or self.isr or self.elr or len(self.before.last_known_elr) != 1:
            return None
        last = self.before.last_known_elr[0]
        return last if self.can_lead(last) else None

    def last_known_elr(self) -> tuple[int, ...]:
        """The last known leader of a partition that has no leader.

        If it had none before, nor a last known one: the last replica that leaves ISR and ELR (V21).
        """
        before = self.before
        will_lead = before.leader if self.leader == SAME_LEADER else self.leader
        if not self.elr_enabled or will_lead != NO_LEADER:
            return ()
        if before.leader != NO_LEADER:
            return (before.leader,)
        if before.last_known_elr or self.isr or self.elr:
            return before.last_known_elr
        last = [broker for broker in (*before.isr, *before.elr) if broker in self.replicas]
        return tuple(last[:1])

    # The record ----------------------------------------------------------------------------------

    def directories(self) -> tuple[Uuid, ...]:
        """Directories of the replicas; a new one gets its broker's only directory, or none yet.

        So does a leader that has lost its log: it has the log that counts from now on.
        """
        is_same = self.replicas == self.before.replicas and not self.wanted.directories
        if is_same and self.lost_leader is None:
            return self.before.directories
        known = dict(zip(self.before.replicas, self.before.directories, strict=False))
        known.update(self.wanted.directories)
        if self.lost_leader is not None:
            known.pop(self.lost_leader, None)
        return tuple(
            known[broker] if broker in known else default_directory(self.state, broker)
            for broker in self.replicas
        )

    def fields(self) -> dict[str, Any]:
        """The fields of the record that differ; empty if none does."""
        before = self.before
        if self.leader == SAME_LEADER and not set(before.replicas) <= set(self.replicas):
            # A removed replica must not continue: the leader epoch fences it.
            self.leader = before.leader
        isr = self.isr if self.isr or self.elr_enabled else before.isr
        changes: dict[str, Any] = {
            name: now
            for name, now, was in (
                ("isr", isr, before.isr),
                ("leader", self.leader, SAME_LEADER),
                ("replicas", self.replicas, before.replicas),
                ("removing_replicas", self.removing, before.removing),
                ("adding_replicas", self.adding, before.adding),
                ("leader_recovery_state", self.recovery, before.recovery),
                ("directories", self.directories(), before.directories),
                ("eligible_leader_replicas", self.elr, before.elr),
                ("last_known_elr", self.last_known_elr(), before.last_known_elr),
            )
            if now != was
        }
        return changes


class PartitionChanges:
    """Builds the records of one decision about many partitions.

    Partitions of a topic that are alike change alike, so each case is decided once: its key has all
    that a change depends on. `alive` replaces the check that a broker is active. `changed` is a
    broker as the decision changes it.
    """

    def __init__(
        self,
        state: ControllerState,
        alive: Callable[[int], bool] | None = None,
        changed: BrokerImage | None = None,
    ) -> None:
        self._state = state
        self._alive = alive
        self._changed = changed
        self._decided: dict[tuple[Any, ...], dict[str, Any]] = {}

    def record(
        self, before: PartitionImage, wanted: PartitionTarget
    ) -> PartitionChangeRecord | None:
        """The record of a change, if any; `wanted` may depend on the fields in `alike` alone."""
        alike = (
            before.topic_id,
            before.replicas,
            before.isr,
            before.leader,
            before.elr,
            before.directories,
            before.last_known_elr,
            before.adding,
            before.removing,
            before.recovery,
            wanted.isr,
        )
        fields = self._decided.get(alike)
        if fields is None:
            fields = _fields(self._state, before, wanted, self._alive, self._changed)
            self._decided[alike] = fields
        if not fields:
            return None
        return PartitionChangeRecord(partition_id=before.index, topic_id=before.topic_id, **fields)


def partition_change(
    state: ControllerState,
    before: PartitionImage,
    wanted: PartitionTarget,
    alive: Callable[[int], bool] | None = None,
) -> PartitionChangeRecord | None:
    """The record of a change, if any; `alive` replaces the check that a broker is active."""
    fields = _fields(state, before, wanted, alive)
    if not fields:
        return None
    return PartitionChangeRecord(partition_id=before.index, topic_id=before.topic_id, **fields)


def _fields(
    state: ControllerState,
    before: PartitionImage,
    wanted: PartitionTarget,
    alive: Callable[[int], bool] | None,
    changed: BrokerImage | None = None,
) -> dict[str, Any]:
    change = _Change(state, before, wanted, alive or state.active, changed)
    change.complete_reassignment()
    change.update_elr()
    change.elect()
    return change.fields()


def default_directory(state: ControllerState, broker_id: int) -> Uuid:
    """The directory of a new replica on a broker, if it is determined."""
    broker = state.brokers.get(broker_id)
    if broker is None:
        return DirectoryId.UNASSIGNED
    if not broker.directories:
        return DirectoryId.MIGRATING
    return broker.directories[0] if len(broker.directories) == 1 else DirectoryId.UNASSIGNED


def without(brokers: Iterable[int], removed: Iterable[int]) -> tuple[int, ...]:
    removed = set(removed)
    return tuple(broker for broker in brokers if broker not in removed)
