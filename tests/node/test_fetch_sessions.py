"""Fetch sessions (KIP-227): requests and responses name only the partitions that changed."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Any

import pytest

from kraftlog.errors import ErrorCode
from kraftlog.node.fetch_sessions import EVICTION_MS, UNKNOWN, FetchSession, FetchSessions
from kraftlog.types import NULL_UUID, Now
from kraftlog.wire.apis import ApiKey
from kraftlog.wire.messages.fetch import (
    EpochEndOffset,
    FetchPartition,
    FetchRequest,
    FetchTopic,
    ForgottenTopic,
    PartitionData,
)
from tests.node.frame_client import FrameClient, make_host
from tests.node.test_requests import batch, produce

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.virtual_host import VirtualHost


def request(
    session: int,
    epoch: int,
    offsets: dict[int, int] | None = None,
    forget: Sequence[int] = (),
    topic_id: bytes = NULL_UUID,
    **fields: Any,
) -> FetchRequest:
    """A fetch of `demo`; `offsets` has the fetch offset of each partition."""
    name = "" if topic_id != NULL_UUID else "demo"
    parts = [
        FetchPartition(partition=index, fetch_offset=offset, partition_max_bytes=1 << 20)
        for index, offset in (offsets or {}).items()
    ]
    forgotten = [ForgottenTopic(topic=name, topic_id=topic_id, partitions=forget)] if forget else []
    return FetchRequest(
        max_wait_ms=fields.pop("max_wait_ms", 0),
        min_bytes=1,
        session_id=session,
        session_epoch=epoch,
        topics=[FetchTopic(topic=name, topic_id=topic_id, partitions=parts)] if parts else [],
        forgotten_topics_data=forgotten or (),
        **fields,
    )


class Reader(FrameClient):
    """A client; `read` returns error code, session id, and the error code or size by partition."""

    version = 12

    def read(self, *args: Any, **fields: Any) -> Any:
        response = self.ask(ApiKey.FETCH, self.version, request(*args, **fields))
        return (
            response.error_code,
            response.session_id,
            {
                part.partition_index: part.error_code or len(part.records)
                for topic in response.responses
                for part in topic.partitions
            },
        )

    def begin(self, offsets: dict[int, int], **fields: Any) -> int:
        error, session, _ = self.read(0, 0, offsets, **fields)
        assert error == ErrorCode.NONE
        assert session > 0
        return int(session)


def write(host: VirtualHost, index: int) -> int:
    raw = batch(b"x" * 50)
    FrameClient(host).ask(ApiKey.PRODUCE, 9, produce(raw, index=index))
    return len(raw)


def test_only_changed_partitions_are_requested_and_returned() -> None:
    host = make_host(demo=3)
    reader = Reader(host)
    session = reader.begin({0: 0, 1: 0, 2: 0})
    assert reader.read(session, 1) == (0, session, {})
    size = write(host, 1)
    assert reader.read(session, 2) == (0, session, {1: size})
    assert reader.read(session, 3, {1: 1}) == (0, session, {})
    write(host, 0)
    assert reader.read(session, 4, {0: 1}) == (0, session, {0: 0}), "the high watermark has changed"


def test_v7_a_partition_named_again_at_its_offset_gets_the_high_watermark() -> None:
    host = make_host(demo=2)
    reader = Reader(host)
    session = reader.begin({0: 0, 1: 0})
    assert reader.read(session, 1, {1: 0}) == (0, session, {1: 0})
    assert reader.read(session, 2) == (0, session, {})


def test_v7_the_high_watermark_is_sent_again_after_a_divergence() -> None:
    """The follower only truncates, and ignores the high watermark of that response."""
    session = FetchSession(1, by_id=False, follower_id=3, now=Now(0, 0))
    session.update(request(1, 1, {0: 5}).topics)
    partition = session.find("demo", NULL_UUID, 0)
    assert partition is not None
    data = PartitionData(
        partition_index=0, error_code=0, high_watermark=3, aborted_transactions=(), records=b""
    )
    partition.sent(data)
    assert partition.high_watermark == 3
    partition.sent(data.replace(diverging_epoch=EpochEndOffset(epoch=0, end_offset=4)))
    assert partition.high_watermark == UNKNOWN


def test_a_session_fetch_waits_for_data_in_any_of_its_partitions() -> None:
    host = make_host(demo=2)
    reader = Reader(host)
    session = reader.begin({0: 0, 1: 0})
    reader.send(ApiKey.FETCH, 12, request(session, 1, max_wait_ms=500))
    host.turn()
    assert reader.take() == []
    write(host, 1)
    [(_, response)] = reader.take()
    assert [part.partition_index for part in response.responses[0].partitions] == [1]


@pytest.mark.parametrize("is_evicted", [True, False])
def test_v24_a_fetch_does_not_wait_in_a_session_that_has_ended(*, is_evicted: bool) -> None:
    """A follower's session evicts it, or its client begins another one on a new connection."""
    host = make_host(demo=2)
    host.node.fetch_sessions._slots = 1
    reader, other = Reader(host), Reader(host)
    session = reader.begin({0: 0, 1: 0})
    reader.send(ApiKey.FETCH, 12, request(session, 1, max_wait_ms=500))
    host.turn()
    assert reader.take() == []
    if is_evicted:
        other.begin({0: 0}, replica_id=3)
    else:
        other.read(session, 0, {0: 0})
    [(_, response)] = reader.take()
    assert (response.error_code, response.session_id, response.responses) == (0, 0, ())
    assert reader.read(session, 2) == (ErrorCode.FETCH_SESSION_ID_NOT_FOUND, 0, {})


