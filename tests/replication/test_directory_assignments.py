"""V18: a broker reports to the controller which log directory has each replica."""

from __future__ import annotations

from typing import Any

import pytest

from kraftlog.errors import ErrorCode
from kraftlog.replication.directory_assignments import (
    LONGEST_RETRY_MS,
    MAX_PARTITIONS,
    MAX_REMOVED,
    RETRY_MS,
    DirectoryAssignments,
)
from kraftlog.replication.replicating_node import ReplicatingNode
from kraftlog.types import Now
from kraftlog.wire.messages.assign_replicas_to_dirs import (
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsResponse,
    DirectoryResult,
    PartitionResult,
    TopicResult,
)
from kraftlog.wire.messages.metadata_records import PartitionChangeRecord
from tests.replication.broker import MAX_WAIT_MS, TOPIC_ID
from tests.replication.cluster import Cluster

TOPIC, OTHER_TOPIC = b"t" * 16, b"o" * 16
#: The ids of two log directories.
DIRECTORY, OTHER_DIRECTORY = b"a" * 16, b"b" * 16


class Controller(ReplicatingNode):
    """Keeps the requests of its broker until the test responds to the last one."""

    def __init__(self) -> None:
        self.epoch = 5
        self.requests: list[AssignReplicasToDirsRequest] = []
        self._on_done: Any = None

    def broker_epoch(self) -> int:
        return self.epoch

    def send_to_controller(self, _: int, __: int, request: Any, on_done: Any, ___: Now) -> None:
        self.requests.append(request)
        self._on_done = on_done

    def respond(self, now_ms: int, error_code: int = 0, partition_error: int = 0) -> None:
        request = self.requests[-1]
        directories = [
            DirectoryResult(
                id=directory.id,
                topics=[
                    TopicResult(
                        topic_id=topic.topic_id,
                        partitions=[
                            PartitionResult(
                                partition_index=partition.partition_index,
                                error_code=partition_error,
                            )
                            for partition in topic.partitions
                        ],
                    )
                    for topic in directory.topics
                ],
            )
            for directory in request.directories
        ]
        if error_code:
            directories = []
        response = AssignReplicasToDirsResponse(error_code=error_code, directories=directories)
        self._on_done(response, Now(now_ms, 0))

    def lose_response(self, now_ms: int) -> None:
        self._on_done(None, Now(now_ms, 0))


def new_assignments() -> tuple[DirectoryAssignments, Controller]:
    controller = Controller()
    return DirectoryAssignments(1, controller), controller


def replicas_in(request: AssignReplicasToDirsRequest) -> set[tuple[bytes, bytes, int]]:
    return {
        (directory.id, topic.topic_id, partition.partition_index)
        for directory in request.directories
        for topic in directory.topics
        for partition in topic.partitions
    }


def test_v18_one_request_has_all_replicas_by_directory() -> None:
    assignments, controller = new_assignments()
    assert assignments.deadline() is None
    for key, directory in (
        ((TOPIC, 0), DIRECTORY),
        ((TOPIC, 1), OTHER_DIRECTORY),
        ((OTHER_TOPIC, 0), DIRECTORY),
    ):
        assignments.assign(key, directory)
    assignments.poll(Now(0, 0))
    (request,) = controller.requests
    assert (request.broker_id, request.broker_epoch) == (1, 5)
    assert replicas_in(request) == {
        (DIRECTORY, TOPIC, 0),
        (OTHER_DIRECTORY, TOPIC, 1),
        (DIRECTORY, OTHER_TOPIC, 0),
    }
    assert assignments.deadline() is None, "one request at a time"
    controller.respond(10)
    assert assignments.deadline() is None


def test_many_replicas_take_several_requests() -> None:
    assignments, controller = new_assignments()
    for index in range(MAX_PARTITIONS + 1):
        assignments.assign((TOPIC, index), DIRECTORY)
    assignments.poll(Now(0, 0))
    controller.respond(10)
    assignments.poll(Now(10, 0))
    assert [len(replicas_in(request)) for request in controller.requests] == [MAX_PARTITIONS, 1]


