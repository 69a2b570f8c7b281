"""V19: a replica that lost its log, or part of it, is reported so that it does not lead."""

from __future__ import annotations

from typing import Any, NamedTuple, cast

import pytest

from kraftlog.effects import LogComplete, LogLine, LogOpened
from kraftlog.metadata.loader import MetadataLoader
from kraftlog.metadata.values import DirectoryId
from kraftlog.replication.directory_assignments import DirectoryAssignments
from kraftlog.replication.lost_replicas import LostReplicas
from kraftlog.replication.partition import Partition
from kraftlog.replication.replicating_node import ReplicatingNode
from kraftlog.types import NULL_UUID, Now
from kraftlog.wire.messages import metadata_records as records
from tests.replication.cluster import topic_records

TOPIC_ID = b"t" * 16
#: Two directories of broker 1, and one that it had.
HERE, ALSO_HERE, GONE = b"h" * 16, b"a" * 16, b"g" * 16


class OfflineDirectory(NamedTuple):
    id: bytes
    is_offline: bool = True


class Replica(ReplicatingNode):
    """A replica of broker 1 of which the metadata says that it is in a directory."""

    def __init__(
        self, assigned: bytes, replicas: tuple[int, ...] = (1, 2), directories: Any = (HERE,)
    ) -> None:
        self.replicas = len(replicas)
        self.effects: list[Any] = []
        self.loader = MetadataLoader()
        topic, partition, *others = topic_records(TOPIC_ID, replicas, replicas, 2, 1)
        partition.directories = [assigned, *[NULL_UUID] * (len(replicas) - 1)]
        self.replay(
            records.RegisterBrokerRecord(
                broker_id=1,
                incarnation_id=b"1" * 16,
                broker_epoch=1,
                end_points=(),
                features=(),
                fenced=True,
                rack=None,
                log_dirs=list(directories),
            ),
            topic,
            partition,
            *others,
        )
        self.requests: list[Any] = []
        self.assignments = DirectoryAssignments(1, self)
        self.lost = LostReplicas(1, self.loader, self.assignments, self.effects.append)
        self.partition = Partition("t", TOPIC_ID, 0, ("t", 0))
        self.partition.assign(self.loader.image.partitions[TOPIC_ID, 0])

    def broker_epoch(self) -> int:
        return 1

    def send_to_controller(self, *request: Any) -> None:
        self.requests.append(request[2])

    def replay(self, *changes: Any) -> None:
        for _ in self.loader.replay_in_steps(changes):
            pass

    def opened(self, directory: bytes = HERE, *, end: int = 0, lacks_records: bool = False) -> None:
        name = "t", 0
        log = LogOpened(name, TOPIC_ID, 0, end, directory=directory, lacks_records=lacks_records)
        self.lost.opened(self.partition, log)

    def assign(self, directory: bytes, **changes: Any) -> None:
        """The controller records a directory."""
        change = records.PartitionChangeRecord(
            partition_id=0,
            topic_id=TOPIC_ID,
            directories=[directory, *[NULL_UUID] * (self.replicas - 1)],
            **changes,
        )
        self.replay(change)

    @property
    def reported(self) -> list[bytes]:
        """The directories that the next request reports."""
        self.assignments.poll(Now(0, 0))
        return [each.id for each in self.requests[-1].directories] if self.requests else []

    @property
    def may_lead(self) -> bool:
        return self.lost.may_lead(self.partition)


def test_v19_log_that_lacks_committed_records_is_reported_as_lost() -> None:
    replica = Replica(HERE)
    replica.opened(lacks_records=True)
    assert (replica.reported, replica.may_lead) == ([DirectoryId.LOST], False)
    assert not replica.lost.are_reported, "the broker does not ask to be unfenced before"


def test_v19_lost_replica_reports_its_directory_once_it_has_caught_up() -> None:
    replica = Replica(HERE)
    replica.opened(lacks_records=True)
    replica.assignments.forget((TOPIC_ID, 0), may_return=False)  # it was reported
    replica.assign(DirectoryId.LOST)
    assert not replica.may_lead
    [line] = replica.effects
    assert isinstance(line, LogLine)
    assert "does not lead" in line.line
    replica.lost.caught_up(replica.partition)
    assert replica.effects[1:] == [LogComplete(("t", 0))]
    assert (replica.reported, replica.may_lead) == ([HERE], True)


