"""Metadata snapshots: a node takes them, the node and Kafka read them, they replace the log."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from kraftlog.logstate.voters import Endpoint, ReplicaKey, Voter, VoterSet, voters_by_id
from kraftlog.node.quorum.batches import METADATA_LOG, snapshot_voters
from kraftlog.node.quorum.requests import request_to_wire
from kraftlog.node.quorum.snapshots import snapshot_pieces
from kraftlog.node.quorum.snapshotter import RECORDS, snapshot_policy_of
from kraftlog.raft.messages import Fetch
from kraftlog.storage import quorum_state
from kraftlog.storage.metadata_snapshots import name_of
from kraftlog.types import NULL_UUID, OffsetAndEpoch, uuid_text
from kraftlog.wire.apis import CONTROLLER
from kraftlog.wire.messages.metadata_records import ConfigRecord
from tests.node.frame_client import FrameClient, create_topics
from tests.node.proposals import proposal_of
from tests.virtual_host import CLUSTER_ID, SETTINGS, VirtualHost

if TYPE_CHECKING:
    from pathlib import Path

    from tests.interop.driver import Driver

SNAPSHOTS_OFTEN = f"{SETTINGS}metadata.log.max.record.bytes.between.snapshots=2000\n"
NO_SNAPSHOTS = f"{SETTINGS}metadata.log.max.record.bytes.between.snapshots={1 << 40}\n"
FOLDER = "data/__cluster_metadata-0"


def host_with_snapshots() -> VirtualHost:
    host = VirtualHost(settings=SNAPSHOTS_OFTEN)
    for number in range(40):
        create_topics(host, {f"topic-{number}": 2})
        host.pass_time(10)
    return host


def checkpoints(host: VirtualHost) -> list[str]:
    return [name for name in host.files.list(FOLDER) if name.endswith(".checkpoint")]


def snapshot_ends(host: VirtualHost) -> list[int]:
    return [int(name.partition("-")[0]) for name in checkpoints(host)]


def test_q38_the_snapshot_before_the_newest_bounds_the_log() -> None:
    """Of two snapshots an empty replica gets the older one, at which the log starts."""
    host = host_with_snapshots()
    older, newest = snapshot_ends(host)
    core = host.node.quorum.core
    assert newest > core.log.start == older > 0
    assert core.log.snapshot == OffsetAndEpoch(older, core.election.epoch)
    assert host.runner.directory.logs["__cluster_metadata", 0].start_offset == older


def test_q38_a_follower_behind_the_newest_snapshot_reads_the_log() -> None:
    """Otherwise a replica that lacks one record would have to fetch the whole snapshot."""
    host = host_with_snapshots()
    older, newest = snapshot_ends(host)
    epoch = host.node.quorum.epoch
    for offset, expected in ((older, -1), (newest - 1, -1), (older - 1, older)):
        fetch = Fetch(None, ReplicaKey(9, b"9" * 16), epoch, offset, epoch, -1, 0, 100)
        api_key, request = request_to_wire(fetch)
        response = FrameClient(host, CONTROLLER).ask(api_key, 17, request)
        [partition] = response.responses[0].partitions
        assert partition.error_code == 0
        assert partition.snapshot_id.end_offset == expected
        assert bool(partition.records) == (expected < 0)


def test_q38_a_node_starts_from_its_snapshot_and_the_log_after_it() -> None:
    first = host_with_snapshots()
    first.files.kill()
    restarted = VirtualHost(first.files, SNAPSHOTS_OFTEN)
    assert restarted.node.image.topics == first.node.image.topics
    assert restarted.node.image.configs == first.node.image.configs
    assert set(restarted.node.replica_manager.partitions) == set(
        first.node.replica_manager.partitions
    )
    create_topics(restarted, {"later": 1})
    assert "later" in restarted.node.image.topic_ids


def test_r1_voters_targets_and_cluster_id_survive_a_snapshot_and_a_restart() -> None:
    """The log no longer has the voters record, and the voters have no directory ids."""
    first = VirtualHost(settings=SNAPSHOTS_OFTEN)
    quorum = first.node.quorum
    assert not quorum.change_voters(quorum.core.reassign, (1, 4), lambda *_: None, first.now)
    for number in range(40):
        create_topics(first, {f"topic-{number}": 2})
        first.pass_time(10)
    voters = quorum.core.log.voter_set
    assert (voters.ids, voters.targets, voters.cluster_id) == ((1,), (1, 4), CLUSTER_ID)
    assert quorum.core.log.start > quorum.core.log.voters.latest_offset
    first.files.kill()
    restarted = VirtualHost(first.files, SNAPSHOTS_OFTEN, settled=False)
    assert restarted.node.quorum.core.log.voter_set == voters


def test_r1_voters_of_the_settings_are_in_no_snapshot() -> None:
    """No record has them, so each reader uses its own settings, as with Kafka's static voters."""
    data = b"".join(snapshot_pieces([], voters_by_id(1, 2, 3), 1, 0))
    assert snapshot_voters(data) is None


