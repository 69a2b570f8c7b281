"""The values of an image; they are replaced, never modified."""

from __future__ import annotations

from kraftlog.types import NULL_UUID
from kraftlog.value import TYPE_CHECKING, Value

if TYPE_CHECKING:
    from kraftlog.types import Uuid
    from kraftlog.wire.messages.metadata_records import BrokerEndpoint, BrokerFeature

#: Topic id and partition index.
PartitionKey = tuple[bytes, int]

#: Topics that brokers use themselves.
INTERNAL = ("__consumer_offsets", "__transaction_state", "__share_group_state")

NO_LEADER = -1

#: Leader recovery state: RECOVERING after an unclean election, until the leader recovers.
RECOVERED, RECOVERING = 0, 1


def is_internal(topic: str) -> bool:
    """Whether a topic is one of the brokers' own."""
    return topic in INTERNAL


class DirectoryId:
    """Reserved directory ids; FAILED is kraftlog's own: to Kafka, an offline directory."""

    MIGRATING = NULL_UUID
    UNASSIGNED = bytes(15) + b"\x01"
    #: The replica has lost its log, or part of it.
    LOST = bytes(15) + b"\x02"
    #: The log cannot be opened, read or written, although its directory is online.
    FAILED = bytes(15) + b"\x03"


#: Kafka reserves the first hundred ids.
RESERVED_DIRECTORIES = 100


def is_reserved(directory: Uuid) -> bool:
    """Whether a directory id is one of those that Kafka reserves."""
    return int.from_bytes(directory, "big") < RESERVED_DIRECTORIES


class BrokerImage(Value):
    id: int
    epoch: int
    incarnation_id: Uuid
    endpoints: tuple[BrokerEndpoint, ...]
    features: tuple[BrokerFeature, ...] = ()
    rack: str | None = None
    fenced: bool = True
    in_controlled_shutdown: bool = False
    directories: tuple[Uuid, ...] = ()
    #: Cordoned directories; None if the broker does not report them.
    cordoned: tuple[Uuid, ...] | None = None
    #: Online directories that cannot be written at present: the disk is full, or a sync hangs.
    unwritable: tuple[Uuid, ...] = ()

    def endpoint(self, listener: str) -> BrokerEndpoint | None:
        """Its endpoint of a listener, if any."""
        for each in self.endpoints:
            if each.name == listener:
                return each
        return None

    @property
    def active(self) -> bool:
        """Whether it may lead and be in the ISR."""
        return not self.fenced and not self.in_controlled_shutdown

    @property
    def takes_replicas(self) -> bool:
        """Whether it accepts new replicas: not in shutdown, nor with all directories cordoned."""
        cordoned = self.cordoned or ()
        all_cordoned = bool(cordoned) and all(each in cordoned for each in self.directories)
        return not self.in_controlled_shutdown and not all_cordoned

    def online(self, directory: Uuid) -> bool:
        """Whether a directory is online; one not assigned yet counts as online, a lost one not."""
        if directory in (DirectoryId.MIGRATING, DirectoryId.UNASSIGNED):
            return True
        if directory in (DirectoryId.LOST, DirectoryId.FAILED):
            return False
        return not self.directories or directory in self.directories

    def writable(self, directory: Uuid) -> bool:
        """Whether a directory can be written; one not assigned yet if any directory can be."""
        if is_reserved(directory):
            return not self.unwritable or any(
                each not in self.unwritable for each in self.directories
            )
        return directory not in self.unwritable


class TopicImage(Value):
    id: Uuid
    name: str
    partition_count: int


class PartitionImage(Value):
    topic_id: Uuid
    index: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    leader: int
    leader_epoch: int
    partition_epoch: int
    #: The directory of each replica on its broker.
    directories: tuple[Uuid, ...] = ()
    removing: tuple[int, ...] = ()
    adding: tuple[int, ...] = ()
    #: Replicas outside of the ISR that have all committed records (ELR).
    elr: tuple[int, ...] = ()
    last_known_elr: tuple[int, ...] = ()
    recovery: int = RECOVERED
    #: A log with records of older epochs belongs to a removed partition with this index (V11).
    first_leader_epoch: int = 0

    __slots__ = ("_key",)

    @property
    def key(self) -> PartitionKey:
        """Topic id and index; always the same tuple, as many maps hold it."""
        try:
            return self._key
        except AttributeError:
            self._key: PartitionKey = (self.topic_id, self.index)
            return self._key

    def share_key(self, before: PartitionImage) -> None:
        """Use the key of the same partition before a change."""
        self._key = before.key

    @property
    def reassigning(self) -> bool:
        return bool(self.adding or self.removing)

    def directory(self, broker_id: int) -> Uuid:
        """The directory of the replica on a broker, if known."""
        if broker_id in self.replicas and self.directories:
            return self.directories[self.replicas.index(broker_id)]
        return DirectoryId.MIGRATING
