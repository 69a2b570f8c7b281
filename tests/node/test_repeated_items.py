"""Items that a request repeats are reported once, so responses do not outgrow requests."""

from __future__ import annotations

from kraftlog.config.keys import BROKER
from kraftlog.node.coordinators.group_coordinators import TOPIC
from kraftlog.wire.apis import ApiKey
from kraftlog.wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from kraftlog.wire.messages.describe_groups import DescribeGroupsRequest
from kraftlog.wire.messages.describe_producers import DescribeProducersRequest, TopicRequest
from kraftlog.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from kraftlog.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from tests.node.frame_client import ask_settled, make_host

REPEATS = 50


def test_a_duplicate_topic_is_returned_once_in_metadata() -> None:
    """As in Kafka, which collects the requested topics in a set."""
    host = make_host(demo=1, other=1)
    names = [MetadataRequestTopic(name=name) for name in ["demo", "other"] * REPEATS]
    response = ask_settled(host, ApiKey.METADATA, 12, MetadataRequest(topics=names))
    assert [topic.name for topic in response.topics] == ["demo", "other"]
    topic_id = host.node.image.topic_ids["demo"]
    ids = [MetadataRequestTopic(name=None, topic_id=topic_id)] * REPEATS
    response = ask_settled(host, ApiKey.METADATA, 12, MetadataRequest(topics=ids))
    assert [topic.name for topic in response.topics] == ["demo"]


def test_producers_of_a_partition_are_described_once() -> None:
    host = make_host(demo=2)
    topics = [TopicRequest(name="demo", partition_indexes=(0, 1) * REPEATS)] * REPEATS
    response = ask_settled(
        host, ApiKey.DESCRIBE_PRODUCERS, 0, DescribeProducersRequest(topics=topics)
    )
    indexes = [part.partition_index for topic in response.topics for part in topic.partitions]
    assert indexes == [0, 1]


def test_a_group_is_described_once() -> None:
    host = make_host(None, **{TOPIC: 1})
    request = DescribeGroupsRequest(groups=["g", "h"] * REPEATS)
    response = ask_settled(host, ApiKey.DESCRIBE_GROUPS, 5, request)
    assert [group.group_id for group in response.groups] == ["g", "h"]


def test_all_offsets_of_a_group_are_fetched_once() -> None:
    host = make_host(None, **{TOPIC: 1})
    groups = [OffsetFetchRequestGroup(group_id=name, topics=None) for name in ["g", "h"] * REPEATS]
    response = ask_settled(host, ApiKey.OFFSET_FETCH, 8, OffsetFetchRequest(groups=groups))
    assert [group.group_id for group in response.groups] == ["g", "h"]


def test_a_resource_is_described_once_for_each_list_of_keys() -> None:
    host = make_host(demo=1)
    resources = [
        DescribeConfigsResource(resource_type=BROKER, resource_name="1", configuration_keys=keys)
        for keys in (None, ("log.dirs",), ("listeners",))
    ]
    request = DescribeConfigsRequest(resources=resources * REPEATS)
    response = ask_settled(host, ApiKey.DESCRIBE_CONFIGS, 4, request)
    assert len(response.results) == len(resources)
