"""`IsrChanges`: changes of the ISR that this broker proposes to the controller (V1, V8).

One AlterPartition is in flight at a time, with all partitions that wait for it. A proposed ISR
counts for the high watermark from the moment it is made, until the broker has replayed a higher
partition epoch, or the controller has refused the proposal for good. If the outcome is unknown, the
same proposal is sent again after a backoff with jitter; new proposals do not wait for that.
"""

from __future__ import annotations

from functools import partial

from kraftlog.errors import ErrorCode
from kraftlog.jitter import jitter
from kraftlog.value import TYPE_CHECKING
from kraftlog.wire.apis import APIS, ApiKey
from kraftlog.wire.messages.alter_partition import (
    AlterPartitionRequest,
    BrokerState,
    PartitionData,
    TopicData,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from kraftlog.replication.partition import Partition
    from kraftlog.replication.proposed_isr import ProposedIsr
    from kraftlog.replication.replicating_node import ReplicatingNode
    from kraftlog.types import Now, Uuid
    from kraftlog.wire.messages.alter_partition import PartitionResult

    Key = tuple[Uuid, int]

#: The most partitions in one request.
MAX_PARTITIONS = 500
#: First and longest backoff of a request or a proposal without an outcome, without the jitter.
RETRY_MS, LONGEST_RETRY_MS = 20, 500
#: Backoffs do not grow any more after this number of failures.
MAX_DOUBLINGS = 10
#: The broker epoch of a follower that has not fetched in this leader epoch.
UNKNOWN_BROKER_EPOCH = -1

#: Refusals after which the committed ISR holds, as if nothing had been proposed.
_REFUSED = (ErrorCode.INELIGIBLE_REPLICA, ErrorCode.OPERATION_NOT_ATTEMPTED)
#: Refusals because of newer metadata, which this broker has yet to replay.
_OUTDATED = (
    ErrorCode.FENCED_LEADER_EPOCH,
    ErrorCode.INVALID_REQUEST,
    ErrorCode.INVALID_UPDATE_VERSION,
    ErrorCode.NEW_LEADER_ELECTED,
    ErrorCode.UNKNOWN_TOPIC_ID,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
)


class IsrChanges:
    """Sends proposals to the controller.

    `refused(partition, isr)` is called when a proposal was refused: only the committed ISR counts
    again.
    """

    def __init__(
        self,
        broker_id: int,
        node: ReplicatingNode,
        refused: Callable[[Partition, tuple[int, ...]], None],
    ) -> None:
        self._broker_id = broker_id
        self._node = node
        self._refused = refused
        #: The partitions whose proposals are to be sent, or are in the request in flight.
        self._waiting: dict[Key, Partition] = {}
        #: The partitions for which a response had no outcome, and when to propose them again.
        self._unresolved: dict[Key, Partition] = {}
        self._retry_ms = 0
        self._is_in_flight = False
        #: No request leaves before this.
        self._due_ms = 0
        #: The number of failed requests in a row, and of responses that lack an outcome.
        self._failures = self._incomplete = 0

    def propose(self, partition: Partition, isr: tuple[int, ...]) -> None:
        """Propose an ISR; the partition must have no other proposal in progress."""
        partition.propose_isr(isr, tuple([self._epoch_of(partition, broker) for broker in isr]))
        key = partition.topic_id, partition.index
        self._unresolved.pop(key, None)
        self._waiting[key] = partition

    def deadline(self) -> int | None:
        if self._is_in_flight or not (self._waiting or self._unresolved):
            return None
        return self._due_ms if self._waiting else max(self._due_ms, self._retry_ms)

    @property
    def is_in_flight(self) -> bool:
        """Whether a request has no response yet."""
        return self._is_in_flight

    def awaits_outcome(self, key: Key) -> bool:
        """Whether a proposal is still to be sent, or has no outcome yet."""
        return key in self._waiting or key in self._unresolved

    @property
    def is_due(self) -> bool:
        """Whether a request can leave at once."""
        return bool(self._waiting) and not self._is_in_flight and not self._failures

    def postpone(self, now: Now) -> None:
        """Repeat a request without an outcome later."""
        self._is_in_flight = False
        self._due_ms = now.monotonic_ms + self._backoff_ms(self._failures)
        self._failures += 1

    def _backoff_ms(self, failures: int) -> int:
        """With jitter, so that the leaders do not all send to a new controller at once."""
        backoff_ms = min(RETRY_MS << min(failures, MAX_DOUBLINGS), LONGEST_RETRY_MS)
        return backoff_ms + jitter(self._broker_id, failures, below=backoff_ms)

    def poll(self, now: Now) -> None:
        if self._is_in_flight or now.monotonic_ms < self._due_ms:
            return
        if self._unresolved and now.monotonic_ms >= self._retry_ms:
            self._waiting.update(self._unresolved)
            self._unresolved.clear()
        sent = self._next_proposals()
        if not sent:
            return
        self._is_in_flight = True
        version, on_done = APIS[ApiKey.ALTER_PARTITION].last, partial(self._on_response, sent)
        self._node.send_to_controller(
            ApiKey.ALTER_PARTITION, version, self._request(sent), on_done, now
        )

    def _next_proposals(self) -> dict[Key, tuple[Partition, ProposedIsr]]:
        """The proposals of the next request; drop those that replayed metadata has ended."""
        sent: dict[Key, tuple[Partition, ProposedIsr]] = {}
        for key, partition in list(self._waiting.items()):
            if partition.proposed is None:
                del self._waiting[key]
            elif len(sent) < MAX_PARTITIONS:
                sent[key] = partition, partition.proposed
        return sent

    def _request(self, sent: dict[Key, tuple[Partition, ProposedIsr]]) -> AlterPartitionRequest:
        topics: dict[Uuid, list[PartitionData]] = {}
        for (topic_id, index), (_, proposed) in sent.items():
            topics.setdefault(topic_id, []).append(
                PartitionData(
                    partition_index=index,
                    leader_epoch=proposed.leader_epoch,
                    new_isr_with_epochs=[
                        BrokerState(broker_id=broker, broker_epoch=epoch)
                        for broker, epoch in zip(proposed.isr, proposed.broker_epochs, strict=True)
                    ],
                    leader_recovery_state=0,
                    partition_epoch=proposed.partition_epoch,
                )
            )
        return AlterPartitionRequest(
            broker_id=self._broker_id,
            broker_epoch=self._node.broker_epoch(),
            topics=[
                TopicData(topic_id=topic_id, partitions=partitions)
                for topic_id, partitions in topics.items()
            ],
        )

    def _epoch_of(self, partition: Partition, broker: int) -> int:
        """The broker epoch of a broker's last fetch, or of this broker itself."""
        if broker == self._broker_id:
            return self._node.broker_epoch()
        followers = partition.followers
        follower = None if followers is None else followers.by_broker.get(broker)
        return UNKNOWN_BROKER_EPOCH if follower is None else follower.broker_epoch

    def _on_response(
        self, sent: dict[Key, tuple[Partition, ProposedIsr]], response: Any, now: Now
    ) -> None:
        self._is_in_flight = False
        if response is None or response.error_code:
            self.postpone(now)
            return
        self._failures = self._due_ms = 0
        for topic in response.topics:
            for result in topic.partitions:
                proposal = sent.get((topic.topic_id, result.partition_index))
                if proposal is not None:
                    self._apply_result(*proposal, result)
        self._retry_later(sent, now)

    def _retry_later(self, sent: dict[Key, tuple[Partition, ProposedIsr]], now: Now) -> None:
        """Schedule the proposals for which the response had no outcome to be sent again."""
        is_retry_set = bool(self._unresolved)
        for key, (partition, proposed) in sent.items():
            if partition.proposed is proposed and self._waiting.get(key) is partition:
                self._unresolved[key] = self._waiting.pop(key)
        if not self._unresolved:
            self._incomplete = 0
        elif not is_retry_set:
            self._retry_ms = now.monotonic_ms + self._backoff_ms(self._incomplete)
            self._incomplete += 1

    def _apply_result(
        self, partition: Partition, proposed: ProposedIsr, result: PartitionResult
    ) -> None:
        """Apply the outcome of one proposal; an error that decides nothing leaves it waiting.

        An accepted proposal counts until its record is replayed: the response alone never makes the
        ISR smaller.
        """
        if partition.proposed is not proposed:
            return
        code = result.error_code
        has_no_record = result.partition_epoch == proposed.partition_epoch
        if code == ErrorCode.NONE and has_no_record:  # nothing has changed: no replay ends it
            code = ErrorCode.OPERATION_NOT_ATTEMPTED
        if code == ErrorCode.NONE or code in _OUTDATED:
            self._waiting.pop((partition.topic_id, partition.index), None)
        elif code in _REFUSED:
            self._waiting.pop((partition.topic_id, partition.index), None)
            partition.withdraw_isr()
            self._refused(partition, proposed.isr)
