"""What the controller decides upon: the image with what has been proposed and not yet committed.

Each proposal is replayed at once, so that the next decision sees it. What stood in the maps before
goes on a log of undoings, marked with the offset of the proposal: a commit forgets it, lost
leadership puts it back. No map is ever copied.
"""

from __future__ import annotations

from collections import deque

from kraftlog.controller.index import PartitionIndex
from kraftlog.metadata.features import ELR_FEATURE
from kraftlog.metadata.image import Image
from kraftlog.metadata.replay import BROKER, TOPIC
from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
    from typing import Any

    from kraftlog.metadata.values import PartitionImage
    from kraftlog.wire.schema import Message

#: Stands for "there was nothing under this key".
ABSENT: Any = object()

#: What a record and a change of the state cost, in microseconds.
A_RECORD_COSTS = 1
A_CHANGE_COSTS = 5

#: What a cluster's brokers have in common is set for the broker without a name.
ALL_BROKERS = ""
MIN_ISR = "min.insync.replicas"
UNCLEAN_ELECTION = "unclean.leader.election.enable"


class ControllerState(Image):
    """The speculative image. `proposing`, `committed` and `unwind` are the controller's to call."""

    def __init__(self, static: Mapping[str, str]) -> None:
        super().__init__()
        self.index = PartitionIndex()
        #: Names of topics that differ only by '.' and '_' would be one metric.
        self.colliding: dict[str, dict[str, None]] = {}
        #: What this controller was configured with: brokers are taken to be configured alike.
        self._static = static
        self._journal: list[tuple[dict[Any, Any], Any, Any]] | None = None
        self._undoings: deque[tuple[int, list[tuple[dict[Any, Any], Any, Any]]]] = deque()

    # Proposing -----------------------------------------------------------------------------------

    def proposing(
        self, parts: Sequence[Sequence[Message]], first_offset: Callable[[], int]
    ) -> Generator[int, None, int]:
        """These go into the log, each part as a batch, and count in decisions; the last offset.

        Until all steps are done nothing else may be decided. `first_offset` tells then where the
        first record will be. If one of them can't be replayed, if that raises, or if this is
        closed before, none of them was.
        """
        journals: list[list[tuple[dict[Any, Any], Any, Any]]] = []
        try:
            for records in parts:
                self._journal = []
                journals.append(self._journal)
                yield from self.replaying(records)
            end = first_offset()
        except BaseException:
            self.unpublished = self._journal = None
            for journal in reversed(journals):
                self._take_back(journal)
            raise
        self._journal = None
        for records, journal in zip(parts, journals, strict=True):
            end += len(records)
            self._undoings.append((end - 1, journal))
        return end - 1

    def replaying(self, records: Iterable[Message]) -> Generator[int, None, None]:
        """Replay the records of a batch, step by step."""
        for record in records:
            for _ in self.changes_of(record):
                yield A_CHANGE_COSTS
            yield A_RECORD_COSTS
        self.publish()

    def committed(self, offset: int) -> None:
        """What was proposed up to and with this offset will never be taken back."""
        while self._undoings and self._undoings[0][0] <= offset:
            self._undoings.popleft()

    def unwind(self) -> None:
        """Take back all that is not committed, the latest first."""
        while self._undoings:
            self._take_back(self._undoings.pop()[1])

    def _take_back(self, journal: list[tuple[dict[Any, Any], Any, Any]]) -> None:
        for held, key, before in reversed(journal):
            if before is ABSENT:
                self.drop(held, key)
            else:
                self.put(held, key, before)

    def put(self, held: dict[Any, Any], key: Any, value: Any) -> None:
        before = held.get(key, ABSENT)
        if self._journal is not None:
            self._journal.append((held, key, before))
        held[key] = value
        if held is self.partitions:
            self.index.change(key, None if before is ABSENT else before, value)
        elif held is self.topic_ids:
            self.colliding.setdefault(collision_name(key), {})[key] = None

    def drop(self, held: dict[Any, Any], key: Any) -> None:
        before = held.pop(key)
        if self._journal is not None:
            self._journal.append((held, key, before))
        if held is self.partitions:
            self.index.change(key, before, None)
        elif held is self.topic_ids:
            alike = self.colliding[collision_name(key)]
            del alike[key]
            if not alike:
                del self.colliding[collision_name(key)]

    # Reading -------------------------------------------------------------------------------------

    def active(self, broker_id: int) -> bool:
        """Whether a broker may lead and be in sync."""
        broker = self.brokers.get(broker_id)
        return broker is not None and broker.active

    def effective(self, topic: str, key: str, default: str) -> str:
        """A configuration of a topic: its own, else that of all brokers, else the default."""
        for set_here in (self.config(TOPIC, topic), self.config(BROKER, ALL_BROKERS), self._static):
            if key in set_here:
                return set_here[key]
        return default

    def min_isr(self, partition: PartitionImage) -> int:
        """How many in sync make a commit; with fewer replicas than asked for, all of them."""
        topic = self.topics[partition.topic_id]
        wanted = int(self.effective(topic.name, MIN_ISR, "1"))
        first = self.partitions.get((topic.id, 0), partition)
        return min(wanted, len(first.replicas))

    def unclean_election(self, partition: PartitionImage) -> bool:
        topic = self.topics[partition.topic_id]
        return self.effective(topic.name, UNCLEAN_ELECTION, "false").lower() == "true"

    @property
    def elr_enabled(self) -> bool:
        return self.features.get(ELR_FEATURE, 0) > 0


def collision_name(topic: str) -> str:
    """Metrics write '.' as '_'."""
    return topic.replace(".", "_")
