"""A core network with slow disks and power losses."""

from __future__ import annotations

from typing import Any

from kraftlog.logstate.epochs import EpochCache
from kraftlog.logstate.voters import VoterHistory
from kraftlog.raft.log import RaftLog
from kraftlog.raft.messages import Append, ElectionState, PersistElection, Truncate
from tests.raft.core_network import CoreNetwork, Host


class FaultyHost(Host):
    """A host whose disk may be slow: then writes wait, and a crash loses those that wait."""

    def __init__(
        self, net: CoreNetwork, replica_id: int, election: ElectionState, log: RaftLog
    ) -> None:
        super().__init__(net, replica_id, election, log)
        self.slow = False
        self.waiting: list[Any] = []

    def carry_out(self, effect: Any) -> bool:
        if self.slow and isinstance(effect, (PersistElection, Append)):
            self.waiting.append(effect)
            return True
        if isinstance(effect, Truncate):
            self.waiting = [
                write for write in self.waiting if not is_truncated(write, effect.offset)
            ]
        return super().carry_out(effect)

    def with_data(self, body: Any) -> Any:
        """A leader may send records that it has not flushed."""
        durable = self.batches
        self.batches = durable + [
            write.batch for write in self.waiting if isinstance(write, Append)
        ]
        with_data = super().with_data(body)
        self.batches = durable
        return with_data


def is_truncated(write: Any, end: int) -> bool:
    return isinstance(write, Append) and bool(write.batch.last_offset >= end)


class FaultyNetwork(CoreNetwork):
    host_type = FaultyHost

    def faulty_host(self, replica_id: int) -> FaultyHost:
        host = self.hosts[replica_id]
        assert isinstance(host, FaultyHost)
        return host

    def crash(self, *ids: int) -> None:
        """Crash: lose what is not durable and all messages in flight, and restart."""
        for replica_id in ids:
            old = self.faulty_host(replica_id)
            self.wire = [message for message in self.wire if message[0] != replica_id]
            self.replies = [reply for reply in self.replies if reply[0][0] != replica_id]
            host = FaultyHost(self, replica_id, old.persisted, recovered(old))
            host.batches = old.batches
            self.hosts[replica_id] = host
            host.core.announce_resignation(self.now)

    def high_watermarks(self) -> dict[int, int]:
        return {replica_id: self.core(replica_id).log.high_watermark for replica_id in self.hosts}


def recovered(host: FaultyHost) -> RaftLog:
    """The recovered log, without a high watermark."""
    voters = VoterHistory(host.core.log.voters.base)
    epochs = EpochCache()
    end = 0
    for batch in host.batches:
        epochs.assign(batch.epoch, batch.base_offset)
        end = batch.last_offset + 1
        if batch.voters is not None:
            voters.append(batch.base_offset, batch.voters)
    return RaftLog(voters, 0, end, epochs)
