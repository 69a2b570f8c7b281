"""The controller's speculative state: the image plus proposed, uncommitted records.

Each proposal is replayed at once, so that the next decision sees it. The former values go to an
undo log with the offset of the proposal: a commit trims it, losing leadership applies it. So a
proposal copies no map.
"""

from __future__ import annotations

from collections import deque

from kraftlog.authorization.acls import acl_key
from kraftlog.config.keys import BROKER, TOPIC
from kraftlog.controller.index import PartitionIndex
from kraftlog.metadata.features import ELR_FEATURE
from kraftlog.metadata.image import Image
from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
    from typing import Any

    from kraftlog.metadata.values import BrokerImage, PartitionImage
    from kraftlog.types import Uuid
    from kraftlog.wire.schema import Message

    #: New values of min.insync.replicas by type and name of their resource; None: deleted.
    MinIsrChanges = Mapping[tuple[int, str], "str | None"]

#: Marks a key that did not exist.
ABSENT: Any = object()

#: Cost of a record and of a change, in microseconds.
RECORD_COST = 1
CHANGE_COST = 5

#: Cluster-wide broker configs have the empty broker name.
ALL_BROKERS = ""
MIN_ISR = "min.insync.replicas"
UNCLEAN_ELECTION = "unclean.leader.election.enable"


