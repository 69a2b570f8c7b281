"""V22: a log that moves between directories survives the loss of either, and a stop at any time.

The log is in `b` and moves to `c`; `data` has the metadata log. An acknowledged record can be read,
or its partition is offline, and it can be read again once all directories are back (V19).
"""

from __future__ import annotations

import errno
from copy import deepcopy
from functools import cache
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

from kraftlog.effects import LogOpened, TruncatePartition
from kraftlog.errors import ErrorCode
from kraftlog.storage.checkpoints import PARTITION_METADATA, encode_partition_metadata
from kraftlog.storage.future_logs import FUTURE, WHOLE
from kraftlog.wire.apis import ApiKey
from kraftlog.wire.messages.delete_topics import DeleteTopicsRequest
from kraftlog_simulator.files import Fault, MemoryFiles, PowerLost
from tests.node.frame_client import (
    FrameClient,
    create_partitions,
    create_topics,
    make_folders,
    remove_partitions,
    set_config,
)
from tests.node.test_requests import batch, fetch, produce, produce_result, values_in
from tests.runner.test_log_moves import LOG, path_of_log, request_move
from tests.runner.test_removed_partitions import write
from tests.virtual_host import VirtualHost, directory_id_of

if TYPE_CHECKING:
    from collections.abc import Iterator

PATHS = ("data", "b", "c")
TOPIC = 2
RECORDS = [b"%d" % number for number in range(3)]


def start(files: MemoryFiles | None = None, lost: str = "", **options: Any) -> VirtualHost:
    """Start a node; the directory `lost` cannot be opened."""
    directories = [path for path in PATHS if path != lost]
    host = VirtualHost(
        files, directories=directories, lost=(lost,) if lost else (), settled=False, **options
    )
    settle_with_time(host)
    return host


def settle_with_time(host: VirtualHost) -> None:
    for _ in range(10):
        host.pass_time(100)
        host.settle()


def send_record(host: VirtualHost, value: bytes) -> FrameClient:
    client = FrameClient(host)
    client.send(ApiKey.PRODUCE, 9, produce(batch(value)))
    return client


def is_acknowledged(client: FrameClient) -> bool:
    responses = client.take()
    return bool(responses) and produce_result(responses[0][1]).error_code == 0


def append(host: VirtualHost, value: bytes) -> int:
    code: int = produce_result(
        FrameClient(host).ask(ApiKey.PRODUCE, 9, produce(batch(value)))
    ).error_code
    return code


def is_online(host: VirtualHost) -> bool:
    partition = host.node.replica_manager.by_log.get(LOG)
    return partition is not None and partition.online


def values(host: VirtualHost) -> list[bytes | None]:
    fetched: list[bytes | None] = []
    while len(fetched) < host.node.replica_manager.by_log[LOG].high_watermark:
        fetched += values_in(FrameClient(host).ask(ApiKey.FETCH, 12, fetch(len(fetched))))
    return fetched


def recorded_path(host: VirtualHost) -> str:
    """The directory that the metadata names for the replica."""
    image = host.node.image
    directory = image.partitions[image.topic_ids["demo"], 0].directory(1)
    return {directory_id_of(1, path): path for path in PATHS}[directory]


def folders(host: VirtualHost) -> dict[str, list[str]]:
    """The folders of `demo` that are not about to be deleted, by directory."""
    return {
        path: [
            name.partition(".")[2] or name
            for name in host.files.list(path)
            if name.startswith("demo-") and not name.endswith("-delete")
        ]
        for path in PATHS
    }


def host_with_records() -> VirtualHost:
    """A node with three records in `b`, all of them durable."""
    host = start()
    create_topics(host, {"first": 1})
    create_topics(host, {"demo": 1})
    set_config(host, TOPIC, "demo", "flush.messages", 1)
    assert path_of_log(host) == "b"
    for value in RECORDS:
        assert append(host, value) == 0
    make_folders(host)
    settle_with_time(host)
    assert recorded_path(host) == "b"
    for path in PATHS:
        host.files.sync_all(path)
    return host


def restart(host: VirtualHost, lost: str = "") -> VirtualHost:
    host.files.kill()
    host.files.faults.clear()
    return start(host.files, lost)


