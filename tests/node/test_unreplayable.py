"""A committed record that cannot be replayed stops the node at every start, and names its offset.

`kraftlog quorum repair --drop-from` removes it and all later records (docs/decisions/0013).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kraftlog.errors import StorageError, UnreplayableError
from kraftlog.logstate.voters import voters_by_id
from kraftlog.node.quorum.batches import unreplayable_snapshot
from kraftlog.raft.repair import RepairRefusedError, possible_losses
from kraftlog.replication.replica_manager import ReplicaManager
from kraftlog.runner.repair import SurvivingDirectory
from kraftlog.storage import meta_properties
from kraftlog.storage.disk import write_atomically
from kraftlog.types import OffsetAndEpoch, uuid_text
from kraftlog.wire import primitives
from kraftlog.wire.messages.metadata_records import (
    ConfigRecord,
    NoOpRecord,
    PartitionChangeRecord,
    TopicRecord,
)
from kraftlog.wire.record_frames import encode_metadata
from kraftlog_simulator.files import Fault
from tests.node.frame_client import create_topics, make_host
from tests.node.proposals import proposal_of
from tests.virtual_host import CLUSTER_ID, VirtualHost

if TYPE_CHECKING:
    from kraftlog_simulator.files import MemoryFiles


def value_with_too_long_string(monkeypatch: pytest.MonkeyPatch) -> bytes:
    """An encoded record with a string that exceeds the limit for reading strings."""
    with monkeypatch.context() as patch:
        patch.setattr(primitives, "LONGEST_STRING", 1 << 20)
        record = ConfigRecord(resource_type=2, resource_name="demo", name="x", value="x" * 40_000)
        return encode_metadata(record, 0)


#: A record of an unknown type.
UNKNOWN_TYPE = b"\x01\x7f\x00\x00"
#: A change of a partition that does not exist.
ABSENT_PARTITION = encode_metadata(
    PartitionChangeRecord(partition_id=7, topic_id=b"?" * 16, leader=1), 2
)


def disk_with_bad_record(value: bytes) -> tuple[MemoryFiles, int]:
    """A disk with this encoded record committed between others, and the record's offset."""
    host = make_host(demo=1)
    first = host.node.quorum.end
    for values in ([None, value], [None]):
        proposal = proposal_of([NoOpRecord()] * len(values))
        proposal.values = [
            old if new is None else new for old, new in zip(proposal.values, values, strict=True)
        ]
        assert not host.node.quorum.propose(proposal, lambda _, __: None, host.now)
        host.turn()
    create_topics(host, {"later": 1})
    host.files.kill()
    return host.files, first + 1


def check_every_start(files: MemoryFiles, offset: int) -> None:
    """Every start ends at once, with the same message."""
    for _ in range(2):
        with pytest.raises(UnreplayableError) as stopped:
            VirtualHost(files)
        assert f"the committed record at offset {offset} can't be replayed" in str(stopped.value)
        assert "kraftlog quorum repair --drop-from" in str(stopped.value)
        files.kill()


@pytest.mark.parametrize(
    "value", [UNKNOWN_TYPE, ABSENT_PARTITION, b"\x01"], ids=["unknown", "absent", "cut"]
)
def test_an_unreplayable_record_ends_every_start_with_its_offset(value: bytes) -> None:
    """C241: an unknown type, a change of an absent partition, a truncated record."""
    check_every_start(*disk_with_bad_record(value))