def test_v19_replica_on_which_no_other_relies_is_not_reported() -> None:
    """It can't be elected; it joins the ISR like any follower, and needs no record."""
    replica = Replica(HERE, replicas=(1, 2, 3))
    replica.assign(HERE, isr=(2, 3))
    replica.opened(lacks_records=True)
    assert (replica.reported, replica.may_lead) == ([], False)
    other = Replica(HERE, replicas=(1, 2, 3))
    other.assign(HERE, isr=(), leader=-1, last_known_elr=(1,))
    other.opened(lacks_records=True)
    assert other.reported == [DirectoryId.LOST], "it was the last leader"


def test_v19_lost_replica_is_not_reported_again_after_a_restart() -> None:
    replica = Replica(DirectoryId.LOST)
    replica.opened(lacks_records=True)
    assert (replica.reported, replica.may_lead) == ([], False)
    assert replica.lost.are_reported


def test_v19_replica_on_another_disk_reports_it_only_once_it_has_caught_up() -> None:
    """V21: until then the metadata names the former directory, whose log may be whole."""
    replica = Replica(GONE)
    replica.opened()
    assert (replica.reported, replica.may_lead) == ([], False)
    assert replica.lost.are_reported, "the recorded directory is offline: it cannot be elected"
    [line] = replica.effects
    assert isinstance(line, LogLine)
    assert "not one of this broker's" in line.line
    replica.lost.caught_up(replica.partition)
    assert (replica.reported, replica.may_lead) == ([HERE], True)


def test_v19_sole_replica_on_another_disk_does_not_lead() -> None:
    """Its records may all be on the disk that was removed."""
    replica = Replica(GONE, replicas=(1,))
    replica.opened()
    assert (replica.reported, replica.may_lead) == ([], False)


def test_v19_sole_replica_leads_with_what_is_left_of_its_log() -> None:
    """No other replica has the lost records: to wait would bring nothing back."""
    replica = Replica(HERE, replicas=(1,))
    replica.opened(lacks_records=True)
    assert (replica.reported, replica.may_lead) == ([], True)


def test_v19_unclean_election_lets_a_lost_replica_lead() -> None:
    """The election names its broker's directory in place of the lost one."""
    replica = Replica(DirectoryId.LOST)
    replica.opened(lacks_records=True)
    replica.assign(HERE, leader=1)
    assert replica.may_lead


def test_v18_log_that_failed_alone_is_reported() -> None:
    replica = Replica(HERE)
    replica.lost.failed(replica.partition, ())
    assert replica.reported == [DirectoryId.FAILED]


@pytest.mark.parametrize(
    ("assigned", "offline"),
    [(HERE, (HERE,)), (DirectoryId.UNASSIGNED, (ALSO_HERE,)), (GONE, ())],
)
def test_v18_log_in_a_failed_directory_is_left_to_the_heartbeat(
    assigned: bytes, offline: tuple[bytes, ...]
) -> None:
    """V21: a report would replace the name of a directory that may come back."""
    replica = Replica(assigned, directories=(HERE, ALSO_HERE))
    directories = [OfflineDirectory(each) for each in offline]
    replica.lost.failed(replica.partition, cast("Any", directories))
    assert replica.reported == []


def test_v18_log_that_failed_and_is_open_again_is_reported() -> None:
    replica = Replica(DirectoryId.FAILED)
    replica.opened(end=3)
    assert (replica.reported, replica.may_lead) == ([HERE], True)


@pytest.mark.parametrize("replicas", [(1, 2), (1,)], ids=["replicated", "sole"])
@pytest.mark.parametrize("end", [0, 3], ids=["empty", "with records"])
def test_v19_lost_replica_stays_lost_where_its_directory_knows_nothing(
    end: int, replicas: tuple[int, ...]
) -> None:
    """Its disk was replaced since, or it was killed while it copied the log again."""
    replica = Replica(DirectoryId.LOST, replicas)
    replica.opened(end=end)
    assert (replica.reported, replica.may_lead) == ([], False)
    replica.lost.caught_up(replica.partition)
    assert (replica.reported, replica.may_lead) == ([HERE], True)