@pytest.fixture
def waiting() -> VirtualHost:
    """A node whose controller is asked to record `c`, and cannot commit anything for now."""
    host = host_with_records()
    host.io_threads.quorum.hangs = True
    assert request_move(host, "c") == 0
    for _ in range(20):
        host.turn()
    (move,) = host.runner._directories.moves.moves.values()
    assert move.is_reported
    return host


def let_commit(host: VirtualHost) -> None:
    host.io_threads.quorum.hangs = False
    settle_with_time(host)


def let_commit_without_swap(host: VirtualHost) -> None:
    """The target is recorded, and a record is appended, before the copy takes the log's place."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(host.runner._directories.moves), "_may_take_over", lambda *_: False)
        let_commit(host)
        assert append(host, b"in both") == 0
    assert (path_of_log(host), recorded_path(host)) == ("b", "c")


# The controller does not know yet ----------------------------------------------------------------


def test_v22_the_source_is_the_replica_until_the_target_is_recorded(
    waiting: VirtualHost,
) -> None:
    assert append(waiting, b"meanwhile") == 0
    assert path_of_log(waiting) == recorded_path(waiting) == "b"
    assert waiting.files.exists("b/demo-0")
    assert values(waiting) == [*RECORDS, b"meanwhile"]
    let_commit(waiting)
    assert path_of_log(waiting) == recorded_path(waiting) == "c"
    assert append(waiting, b"after") == 0
    assert values(waiting) == [*RECORDS, b"meanwhile", b"after"]
    assert folders(waiting) == {"data": [], "b": [], "c": ["demo-0"]}
    assert WHOLE not in waiting.files.list("c/demo-0")


def test_v22_what_is_acknowledged_during_the_wait_is_in_both_logs(waiting: VirtualHost) -> None:
    (move,) = waiting.runner._directories.moves.moves.values()
    for number in range(5):
        assert append(waiting, b"%d" % number) == 0
        assert move.copy is not None
        assert move.copy.end_offset == move.log.end_offset == 4 + number


def test_v22_a_target_that_fails_before_it_is_recorded_is_given_up(waiting: VirtualHost) -> None:
    """The source is recorded again, though the controller may have recorded the target."""
    waiting.files.faults.append(Fault("pwritev", path="c/", times=1000))
    assert append(waiting, b"meanwhile") == 0
    let_commit(waiting)
    assert path_of_log(waiting) == recorded_path(waiting) == "b"
    assert append(waiting, b"after") == 0
    host = restart(waiting)
    assert path_of_log(host) == "b" or recorded_path(host) == "c", "the move may begin again"
    assert values(host) == [*RECORDS, b"meanwhile", b"after"]


def test_v22_the_copy_replaces_a_source_that_fails_after_the_report(
    waiting: VirtualHost,
) -> None:
    assert append(waiting, b"meanwhile") == 0
    waiting.files.faults.append(Fault("pwritev", path="b/", times=1000))
    assert append(waiting, b"refused") == ErrorCode.KAFKA_STORAGE_ERROR
    let_commit(waiting)
    assert recorded_path(waiting) == "c"
    assert append(waiting, b"after") == 0
    assert values(waiting) == [*RECORDS, b"meanwhile", b"after"]
    for lost in ("b", ""):
        host = restart(waiting, lost)
        assert values(host) == [*RECORDS, b"meanwhile", b"after"]
        assert path_of_log(host) == "c"


@pytest.mark.parametrize("target", ["b", "data"])
def test_v22_a_reported_move_is_followed_by_the_next_one(waiting: VirtualHost, target: str) -> None:
    """It is not cancelled: a restart would look for the log in its target."""
    assert request_move(waiting, target) == 0
    waiting.turn()
    assert folders(waiting)["b"] == ["demo-0"]
    assert append(waiting, b"meanwhile") == 0
    let_commit(waiting)
    assert path_of_log(waiting) == recorded_path(waiting) == target
    assert values(waiting) == [*RECORDS, b"meanwhile"]
    assert folders(waiting)["c"] == []


def test_v22_the_folder_in_a_full_target_stays_until_it_is_not_needed(
    waiting: VirtualHost,
) -> None:
    waiting.files.faults.append(Fault("pwritev", errno.ENOSPC, path="c/", times=1000))
    assert append(waiting, b"meanwhile") == 0
    assert [name[-7:] for name in folders(waiting)["c"]] == [FUTURE]
    (folder,) = [name for name in waiting.files.list("c") if name.endswith(FUTURE)]
    assert WHOLE not in waiting.files.list(f"c/{folder}"), "it lacks a record"
    let_commit(waiting)
    assert path_of_log(waiting) == recorded_path(waiting) == "b"
    assert folders(waiting)["c"] == []
    assert [line for line in waiting.log_lines if line.startswith("demo-0 stays in b: ")]
    assert append(waiting, b"after") == 0


def test_v6_a_truncated_log_and_its_reported_copy_stay_equal(waiting: VirtualHost) -> None:
    topic_id = waiting.node.image.topic_ids["demo"]
    waiting.node.emit(TruncatePartition(LOG, topic_id, 2))
    waiting.turn()
    (move,) = waiting.runner._directories.moves.moves.values()
    assert move.copy is not None
    assert move.copy.end_offset == move.log.end_offset == 2
    waiting.node.emit(TruncatePartition(LOG, topic_id, 9, restarts=True))
    waiting.turn()
    assert move.copy.start_offset == move.copy.end_offset == move.log.end_offset == 9
    let_commit(waiting)
    assert path_of_log(waiting) == "c"


def test_v23_a_topic_deleted_during_the_wait_leaves_nothing(waiting: VirtualHost) -> None:
    request = DeleteTopicsRequest(topic_names=["demo"], timeout_ms=1000)
    FrameClient(waiting).send(ApiKey.DELETE_TOPICS, 5, request)
    let_commit(waiting)
    assert folders(waiting) == {"data": [], "b": [], "c": []}


# After a restart ---------------------------------------------------------------------------------


def test_v19_while_the_recorded_directory_is_offline_no_log_leads() -> None:
    """The target has failed right after the log has moved; the source still has its older log."""
    host = host_with_records()
    host.io_threads.maintenance.hangs = True
    assert request_move(host, "c") == 0
    while not host.io_threads.maintenance._jobs:
        host.one_turn()
    host.io_threads.maintenance.hangs = False
    host.turn()  # the copy is durable, and the controller is asked
    host.io_threads.maintenance.hangs = True
    settle_with_time(host)
    assert path_of_log(host) == "c"
    assert append(host, b"in c only") == 0
    assert folders(host) == {"data": [], "b": ["demo-0"], "c": ["demo-0"]}

    without_c = restart(host, lost="c")
    assert not is_online(without_c)
    assert append(without_c, b"refused") == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert without_c.node.image.partitions[without_c.node.image.topic_ids["demo"], 0].leader == -1
    assert [line for line in without_c.log_lines if line.endswith("is offline, one of c")]
    assert folders(without_c)["b"] == ["demo-0"], "its records may be needed"

    again = restart(without_c)
    assert values(again) == [*RECORDS, b"in c only"]
    assert folders(again) == {"data": [], "b": [], "c": ["demo-0"]}
    assert [line for line in again.log_lines if line.startswith("b/demo-0: deleted, because")]


def test_v19_a_recorded_whole_copy_takes_the_place_of_a_lost_log(
    waiting: VirtualHost,
) -> None:
    assert append(waiting, b"meanwhile") == 0
    let_commit_without_swap(waiting)
    without_b = restart(waiting, lost="b")
    assert path_of_log(without_b) == "c"
    assert values(without_b) == [*RECORDS, b"meanwhile", b"in both"]
    assert append(without_b, b"after") == 0
    again = restart(without_b)
    assert values(again) == [*RECORDS, b"meanwhile", b"in both", b"after"]
    assert folders(again) == {"data": [], "b": [], "c": ["demo-0"]}


def test_v19_the_log_counts_where_the_recorded_directory_has_a_copy(
    waiting: VirtualHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The node says so when it opens the log: it lacks nothing, and is recorded at once."""
    let_commit_without_swap(waiting)
    opened: list[LogOpened] = []
    manager = type(waiting.node.replica_manager)
    handle = manager.handle

    def record(self: Any, message: Any) -> None:
        if isinstance(message, LogOpened) and message.log == LOG:
            opened.append(message)
        handle(self, message)

    monkeypatch.setattr(manager, "handle", record)
    host = restart(waiting)
    assert [(it.directory, it.is_original) for it in opened] == [(directory_id_of(1, "b"), True)]
    assert values(host) == [*RECORDS, b"in both"]
    settle_with_time(host)
    assert path_of_log(host) == recorded_path(host) == "c", "the move has begun again"
    assert values(host) == [*RECORDS, b"in both"]
    assert folders(host) == {"data": [], "b": [], "c": ["demo-0"]}


