"""The invariants of a replicated partition, by the properties S1 to S8.

`check_step` is for two successive states of one broker, `History.with_broker` for a history and a
broker, `check_state` for all brokers, the metadata and a history.
"""

from __future__ import annotations

from kraftlog.metadata.values import NO_LEADER
from kraftlog.simulator.explorer.bounds import NAMES
from kraftlog.simulator.explorer.invariants import Broken
from kraftlog.simulator.explorer.replication.log import epoch_of, shown
from kraftlog.value import TYPE_CHECKING, Value

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kraftlog.simulator.explorer.replication.broker import Broker
    from kraftlog.simulator.explorer.replication.metadata import Metadata


class History(Value):
    """What may still happen, and what must not be forgotten."""

    #: How often each kind of event may still happen.
    left: tuple[int, ...]
    #: The longest log that was ever committed.
    committed: tuple[bytes, ...] = ()
    #: The epoch of the last unclean election: what former leaders have committed counts no more.
    unclean_epoch: int = 0
    #: The invariant that does not hold, and why.
    broken: tuple[str, str] | None = None

    def with_broker(self, broker: Broker) -> History:
        """Add the batches that a broker reports as committed (S4, S7)."""
        partition = broker.partition
        if partition is None or (
            self.unclean_epoch
            and not (partition.leads and partition.leader_epoch >= self.unclean_epoch)
        ):
            return self
        believed, known = broker.known_committed, self.committed
        shorter = min(len(believed), len(known))
        if believed[:shorter] != known[:shorter]:
            what = f"{NAMES[broker.id]} serves {shown(believed)}, committed was {shown(known)}"
            return self.replace(broken=("what is committed never changes", what))
        if len(believed) <= len(known):
            return self
        if not partition.leads:
            what = f"{NAMES[broker.id]} serves {shown(believed)}, committed is {shown(known)}"
            return self.replace(broken=("a follower serves only what is committed", what))
        return self.replace(committed=believed)

    def with_unclean_election(self, epoch: int) -> History:
        """From now on, only what this leader and later ones commit counts."""
        return self.replace(committed=(), unclean_epoch=epoch)


def check_step(old: Broker, new: Broker, *, may_lose: bool = False) -> None:
    """Epochs grow (S8), and the high watermark does not fall (S7), until a process ends.

    After an unclean election records are lost, and so it may fall.
    """
    was, now = old.partition, new.partition
    if was is None or now is None:
        return
    name = NAMES[new.id]
    if now.leader_epoch < was.leader_epoch or now.partition_epoch < was.partition_epoch:
        raise Broken(
            "epochs grow",
            f"{name} had {was.leader_epoch}, {was.partition_epoch}, "
            f"has {now.leader_epoch}, {now.partition_epoch}",
        )
    if now.high_watermark < was.high_watermark and not may_lose:
        raise Broken(
            "the high watermark never falls",
            f"{name} served up to {was.high_watermark}, serves up to {now.high_watermark}",
        )
    if now.high_watermark > new.log.end:
        raise Broken(
            "what is committed is in the log",
            f"{name} serves up to {now.high_watermark}, its log ends at {new.log.end}",
        )


def check_state(brokers: Sequence[Broker], metadata: Metadata, history: History) -> None:
    if history.broken is not None:
        raise Broken(*history.broken)
    _check_isr(metadata)
    for broker in brokers:
        _check_leader(broker, metadata)
    _check_members(brokers, metadata, history.committed)
    _check_matching(brokers)


def _check_isr(metadata: Metadata) -> None:
    """The ISR are unfenced replicas, the leader among them (S2).

    Without a leader it has the last member, which is fenced, or is empty beside an ELR.
    """
    partition, brokers = metadata.partition, metadata.brokers
    isr = partition.isr
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
    name, epoch = NAMES[broker.id], partition.leader_epoch
    elected = metadata.elected.get(epoch)
    if elected != broker.id:
        raise Broken(
            "one leader an epoch", f"{name} leads epoch {epoch}, for which {elected} was elected"
        )
    present = metadata.partition
    if epoch == present.leader_epoch and not {*present.isr} <= {*partition.maximal_isr}:
        raise Broken(
            "the leader counts the ISR",
            f"{name} counts {partition.maximal_isr}, the ISR is {present.isr}",
        )


def _check_members(
    brokers: Sequence[Broker], metadata: Metadata, committed: tuple[bytes, ...]
) -> None:
    """Every member of the ISR, and so every later leader, has what is committed (S1, S4).

    One that has lost records is a member until it is registered again.
    """
    for broker in brokers:
        is_member = broker.id in metadata.partition.isr or broker.id in metadata.partition.elr
        if is_member and not broker.has_lost and broker.log.batches[: len(committed)] != committed:
            raise Broken(
                "every member of the ISR has what is committed",
                f"{NAMES[broker.id]} has {shown(broker.log.batches)}, committed is "
                f"{shown(committed)}",
            )


def _check_matching(brokers: Sequence[Broker]) -> None:
    """Logs that have a batch in common are the same up to it (S6)."""
    for number, one in enumerate(brokers):
        for other in brokers[:number]:
            logs = one.log.batches, other.log.batches
            shorter = min(map(len, logs))
            for offset in range(shorter - 1, -1, -1):
                if epoch_of(logs[0][offset]) == epoch_of(logs[1][offset]):
                    if logs[0][: offset + 1] != logs[1][: offset + 1]:
                        raise Broken(
                            "logs with a batch in common are the same up to it",
                            f"{NAMES[one.id]} {shown(logs[0])}, {NAMES[other.id]} {shown(logs[1])}",
                        )
                    break
