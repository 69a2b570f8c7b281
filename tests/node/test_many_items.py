"""Other clients are served during read-only requests about very many items."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kraftlog.node.coordinators.group_coordinators import TOPIC
from kraftlog.wire.apis import ApiKey
from kraftlog.wire.messages.describe_groups import DescribeGroupsRequest
from kraftlog.wire.messages.describe_producers import DescribeProducersRequest, TopicRequest
from kraftlog.wire.messages.find_coordinator import FindCoordinatorRequest
from kraftlog.wire.messages.list_groups import ListGroupsRequest
from kraftlog.wire.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from tests.node.frame_client import ask_settled, make_host
from tests.node.turn_cost import CALLS_OF_A_TURN, Turns, count_calls

if TYPE_CHECKING:
    from kraftlog.wire.schema import Message

COUNT = 10_000
NAMES = [f"n-{number}" for number in range(COUNT)]
PART = OffsetForLeaderPartition(partition=0, current_leader_epoch=-1, leader_epoch=0)


@pytest.mark.parametrize(
    ("api_key", "version", "request_"),
    [
        (ApiKey.DESCRIBE_GROUPS, 6, DescribeGroupsRequest(groups=NAMES)),
        (
            ApiKey.FIND_COORDINATOR,
            6,
            FindCoordinatorRequest(key_type=0, coordinator_keys=NAMES),
        ),
        (
            ApiKey.OFFSET_FOR_LEADER_EPOCH,
            4,
            OffsetForLeaderEpochRequest(
                replica_id=-1,
                topics=[OffsetForLeaderTopic(topic=name, partitions=[PART]) for name in NAMES],
            ),
        ),
        (
            ApiKey.DESCRIBE_PRODUCERS,
            0,
            DescribeProducersRequest(
                topics=[TopicRequest(name=name, partition_indexes=[0]) for name in NAMES]
            ),
        ),
    ],
    ids=lambda value: type(value).__name__ if hasattr(value, "_schema") else "",
)
def test_requests_about_many_items_leave_room_for_others(
    api_key: int, version: int, request_: Message
) -> None:
    host = make_host(None, **{TOPIC: 5})
    turns = Turns(host, api_key, version, request_)
    assert turns.longest < CALLS_OF_A_TURN
    assert turns.others_answered > 5


def test_list_groups_drops_unknown_filters_once_for_all_shards() -> None:
    host = make_host(None, **{TOPIC: 50})
    request = ListGroupsRequest(states_filter=NAMES, types_filter=NAMES)
    responses = []
    calls = count_calls(lambda: responses.append(ask_settled(host, ApiKey.LIST_GROUPS, 5, request)))
    assert not responses[0].groups
    assert calls < 40 * COUNT