def test_v19_a_copy_that_is_not_whole_is_no_replica(waiting: VirtualHost) -> None:
    let_commit_without_swap(waiting)
    (folder,) = [name for name in waiting.files.list("c") if name.endswith(FUTURE)]
    waiting.files.unlink(f"c/{folder}/{WHOLE}")
    without_b = restart(waiting, lost="b")
    assert not is_online(without_b)
    again = restart(without_b)
    assert values(again) == [*RECORDS, b"in both"]


def test_v23_a_copy_of_a_former_topic_of_this_name_changes_nothing() -> None:
    first = host_with_records()
    folder = f"c/demo-0.{'0' * 32}{FUTURE}"
    first.files.make_folder(folder)
    first.files.make_file(f"{folder}/{PARTITION_METADATA}", encode_partition_metadata(b"o" * 16))
    first.files.make_file(f"{folder}/{WHOLE}", b"")
    host = restart(first)
    assert path_of_log(host) == recorded_path(host) == "b"
    assert values(host) == RECORDS
    assert folders(host) == {"data": [], "b": ["demo-0"], "c": []}


def test_two_logs_that_the_metadata_places_nowhere_are_refused() -> None:
    """Neither is deleted, and other partitions are served."""
    first = host_with_records()
    first.runner.close()
    metadata = first.files.bytes_of("b/demo-0/partition.metadata")
    for path in ("data", "c"):
        first.files.make_folder(f"{path}/demo-0")
        first.files.make_file(f"{path}/demo-0/partition.metadata", metadata)
    host = VirtualHost(first.files, directories=("data", "c"))  # `b` is no longer configured
    assert not is_online(host)
    assert [line for line in host.log_lines if line.endswith("remove the older ones")]
    assert host.node.replica_manager.by_log["first", 0].online
    assert folders(host) == {"data": ["demo-0"], "b": ["demo-0"], "c": ["demo-0"]}


