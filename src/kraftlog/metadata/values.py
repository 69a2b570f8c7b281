"""What the maps of an image hold. Values are replaced, never changed: whoever took one keeps it."""

from __future__ import annotations

from kraftlog.types import NULL_UUID
from kraftlog.value import TYPE_CHECKING, Value

if TYPE_CHECKING:
    from kraftlog.types import Uuid
    from kraftlog.wire.messages.metadata_records import BrokerEndpoint, BrokerFeature

#: A partition is named by its topic's id and its number.
PartitionKey = tuple[bytes, int]

NO_LEADER = -1

#: How a leader came to lead: RECOVERING after an unclean election, until it says otherwise.
RECOVERED, RECOVERING = 0, 1


class Directory:
    """Directory ids that name no directory."""

    MIGRATING = NULL_UUID
    UNASSIGNED = bytes(15) + b"\x01"
    LOST = bytes(15) + b"\x02"


#: Kafka keeps the first hundred ids for itself.
RESERVED_DIRECTORIES = 100


def reserved(directory: Uuid) -> bool:
    """Whether an id is one of those that never name a real directory."""
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
    #: Directories that take no new replicas; None: the broker knows nothing of such.
    cordoned: tuple[Uuid, ...] | None = None

    def endpoint(self, listener: str) -> BrokerEndpoint | None:
        """Where it listens under this name; None where it has no such listener."""
        for each in self.endpoints:
            if each.name == listener:
                return each
        return None

    @property
    def active(self) -> bool:
        """Whether it may lead and be in sync."""
        return not self.fenced and not self.in_controlled_shutdown

    @property
    def takes_replicas(self) -> bool:
        """Not while it leaves, nor when all of its directories are cordoned."""
        cordoned = self.cordoned or ()
        full = bool(cordoned) and all(each in cordoned for each in self.directories)
        return not self.in_controlled_shutdown and not full

    def online(self, directory: Uuid) -> bool:
        """Whether a replica there can be served; where no directory is known, it is believed."""
        if directory in (Directory.MIGRATING, Directory.UNASSIGNED):
            return True
        if directory == Directory.LOST:
            return False
        return not self.directories or directory in self.directories


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
    #: One for each replica: where on its broker it lives.
    directories: tuple[Uuid, ...] = ()
    removing: tuple[int, ...] = ()
    adding: tuple[int, ...] = ()
    #: Replicas out of the ISR that hold all that was committed, as nothing is while it is small.
    elr: tuple[int, ...] = ()
    last_known_elr: tuple[int, ...] = ()
    recovery: int = RECOVERED

    @property
    def key(self) -> PartitionKey:
        return self.topic_id, self.index

    @property
    def reassigning(self) -> bool:
        return bool(self.adding or self.removing)

    def directory(self, broker_id: int) -> Uuid:
        """Where on a broker its replica lives, as far as is known."""
        if broker_id in self.replicas and self.directories:
            return self.directories[self.replicas.index(broker_id)]
        return Directory.MIGRATING
