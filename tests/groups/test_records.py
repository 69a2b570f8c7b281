"""Our records of groups and offsets are Kafka's, byte for byte, and Kafka's tool reads them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from kraftlog.records.builder import BatchBuilder
from tests.groups.shard_harness import WALL_MS, ShardHarness

if TYPE_CHECKING:
    from tests.interop.driver import Driver

#: Names of the records of `__consumer_offsets`, by the type in their keys.
NAMES = {1: "OffsetCommit", 2: "GroupMetadata"}
TOPIC_ID = bytes(range(16))


def harness_with_all_records() -> ShardHarness:
    """A shard whose log has all forms of records: members, offsets and tombstones."""
    harness = ShardHarness()
    static = harness.join(instance="i", client="client é")
    [member_id] = harness.request_member_ids(1)
    harness.join(member_id)
    harness.poll()
    leader = harness.outcome(static)
    harness.assign(leader)
    harness.commit_offsets({("t", 0): 5, ("é", 7): 2**40}, member_id, 1, metadata="seen", epoch=3)
    harness.commit_offsets({("t", 1): 6}, member_id, 1, topic_id=TOPIC_ID)
    harness.commit_offsets({("u", 0): 7}, member_id, 1, version=4, retention_ms=1000)
    harness.leave(member_id, leader.member_id)
    harness.delete_offsets(("u", 0))
    harness.delete_groups("g")
    return harness


def test_kafka_encodes_our_records_to_the_same_bytes(jvm: Driver) -> None:
    items = []
    for _, key, value in harness_with_all_records().log:
        name = NAMES[int.from_bytes(key[:2], "big")]
        items.append((f"{name}Key", 0, key[2:]))
        if value is not None:
            items.append((f"{name}Value", int.from_bytes(value[:2], "big"), value[2:]))
    responses = jvm.decode(items)
    assert {(name, version) for name, version, _ in items} == {
        ("GroupMetadataKey", 0),
        ("GroupMetadataValue", 3),
        ("OffsetCommitKey", 0),
        ("OffsetCommitValue", 1),
        ("OffsetCommitValue", 4),
    }
    for decoded, (_, _, data) in zip(responses, items, strict=True):
        assert (decoded.error, decoded.left, decoded.encoded_again) == ("", 0, data)


def test_kafkas_tool_prints_our_records(jvm: Driver, tmp_path: Path) -> None:
    builder = BatchBuilder()
    for _, key, value in harness_with_all_records().log:
        builder.append(WALL_MS, key, value)
    folder = tmp_path / "__consumer_offsets-0"
    folder.mkdir()
    segment = folder / f"{0:020}.log"
    segment.write_bytes(builder.build())
    output = jvm.tool(
        "org.apache.kafka.tools.DumpLogSegments", "--offsets-decoder", "--files", str(segment)
    ).ok()
    kinds = [int.from_bytes(key[:2], "big") for _, key, _ in harness_with_all_records().log]
    assert [int(each) for each in re.findall(r' key: {"type":"?(\d+)', output.stdout)] == kinds
    assert '"generation":1' in output.stdout
    assert f'"offset":{2**40}' in output.stdout
