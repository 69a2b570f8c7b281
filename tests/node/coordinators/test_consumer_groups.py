"""The consumer protocol in a node with a log: the feature, the image's topics, and reloads."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from kraftlog.errors import ErrorCode
from kraftlog.groups.shard import partition_of
from kraftlog.metadata.features import GROUP_VERSION
from kraftlog.wire.apis import ApiKey
from kraftlog.wire.messages.metadata_records import FeatureLevelRecord
from tests.node.coordinators.test_groups import PARTITIONS, Broker
from tests.node.frame_client import create_partitions, create_topics
from tests.node.test_feature_levels import propose

if TYPE_CHECKING:
    from collections.abc import Sequence

OK = ErrorCode.NONE
OFF = ErrorCode.UNSUPPORTED_VERSION


class ConsumerBroker(Broker):
    """A node, and the members of a group."""

    def beat(
        self,
        member: str,
        epoch: int,
        topics: Sequence[str] | None = None,
        *,
        group: str = "g",
        version: int = 1,
    ) -> Any:
        joins = epoch == 0
        return self.ask(
            ApiKey.CONSUMER_GROUP_HEARTBEAT,
            version,
            group_id=group,
            member_id=member,
            member_epoch=epoch,
            rebalance_timeout_ms=1_000 if joins else -1,
            subscribed_topic_names=topics,
            topic_partitions=() if joins else None,
        )

    def describe(self, group: str = "g", version: int = 1) -> Any:
        response = self.ask(
            ApiKey.CONSUMER_GROUP_DESCRIBE,
            version,
            group_ids=[group],
            include_authorized_operations=True,
        )
        [described] = response.groups
        return described

    def set_level(self, level: int) -> None:
        propose(self.host, FeatureLevelRecord(name=GROUP_VERSION, feature_level=level))
        self.host.settle()


def assigned(response: Any) -> dict[bytes, list[int]]:
    return {part.topic_id: list(part.partitions) for part in response.assignment.topic_partitions}


@pytest.mark.parametrize("version", [0, 1])
def test_a_member_joins_and_is_described(version: int) -> None:
    broker = ConsumerBroker()
    joined = broker.beat("a", 0, ["t"], version=version)
    assert (joined.error_code, assigned(joined)) == (OK, {broker.t_id: [0]})
    shown = broker.describe(version=version)
    assert (shown.group_state, shown.group_epoch, shown.assignment_epoch) == ("Stable", 2, 2)
    [member] = shown.members
    assert (member.client_host, member.member_type) == ("/127.0.0.1", 1 if version else -1)
    [part] = member.assignment.topic_partitions
    assert (part.topic_name, list(part.partitions)) == ("t", [0])


def test_the_feature_turns_the_protocol_off_and_on_again() -> None:
    """As in Kafka, it may be lowered while groups exist; they stay in the log."""
    broker = ConsumerBroker()
    broker.beat("a", 0, ["t"])
    broker.set_level(0)
    assert broker.beat("a", 2).error_code == OFF
    assert broker.describe().error_code == OFF
    broker.set_level(1)
    assert broker.beat("a", 2).error_code == OK


def test_a_member_gets_new_topics_and_partitions_with_its_next_beat() -> None:
    broker = ConsumerBroker()
    assert assigned(broker.beat("a", 0, ["new"])) == {}
    create_topics(broker.host, {"new": 1})
    new_id = broker.host.node.image.topic_ids["new"]
    got = broker.beat("a", 2)
    assert (got.member_epoch, assigned(got)) == (3, {new_id: [0]})
    create_partitions(broker.host, "new", 3)
    assert assigned(broker.beat("a", 3)) == {new_id: [0, 1, 2]}
    assert broker.beat("a", 4).assignment is None


def test_requests_for_a_group_elsewhere_or_loading_are_refused() -> None:
    broker = ConsumerBroker()
    broker.start_loading()
    assert broker.beat("a", 0, ["t"]).error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert broker.describe().error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    broker.move_coordinator("g")
    assert broker.beat("a", 0, ["t"]).error_code == ErrorCode.NOT_COORDINATOR
    assert broker.describe().error_code == ErrorCode.NOT_COORDINATOR


def test_an_empty_group_id_is_refused() -> None:
    broker = ConsumerBroker()
    refused = broker.beat("a", 0, ["t"], group="")
    assert (refused.error_code, refused.error_message) == (
        ErrorCode.INVALID_REQUEST,
        "GroupId can't be empty.",
    )
    broker.move_coordinator("")
    assert broker.beat("a", 0, ["t"], group="").error_code == ErrorCode.INVALID_REQUEST
    assert broker.describe("").error_code == ErrorCode.INVALID_GROUP_ID


def test_a_shard_that_is_reloaded_has_the_group_of_its_log() -> None:
    broker = ConsumerBroker()
    broker.beat("a", 0, ["t"])
    context = broker.group_coordinators.context_of(partition_of("g", PARTITIONS))
    assert context is not None
    broker.group_coordinators._reload(context, broker.host.node.now)
    broker.host.settle()
    assert broker.beat("a", 2).error_code == OK
    assert broker.describe().group_epoch == 2