def test_a_string_beyond_its_limit_ends_every_start_with_its_offset(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    check_every_start(*disk_with_bad_record(value_with_too_long_string(monkeypatch)))


def test_an_exception_in_a_publisher_names_the_record_offset(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The record is valid, but the node cannot continue after the exception."""
    host = make_host(demo=1)

    def broken(*_: object) -> None:
        raise ZeroDivisionError("of ours")

    monkeypatch.setattr(ReplicaManager, "_apply_partition", broken)
    end = host.node.quorum.end
    with pytest.raises(
        UnreplayableError,
        match=rf"record at offset {end + 1} can't.*(?s:.)*the replica manager(?s:.)*of ours",
    ):
        create_topics(host, {"later": 1})


def test_an_unreplayable_snapshot_is_reported_with_its_id(monkeypatch: pytest.MonkeyPatch) -> None:
    message = str(unreplayable_snapshot(OffsetAndEpoch(7, 2), ZeroDivisionError("of ours")))
    assert "the snapshot at offset 7, epoch 2, can't be replayed" in message
    assert "internal error" in message

    def two_topics_with_one_name(_: object) -> list[TopicRecord]:
        return [TopicRecord(name="demo", topic_id=topic_id * 16) for topic_id in (b"?", b"!")]

    host = VirtualHost(settings=SNAPSHOT_ALWAYS)
    monkeypatch.setattr("kraftlog.metadata.image.Image.records", two_topics_with_one_name)
    create_topics(host, {"demo": 1})
    host.pass_time(10)
    host.settle()
    host.files.kill()
    with pytest.raises(UnreplayableError, match=r"the snapshot at offset .* can't be replayed"):
        VirtualHost(host.files)


#: A snapshot is due after each record.
SNAPSHOT_ALWAYS = """\
process.roles=broker,controller
node.id=1
listeners=PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093
controller.listener.names=CONTROLLER
controller.quorum.voters=1@127.0.0.1:9093
metadata.log.max.record.bytes.between.snapshots=1
"""


# Repair ------------------------------------------------------------------------------------------


def survivor_of(files: MemoryFiles) -> SurvivingDirectory:
    """Open the directory for a repair; write its meta.properties if it has none."""
    directory_id = uuid_text(bytes([1] * 16))
    ids = f"cluster.id={CLUSTER_ID}\nnode.id=1\ndirectory.id={directory_id}\n"
    properties = f"version=1\n{ids}"
    if not files.exists(f"data/{meta_properties.NAME}"):
        write_atomically(files, f"data/{meta_properties.NAME}", properties.encode())
    return SurvivingDirectory(files, "data")


def test_repair_drops_a_record_and_all_that_follow() -> None:
    """Earlier records stay, and the node leads in a later epoch."""
    files, offset = disk_with_bad_record(UNKNOWN_TYPE)
    survivor = survivor_of(files)
    survivor.drop_from(offset)
    state = survivor.state
    assert state.end == offset - 1, "the start of its batch"
    [lost] = possible_losses(state)
    assert lost.startswith(f"{state.dropped} records from offset {offset - 1} on")
    with pytest.raises(RepairRefusedError, match="records may be lost"):
        survivor.repair(voters_by_id(1), None, 0)
    survivor.repair(voters_by_id(1), state.point, 0)
    survivor.close()
    files.kill()
    host = VirtualHost(files)
    assert list(host.node.image.topic_ids) == ["demo"]
    create_topics(host, {"more": 1})
    files.kill()
    assert list(VirtualHost(files).node.image.topic_ids) == ["demo", "more"]


@pytest.mark.parametrize("offset", [-1, 10**6])
def test_repair_refuses_offsets_outside_the_log(offset: int) -> None:
    files, _ = disk_with_bad_record(UNKNOWN_TYPE)
    survivor = survivor_of(files)
    end = survivor.state.end
    with pytest.raises(RepairRefusedError, match=f"the log has offsets 0 to {end - 1}"):
        survivor.drop_from(offset)
    assert (survivor.state.end, survivor.state.dropped) == (end, 0)
    survivor.close()


def test_repair_resumes_after_a_crash_before_it_writes_the_voters() -> None:
    files, offset = disk_with_bad_record(UNKNOWN_TYPE)
    survivor = survivor_of(files)
    survivor.drop_from(offset)
    point = survivor.state.point
    files.faults = [Fault("pwritev", path=".log")]
    with pytest.raises(StorageError):
        survivor.repair(voters_by_id(1), point, 0)
    files.faults.clear()
    files.kill()
    reopened = survivor_of(files)
    assert reopened.state.point == point, "the record is dropped"
    reopened.repair(voters_by_id(1), point, 0)
    reopened.close()
    files.kill()
    assert list(VirtualHost(files).node.image.topic_ids) == ["demo"]
