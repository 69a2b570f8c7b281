"""Each record of a replay is written once: attempts repeat, overtake each other, or wake up late.

Without Spark: its tasks are called as Spark calls them in its workers.
"""

from __future__ import annotations

import json
from itertools import count
from threading import Barrier, Event, Thread
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from kraftlog import Client
from kraftlog.client import groups
from kraftlog.client.produce_requests import SEQUENCES
from kraftlog.spark.brief_errors import KraftlogSparkError
from kraftlog.spark.replay.lane import HEADER, Replay, commit_lanes, find_lanes
from kraftlog.spark.replay.lane_writer import LaneWriter
from kraftlog.spark.replay.task import lane_task, reported_lane
from kraftlog.spark.sink_options import SinkOptions
from tests.server.local_cluster import LocalCluster
from tests.server.replication_load import until
from tests.time_limit import LIMIT_S

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from pathlib import Path

    from kraftlog.spark.replay.lane import Lane

HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
SOURCE = "orders"
#: Makes the settings of each attempt different, so that each has connections of its own.
_numbers = count(1)


def rows(
    offsets: Sequence[int], partition: int = 0, timestamp_us: int | None = None
) -> pa.RecordBatch:
    replay = Replay("", SOURCE)
    return pa.record_batch(
        {
            "value": [b"%d" % offset for offset in offsets],
            "partition": pa.array([partition] * len(offsets), pa.int32()),
            "offset": pa.array(offsets, pa.int64()),
            "timestamp": pa.array([timestamp_us] * len(offsets), pa.timestamp("us", tz="UTC")),
            "headers": pa.array(
                [
                    [
                        {
                            "key": HEADER,
                            "value": json.dumps(replay.header(partition, offset)).encode(),
                        }
                    ]
                    for offset in offsets
                ],
                HEADERS,
            ),
        }
    )


def batches(first: int, end: int, size: int = 10) -> list[pa.RecordBatch]:
    return [rows(range(start, min(start + size, end))) for start in range(first, end, size)]


class Target:
    """The topic that is written to, and a driver that plans its lanes."""

    def __init__(self, client: Client, address: str, topic: str) -> None:
        self.client = client
        self._address = address
        self.topic = topic
        self.replay = Replay(topic, SOURCE)

    def of_later_topic(self) -> Target:
        later = f"{self.topic}-later"
        self.client.create_topic(later, partitions=1)
        return Target(self.client, self._address, later)

    def lanes(self, *, again: bool = False) -> dict[int, Lane]:
        """As a driver does at its start."""
        lanes = find_lanes(self.client.cluster, self.replay, [0], again=again)
        commit_lanes(self.client.cluster, self.replay, lanes.values())
        return lanes

    def settings(self, batch_bytes: int = 1, delivery_timeout_s: float = LIMIT_S) -> SinkOptions:
        """With the smallest batches, each record has one of its own."""
        return SinkOptions(
            self._address,
            batch_bytes=batch_bytes,
            request_timeout_s=LIMIT_S + next(_numbers),
            delivery_timeout_s=delivery_timeout_s,
        )

    def attempt(
        self,
        lanes: dict[int, Lane],
        given: Iterable[pa.RecordBatch],
        settings: SinkOptions | None = None,
    ) -> dict[str, int]:
        """Run an attempt of a task; return the row that it reports."""
        task = lane_task(settings or self.settings(), lanes)
        [report] = pa.Table.from_batches(list(task(iter(given)))).to_pylist()
        return dict(report)

    def values(self) -> list[int]:
        with self.client.consume(self.topic, start="beginning", until_end=True) as records:
            return [int(record.value or b"") for record in records]


@pytest.fixture
def target(address: str, named: Callable[[str], str]) -> Iterator[Target]:
    with Client(address, timeout_s=LIMIT_S) as client:
        client.create_topic(named("t"), partitions=1)
        yield Target(client, address, named("t"))


def test_a_repeated_attempt_writes_nothing_twice(target: Target) -> None:
    lanes = target.lanes()
    first = target.attempt(lanes, batches(0, 50))
    assert target.attempt(lanes, batches(0, 50)) == first
    assert target.attempt(lanes, batches(0, 60))["records"] == 60
    assert target.values() == [*range(60)]