A, B = b"a" * 16, b"b" * 16
#: The known directories of voters 0 and 1, and the kraft.version that follows.
DIRECTORIES_AND_LEVELS = [((NULL_UUID, NULL_UUID), 0), ((A, NULL_UUID), 0), ((A, B), 1)]


def voters_in(*directories: bytes) -> VoterSet:
    voters = [
        Voter(ReplicaKey(i, d), (Endpoint("CONTROLLER", "h", i),))
        for i, d in enumerate(directories)
    ]
    return VoterSet(tuple(voters), (0, 7), CLUSTER_ID)


@pytest.mark.parametrize("directories", [directories for directories, _ in DIRECTORIES_AND_LEVELS])
def test_r1_a_snapshot_contains_voters_with_any_known_fields(
    directories: tuple[bytes, ...],
) -> None:
    voters = voters_in(*directories)
    assert snapshot_voters(b"".join(snapshot_pieces([], voters, 1, 0))) == voters


@pytest.mark.parametrize(("directories", "level"), DIRECTORIES_AND_LEVELS)
def test_r1_kafka_finds_the_voters_in_our_snapshots(
    directories: tuple[bytes, ...], level: int, tmp_path: Path, jvm: Driver
) -> None:
    """Also at kraft.version 0, where Kafka itself writes no voters."""
    content = b"".join(snapshot_pieces([], voters_in(*directories), 3, 0))
    (tmp_path / name_of(OffsetAndEpoch(9, 3))).write_bytes(content)
    oracle = json.loads(jvm.tool("SnapshotOracle", str(tmp_path), "9", "3").ok().stdout)
    assert oracle["kraft.version"] == level
    assert sorted(oracle["voters"]) == [
        f"{i} {uuid_text(d) if any(d) else '-'}" for i, d in enumerate(directories)
    ]


def test_q4_quorum_state_holds_cluster_id_voters_and_applied_offset() -> None:
    """The values are those at the file's last write, for `quorum repair`; a node uses its log."""
    host = host_with_snapshots()
    applied = host.node.quorum.applied
    stored = quorum_state.load(host.files, FOLDER)
    assert stored is not None
    assert (stored.version, stored.cluster_id) == (quorum_state.DYNAMIC_VOTERS, CLUSTER_ID)
    assert (stored.voter_ids, stored.applied_offset) == ((1,), 0)
    host.files.kill()
    VirtualHost(host.files)
    stored = quorum_state.load(host.files, FOLDER)
    assert stored is not None
    assert (stored.version, stored.cluster_id) == (quorum_state.DYNAMIC_VOTERS, CLUSTER_ID)
    assert (stored.voter_ids, stored.epoch) == ((1,), 2)
    assert 0 < stored.applied_offset <= applied


def test_q38_the_log_is_bounded_with_one_snapshot_for_each_start() -> None:
    """Each start begins after the newest snapshot, so older segments are not needed."""
    files = None
    for round_number in range(4):
        host = VirtualHost(files, SNAPSHOTS_OFTEN, settled=False)
        ends = snapshot_ends(host)
        assert len(ends) == min(round_number, 1)
        assert host.runner.directory.logs[METADATA_LOG].start_offset == sum(ends)
        host.settle()
        for number in range(40):
            if snapshot_ends(host) != ends:
                break
            create_topics(host, {f"topic-{round_number}-{number}": 2})
        assert len(snapshot_ends(host)) == len(ends) + 1
        files = host.files
        files.kill()


