"""A partition and its log have the same producer state, and each request gets one response.

A plain model checks a node under random batches, repeats, gaps, full disks, deletions and restarts:
each producer's records are in the log once and in order.
"""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from kraftlog.errors import ErrorCode
from kraftlog.wire.apis import ApiKey
from kraftlog_simulator.files import MemoryFiles
from tests.node.frame_client import FrameClient, make_host
from tests.node.test_log_ends import delete_records
from tests.node.test_producers import idempotent_batch
from tests.node.test_requests import produce, produce_result

#: Producer, distance of the first sequence from the expected one, number of records.
SENT = st.tuples(st.integers(1, 3), st.sampled_from([0, 0, 0, -1, -3, 2]), st.integers(1, 3))
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("turn"), st.lists(SENT, min_size=1, max_size=4), st.booleans()),
        st.tuples(st.sampled_from(["kill", "close", "delete"]), st.just([]), st.just(False)),
    ),
    min_size=1,
    max_size=12,
)


class Model:
    """A node, and the batches that it has accepted."""

    def __init__(self) -> None:
        self.host = make_host()
        #: The next sequence number of each producer.
        self.next: dict[int, int] = {}
        #: For each producer: (first sequence, count) -> base offset.
        self.accepted: dict[int, dict[tuple[int, int], int]] = {}
        self.end = 0

    def turn(self, sent: list[tuple[int, int, int]], full: bool) -> None:
        host, client = self.host, FrameClient(self.host)
        if full:
            host.files.capacity_bytes = host.files.used_bytes() + 5
        expected = dict(self.next)
        batches = []
        for producer, distance, count in sent:
            first = max(0, expected.get(producer, 0) + distance)
            batches.append((producer, first, count))
            if distance == 0:
                expected[producer] = first + count
            raw = idempotent_batch(first, count, producer=producer)
            client.send(ApiKey.PRODUCE, 9, produce(raw, -1))
        host.turn()
        host.files.capacity_bytes = None
        results = [produce_result(response) for _, response in client.take()]
        assert len(results) == len(batches), "every request is answered within the turn"
        for (producer, first, count), result in zip(batches, results, strict=True):
            if result.error_code == ErrorCode.NONE:
                self.check_response(producer, first, count, result.base_offset)

    def check_response(self, producer: int, first: int, count: int, offset: int) -> None:
        accepted = self.accepted.setdefault(producer, {})
        before = accepted.get((first, count))
        if before is not None:
            assert offset == before, "a duplicate gets its first offset"
            return
        expected = self.next.get(producer)
        assert expected is None or first == expected, "no gap and no overlap is accepted"
        assert offset == self.end
        accepted[first, count] = offset
        self.next[producer] = first + count
        self.end += count

    def check(self) -> None:
        partition = self.host.node.replica_manager.by_log["demo", 0]
        log = self.host.runner.directory.logs["demo", 0]
        entries = {} if partition.producers is None else partition.producers.entries
        assert entries == log.producers.entries
        assert {key: entry.last_sequence + 1 for key, entry in entries.items()} == self.next
        assert partition.end == partition.high_watermark == log.end_offset == self.end
        assert not partition.unwritten

    def restart(self, how: str) -> None:
        files: MemoryFiles = self.host.files
        if how == "close":
            self.host.runner.close()
        else:
            files.kill()
        self.host = make_host(files)


@settings(max_examples=60, deadline=None)
@given(STEPS)
def test_partition_and_log_have_the_same_producer_state(
    steps: list[tuple[str, list[tuple[int, int, int]], bool]],
) -> None:
    model = Model()
    for step, sent, full in steps:
        if step == "turn":
            model.turn(sent, full)
        elif step == "delete":
            assert delete_records(model.host, -1)[0] == ErrorCode.NONE
        else:
            model.restart(step)
        model.check()
