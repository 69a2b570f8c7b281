"""A consumer's fetch session with a broker (KIP-227), as Kafka's FetchSessionHandler keeps it.

The first request names all partitions, later ones only those whose position has changed, and those
that the consumer no longer wants. A response has only the partitions with something new. If the
broker does not know the session, or expects another epoch, the next request begins another one.
"""

from __future__ import annotations

from kraftlog.errors import ErrorCode
from kraftlog.node.fetch_sessions import FINAL_EPOCH, INITIAL_EPOCH, NO_SESSION
from kraftlog.value import TYPE_CHECKING
from kraftlog.wire.messages.fetch import FetchTopic, ForgottenTopic
from kraftlog_simulator.violation import Violation

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from kraftlog.metadata.values import PartitionKey
    from kraftlog.wire.messages.fetch import FetchPartition


class FetchSessionHandler:
    """`session_id` and `epoch` are those of the next request.

    Without `is_wanted` every request is a full one outside any session.
    """

    def __init__(self, owner: object, *, is_wanted: bool) -> None:
        self._owner = owner
        self._first_epoch = INITIAL_EPOCH if is_wanted else FINAL_EPOCH
        self.session_id, self.epoch = NO_SESSION, self._first_epoch
        #: The partitions of the last request or its session, as the broker last heard of them.
        self._partitions: dict[PartitionKey, FetchPartition] = {}

    @property
    def is_full(self) -> bool:
        """Whether the next request names all partitions."""
        return self.epoch == self._first_epoch

    def request(self, wanted: dict[PartitionKey, FetchPartition]) -> dict[str, Any]:
        """The fields of a request for these partitions that depend on the session."""
        known = {} if self.is_full else self._partitions
        forgotten: dict[bytes, list[int]] = {}
        for topic_id, index in known:
            if (topic_id, index) not in wanted:
                forgotten.setdefault(topic_id, []).append(index)
        self._partitions = wanted
        return {
            "session_id": self.session_id,
            "session_epoch": self.epoch,
            "topics": _by_topic({key: it for key, it in wanted.items() if known.get(key) != it}),
            "forgotten_topics_data": [
                ForgottenTopic(topic_id=topic_id, partitions=indexes)
                for topic_id, indexes in forgotten.items()
            ],
        }

    def failed(self, code: int = ErrorCode.NONE) -> None:
        """There is no response, or it is an error: the next request begins another session."""
        self.epoch = self._first_epoch
        if code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND:
            self.session_id = NO_SESSION

    def responded(self, response: Any) -> None:
        """Check which partitions a response has: all if it is full, else no unknown ones."""
        returned = {
            (topic.topic_id, partition.partition_index)
            for topic in response.responses
            for partition in topic.partitions
        }
        unknown = returned - self._partitions.keys()
        missing = self._partitions.keys() - returned if self.is_full else ()
        if unknown or missing:
            raise Violation(
                "consumer",
                f"{self._owner}: a fetch in epoch {self.epoch} of session {self.session_id} "
                f"returned {unknown or 'none'} that it had not, and lacks {missing or 'none'}",
            )
        if response.session_id == NO_SESSION:
            self.session_id, self.epoch = NO_SESSION, self._first_epoch
        elif not self.is_full and response.session_id != self.session_id:
            raise Violation("consumer", f"{self._owner}: session {self.session_id} was replaced")
        else:
            self.session_id, self.epoch = response.session_id, self.epoch + 1


def _by_topic(partitions: Mapping[PartitionKey, FetchPartition]) -> list[FetchTopic]:
    topics: dict[bytes, list[FetchPartition]] = {}
    for (topic_id, _), partition in partitions.items():
        topics.setdefault(topic_id, []).append(partition)
    return [FetchTopic(topic_id=topic_id, partitions=each) for topic_id, each in topics.items()]
