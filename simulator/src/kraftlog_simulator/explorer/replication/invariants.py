"""The invariants of a replicated partition: the properties S1 to S10, and V3.

`check_step` is for two successive states of one broker, `History.with_broker` for a history and a
broker, `check_state` for all brokers, the metadata and a history, `check_shutdown` for a broker
that may stop. S5 is checked where records are acknowledged (`process`), S10 also where a
reassignment completes (`metadata`).
"""

from __future__ import annotations

from kraftlog.metadata.values import NO_LEADER
from kraftlog.value import TYPE_CHECKING, Value
from kraftlog_simulator.explorer.bounds import NAMES
from kraftlog_simulator.explorer.invariants import Broken
from kraftlog_simulator.explorer.replication.log import epoch_of, epochs_text, topic_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kraftlog.metadata.values import PartitionImage
    from kraftlog.types import Uuid
    from kraftlog_simulator.explorer.replication.broker import Broker
    from kraftlog_simulator.explorer.replication.metadata import Metadata


class History(Value):
    """How often events may still happen, and the committed batches, which must not be lost."""

    #: How often each kind of event may still happen.
    remaining: tuple[int, ...]
    #: For each topic the longest log that was ever committed.
    committed: tuple[tuple[Uuid, tuple[bytes, ...]], ...] = ()
    #: The topic and epoch of the last unclean election: batches committed before may be lost.
    unclean: tuple[Uuid, int] | None = None
    #: The invariant that does not hold, and why.
    broken: tuple[str, str] | None = None

    def committed_of(self, topic_id: Uuid) -> tuple[bytes, ...]:
        return dict(self.committed).get(topic_id, ())

    def _with_committed(self, topic_id: Uuid, batches: tuple[bytes, ...]) -> History:
        committed = tuple(sorted({**dict(self.committed), topic_id: batches}.items()))
        return self.replace(committed=committed)

    def with_broker(self, broker: Broker) -> History:
        """Add the batches that a broker reports as committed (S4, S7)."""
        partition = broker.partition
        if partition is None:
            return self
        topic_id = partition.topic_id
        if (
            self.unclean is not None
            and self.unclean[0] == topic_id
            and not (partition.leads and partition.leader_epoch >= self.unclean[1])
        ):
            return self
        reported, before = broker.known_committed, self.committed_of(topic_id)
        shorter = min(len(reported), len(before))
        if reported[:shorter] != before[:shorter]:
            detail = f"{_serves(broker, reported)}, committed was {epochs_text(before)}"
            return self.replace(broken=("what is committed never changes", detail))
        if len(reported) <= len(before):
            return self
        if not partition.leads:
            detail = f"{_serves(broker, reported)}, committed is {epochs_text(before)}"
            return self.replace(broken=("a follower serves only what is committed", detail))
        return self._with_committed(topic_id, reported)

    def with_unclean_election(self, topic_id: Uuid, epoch: int) -> History:
        """From now on, only what the elected leader and later ones commit counts."""
        return self._with_committed(topic_id, ()).replace(unclean=(topic_id, epoch))


def _serves(broker: Broker, batches: Sequence[bytes]) -> str:
    return f"{NAMES[broker.id]} serves {epochs_text(batches)}"


def check_step(old: Broker, new: Broker, *, may_lose: bool = False) -> None:
    """Epochs grow (S8), and the high watermark does not fall (S7), until a process ends.

    A log never has records of two topics of the same name (S9). `may_lose`: an unclean election may
    lose records, so that the high watermark falls.
    """
    name, before, after = NAMES[new.id], old.partition, new.partition
    if any(topic_of(batch) != new.log.topic_id for batch in new.log.batches):
        raise Broken(
            "a topic has only its own records", f"{name} has {epochs_text(new.log.batches)}"
        )
    if before is None or after is None or before.topic_id != after.topic_id:
        return
    if after.leader_epoch < before.leader_epoch or after.partition_epoch < before.partition_epoch:
        raise Broken(
            "epochs grow",
            f"{name} had leader epoch {before.leader_epoch}, partition epoch "
            f"{before.partition_epoch}, has {after.leader_epoch} and {after.partition_epoch}",
        )
    if after.high_watermark < before.high_watermark and not may_lose:
        raise Broken(
            "the high watermark never falls",
            f"{name} served up to {before.high_watermark}, serves up to {after.high_watermark}",
        )
    if after.high_watermark > new.log.end:
        raise Broken(
            "what is committed is in the log",
            f"{name} serves up to {after.high_watermark}, its log ends at {new.log.end}",
        )


