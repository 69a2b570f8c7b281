"""KIP-227: the fetch sessions of simulated consumers, and what they do not accept."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from kraftlog.errors import ErrorCode
from kraftlog.wire.messages.fetch import FetchPartition
from kraftlog_simulator.cluster.fetch_session import FetchSessionHandler
from kraftlog_simulator.violation import Violation

TOPIC = b"t" * 16


def positions(offsets: dict[int, int]) -> Any:
    return {
        (TOPIC, index): FetchPartition(
            partition=index, fetch_offset=offset, partition_max_bytes=1000
        )
        for index, offset in offsets.items()
    }


def response(session_id: int, *indexes: int) -> Any:
    partitions = [SimpleNamespace(partition_index=index) for index in indexes]
    topic = SimpleNamespace(topic_id=TOPIC, partitions=partitions)
    return SimpleNamespace(session_id=session_id, responses=[topic])


def begun(offsets: dict[int, int]) -> FetchSessionHandler:
    """A session with the id 9 that has these partitions."""
    session = FetchSessionHandler("a consumer", is_wanted=True)
    session.request(positions(offsets))
    session.responded(response(9, *offsets))
    return session


def sent(session: FetchSessionHandler, offsets: dict[int, int]) -> tuple[Any, ...]:
    """What a request has: id and epoch, the partitions, and those that are forgotten."""
    fields = session.request(positions(offsets))
    named = [each.partition for topic in fields["topics"] for each in topic.partitions]
    forgotten = [index for topic in fields["forgotten_topics_data"] for index in topic.partitions]
    return fields["session_id"], fields["session_epoch"], named, forgotten


def test_a_session_names_what_has_changed_and_what_is_not_wanted() -> None:
    session = begun({0: 0, 1: 0, 2: 0})
    assert sent(session, {0: 0, 1: 5, 3: 0}) == (9, 1, [1, 3], [2])
    session.responded(response(9, 3))
    assert sent(session, {0: 0, 1: 5, 3: 0}) == (9, 2, [], [])
    session.responded(response(9))


@pytest.mark.parametrize(
    ("code", "session_id"),
    [
        (ErrorCode.NONE, 9),  # there is no response
        (ErrorCode.INVALID_FETCH_SESSION_EPOCH, 9),
        (ErrorCode.FETCH_SESSION_ID_NOT_FOUND, 0),
    ],
)
def test_after_an_error_another_session_begins(code: int, session_id: int) -> None:
    session = begun({0: 0, 1: 0})
    session.failed(code)
    assert sent(session, {0: 3, 1: 0}) == (session_id, 0, [0, 1], [])
    session.responded(response(8, 0, 1))
    assert sent(session, {0: 3, 1: 0}) == (8, 1, [], [])


def test_without_a_session_every_fetch_is_full() -> None:
    unwanted, not_granted = (
        FetchSessionHandler(0, is_wanted=False),
        FetchSessionHandler(1, is_wanted=True),
    )
    for session, epoch in ((unwanted, -1), (not_granted, 0)):
        for _ in range(2):
            assert sent(session, {0: 0, 1: 0}) == (0, epoch, [0, 1], [])
            session.responded(response(0, 0, 1))


@pytest.mark.parametrize("is_wanted", [True, False])
def test_a_full_response_that_lacks_a_partition_is_a_violation(*, is_wanted: bool) -> None:
    session = FetchSessionHandler("a consumer", is_wanted=is_wanted)
    session.request(positions({0: 0, 1: 0}))
    with pytest.raises(Violation, match="lacks"):
        session.responded(response(9 if is_wanted else 0, 0))


def test_a_response_with_a_forgotten_partition_is_a_violation() -> None:
    session = begun({0: 0, 1: 0})
    session.request(positions({0: 0}))
    with pytest.raises(Violation, match="that it had not"):
        session.responded(response(9, 1))


def test_a_session_with_another_id_is_a_violation() -> None:
    session = begun({0: 0})
    session.request(positions({0: 1}))
    with pytest.raises(Violation, match="was replaced"):
        session.responded(response(10, 0))