@pytest.mark.parametrize("assigned", [HERE, DirectoryId.LOST, GONE])
def test_v22_moved_log_that_lacks_records_is_reported_when_complete(
    assigned: bytes,
) -> None:
    """V19: the directory that it was moved to would let it lead."""
    replica = Replica(assigned, directories=(HERE, ALSO_HERE))
    replica.opened(lacks_records=True)
    before = replica.reported
    replica.lost.placed(replica.partition, ALSO_HERE)
    assert (replica.reported, replica.may_lead) == (before, False)
    replica.requests.clear()
    replica.assignments.postpone(Now(0, 0))
    replica.lost.caught_up(replica.partition)
    replica.assignments.poll(Now(10_000, 0))
    assert (replica.reported, replica.may_lead) == ([ALSO_HERE], True)


def test_v22_moved_log_is_reported() -> None:
    replica = Replica(HERE, directories=(HERE, ALSO_HERE))
    replica.opened()
    replica.lost.placed(replica.partition, ALSO_HERE)
    assert (replica.reported, replica.may_lead) == ([ALSO_HERE], True)


@pytest.mark.parametrize("replicas", [(1, 2), (1,)], ids=["replicated", "sole"])
def test_v19_failed_log_on_a_replaced_disk_is_reported_as_lost(replicas: tuple[int, ...]) -> None:
    """An unclean election may choose it then, but not one that has failed."""
    replica = Replica(DirectoryId.FAILED, replicas)
    replica.opened()
    assert (replica.reported, replica.may_lead) == ([DirectoryId.LOST], False)
    again = Replica(DirectoryId.FAILED, replicas)
    again.opened(lacks_records=True)  # the operator has deleted the damaged log
    is_sole = len(replicas) == 1
    assert (again.reported, again.may_lead) == ([HERE if is_sole else DirectoryId.LOST], is_sole)


def test_v19_replica_is_lost_if_another_process_has_reported_that() -> None:
    """It had the broker's id meanwhile, and maybe more records than this log."""
    replica = Replica(HERE)
    replica.opened(end=3)
    replica.assign(DirectoryId.LOST)
    replica.lost.check(replica.partition, HERE)
    assert (replica.reported, replica.may_lead) == ([], False)


@pytest.mark.parametrize(
    ("assigned", "directories", "reported"),
    [
        (HERE, (HERE,), []),
        (DirectoryId.UNASSIGNED, (HERE,), [HERE]),  # the broker had several, and may have again
        (DirectoryId.MIGRATING, (HERE,), []),
        (DirectoryId.UNASSIGNED, (HERE, ALSO_HERE), [HERE]),
        (ALSO_HERE, (HERE, ALSO_HERE), [HERE]),
    ],
)
def test_v18_whole_log_is_reported_where_the_metadata_differs(
    assigned: bytes, directories: tuple[bytes, ...], reported: list[bytes]
) -> None:
    """The only directory of a broker need not be reported, if none ever was."""
    replica = Replica(assigned, directories=directories)
    replica.opened()
    assert (replica.reported, replica.may_lead) == (reported, True)


def test_v24_replica_that_catches_up_before_its_loss_is_recorded() -> None:
    """The record is on its way: the directory must follow it, or the replica never joins."""
    replica = Replica(HERE)
    replica.opened(lacks_records=True)
    assert replica.reported == [DirectoryId.LOST]
    replica.lost.caught_up(replica.partition)
    replica.assignments.postpone(Now(0, 0))
    replica.assignments.poll(Now(10_000, 0))
    assert [each.id for each in replica.requests[-1].directories] == [HERE]


def test_v24_partition_added_again_is_not_taken_for_the_lost_one_before() -> None:
    """The report that the first one was lost is decided late, about the second."""
    replica = Replica(HERE)
    replica.opened(lacks_records=True)
    assert replica.reported == [DirectoryId.LOST]
    replica.lost.forget(replica.partition)
    replica.opened()
    replica.assign(DirectoryId.LOST)
    replica.assignments.replayed((TOPIC_ID, 0), DirectoryId.LOST)
    replica.assignments.postpone(Now(0, 0))
    replica.assignments.poll(Now(10_000, 0))
    assert [each.id for each in replica.requests[-1].directories] == [HERE]


def test_v19_lost_replica_is_reported_once() -> None:
    """The controller may have elected it since: a second report would depose it."""
    replica = Replica(HERE)
    replica.opened(lacks_records=True)
    assert replica.reported == [DirectoryId.LOST]
    replica.assignments.replayed((TOPIC_ID, 0), HERE)  # an older change of the partition
    replica.opened(lacks_records=True)
    assert len(replica.requests) == 1
    assert [type(effect) for effect in replica.effects] == [LogLine]