def test_v11_of_two_logs_the_one_of_a_removed_partition_is_deleted() -> None:
    """The partition was removed and added again while a directory was offline.

    The broker ended before the metadata named the directory of the new log.
    """
    host = start()
    create_topics(host, {"demo": 2})
    settle_with_time(host)
    [old] = [path for path in PATHS if "demo-1" in folders(host)[path]]
    assert write(host, b"old") == ErrorCode.NONE
    host.files.kill()
    host = start(host.files, lost=old)
    assert remove_partitions(host, "demo", 1) == ErrorCode.NONE
    create_partitions(host, "demo", 2)
    settle_with_time(host)
    assert write(host, b"new") == ErrorCode.NONE
    [named] = [path for path in PATHS if path != old and "demo-1" in folders(host)[path]]
    [unnamed] = [path for path in PATHS if path not in {old, named}]
    host.files.kill()
    host.files.make_folder(f"{unnamed}/demo-1")
    for name in host.files.list(f"{named}/demo-1"):
        data = host.files.bytes_of(f"{named}/demo-1/{name}")
        host.files.make_file(f"{unnamed}/demo-1/{name}", data)
    again = VirtualHost(host.files, directories=[path for path in PATHS if path != named])
    settle_with_time(again)
    assert "demo-1" in folders(again)[unnamed]
    assert "demo-1" not in folders(again)[old]
    assert again.runner.logs["demo", 1].end_offset == 1


# At any time -------------------------------------------------------------------------------------


def moved_until(stop: int) -> tuple[VirtualHost, list[bytes], bool]:
    """Move the log, with records meanwhile, and stop before an operation of the disk.

    Returns the node, the acknowledged records, and whether the move has ended before the stop.
    """
    host = host_with_records()
    acknowledged, is_complete = list(RECORDS), False
    host.files.stop_before = host.files.operations + stop
    sent: list[tuple[bytes, FrameClient]] = []

    def note() -> None:
        for value, client in sent[:]:
            if is_acknowledged(client):
                acknowledged.append(value)
                sent.remove((value, client))

    try:
        assert request_move(host, "c") == 0
        for number in range(12):
            value = b"meanwhile %d" % number
            sent.append((value, send_record(host, value)))
            host.one_turn()
            note()
            host.deliver()
        host.settle()
        note()
        is_complete = path_of_log(host) == "c" and not host.runner._directories.moves.moves
    except PowerLost:
        pass
    host.files.stop_before = None
    return host, acknowledged, is_complete


