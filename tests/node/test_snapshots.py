"""Snapshots of the metadata: taken by a node, read by it and by Kafka, and in place of the log."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kraftlog.simulator.host import SETTINGS, VirtualHost
from tests.node.talk import create_topics

if TYPE_CHECKING:
    from pathlib import Path

    from tests.interop.driver import Driver

OFTEN = f"{SETTINGS}metadata.log.max.record.bytes.between.snapshots=2000\n"
FOLDER = "data/__cluster_metadata-0"


def snapped_host() -> VirtualHost:
    host = VirtualHost(settings=OFTEN)
    for number in range(40):
        create_topics(host, {f"topic-{number}": 2})
        host.pass_time(10)
    return host


def checkpoints(host: VirtualHost) -> list[str]:
    return [name for name in host.files.list(FOLDER) if name.endswith(".checkpoint")]


def test_q38_the_newest_snapshot_bounds_the_log() -> None:
    host = snapped_host()
    [newest] = checkpoints(host)
    offset = int(newest.partition("-")[0])
    assert host.node.quorum.core.log.start == offset > 0
    assert host.runner.directory.logs["__cluster_metadata", 0].start_offset == offset


def test_q38_a_node_starts_from_its_snapshot_and_the_log_behind_it() -> None:
    first = snapped_host()
    first.files.kill()
    again = VirtualHost(first.files, OFTEN)
    assert again.node.image.topics == first.node.image.topics
    assert again.node.image.configs == first.node.image.configs
    assert set(again.node.partitions) == set(first.node.partitions)
    create_topics(again, {"later": 1})
    assert "later" in again.node.image.topic_ids


def test_q38_kafka_reads_our_snapshots(tmp_path: Path, jvm: Driver) -> None:
    host = snapped_host()
    [name] = checkpoints(host)
    copy = tmp_path / name
    fd = host.files.open(f"{FOLDER}/{name}", write=False)
    copy.write_bytes(host.files.pread(fd, host.files.size(fd), 0))
    dump = jvm.tool(
        "org.apache.kafka.tools.DumpLogSegments",
        "--cluster-metadata-decoder",
        "--files",
        str(copy),
    )
    shown = dump.ok().stdout
    assert "SnapshotHeader" in shown
    assert "SnapshotFooter" in shown
    assert shown.count('"type":"TOPIC_RECORD"') > 10
    assert shown.count('"type":"PARTITION_RECORD"') == 2 * shown.count('"type":"TOPIC_RECORD"')


def test_whatever_a_node_wants_done_may_change_what_is_due() -> None:
    """Its host has to ask it again, whichever part of it wants something."""
    host = VirtualHost()
    host.node.is_stirred = False
    host.node.quorum.snapping.take(host.node.image.records(), host.node.quorum.applied, host.now)
    assert host.node.is_stirred