def test_q38_kafka_reads_our_snapshots(tmp_path: Path, jvm: Driver) -> None:
    host = host_with_snapshots()
    *_, name = checkpoints(host)
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


def test_every_effect_makes_the_host_poll() -> None:
    """Even an effect that a component of the node emits outside of a poll."""
    host = VirtualHost()
    host.node.needs_poll = False
    host.node.quorum.snapshotter.take(host.node.image.records(), host.node.quorum.applied, host.now)
    assert host.node.needs_poll


MIB = 1 << 20


def test_q38_a_snapshot_is_due_after_enough_records() -> None:
    host = VirtualHost()
    snapshotter = host.node.quorum.snapshotter
    snapshot_policy = snapshot_policy_of(host.node.config.settings)
    for held in (0, 7 * RECORDS):
        snapshotter.loaded(held, None)
        snapshotter.applied(max(held, RECORDS) - 1, MIB)
        assert not snapshotter.is_due(host.now, snapshot_policy)
        snapshotter.applied(1, 1)
        assert snapshotter.is_due(host.now, snapshot_policy)


def test_q38_a_configured_size_is_the_only_trigger_by_bytes() -> None:
    host = VirtualHost(settings=SNAPSHOTS_OFTEN)
    snapshotter = host.node.quorum.snapshotter
    snapshot_policy = snapshot_policy_of(host.node.config.settings)
    snapshotter.loaded(0, None)
    snapshotter.applied(1000 * RECORDS, 1999)
    assert not snapshotter.is_due(host.now, snapshot_policy)
    snapshotter.applied(1, 1)
    assert snapshotter.is_due(host.now, snapshot_policy)


def test_q38_a_snapshot_is_due_after_the_interval_with_new_records() -> None:
    host = VirtualHost()
    snapshotter = host.node.quorum.snapshotter
    snapshot_policy = snapshot_policy_of(host.node.config.settings)
    later = host.now.replace(monotonic_ms=host.now.monotonic_ms + snapshot_policy.after_ms)
    snapshotter.loaded(0, None)
    assert not snapshotter.is_due(later, snapshot_policy)
    snapshotter.applied(1, 1)
    assert snapshotter.is_due(later, snapshot_policy)
    assert not snapshotter.is_due(later, snapshot_policy.replace(after_ms=0))


def test_q38_records_replayed_at_start_count_for_the_next_snapshot() -> None:
    """Otherwise an often restarted node would take none, and each start would take longer.

    The first snapshot is taken once all records found at the start are replayed.
    """
    first = VirtualHost(settings=NO_SNAPSHOTS)
    for number in range(40):
        create_topics(first, {f"topic-{number}": 2})
    assert not checkpoints(first)
    end = first.node.quorum.applied
    first.files.kill()
    restarted = VirtualHost(first.files, SNAPSHOTS_OFTEN)
    restarted.pass_time(10)
    assert snapshot_ends(restarted)[-1] >= end


LARGE = ConfigRecord(resource_type=2, resource_name="t", name="x", value="v" * 30_000)


def host_without_its_first_segment() -> VirtualHost:
    """A node whose snapshots have replaced the first segment of the metadata log."""
    host = VirtualHost(settings=SNAPSHOTS_OFTEN)
    create_topics(host, {"demo": 1})
    for _ in range(80):
        assert not host.node.quorum.propose(proposal_of([LARGE] * 3), lambda _, __: None, host.now)
        host.turn()
    return host


def test_q38_segments_before_the_snapshots_are_deleted() -> None:
    """A start after a crash need not scan them."""
    host = host_without_its_first_segment()
    names = [name for name in host.files.list(FOLDER) if name.endswith(".log")]
    assert int(min(names).partition(".")[0]) > 0
    assert sum(host.files.size_of(f"{FOLDER}/{name}") for name in names) < 4 * MIB
    host.files.kill()
    restarted = VirtualHost(host.files, SNAPSHOTS_OFTEN)
    assert restarted.node.image.config(2, "t") == {"x": LARGE.value}