@pytest.mark.parametrize("error", [ErrorCode.STALE_BROKER_EPOCH, ErrorCode.NOT_CONTROLLER, None])
def test_a_failed_request_is_repeated_with_backoff(error: int | None) -> None:
    assignments, controller = new_assignments()
    assignments.assign((TOPIC, 0), DIRECTORY)
    gaps = []
    now_ms = 0
    for _ in range(9):
        assignments.poll(Now(now_ms, 0))
        if error is None:
            controller.lose_response(now_ms)
        else:
            controller.respond(now_ms, error)
        due_ms = assignments.deadline()
        assert due_ms is not None
        gaps.append(due_ms - now_ms)
        now_ms = due_ms
    assert gaps[:3] == [RETRY_MS, 2 * RETRY_MS, 4 * RETRY_MS]
    assert gaps[-1] == LONGEST_RETRY_MS
    controller.epoch = 6
    assignments.poll(Now(now_ms, 0))
    assert controller.requests[-1].broker_epoch == 6
    controller.respond(now_ms)
    assert assignments.deadline() is None


@pytest.mark.parametrize("error", [ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.NOT_LEADER_OR_FOLLOWER])
def test_a_replica_that_was_removed_is_not_sent_again(error: int) -> None:
    assignments, controller = new_assignments()
    assignments.assign((TOPIC, 0), DIRECTORY)
    assignments.poll(Now(0, 0))
    controller.respond(0, partition_error=error)
    assert assignments.deadline() is None


def test_a_replica_that_moves_meanwhile_is_sent_again() -> None:
    assignments, controller = new_assignments()
    assignments.assign((TOPIC, 0), DIRECTORY)
    assignments.poll(Now(0, 0))
    assignments.assign((TOPIC, 0), OTHER_DIRECTORY)
    controller.respond(10)
    assignments.poll(Now(10, 0))
    assert replicas_in(controller.requests[-1]) == {(OTHER_DIRECTORY, TOPIC, 0)}


def test_a_removed_replica_is_forgotten() -> None:
    assignments, controller = new_assignments()
    assignments.assign((TOPIC, 0), DIRECTORY)
    assignments.forget((TOPIC, 0), may_return=True)
    assignments.poll(Now(0, 0))
    assert controller.requests == []


@pytest.mark.parametrize("is_reported", [True, False], ids=["reported", "never reported"])
def test_v24_late_report_about_a_removed_replica_is_corrected(is_reported: bool) -> None:
    """Its partition was added again, with the same id; the request about the first was late."""
    assignments, controller = new_assignments()
    key = TOPIC, 0
    if is_reported:
        assignments.assign(key, DIRECTORY)
        assignments.poll(Now(0, 0))
        controller.respond(0)
    assignments.forget(key, may_return=True)
    assignments.opened(key, OTHER_DIRECTORY)
    assignments.replayed(key, OTHER_DIRECTORY)
    assert assignments.deadline() is None, "the metadata has it"
    assignments.replayed(key, DIRECTORY)
    assert (assignments.deadline() is not None) == is_reported
    if is_reported:
        assignments.poll(Now(10, 0))
        assert replicas_in(controller.requests[-1]) == {(OTHER_DIRECTORY, TOPIC, 0)}


def test_few_removed_replicas_are_remembered() -> None:
    """The oldest may be forgotten, as may those whose topic is gone: its id does not return."""
    assignments, _ = new_assignments()
    for index in range(MAX_REMOVED + 1):
        assignments.assign((TOPIC, index), DIRECTORY)
        assignments.forget((TOPIC, index), may_return=True)
    assignments.assign((OTHER_TOPIC, 0), DIRECTORY)
    assignments.forget((OTHER_TOPIC, 0), may_return=False)
    for key, is_remembered in (((TOPIC, 0), False), ((TOPIC, 1), True), ((OTHER_TOPIC, 0), False)):
        assignments.opened(key, DIRECTORY)
        assignments.replayed(key, OTHER_DIRECTORY)
        assert assignments.is_settled(key) is not is_remembered


