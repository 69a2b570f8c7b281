"""Pre-encoded partitions of Fetch responses equal what the generated writer encodes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from unittest import mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kraftlog.node.fetch.encoded_partitions import STARTS_SINCE, partition_encoder
from kraftlog.node.pending_response import PendingResponse
from kraftlog.wire.apis import APIS, ApiKey
from kraftlog.wire.codec import encode
from kraftlog.wire.messages.fetch import (
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
    PartitionData,
)
from kraftlog.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tests.node.frame_client import FrameClient, make_host
from tests.node.test_requests import batch

if TYPE_CHECKING:
    from tests.virtual_host import VirtualHost

VERSIONS = range(STARTS_SINCE, APIS[ApiKey.FETCH].last + 1)
#: The first version with sessions.
SESSIONS_SINCE = 7
BY_ID_SINCE = 13
PARTITIONS = 4
TOPIC_ID = bytes(range(16))
offsets = st.integers(0, (1 << 63) - 1)


def response(version: int, partitions: list[Any]) -> FetchResponse:
    named: dict[str, Any] = {"topic_id": TOPIC_ID} if version >= BY_ID_SINCE else {"topic": "t"}
    topic = FetchableTopicResponse(partitions=partitions, **named)
    return FetchResponse(error_code=0, session_id=0, responses=[topic])


@pytest.mark.parametrize("version", VERSIONS)
@given(
    index=st.integers(0, (1 << 31) - 1),
    high_watermark=offsets,
    start=offsets,
    records=st.none() | st.integers(1, 40_000).map(bytes),
    lists_aborted=st.booleans(),
)
@settings(max_examples=30)
def test_encoded_partition_is_what_the_writer_writes(
    version: int,
    index: int,
    high_watermark: int,
    start: int,
    records: bytes | None,
    lists_aborted: bool,
) -> None:
    pending = PendingResponse(None)
    pending.version = version
    encode_partition = partition_encoder(pending, lists_aborted)
    assert encode_partition is not None
    data = PartitionData(
        partition_index=index,
        error_code=0,
        high_watermark=high_watermark,
        last_stable_offset=high_watermark,
        log_start_offset=start,
        aborted_transactions=() if lists_aborted else None,
        records=records or b"",
    )
    encoded = encode_partition(index, high_watermark, start, records, len(records or b""))
    mixed = [encoded, data, encoded]
    plain = encode(response(version, [data] * 3), version)
    assert encode(response(version, mixed), version) == plain


class HistoryRunner:
    """Sends a history of requests to a node; `answers` has the bytes of all responses."""

    def __init__(self, version: int) -> None:
        self.host: VirtualHost = make_host(demo=PARTITIONS)
        self.version = version
        self.client, self.producer = FrameClient(self.host), FrameClient(self.host)
        self.session_id, self.epoch = 0, 0
        self.ends = [0] * PARTITIONS
        self.answers: list[bytes] = []

    def topic(self, parts: list[FetchPartition]) -> FetchTopic:
        if self.version >= BY_ID_SINCE:
            return FetchTopic(topic_id=self.host.node.image.topic_ids["demo"], partitions=parts)
        return FetchTopic(topic="demo", partitions=parts)

    def produce(self, indexes: list[int]) -> None:
        parts = [PartitionProduceData(index=index, records=batch(b"x")) for index in set(indexes)]
        topics = [TopicProduceData(name="demo", partition_data=parts)]
        self.producer.ask(
            ApiKey.PRODUCE, 9, ProduceRequest(acks=1, timeout_ms=9, topic_data=topics)
        )
        for index in set(indexes):
            self.ends[index] += 1

    def fetch(self, lags: list[int], forgotten: int, **fields: Any) -> None:
        """Fetch each partition from `lags` records before its end, in a session if possible.

        The partition with index `forgotten` leaves the session, if there are both.
        """
        parts = [
            FetchPartition(
                partition=index,
                fetch_offset=max(self.ends[index % PARTITIONS] - lag, -1),
                partition_max_bytes=1 << 20,
            )
            for index, lag in enumerate(lags)
        ]
        has_sessions = self.version >= SESSIONS_SINCE
        forgets = has_sessions and self.session_id and forgotten < PARTITIONS
        topic = self.topic([])
        request = FetchRequest(
            session_id=self.session_id,
            session_epoch=self.epoch if has_sessions else -1,
            topics=[self.topic(parts)],
            forgotten_topics_data=[
                ForgottenTopic(topic=topic.topic, topic_id=topic.topic_id, partitions=[forgotten])
            ]
            if forgets
            else (),
            **fields,
        )
        self.client.send(ApiKey.FETCH, self.version, request)
        self.turn()

    def turn(self) -> None:
        self.host.turn()
        raw = self.client.connection.take()
        self.answers.append(raw)
        with mock.patch.object(self.client.connection, "take", return_value=raw):
            answers = self.client.take()
        for _, answer in answers:
            self.session_id = answer.session_id
            self.epoch = answer.session_id and self.epoch + 1

    def pass_time(self) -> None:
        self.host.pass_time(500)
        self.turn()


indexes = st.lists(st.integers(0, PARTITIONS - 1), min_size=1, max_size=PARTITIONS)
steps = st.one_of(
    indexes.map(lambda some: ("produce", some)),
    st.tuples(
        st.just("fetch"),
        st.lists(st.integers(-1, 3), max_size=PARTITIONS + 1),
        st.integers(0, 3 * PARTITIONS),
        st.sampled_from([0, 1, 200]),
        st.sampled_from([0, 300]),
        st.sampled_from([0, 1]),
    ),
    st.just(("pass_time",)),
)


def run_history(version: int, history: list[Any], *, encodes: bool) -> list[bytes]:
    with mock.patch.object(PendingResponse, "takes_encoded", encodes):
        runner = HistoryRunner(version)
        for name, *arguments in history:
            if name == "fetch":
                lags, forgotten, min_bytes, max_wait_ms, isolation = arguments
                runner.fetch(
                    lags,
                    forgotten,
                    min_bytes=min_bytes,
                    max_wait_ms=max_wait_ms,
                    isolation_level=isolation,
                )
            else:
                getattr(runner, name)(*arguments)
            runner.turn()
        runner.pass_time()
    return runner.answers


@pytest.mark.parametrize("version", [6, 11, 12, 17])
@given(history=st.lists(steps, min_size=4, max_size=16))
@settings(max_examples=25, deadline=None)
def test_v13_histories_get_the_same_responses_with_and_without_encoding(
    version: int, history: list[Any]
) -> None:
    """V13: also the state of sessions and the order of partitions are the same."""
    assert run_history(version, history, encodes=True) == run_history(
        version, history, encodes=False
    )
