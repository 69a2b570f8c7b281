"""Latencies of the quorum's work, over a window (Q35)."""

from __future__ import annotations

from math import isnan
from typing import TYPE_CHECKING

from kraftlog.metadata.image import Image
from kraftlog.node.quorum.quorum_latency import SPAN_MS, QuorumLatency, Window
from kraftlog.types import Now
from kraftlog.wire.apis import ApiKey
from kraftlog.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kraftlog.wire.messages.metadata_records import FeatureLevelRecord
from tests.node.frame_client import FrameClient, make_host

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kraftlog.metadata.changes import Change
    from kraftlog.wire.schema import Message
    from tests.virtual_host import VirtualHost


def test_q35_a_window_drops_samples_older_than_two_spans() -> None:
    window = Window()
    assert isnan(window.average(5))
    assert isnan(window.maximum(5))
    assert window.per_second(5) == 0
    window.add(10, SPAN_MS)
    window.add(20, SPAN_MS + 1)
    assert (window.average(SPAN_MS + 1), window.maximum(SPAN_MS + 1)) == (15, 20)
    window.add(3, 2 * SPAN_MS)
    assert (window.average(2 * SPAN_MS), window.maximum(2 * SPAN_MS)) == (11, 20)
    assert window.per_second(3 * SPAN_MS - 1) == 33_000 / (2 * SPAN_MS - 1)
    assert (window.average(3 * SPAN_MS), window.maximum(3 * SPAN_MS)) == (3, 3)
    assert isnan(window.average(4 * SPAN_MS))


def test_q35_commits_are_timed_from_their_append() -> None:
    latency = QuorumLatency()
    latency.append(2, 2, 100, leads=True)
    latency.append(1, 3, 110, leads=True)
    assert latency.waiting_ms(150) == 50
    latency.commit(2, 130)
    assert (latency.waiting_ms(150), latency.moved_ms) == (40, 130)
    latency.commit(3, 150)
    assert latency.waiting_ms(1000) == 0
    assert (latency.commits.average(150), latency.commits.maximum(150)) == (35, 40)


def test_q35_elections_are_timed_from_the_first_candidacy() -> None:
    latency = QuorumLatency()
    latency.leader_known(50, leads=False)
    assert isnan(latency.elections.average(50))
    latency.campaign(100)
    latency.campaign(200)
    latency.append(1, 1, 250, leads=True)
    latency.leader_known(300, leads=False)
    assert latency.elections.maximum(300) == 200
    assert latency.waiting_ms(300) == 0, "another leader commits its records"
    latency.append(4, 5, 310, leads=False)
    assert latency.fetched.per_second(310) == 4_000 / SPAN_MS


def test_q35_flushes_are_timed_from_the_append_on_leader_and_follower() -> None:
    latency = QuorumLatency()
    latency.append(2, 2, 100, leads=True)
    latency.append(1, 3, 110, leads=False)
    latency.append(1, 4, 120, leads=False)
    latency.truncate(3)
    latency.flush(2, 130)
    latency.append(1, 4, 150, leads=False)
    latency.flush(4, 160)
    assert (latency.flushes.average(160), latency.flushes.maximum(160)) == (30, 50)


def test_q35_applying_is_timed_from_the_commit() -> None:
    latency = QuorumLatency()
    latency.commit(5, 100)
    latency.commit(7, 120)
    latency.apply(6, 130)
    assert latency.commits_to_applied.average(130) == 30
    latency.apply(7, 140)
    assert latency.commits_to_applied.average(140) == 25


def test_q35_a_change_is_timed_until_it_is_applied() -> None:
    """The creation of a topic, on a disk that takes 30 ms per flush."""
    host = make_host()
    latency = host.node.quorum.latency
    client = FrameClient(host)
    topic = CreatableTopic(
        name="slow", num_partitions=1, replication_factor=1, assignments=(), configs=()
    )
    client.send(ApiKey.CREATE_TOPICS, 7, CreateTopicsRequest(topics=[topic]))
    host.one_turn()
    assert client.take() == []
    host.now = Now(30, 30)
    host.settle()
    [(_, response)] = client.take()
    assert response.topics[0].error_code == 0
    for window in (latency.changes, latency.flushes, latency.commits):
        assert window.maximum(30) == 30
    assert latency.commits_to_applied.maximum(30) == 0
    assert latency.applying.maximum(30) == 0, "the test's stopwatch does not advance"


class SlowImage(Image):
    """Takes 2 ms to apply a record."""

    def __init__(self, host: VirtualHost) -> None:
        super().__init__()
        self._host = host

    def changes_of(self, record: Message) -> Iterable[Change]:
        self._host.stopwatch_ns += 2_000_000
        return super().changes_of(record)


def test_q35_applying_is_timed_by_the_stopwatch() -> None:
    host = make_host()
    image = host.node.metadata_loader.image = SlowImage(host)
    for record in (FeatureLevelRecord(name=name, feature_level=1) for name in ("a", "b")):
        host.node.replay([record], 100)
    assert host.node.quorum.latency.applying.maximum(0) == 2
    assert image.features.keys() == {"a", "b"}
