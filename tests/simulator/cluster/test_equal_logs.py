"""Replicas' logs are compared as the files have them, at every quiet moment."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kraftlog.records.builder import BatchBuilder
from kraftlog_simulator.cluster.equal_logs import LogsAreEqual
from kraftlog_simulator.cluster.run import begin
from kraftlog_simulator.cluster.setting import ClusterSetting
from kraftlog_simulator.cluster.world import ClusterWorld
from kraftlog_simulator.nodes.equal_logs import (
    MetadataLogsAreEqual,
    first_difference,
    without_deleted,
)
from kraftlog_simulator.nodes.log_view import FOLDER
from kraftlog_simulator.nodes.world import NodeWorld, node_setting
from kraftlog_simulator.run import simulate
from kraftlog_simulator.scenarios.goals import all_reached
from kraftlog_simulator.scenarios.goals import begin as begin_quorum
from kraftlog_simulator.setting import KAFKA_TIMES, Setting
from kraftlog_simulator.violation import Violation
from kraftlog_simulator.world import Goal, time_passes

if TYPE_CHECKING:
    from collections.abc import Iterator


def batches(count: int = 5) -> list[bytes]:
    """Batches of one record each, with ascending offsets."""
    built = []
    for offset in range(count):
        builder = BatchBuilder(base_offset=offset, leader_epoch=1)
        builder.append(0, None, b"%d" % offset)
        built.append(bytes(builder.build()))
    return built


SAME = batches()
OTHER = SAME[2][:-1] + bytes([SAME[2][-1] ^ 1])


@pytest.mark.parametrize(
    ("other", "is_equal"),
    [
        (SAME, True),
        (SAME[2:], True),  # the first records were deleted
        ([], True),
        ([*SAME[:2], OTHER, *SAME[3:]], False),
        ([*SAME[:2], *SAME[3:]], False),
        ([*SAME[:3], SAME[2], *SAME[3:]], False),
        ([*SAME[:2], SAME[3], SAME[2], SAME[4]], False),
        (SAME[:4], False),
        ([*SAME, SAME[4]], False),
    ],
    ids=[
        "the same",
        "starts later",
        "all deleted",
        "changed",
        "removed",
        "duplicated",
        "reordered",
        "truncated",
        "added",
    ],
)
def test_a_difference_of_two_logs_is_found(other: list[bytes], is_equal: bool) -> None:
    logs = [("first", b"".join(SAME)), ("other", b"".join(other))]
    assert (first_difference(logs) is None) == is_equal
    assert (first_difference(logs[::-1]) is None) == is_equal


@pytest.mark.parametrize("start", range(6))
def test_s6_what_is_below_the_log_start_is_not_compared(start: int) -> None:
    """A former leader may have other records there: the leader has deleted its own."""
    assert without_deleted(b"".join(SAME), start) == b"".join(SAME[start:])


def test_s6_other_records_below_a_replicas_log_start_are_no_difference() -> None:
    scene = Scene()
    scene.damage(0)
    for node in scene.world.replicas.values():
        partition = node.node.replica_manager.partitions[scene.key]
        partition.start = scene.world.committed(scene.key).batches[0].end
    scene.invariant.on_image(scene.world.image)
    assert scene.invariant._compared


def test_a_difference_names_the_last_batches_that_differ() -> None:
    changed = b"".join([*SAME[:2], OTHER, *SAME[3:]])
    assert first_difference([("a", b"".join(SAME)), ("b", changed)]) == (
        f"a has the batch 2 to 3 of epoch 1 with the bytes {SAME[2].hex()}, "
        f"b has the batch 2 to 3 of epoch 1 with the bytes {OTHER.hex()}"
    )


class Scene:
    """A world of three brokers whose replicas of a partition have some records and are quiet."""

    def __init__(self) -> None:
        setting = ClusterSetting(voters=3, replication=3, min_insync=2, raft=KAFKA_TIMES)
        self.world = world = ClusterWorld(5, setting)
        world.play(self.script())
        self.key = world.keys[0]
        self.invariant = next(i for i in world.cluster_invariants if isinstance(i, LogsAreEqual))

    def script(self) -> Iterator[Goal]:
        world = self.world
        yield from begin(world)
        key = world.keys[0]
        yield Goal("some records", lambda: len(world.committed(key).batches) > 5, 10_000)
        for producer in world.producers:
            producer.is_running = False
        yield time_passes(2000)

    def damage(self, broker: int) -> None:
        """Change a byte of a replica's file, which no other invariant reads again."""
        node = self.world.replicas[broker]
        partition = node.node.replica_manager.partitions[self.key]
        log = node.runner.directory.logs[partition.log]
        files = self.world.replicas[broker].files
        content = files.file(f"{log.folder}/{0:020d}.log").content
        content[80] ^= 1