def test_forgotten_partitions_leave_and_an_empty_session_ends() -> None:
    host = make_host(demo=2)
    reader = Reader(host)
    session = reader.begin({0: 0, 1: 0})
    size = write(host, 0)
    write(host, 1)
    assert reader.read(session, 1, forget=[1]) == (0, session, {0: size})
    assert reader.read(session, 2, forget=[0]) == (0, 0, {})
    after_its_end = reader.read(session, 3)
    assert after_its_end == (ErrorCode.FETCH_SESSION_ID_NOT_FOUND, 0, {})


def test_a_wrong_session_epoch_is_refused_and_changes_nothing() -> None:
    reader = Reader(make_host(demo=2))
    session = reader.begin({0: 0})
    for epoch in (2, 5):
        assert reader.read(session, epoch, {1: 0}) == (
            ErrorCode.INVALID_FETCH_SESSION_EPOCH,
            0,
            {},
        )
    assert reader.read(session, 1) == (0, session, {})
    assert reader.read(session + 1, 1)[0] == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_a_pipelined_session_fetch_gets_an_epoch_error() -> None:
    host = make_host()
    reader = Reader(host)
    session = reader.begin({0: 0})
    reader.send(ApiKey.FETCH, 12, request(session, 1, max_wait_ms=500))
    reader.send(ApiKey.FETCH, 12, request(session, 2))
    write(host, 0)
    codes = [response.error_code for _, response in reader.take()]
    assert codes == [ErrorCode.INVALID_FETCH_SESSION_EPOCH, ErrorCode.NONE]


def test_a_session_ends_on_request_and_when_its_client_opens_another() -> None:
    reader = Reader(make_host())
    first = reader.begin({0: 0})
    error, second, _ = reader.read(first, 0, {0: 0})
    assert error == ErrorCode.NONE
    assert second not in {0, first}
    assert reader.read(first, 1)[0] == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert reader.read(second, -1, {0: 0}) == (0, 0, {0: 0})
    assert reader.read(second, 1)[0] == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_errors_are_returned_until_the_partition_recovers() -> None:
    host = make_host(demo=1)
    reader = Reader(host)
    session = reader.begin({0: 5})
    out_of_range = ErrorCode.OFFSET_OUT_OF_RANGE
    assert reader.read(session, 1) == (0, session, {0: out_of_range})
    assert reader.read(session, 2) == (0, session, {0: out_of_range})
    assert reader.read(session, 3, {0: 0}) == (0, session, {0: 0})
    assert reader.read(session, 4) == (0, session, {})


