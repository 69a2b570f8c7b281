"""Each turn applies a slice of the committed records; a batch counts once all of it is applied."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from kraftlog.effects import LogRead, ReadLog
from kraftlog.errors import ErrorCode, UnreplayableError
from kraftlog.metadata.image import ReplayError
from kraftlog.node.quorum.batches import METADATA_LOG, records_batch
from kraftlog.node.quorum.commit_applier import CommitApplier
from kraftlog.node.quorum.tail import Tail
from kraftlog.node.slices import TURN_BUDGET, Slices
from kraftlog.records.header import stamp
from kraftlog.wire.apis import CONTROLLER, ApiKey
from kraftlog.wire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from kraftlog.wire.messages.delete_topics import DeleteTopicsRequest
from kraftlog.wire.messages.metadata_records import NoOpRecord
from kraftlog.wire.messages.remove_partitions import RemovePartitionsRequest, RemovePartitionsTopic
from kraftlog.wire.record_frames import encode_metadata
from tests.node.frame_client import FrameClient, creation, make_host

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from kraftlog.types import Now
    from kraftlog.wire.schema import Message
    from tests.virtual_host import VirtualHost


class SlowMachine:
    """A state machine that needs a turn for each record."""

    def __init__(self) -> None:
        self.replayed: list[tuple[int, int]] = []
        self.fails_at: int | None = None
        self.cost = TURN_BUDGET

    def replay_in_steps(self, records: Sequence[Message], last_offset: int) -> Iterator[int]:
        for number, record in enumerate(records):
            if number == self.fails_at:
                raise ReplayError("broken", record)
            self.replayed.append((last_offset, number))
            yield self.cost

    def reload(self, records: Iterable[Message], last_offset: int) -> None: ...

    def leader_changed(self, leader_id: int, epoch: int) -> None: ...

    def became_leader(self, epoch: int, now: Now) -> None: ...


class AppliedLog:
    """A log with a committed offset, and a CommitApplier."""

    def __init__(self) -> None:
        self.log = SimpleNamespace(high_watermark=0)
        core: Any = SimpleNamespace(log=self.log, role=None)
        snapshotter: Any = SimpleNamespace(applied=lambda *_: None)
        self.machine = SlowMachine()
        self.tail, self.slices = Tail(), Slices()
        self.emitted: list[Any] = []
        #: The applied offset at each report of applied records.
        self.ends: list[int] = []
        self.applier = CommitApplier(
            core,
            self.machine,
            self.tail,
            snapshotter,
            self.emitted.append,
            self.slices,
            lambda: self.ends.append(self.applier.end),
            0,
        )

    def append(self, base: int, count: int, *, has_records: bool = True) -> bytes:
        """Append a batch; `has_records`: with its decoded records, as on the node that proposed it.

        Other nodes decode the records when they apply them.
        """
        data = records_batch([encode_metadata(NoOpRecord(), 0)] * count, 0)
        stamp(data, 0, base, 1)
        records: list[Message] = [NoOpRecord() for _ in range(count)]
        self.tail.append(base, base + count - 1, bytes(data), records if has_records else None)
        return bytes(data)

    def commit(self, end: int) -> None:
        self.log.high_watermark = end
        self.applier.apply_committed()

    def finish(self) -> int:
        """Run turns until everything is applied; return their number."""
        turns = 0
        while self.slices.finish_turn():
            turns += 1
        return turns


@pytest.mark.parametrize("has_records", [True, False], ids=["own batch", "fetched batch"])
def test_a_batch_counts_as_applied_once_all_its_records_are(has_records: bool) -> None:
    applied = AppliedLog()
    applied.append(0, 3, has_records=has_records)
    applied.commit(3)
    while len(applied.machine.replayed) < 3:
        assert (applied.applier.end, applied.applier.is_applying) == (0, True)
        applied.slices.finish_turn()
    applied.finish()
    assert (applied.ends, applied.applier.is_applying) == ([3], False)


def test_batches_committed_meanwhile_are_applied_next() -> None:
    applied = AppliedLog()
    applied.append(0, 2)
    applied.commit(2)
    applied.append(2, 2)
    applied.commit(4)
    assert applied.machine.replayed == [(1, 0)]
    applied.finish()
    assert applied.machine.replayed == [(1, 0), (1, 1), (3, 0), (3, 1)]
    assert applied.ends == [2, 4]


def test_a_small_batch_is_applied_even_if_the_budget_is_spent() -> None:
    applied = AppliedLog()
    applied.slices.begin(iter([TURN_BUDGET, TURN_BUDGET]))
    applied.machine.cost = 1
    applied.append(0, 2)
    applied.commit(2)
    assert applied.ends == [2]


def test_q38_a_snapshot_replaces_a_half_applied_batch() -> None:
    applied = AppliedLog()
    applied.append(0, 3)
    applied.commit(3)
    applied.applier.restart_at(10)
    applied.finish()
    assert (applied.machine.replayed, applied.ends) == ([(2, 0)], [])
    assert (applied.applier.end, applied.applier.is_applying) == (10, False)
    applied.append(10, 1)
    applied.commit(11)
    applied.finish()
    assert (applied.machine.replayed[1:], applied.ends) == ([(10, 0)], [11])


def test_a_node_catches_up_until_all_read_records_are_applied() -> None:
    applied = AppliedLog()
    data = applied.append(0, 2)
    applied.tail.clear()
    applied.commit(2)
    assert applied.emitted == [ReadLog(METADATA_LOG, 0, 2)]
    applied.applier.read(LogRead(METADATA_LOG, 0, data))
    assert (applied.applier.is_reading, applied.ends) == (True, [])
    applied.finish()
    assert (applied.applier.is_reading, applied.ends) == (False, [2])


def test_a_snapshot_ends_catching_up() -> None:
    applied = AppliedLog()
    data = applied.append(0, 2)
    applied.tail.clear()
    applied.commit(2)
    applied.applier.read(LogRead(METADATA_LOG, 0, data))
    applied.applier.restart_at(10)
    assert not applied.applier.is_reading


def test_an_unreplayable_record_of_a_later_slice_is_reported_by_offset() -> None:
    applied = AppliedLog()
    applied.machine.fails_at = 2
    applied.append(5, 4)
    applied.applier.restart_at(5)
    applied.append(5, 4)
    applied.commit(9)
    with pytest.raises(UnreplayableError, match="the committed record at offset 7 can't"):
        applied.finish()


# Whole nodes -------------------------------------------------------------------------------------


def slow_host(**topics: int) -> VirtualHost:
    """A node whose turns have time for one or two records."""
    host = make_host(None, **topics)
    host.node.sliced.limit(20)
    return host


def visible_topics(host: VirtualHost) -> dict[str, int]:
    """The visible topics and their partitions."""
    image = host.node.image
    for topic in image.topics.values():
        assert len(list(image.partitions_of(topic))) == topic.partition_count
        assert image.topic_named(topic.name) is topic
    return {topic.name: topic.partition_count for topic in image.topics.values()}


def visible_states_during(
    host: VirtualHost, api_key: int, version: int, request: Message
) -> list[dict[str, int]]:
    """Send a request; return the visible states until its response, without repetitions."""
    client = FrameClient(host)
    states = [visible_topics(host)]
    client.send(api_key, version, request)
    turns = 0
    while not client.take():
        host.one_turn()
        host.deliver()
        turns += 1
        if visible_topics(host) != states[-1]:
            states.append(visible_topics(host))
    assert turns > 5, "the request takes several turns"
    host.settle()
    assert visible_topics(host) == states[-1], "nothing becomes visible after the response"
    return states


def test_v4_a_topic_appears_with_all_its_partitions() -> None:
    host = slow_host(demo=1)
    states = visible_states_during(host, ApiKey.CREATE_TOPICS, 7, creation({"one": 20, "two": 20}))
    assert states == [{"demo": 1}, {"demo": 1, "one": 20}, {"demo": 1, "one": 20, "two": 20}]


def test_v11_added_partitions_appear_together() -> None:
    host = slow_host(demo=1)
    topic = CreatePartitionsTopic(name="demo", count=20, assignments=None)
    request = CreatePartitionsRequest(topics=[topic], timeout_ms=1000, validate_only=False)
    assert visible_states_during(host, ApiKey.CREATE_PARTITIONS, 3, request) == [
        {"demo": 1},
        {"demo": 20},
    ]


def test_v11_removed_partitions_disappear_together() -> None:
    host = slow_host(demo=20)
    topic = RemovePartitionsTopic(name="demo", partitions=range(5, 20))
    states: list[dict[str, int]] = []
    request = RemovePartitionsRequest(topics=[topic], timeout_ms=1000)
    host.node.controller_channel.send(
        ApiKey.REMOVE_PARTITIONS,
        0,
        request,
        lambda *_: states.append(visible_topics(host)),
        host.now,
    )
    while not states:
        assert visible_topics(host) in ({"demo": 20}, {"demo": 5})
        host.one_turn()
        host.deliver()
    assert states == [{"demo": 5}]
    assert len(host.node.image.partitions) == 5


def test_v4_a_deleted_topic_disappears_before_its_partitions() -> None:
    host = slow_host(demo=20, other=1)
    request = DeleteTopicsRequest(topic_names=["demo"], timeout_ms=1000)
    assert visible_states_during(host, ApiKey.DELETE_TOPICS, 5, request) == [
        {"demo": 20, "other": 1},
        {"other": 1},
    ]
    host.settle()
    assert {topic for topic, _ in host.node.replica_manager.by_log} == {"other"}
    assert len(host.node.image.partitions) == 1


def test_v14_a_controller_decides_once_it_has_applied_earlier_records() -> None:
    """V14, C236: while it applies them, it already leads the quorum, and requests wait."""
    host = slow_host(demo=1, many=50)
    host.files.kill()
    restarted = type(host)(host.files, settled=False)
    restarted.node.sliced.limit(20)
    controller = restarted.node.active_controller
    assert controller is not None
    client, turns = FrameClient(restarted, CONTROLLER), 0
    while not controller.is_active:
        if restarted.node.quorum.is_leader:
            if not turns:
                client.send(ApiKey.CREATE_TOPICS, 7, creation({"many": 50}))
            assert client.take() == []
            turns += 1
        restarted.one_turn()
        restarted.deliver()
    assert turns > 3
    assert restarted.node.quorum.applied == restarted.node.quorum.end, (
        "including its own first record"
    )
    restarted.settle()
    [(_, response)] = client.take()
    assert [it.error_code for it in response.topics] == [ErrorCode.TOPIC_ALREADY_EXISTS]


def test_a_batch_is_replayed_whole_after_a_kill_within_it() -> None:
    host = slow_host(demo=1)
    FrameClient(host).send(ApiKey.CREATE_TOPICS, 7, creation({"many": 20}))
    while not host.node.quorum.is_applying:
        host.one_turn()
        host.deliver()
    assert visible_topics(host) == {"demo": 1}
    host.files.kill()
    restarted = type(host)(host.files)
    assert visible_topics(restarted) == {"demo": 1, "many": 20}


def test_q38_no_snapshot_is_taken_during_a_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    host = slow_host(demo=1)
    monkeypatch.setattr(host.node.quorum.snapshotter, "is_due", lambda *_: True)
    taken: list[int] = []

    def take(*_: object) -> None:
        taken.append(len(host.node.image.partitions))

    monkeypatch.setattr(host.node.quorum.snapshotter, "take", take)
    FrameClient(host).send(ApiKey.CREATE_TOPICS, 7, creation({"many": 20}))
    host.settle()
    host.one_turn()
    assert set(taken) == {1, 21}