def test_s1_replicas_are_compared_at_a_quiet_moment() -> None:
    scene = Scene()
    image = scene.world.image.partitions[scene.key]
    assert len(scene.invariant._quiet_replicas(scene.key, image)) == 3
    assert scene.world.coverage["logs of a partition compared"] > 5


@pytest.mark.parametrize("broker", range(3))
def test_s1_a_changed_byte_of_a_replica_is_found(broker: int) -> None:
    """At the next quiet moment: after the next records, or the next start of a process."""
    scene = Scene()
    scene.invariant._compared.clear()
    scene.damage(broker)
    with pytest.raises(Violation, match="the batch 0 to") as violation:
        scene.invariant.on_image(scene.world.image)
    assert violation.value.invariant == "logs are equal"


def test_s1_a_changed_byte_is_found_by_the_run_itself() -> None:
    scene = Scene()
    scene.damage(1)
    producer = scene.world.producers[0]

    def script() -> Iterator[Goal]:
        producer.begin()
        yield time_passes(5000)

    with pytest.raises(Violation) as violation:
        scene.world.play(script())
    assert violation.value.invariant == "logs are equal"


def test_v6_replicas_are_not_compared_while_one_lacks_records() -> None:
    scene = Scene()
    scene.invariant._compared.clear()
    scene.damage(1)
    partition = scene.world.replicas[2].node.replica_manager.partitions[scene.key]
    partition.end += 1
    scene.invariant.on_image(scene.world.image)
    partition.end -= 1
    partition.leader_epoch += 1
    scene.invariant.on_image(scene.world.image)


def test_v6_replicas_are_not_compared_while_one_may_have_to_truncate() -> None:
    """In a new epoch a follower may have other records at the same end, until its first fetch."""
    scene = Scene()
    scene.invariant._compared.clear()
    scene.damage(1)
    image = scene.world.image.partitions[scene.key]
    leader = scene.world.replicas[image.leader].node.replica_manager.partitions[scene.key]
    replica = scene.world.replicas[(image.leader + 1) % 3]
    log = replica.runner.directory.logs[leader.log]
    log.epochs.assign(1, log.end_offset - 1)
    leader.high_watermark -= 1
    scene.invariant.on_image(scene.world.image)
    leader.high_watermark += 1
    with pytest.raises(Violation, match="the batch 0 to"):
        scene.invariant.on_image(scene.world.image)


class Quorum:
    """A world of whole nodes that have committed some records of the metadata log."""

    def __init__(self) -> None:
        setting = node_setting(Setting(voters=3, raft=KAFKA_TIMES), changes_voters=False)
        self.world = NodeWorld(5, setting)
        self.world.play(self.script())
        self.invariant = next(
            i for i in self.world.invariants if isinstance(i, MetadataLogsAreEqual)
        )

    def script(self) -> Iterator[Goal]:
        yield from begin_quorum(self.world)
        yield all_reached(self.world, 10)
        self.world.workload.stop()
        yield time_passes(3000)


@pytest.mark.parametrize("node", range(3))
def test_i7_a_changed_byte_of_a_metadata_log_is_found(node: int) -> None:
    quorum = Quorum()
    quorum.invariant.on_end()
    files = quorum.world.replicas[node].files  # type: ignore[attr-defined]  # a whole node
    files.file(f"{FOLDER}/{0:020d}.log").content[80] ^= 1
    with pytest.raises(Violation, match="metadata: ") as violation:
        quorum.invariant.on_end()
    assert violation.value.invariant == "logs are equal"


def test_s1_runs_with_faults_have_quiet_moments() -> None:
    outcome = simulate("cluster", 2)
    assert not outcome.failed, str(outcome)
    assert outcome.coverage["logs of a partition compared"] > 10