def check_state(brokers: Sequence[Broker], metadata: Metadata, history: History) -> None:
    if history.broken is not None:
        raise Broken(*history.broken)
    if metadata.partition is not None:
        _check_isr(metadata, metadata.partition)
        _check_members(brokers, metadata.partition, history)
    for broker in brokers:
        _check_leader(broker, metadata)
        _check_assigned(broker, metadata)
    _check_matching(brokers)


def check_shutdown(
    broker_id: int, before: Metadata, after: Metadata, replayed: Mapping[int, int]
) -> None:
    """A broker stops once others lead its partitions, and all know it, or once it is fenced (V3).

    `replayed` has the number of metadata batches that each other broker has replayed.
    """
    partition, name = after.partition, NAMES[broker_id]
    if partition is not None and partition.leader == broker_id:
        raise Broken("a broker that stops leads nothing", f"{name} leads")
    needed = 0 if before.brokers[broker_id].fenced else before.leaving.get(broker_id, 0)
    for other, count in replayed.items():
        registration = after.brokers.get(other)
        if registration is not None and registration.active and count < needed:
            raise Broken(
                "a broker stops when all others know the new leader",
                f"{NAMES[other]} has replayed {count} of {needed} before {name} stops",
            )


def _check_isr(metadata: Metadata, partition: PartitionImage) -> None:
    """The members of the ISR are unfenced replicas, the leader among them (S2).

    Without a leader, the ISR has one fenced member or, if there is an ELR, none.
    """
    isr, brokers = partition.isr, metadata.brokers
    active = [broker for broker in isr if broker in brokers and brokers[broker].active]
    if partition.leader != NO_LEADER:
        is_sound = partition.leader in isr and len(active) == len(isr)
    elif isr:
        is_sound = len(isr) == 1 and not active
    else:
        is_sound = bool(partition.elr or partition.last_known_elr)
    if not is_sound or not {*isr} <= {*partition.replicas}:
        raise Broken("the ISR is sound", f"leader {partition.leader}, ISR {isr}")


def _check_leader(broker: Broker, metadata: Metadata) -> None:
    partition = broker.partition
    if partition is None or not partition.leads:
        return
    name, topic_id, epoch = NAMES[broker.id], partition.topic_id, partition.leader_epoch
    elected = metadata.elected.get((topic_id, epoch))
    if elected != broker.id:
        raise Broken(
            "one leader an epoch", f"{name} leads epoch {epoch}, for which {elected} was elected"
        )
    current = metadata.partition
    if (
        current is not None
        and (topic_id, epoch) == (current.topic_id, current.leader_epoch)
        and not {*current.isr} <= {*partition.maximal_isr}
    ):
        raise Broken(
            "the leader counts the ISR",
            f"{name} counts {partition.maximal_isr}, the ISR is {current.isr}",
        )


def _check_members(brokers: Sequence[Broker], partition: PartitionImage, history: History) -> None:
    """Every member of the ISR, and so every later leader, has all committed batches (S1, S4).

    A broker that has lost records remains a member until it registers again.
    """
    committed = history.committed_of(partition.topic_id)
    for broker in brokers:
        is_member = broker.id in partition.isr or broker.id in partition.elr
        log = broker.log.of(partition.topic_id)
        if is_member and not broker.lost_records and log[: len(committed)] != committed:
            raise Broken(
                "every member of the ISR has what is committed",
                f"{NAMES[broker.id]} has {epochs_text(log)}, committed is {epochs_text(committed)}",
            )


def _check_assigned(broker: Broker, metadata: Metadata) -> None:
    """A broker that knows that it no longer has a replica has no log of the partition (S9, S10)."""
    if broker.process is None or broker.process.replayed < len(metadata.batches):
        return
    partition = metadata.partition
    is_assigned = partition is not None and broker.id in partition.replicas
    if not is_assigned and (broker.partition is not None or broker.log.batches):
        raise Broken(
            "a replica that is not assigned is deleted",
            f"{NAMES[broker.id]} has {epochs_text(broker.log.batches)}",
        )


def _check_matching(brokers: Sequence[Broker]) -> None:
    """Logs that have a batch in common are the same up to it (S6)."""
    for number, first in enumerate(brokers):
        for second in brokers[:number]:
            if first.log.topic_id != second.log.topic_id:
                continue
            logs = first.log.batches, second.log.batches
            shorter = min(map(len, logs))
            for offset in range(shorter - 1, -1, -1):
                if epoch_of(logs[0][offset]) == epoch_of(logs[1][offset]):
                    if logs[0][: offset + 1] != logs[1][: offset + 1]:
                        raise Broken(
                            "logs with a batch in common are the same up to it",
                            f"{NAMES[first.id]} {epochs_text(logs[0])}, "
                            f"{NAMES[second.id]} {epochs_text(logs[1])}",
                        )
                    break