def test_nothing_is_sent_before_the_broker_is_registered() -> None:
    assignments, controller = new_assignments()
    controller.epoch = -1
    assignments.assign((TOPIC, 0), DIRECTORY)
    assignments.poll(Now(0, 0))
    assert controller.requests == []
    controller.epoch = 3
    assignments.poll(Now(RETRY_MS, 0))
    assert len(controller.requests) == 1


def test_v22_a_directory_is_settled_once_the_controller_has_responded() -> None:
    assignments, controller = new_assignments()
    key = TOPIC, 0
    assert assignments.is_settled(key)
    assignments.assign(key, DIRECTORY)
    assignments.poll(Now(0, 0))
    assignments.assign(key, OTHER_DIRECTORY)
    controller.respond(10)
    assert not assignments.is_settled(key), "the response is to the first report"
    assignments.poll(Now(10, 0))
    controller.respond(20)
    assert assignments.is_settled(key)


def test_v23_a_report_that_a_late_request_has_overwritten_is_repeated() -> None:
    """A request that got no response may be decided after those that follow it."""
    assignments, controller = new_assignments()
    key = TOPIC, 0
    for directory in (DIRECTORY, OTHER_DIRECTORY):
        assignments.assign(key, directory)
        assignments.poll(Now(0, 0))
        controller.respond(0)
    assignments.replayed(key, OTHER_DIRECTORY)
    assignments.replayed((TOPIC, 1), DIRECTORY)  # never reported by this process
    assert assignments.deadline() is None
    assignments.replayed(key, DIRECTORY)
    assignments.poll(Now(10, 0))
    sent = [{replica[0] for replica in replicas_in(request)} for request in controller.requests]
    assert sent == [{DIRECTORY}, {OTHER_DIRECTORY}, {OTHER_DIRECTORY}]
    controller.respond(10)
    assignments.forget(key, may_return=False)
    assignments.replayed(key, DIRECTORY)
    assert assignments.deadline() is None


def test_v22_the_last_reported_directory_counts_while_a_log_moves() -> None:
    assignments, _ = new_assignments()
    key = TOPIC, 0
    assert assignments.reported(key, DIRECTORY) == DIRECTORY
    assignments.assign(key, OTHER_DIRECTORY)
    assert assignments.reported(key, DIRECTORY) == OTHER_DIRECTORY


def test_v18_directories_are_reported_after_the_id_was_taken() -> None:
    """Another process had been registered, had reported a directory of its own, and ended."""
    cluster = Cluster({1: "1:a", 2: "1:a"})
    broker = cluster[2]
    broker.logs.directory.id = DIRECTORY
    cluster.register(2, log_dirs=[OTHER_DIRECTORY])
    assigned = (DIRECTORY, OTHER_DIRECTORY)
    cluster.commit(PartitionChangeRecord(partition_id=0, topic_id=TOPIC_ID, directories=assigned))
    broker.replica_manager.poll(cluster.now)
    assert broker.directory_requests == []

    broker.epoch = 100 + len(cluster.metadata)
    cluster.register(2, log_dirs=[DIRECTORY])
    assert broker.is_registered()
    broker.replica_manager.poll(cluster.now)
    assert broker.directory_requests == [], "its log may lack what that process has fetched (V19)"
    cluster.settle()
    cluster.pass_ms(MAX_WAIT_MS)
    broker.replica_manager.poll(cluster.now)
    (request,) = broker.directory_requests
    assert request.broker_epoch == broker.epoch
    assert replicas_in(request) == {(DIRECTORY, TOPIC_ID, 0)}


def test_nothing_is_reported_after_a_registration_if_nothing_differs() -> None:
    cluster = Cluster({1: "1:a", 2: "1:a"})
    broker = cluster[2]
    broker.logs.directory.id = DIRECTORY
    assigned = (OTHER_DIRECTORY, DIRECTORY)
    cluster.commit(PartitionChangeRecord(partition_id=0, topic_id=TOPIC_ID, directories=assigned))
    broker.epoch = 100 + len(cluster.metadata)
    cluster.register(2, log_dirs=[DIRECTORY])
    broker.replica_manager.poll(cluster.now)
    assert broker.directory_requests == []