def test_a_session_uses_either_ids_or_names() -> None:
    host = make_host()
    [topic_id] = host.node.image.topics
    reader = Reader(host)
    reader.version = 13
    session = reader.begin({0: 0}, topic_id=topic_id)
    size = write(host, 0)
    assert reader.read(session, 1, topic_id=topic_id) == (0, session, {0: size})
    unknown = reader.read(session, 2, {0: 0}, topic_id=b"x" * 16)
    assert unknown[2] == {0: ErrorCode.UNKNOWN_TOPIC_ID}
    reader.version = 12
    assert reader.read(session, 3)[0] == ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR


def test_partitions_rotate_if_not_all_fit() -> None:
    host = make_host(demo=3)
    sizes = {write(host, index) for index in (0, 1, 2)}
    reader = Reader(host)
    session = reader.begin(dict.fromkeys(range(3), 0), max_bytes=1)
    responses = [reader.read(session, epoch, max_bytes=1)[2] for epoch in (1, 2, 3)]
    with_records = [[index for index, size in it.items() if size in sizes] for it in responses]
    assert with_records == [[1], [2], [0]]


def test_old_versions_have_no_sessions() -> None:
    host = make_host()
    for version in (4, 6, 7):
        response = FrameClient(host).ask(ApiKey.FETCH, version, request(0, -1, {0: 0}))
        assert (response.error_code, response.session_id) == (0, 0)
    assert len(host.node.fetch_sessions) == 0


def session_request(count: int, *, follower: bool = False) -> FetchRequest:
    """A request that opens a session with partitions 0 to `count` - 1."""
    opening = request(0, 0, dict.fromkeys(range(count), 0))
    opening.replica_id = 3 if follower else -1
    return opening


@pytest.mark.parametrize(
    ("silent_ms", "age_ms", "count", "follower", "is_opened"),
    [
        (0, 0, 9, False, False),
        (EVICTION_MS + 1, 0, 1, False, True),
        (0, EVICTION_MS + 1, 2, False, False),
        (0, EVICTION_MS + 1, 3, False, True),
        (0, 0, 1, True, True),
    ],
    ids=["full", "silent", "not larger", "larger", "follower"],
)
def test_a_new_session_evicts_by_age_and_size(
    silent_ms: int, age_ms: int, count: int, follower: bool, is_opened: bool
) -> None:
    """The limit is one session, and the open one has two partitions."""
    sessions = FetchSessions(1, Random(1))
    existing = sessions.open(session_request(2), 12, Now(0, 0))
    assert existing is not None
    now = Now(silent_ms + age_ms, 0)
    if age_ms:
        assert sessions.resume(request(existing.id, 1), 12, now) is existing
    opened = sessions.open(session_request(count, follower=follower), 12, now)
    assert (opened is not None) == is_opened
    assert len(sessions) == 1


def test_a_consumer_session_does_not_evict_a_follower_session() -> None:
    sessions = FetchSessions(1, Random(1))
    existing = sessions.open(session_request(1, follower=True), 12, Now(0, 0))
    assert existing is not None
    now = Now(EVICTION_MS + 1, 0)
    assert sessions.resume(request(existing.id, 1), 12, now) is existing
    assert sessions.open(session_request(50), 12, now) is None


@pytest.mark.parametrize(
    ("follower", "index", "is_ended"), [(3, 1, True), (4, 1, False), (3, 2, False), (-1, 1, False)]
)
def test_v23_a_follower_has_one_session_for_a_partition(
    follower: int, index: int, *, is_ended: bool
) -> None:
    """After a late request the follower names its positions again: only so the leader has them."""
    host = make_host(demo=3)
    reader, other = Reader(host), Reader(host)
    session = reader.begin({0: 0, 1: 0}, replica_id=3)
    reader.send(ApiKey.FETCH, 12, request(session, 1, max_wait_ms=500, replica_id=3))
    host.turn()
    reader.take()
    other.begin({index: 0}, replica_id=follower)
    assert (host.node.fetch_sessions.get(session) is None) == is_ended


def test_there_are_no_sessions_with_a_limit_of_zero() -> None:
    assert FetchSessions(0, Random(1)).open(session_request(1), 12, Now(0, 0)) is None