def test_a_repeated_attempt_reads_before_it_writes(
    target: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A broker forgets idle producers, and would then accept what it has already."""
    lanes = target.lanes()
    target.attempt(lanes, batches(0, 50))
    monkeypatch.delattr(LaneWriter, "_append")
    assert target.attempt(lanes, batches(0, 50))["next_offset"] == 50


def test_a_lane_keeps_the_epoch_of_its_producer(target: Target) -> None:
    """Idempotent producers may raise it themselves: an earlier run's end may have any epoch."""
    [lane] = target.lanes().values()
    target.attempt({0: lane.replace(epoch=3)}, batches(0, 20))
    target.attempt(target.lanes(), batches(0, 30))
    assert target.lanes()[0].epoch == 3
    assert target.values() == [*range(30)]


@pytest.mark.parametrize("batch_bytes", [1, 1000])
def test_an_attempt_continues_where_a_killed_one_ended(target: Target, batch_bytes: int) -> None:
    """The second one may make batches of another size, as a broker's settings may have changed."""
    lanes = target.lanes()
    target.attempt(lanes, batches(0, 33))
    target.attempt(lanes, batches(0, 50, size=7), target.settings(batch_bytes))
    assert target.values() == [*range(50)]


def test_attempts_at_the_same_time_write_each_record_once(target: Target) -> None:
    lanes = target.lanes()
    barrier = Barrier(3)
    reports = []

    def attempt(size: int, batch_bytes: int) -> None:
        settings = target.settings(batch_bytes)
        barrier.wait(LIMIT_S)
        reports.append(target.attempt(lanes, batches(0, 200, size), settings))

    threads = [
        Thread(target=attempt, args=arguments) for arguments in ((10, 1), (10, 300), (7, 300))
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(LIMIT_S)
    assert [report["next_offset"] for report in reports] == [200, 200, 200]
    assert target.values() == [*range(200)]


def test_an_attempt_that_wakes_up_late_writes_nothing(target: Target) -> None:
    """It sleeps with a batch in its hands; the others finish the task, and then the next one."""
    lanes = target.lanes()
    settings = target.settings()
    asleep, woken = Event(), Event()

    def sleeping() -> Iterator[pa.RecordBatch]:
        given = batches(0, 50)
        yield from given[:2]
        asleep.set()
        woken.wait(LIMIT_S)
        yield from given[2:]

    zombie = Thread(target=target.attempt, args=(lanes, sleeping(), settings))
    zombie.start()
    asleep.wait(LIMIT_S)
    report = target.attempt(lanes, batches(0, 50))
    next_lanes = {0: reported_lane(target.replay, report)}
    target.attempt(next_lanes, batches(50, 90))
    woken.set()
    zombie.join(LIMIT_S)
    assert target.values() == [*range(90)]


def test_a_task_that_outlives_its_driver_writes_nothing_twice(target: Target) -> None:
    """The first driver is killed before any record is in the topic; its task writes later."""
    lanes_of_killed_driver = target.lanes()
    lanes = target.lanes()
    target.attempt(lanes, batches(0, 20))
    target.attempt(lanes_of_killed_driver, batches(0, 50))
    target.attempt(lanes, batches(0, 70))
    assert target.values() == [*range(70)]


def test_the_writer_that_is_overtaken_continues_after_the_other(target: Target) -> None:
    """Both have read the same end of the log; the broker takes the batch of one."""
    [lane] = target.lanes().values()
    first, second = (LaneWriter(target.client.cluster, lane, target.settings()) for _ in range(2))
    first.write(rows(range(8)))
    second.write(rows(range(3)))
    second.write(rows(range(3, 20)))
    first.write(rows(range(8, 25)))
    assert target.values() == [*range(25)]
    assert first.lane == second.lane.appended(5, 24, second.lane.position)


def test_records_of_others_do_not_disturb_a_lane(target: Target) -> None:
    lanes = target.lanes()

    def disturbed() -> Iterator[pa.RecordBatch]:
        for batch in batches(0, 30):
            target.client.produce(target.topic, "-1")
            yield batch

    target.attempt(lanes, disturbed())
    target.client.produce(target.topic, "-1")
    target.attempt(lanes, batches(0, 50))
    target.client.produce(target.topic, "-1")
    target.attempt(target.lanes(), batches(0, 60))
    assert [value for value in target.values() if value >= 0] == [*range(60)]


def test_a_new_driver_continues_without_the_group(target: Target) -> None:
    """Brokers delete a group's offsets after some days; then the end of the log says it."""
    target.attempt(target.lanes(), batches(0, 20))
    target.client.produce(target.topic, "-1")
    target.client.delete_group(target.replay.group)
    target.attempt(target.lanes(), batches(0, 30))
    assert [value for value in target.values() if value >= 0] == [*range(30)]


def test_again_starts_a_new_lane(target: Target) -> None:
    target.attempt(target.lanes(), batches(0, 20))
    again = target.lanes(again=True)
    target.attempt(again, batches(0, 10))
    target.attempt(again, batches(0, 15))
    target.attempt(target.lanes(), batches(0, 30))
    assert target.values() == [*range(20), *range(30)]


def test_a_late_task_does_not_move_the_lane_that_replaced_its_own(target: Target) -> None:
    """With --again a new lane has begun; the next driver continues that one."""
    abandoned = target.lanes()
    target.attempt(target.lanes(again=True), batches(0, 10))
    target.attempt(abandoned, batches(0, 5))
    target.attempt(target.lanes(), batches(0, 12))
    assert target.values() == [*range(10), *range(5), *range(10, 12)]


def test_a_part_of_the_records_has_a_lane_of_its_own(target: Target) -> None:
    target.attempt(target.lanes(), batches(0, 20))
    other = Replay(target.topic, SOURCE, "some")
    [lane] = find_lanes(target.client.cluster, other, [0]).values()
    assert (lane.next_offset, lane.sequence) == (0, 0)


def test_deleted_records_are_not_written_again(target: Target) -> None:
    """The log begins after what a task has written: the broker still knows the last sequence."""
    lanes = target.lanes()
    target.attempt(lanes, batches(0, 20))
    target.client.delete_records({(target.topic, 0): 20})
    with pytest.raises(KraftlogSparkError, match=r"later records of this replay.*--again starts"):
        target.attempt(lanes, batches(0, 30), target.settings(delivery_timeout_s=0.2))
    assert target.values() == []


def test_a_finished_job_is_known_without_its_records(target: Target) -> None:
    """The driver has committed the lane: what the topic's retention deletes stays written."""
    report = target.attempt(target.lanes(), batches(0, 20))
    lane = reported_lane(target.replay, report)
    commit_lanes(target.client.cluster, target.replay, [lane])
    target.client.delete_records({(target.topic, 0): 20})
    target.attempt(target.lanes(), batches(0, 30))
    assert target.values() == [*range(20, 30)]


def test_a_topic_created_again_has_no_lane(target: Target) -> None:
    target.attempt(target.lanes(), batches(0, 20))
    target.client.delete_topic(target.topic)
    target.client.create_topic(target.topic, partitions=1)
    target.attempt(target.lanes(), batches(0, 10))
    assert target.values() == [*range(10)]


def test_a_lane_of_another_topic_of_this_name_is_not_used(target: Target) -> None:
    """Some brokers keep the offsets of a deleted topic."""
    first = target.lanes()[0]
    name, metadata = (target.topic, 0), target.client.committed(target.replay.group)
    state = json.loads(metadata[target.topic, 0].metadata)
    for changed in (json.dumps({**state, "topic_id": "another"}), "{}", "no JSON"):
        groups.commit(
            target.client.cluster, target.replay.group, {name: 0}, metadata={name: changed}
        )
        assert target.lanes()[0].producer_id != first.producer_id


def test_a_lane_is_kept_if_its_end_is_not_visible_yet(target: Target) -> None:
    """A new leader reports an older end of the log until it knows what is replicated."""
    target.attempt(target.lanes(), batches(0, 20))
    [lane] = target.lanes().values()
    later = lane.replace(position=lane.position + 5)
    commit_lanes(target.client.cluster, target.replay, [later])
    assert target.lanes() == {0: later}


def test_sequence_numbers_continue_with_zero(target: Target) -> None:
    # Only of a producer that is older than the topic may earlier batches be forgotten.
    older = target.lanes()[0].producer_id
    target = target.of_later_topic()
    lanes = {0: target.lanes()[0].replace(producer_id=older, sequence=SEQUENCES - 15)}
    target.attempt(lanes, batches(0, 15))
    target.attempt(lanes, batches(0, 40))
    target.attempt(lanes, batches(0, 50))
    assert target.values() == [*range(50)]


def test_rows_with_the_same_offset_are_one_record(target: Target) -> None:
    lanes = target.lanes()
    target.attempt(lanes, [rows([0, 1, 1, 2]), rows([2, 3])])
    assert target.values() == [*range(4)]


def test_headers_that_are_not_of_a_replay_are_ignored(target: Target) -> None:
    for value in (b"", b"{", b"[]", b'{"topic": "orders", "offset": "x"}', b'{"offset": 7}'):
        with target.client.producer() as producer:
            producer.send(target.topic, "-1", headers=[(HEADER, value)])
    assert target.lanes()[0].next_offset == 0


@pytest.mark.long
@pytest.mark.slow
def test_attempts_outlive_the_kill_of_the_leader(tmp_path: Path) -> None:
    """Two attempts write at the same time; what the old leader did not replicate is written."""
    cluster = LocalCluster(tmp_path)
    try:
        with Client(cluster.servers, timeout_s=LIMIT_S) as client:
            client.create_topic("t", partitions=1, replication_factor=3)
            target = Target(client, cluster.servers, "t")
            lanes = target.lanes()
            threads = [
                Thread(target=target.attempt, args=(lanes, batches(0, 3000), target.settings()))
                for _ in range(2)
            ]
            for thread in threads:
                thread.start()
            until(lambda: client.offsets("t")[0].offset > 300, "300 records")
            cluster.kill(client.describe_topic("t").partitions[0].leader)
            for thread in threads:
                thread.join(2 * LIMIT_S)
            assert target.values() == [*range(3000)]
    finally:
        cluster.end()
