"""Requests about offsets of many groups or partitions are linear, and leave room for others."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kraftlog.errors import ErrorCode
from kraftlog.node.coordinators.group_coordinators import TOPIC
from kraftlog.wire.apis import ApiKey
from kraftlog.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kraftlog.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from tests.node.frame_client import ask_settled, make_host
from tests.node.turn_cost import CALLS_OF_A_TURN, Turns, count_calls

if TYPE_CHECKING:
    from tests.virtual_host import VirtualHost


def host_with_groups() -> VirtualHost:
    host = make_host(None, **{TOPIC: 1, "t": 10})
    host.settle()
    return host


def commit(count: int) -> OffsetCommitRequest:
    parts = [
        OffsetCommitRequestPartition(
            partition_index=index, committed_offset=index, committed_metadata=""
        )
        for index in range(count)
    ]
    topics = [OffsetCommitRequestTopic(name="t", partitions=parts)]
    return OffsetCommitRequest(group_id="g", member_id="", topics=topics)


def fetch(*groups: str) -> OffsetFetchRequest:
    return OffsetFetchRequest(
        groups=[OffsetFetchRequestGroup(group_id=group, topics=None) for group in groups]
    )


def test_work_of_an_offset_commit_is_linear_in_its_partitions() -> None:
    host = host_with_groups()
    responses = []
    calls = count_calls(
        lambda: responses.append(ask_settled(host, ApiKey.OFFSET_COMMIT, 8, commit(2_000)))
    )
    codes = [part.error_code for topic in responses[0].topics for part in topic.partitions]
    assert codes.count(ErrorCode.NONE) == 10
    assert codes.count(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION) == 1_990
    assert calls < 100 * 2_000


def test_offsets_of_very_many_groups_leave_room_for_others() -> None:
    host = host_with_groups()
    ask_settled(host, ApiKey.OFFSET_COMMIT, 8, commit(3))
    names = ["g", *[f"unknown-{number}" for number in range(10_000)]]
    turns = Turns(host, ApiKey.OFFSET_FETCH, 8, fetch(*names))
    assert [group.group_id for group in turns.answer.groups] == names
    assert [len(group.topics) for group in turns.answer.groups] == [1, *[0] * 10_000]
    assert turns.others_answered > 20
    assert turns.longest < CALLS_OF_A_TURN