class ControllerState(Image):
    """The speculative image; only the controller changes it."""

    def __init__(self, static_config: Mapping[str, str], token_secret: str = "") -> None:
        super().__init__()
        self.index = PartitionIndex()
        #: Topic names by metric name: names that differ only in '.' and '_' collide.
        self.colliding: dict[str, dict[str, None]] = {}
        #: The ids of ACLs by what they say.
        self.acl_ids: dict[tuple[object, ...], Uuid] = {}
        #: The ids of delegation tokens by HMAC, by which clients name them; none without a secret.
        self.token_ids: dict[bytes, str] = {}
        self._token_secret = token_secret
        #: Settings of this node; brokers are assumed to have the same.
        self._static_config = static_config
        #: The changes of the batch that is being proposed, as (map, key, former value).
        self._journal: list[tuple[dict[Any, Any], Any, Any]] | None = None
        #: The last offset that was proposed here, unless it was undone since; -1: none.
        self.proposed_to = -1
        #: The changes of uncommitted batches, each with the last offset of its batch.
        self._undo_log: deque[tuple[int, list[tuple[dict[Any, Any], Any, Any]]]] = deque()

    @classmethod
    def copy_of(
        cls, image: Image, static_config: Mapping[str, str], token_secret: str = ""
    ) -> ControllerState:
        """Build the state from an image, whose values it shares: no record is replayed again."""
        state = cls(static_config, token_secret)
        for name, mapping in image.maps().items():
            setattr(state, name, mapping.copy())
        for key, partition in state.partitions.items():
            state.index.update(key, None, partition)
        for topic in state.topic_ids:
            state.colliding.setdefault(collision_name(topic), {})[topic] = None
        for acl_id, acl in state.acls.items():
            state.acl_ids[acl_key(acl)] = acl_id
        for token_id in state.tokens if token_secret else ():
            state.token_ids[state._hmac_of(token_id)] = token_id
        return state

    # Proposing -----------------------------------------------------------------------------------

    def propose_in_steps(
        self, batches: Sequence[Sequence[Message]], first_offset: Callable[[], int]
    ) -> Generator[int, None, None]:
        """Replay proposed batches speculatively, before they are appended.

        No other decision may start before all steps are done. `first_offset` is called last; the
        caller then appends the batches from the offset that it returned, before anything else
        happens. If a record cannot be replayed, or the generator is closed early, all are undone.
        """
        journals: list[list[tuple[dict[Any, Any], Any, Any]]] = []
        try:
            for records in batches:
                self._journal = []
                journals.append(self._journal)
                yield from self.replay_in_steps(records)
            end = first_offset()
        except BaseException:
            self.unpublished = self._journal = None
            for journal in reversed(journals):
                self._undo(journal)
            raise
        self._journal = None
        for records, journal in zip(batches, journals, strict=True):
            end += len(records)
            self._undo_log.append((end - 1, journal))
        self.proposed_to = end - 1

    def replay_in_steps(self, records: Iterable[Message]) -> Generator[int, None, None]:
        """Replay the records of a batch, step by step."""
        for record in records:
            for _ in self.changes_of(record):
                yield CHANGE_COST
            yield RECORD_COST
        self.publish()

    def trim_undo_log(self, offset: int) -> None:
        """Trim the undo log up to this offset, which is committed."""
        while self._undo_log and self._undo_log[0][0] <= offset:
            self._undo_log.popleft()

    def undo_uncommitted(self) -> None:
        """Undo all uncommitted changes, the latest first."""
        while self._undo_log:
            self._undo(self._undo_log.pop()[1])
        self.proposed_to = -1

    def _undo(self, journal: list[tuple[dict[Any, Any], Any, Any]]) -> None:
        for mapping, key, before in reversed(journal):
            if before is ABSENT:
                self.drop(mapping, key)
            else:
                self.put(mapping, key, before)

    def put(self, mapping: dict[Any, Any], key: Any, value: Any) -> None:
        before = mapping.get(key, ABSENT)
        if self._journal is not None:
            self._journal.append((mapping, key, before))
        mapping[key] = value
        if mapping is self.partitions:
            self.index.update(key, None if before is ABSENT else before, value)
        elif mapping is self.topic_ids:
            self.colliding.setdefault(collision_name(key), {})[key] = None
        elif mapping is self.acls:
            if before is not ABSENT:
                self.acl_ids.pop(acl_key(before), None)
            self.acl_ids[acl_key(value)] = key
        elif mapping is self.tokens and self._token_secret:
            self.token_ids[self._hmac_of(key)] = key

    def drop(self, mapping: dict[Any, Any], key: Any) -> None:
        before = mapping.pop(key)
        if self._journal is not None:
            self._journal.append((mapping, key, before))
        if mapping is self.partitions:
            self.index.update(key, before, None)
        elif mapping is self.topic_ids:
            alike = self.colliding[collision_name(key)]
            del alike[key]
            if not alike:
                del self.colliding[collision_name(key)]
        elif mapping is self.acls:
            self.acl_ids.pop(acl_key(before), None)
        elif mapping is self.tokens and self._token_secret:
            self.token_ids.pop(self._hmac_of(key), None)

    def _hmac_of(self, token_id: str) -> bytes:
        from kraftlog.sasl.delegation_tokens import hmac_of  # few clusters have tokens

        return hmac_of(self._token_secret, token_id)

    # Reading -------------------------------------------------------------------------------------

    def active(self, broker_id: int) -> bool:
        """Whether a broker may lead and be in the ISR."""
        broker = self.brokers.get(broker_id)
        return broker is not None and broker.active

    def needs_session(self, broker: BrokerImage) -> bool:
        """Whether a broker needs a session: it is unfenced, or still leads after a restart."""
        return not broker.fenced or self.index.leads(broker.id)

    def topic_config(self, topic: str, key: str, default: str) -> str:
        """A topic config: its own value, or the cluster-wide value, or the default."""
        for configs in (
            self.config(TOPIC, topic),
            self.config(BROKER, ALL_BROKERS),
            self._static_config,
        ):
            if key in configs:
                return configs[key]
        return default

    def min_isr(self, partition: PartitionImage, changed: MinIsrChanges | None = None) -> int:
        """The effective min.insync.replicas, as its leader reads it (V20).

        `changed`: values that the same decision sets, or None where it deletes them.
        """
        topic = self.topics[partition.topic_id]
        for resource in ((TOPIC, topic.name), (BROKER, ALL_BROKERS)):
            if changed is not None and resource in changed:
                value = changed[resource]
            else:
                value = self.config(*resource).get(MIN_ISR)
            if value is not None:
                return int(value)
        return int(self._static_config.get(MIN_ISR, "1"))

    def allows_unclean_election(self, partition: PartitionImage) -> bool:
        topic = self.topics[partition.topic_id]
        return self.topic_config(topic.name, UNCLEAN_ELECTION, "false").lower() == "true"

    @property
    def elr_enabled(self) -> bool:
        return self.features.get(ELR_FEATURE, 0) > 0


def collision_name(topic: str) -> str:
    """The metric name of a topic: '.' becomes '_'."""
    return topic.replace(".", "_")
