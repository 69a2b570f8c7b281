"""Damage in one partition of __consumer_offsets takes only that partition's coordinator offline.

The node logs the error and its offset, and serves everything else.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from kraftlog.errors import ErrorCode
from kraftlog.groups.shard import partition_of
from kraftlog.node.coordinators.group_coordinators import TOPIC
from kraftlog.records.builder import BatchBuilder
from kraftlog.wire.apis import ApiKey
from kraftlog.wire.messages.group_records import GroupMetadataKey
from kraftlog.wire.messages.list_groups import ListGroupsRequest
from kraftlog.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kraftlog.wire.record_frames import OFFSETS_LOG
from kraftlog_simulator.files import Fault
from tests.node.frame_client import FrameClient, ask_settled, create_topics, make_host
from tests.node.test_requests import batch, produce
from tests.virtual_host import VirtualHost

if TYPE_CHECKING:
    from kraftlog.types import LogName
    from kraftlog_simulator.files import MemoryFiles

PARTITIONS = 2
#: Two groups whose records are in different partitions; the partition of `LOST` is damaged.
LOST, KEPT = "b", "a"
DAMAGED = partition_of(LOST, PARTITIONS)
LOG = f"data/{TOPIC}-{DAMAGED}/{0:020}.log"


def commit(host: VirtualHost, group: str) -> Any:
    """Commit an offset; return the error code."""
    part = OffsetCommitRequestPartition(
        partition_index=0, committed_offset=7, committed_metadata="m" * 100
    )
    request = OffsetCommitRequest(
        group_id=group,
        member_id="",
        topics=[OffsetCommitRequestTopic(name="t", partitions=[part])],
    )
    answer = ask_settled(host, ApiKey.OFFSET_COMMIT, 8, request)
    return answer.topics[0].partitions[0].error_code


def disk_with_offsets() -> MemoryFiles:
    """A disk that has offsets of both groups, after a clean stop."""
    assert partition_of(KEPT, PARTITIONS) != DAMAGED
    host = make_host(None, **{TOPIC: PARTITIONS, "t": 1})
    for _ in range(500):
        assert commit(host, LOST) == commit(host, KEPT) == 0
    host.settle()
    host.runner.close()
    host.files.kill()
    return host.files


def check_one_coordinator_offline(host: VirtualHost, reason: str) -> None:
    host.settle()
    assert commit(host, LOST) == ErrorCode.NOT_COORDINATOR
    assert commit(host, KEPT) == ErrorCode.NONE
    listed = ask_settled(host, ApiKey.LIST_GROUPS, 4, ListGroupsRequest(states_filter=()))
    assert (listed.error_code, [it.group_id for it in listed.groups]) == (0, [KEPT])
    answer = FrameClient(host).ask(ApiKey.PRODUCE, 9, produce(batch(b"x"), topic="t"))
    assert answer.responses[0].partition_responses[0].error_code == 0
    [line] = [
        line
        for line in host.log_lines
        if f"{TOPIC}-{DAMAGED}: the group coordinator is offline" in line
    ]
    assert reason in line


@pytest.mark.parametrize("position", [0, 700, 40_000])
def test_zeros_in_its_log_take_one_coordinator_offline(position: int) -> None:
    files = disk_with_offsets()
    assert files.size_of(LOG) > position
    files.corrupt(LOG, position, bytes(min(64 << 10, files.size_of(LOG) - position)))
    check_one_coordinator_offline(VirtualHost(files), "offset")


def test_a_flipped_bit_in_its_log_takes_one_coordinator_offline() -> None:
    files = disk_with_offsets()
    files.corrupt(LOG, 70, b"\xff")
    check_one_coordinator_offline(VirtualHost(files), "from offset 0 on: checksum")


def test_an_unreadable_log_takes_one_coordinator_offline() -> None:
    files = disk_with_offsets()
    files.faults = [Fault("pread", path=LOG, times=10**6)]
    check_one_coordinator_offline(VirtualHost(files), "offset 0: ")


def test_an_invalid_group_record_takes_one_coordinator_offline() -> None:
    """A valid batch that no coordinator wrote: the value of its record is malformed."""
    host = make_host(None, **{TOPIC: PARTITIONS, "t": 1})
    builder = BatchBuilder()
    builder.append(0, OFFSETS_LOG.encode_key(GroupMetadataKey(group=LOST)), b"\0\3\xff")
    partition = host.node.replica_manager.by_log[TOPIC, DAMAGED]
    raw = memoryview(bytearray(builder.build()))
    partition.add(raw, 0, 0, host.node.replica_manager.turn)
    host.settle()
    host.runner.close()
    host.files.kill()
    restarted = VirtualHost(host.files)
    assert commit(restarted, KEPT) == ErrorCode.NONE
    check_one_coordinator_offline(restarted, "from offset 0 on: ")


def test_a_failed_write_takes_one_coordinator_offline() -> None:
    host = make_host(None, **{TOPIC: PARTITIONS, "t": 1})
    assert commit(host, LOST) == 0
    host.files.faults = [Fault("pwritev", path=LOG)]
    assert commit(host, LOST) == ErrorCode.NOT_COORDINATOR
    assert commit(host, LOST) == ErrorCode.NOT_COORDINATOR


def test_v18_the_log_line_of_a_failed_directory_suggests_no_deletion() -> None:
    """V18: the offsets are still on that disk, or another replica has them."""
    host = VirtualHost(directories=("data", "b"))
    create_topics(host, {TOPIC: PARTITIONS, "t": PARTITIONS})
    assert commit(host, LOST) == commit(host, KEPT) == 0
    [failing] = [log for log in (("t", 0), ("t", 1)) if path_of(host, log) == "b"]
    host.files.faults = [Fault("pwritev", path=f"b/t-{failing[1]}/{0:020}.log")]
    FrameClient(host).ask(ApiKey.PRODUCE, 9, produce(batch(b"x"), topic="t", index=failing[1]))
    host.settle()
    [line] = [line for line in host.log_lines if "the group coordinator is offline" in line]
    assert line.partition(": ")[2] == "the group coordinator is offline: the log has failed"


def path_of(host: VirtualHost, log: LogName) -> str:
    directory = host.runner.logs.directory_of(log)
    assert directory is not None
    return directory.path