def without_surplus(found: list[bytes | None], acknowledged: list[bytes]) -> list[bytes | None]:
    """What was read, without records that were written and not acknowledged."""
    return [value for value in found if value in acknowledged]


@cache
def files_of_stopped_move(stop: int) -> tuple[MemoryFiles, list[bytes], bool]:
    """What `moved_until` leaves, for the tests that lose different things then; they copy it."""
    host, acknowledged, is_complete = moved_until(stop)
    return host.files, acknowledged, is_complete


def check_restarts(files: MemoryFiles, acknowledged: list[bytes], lost: str) -> str:
    """Restart with a directory lost, then with all; return where the log was meanwhile, if so."""
    path = ""
    if lost:
        without = start(files, lost)
        if is_online(without):
            path = path_of_log(without)
            assert without_surplus(values(without), acknowledged) == acknowledged
            assert append(without, b"degraded") == 0
            acknowledged.append(b"degraded")
        files.kill()
    again = start(files)
    assert is_online(again)
    assert without_surplus(values(again), acknowledged) == acknowledged
    settle_with_time(again)
    kept = {path: names for path, names in folders(again).items() if names}
    assert kept == {path_of_log(again): ["demo-0"]}
    assert recorded_path(again) == path_of_log(again)
    return path


@pytest.mark.xdist_group("stopped moves")
@pytest.mark.parametrize("lost", ["", "b", "c"], ids=["none-lost", "source-lost", "target-lost"])
@pytest.mark.parametrize("loses_power", [True, False], ids=["power", "kill"])
def test_v22_a_move_survives_any_stop_and_the_loss_of_a_directory(
    loses_power: bool, lost: str
) -> None:
    """Nothing that was acknowledged is lost, and one log is left."""
    stop, is_complete, paths = 0, False, set()
    while not is_complete:
        files, acknowledged, is_complete = deepcopy(files_of_stopped_move(stop))
        if loses_power:
            files.power_loss(Random(stop))
        else:
            files.kill()
        paths.add(check_restarts(files, acknowledged, lost))
        stop += 1
    assert stop > 40
    assert paths == {"": {""}, "b": {"", "c"}, "c": {"", "b"}}[lost]


OPERATIONS = ("pwritev", "sync", "rename", "sync_folder", "make_folder", "unlink", "open")


def faults(path: str, code: int) -> Iterator[tuple[VirtualHost, list[bytes]]]:
    """A node for each operation on a directory during a move, which fails from there on."""
    for operation in OPERATIONS:
        for skip in range(1000):
            host = host_with_records()
            fault = Fault(operation, code, path=f"{path}/", skip=skip, times=10_000)
            host.files.faults.append(fault)
            acknowledged = list(RECORDS)
            assert request_move(host, "c") == 0
            for number in range(6):
                value = b"meanwhile %d" % number
                client = send_record(host, value)
                host.turn()
                if is_acknowledged(client):
                    acknowledged.append(value)
            settle_with_time(host)
            yield host, acknowledged
            if fault.times == 10_000:
                break


@pytest.mark.parametrize("code", [errno.EIO, errno.ENOSPC])
@pytest.mark.parametrize("path", ["b", "c"])
def test_v22_a_directory_that_fails_during_a_move_loses_nothing(path: str, code: int) -> None:
    count = 0
    for host, acknowledged in faults(path, code):
        count += 1
        if is_online(host):
            assert without_surplus(values(host), acknowledged) == acknowledged
            client = send_record(host, b"after")
            settle_with_time(host)
            if is_acknowledged(client):
                acknowledged.append(b"after")
        host.files.kill()
        host.files.faults.clear()
        for lost in ("b", "c", ""):
            files = host.files
            again = start(files, lost)
            if is_online(again):
                assert without_surplus(values(again), acknowledged) == acknowledged
            else:
                assert lost
            files.kill()
    assert count > 10
