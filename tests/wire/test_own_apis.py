"""The exact bytes of our own APIs and tagged fields."""

from __future__ import annotations

from pathlib import Path

import pytest

from kraftlog.errors import UnsupportedVersionError
from kraftlog.wire.apis import APIS, FIRST_OWN
from kraftlog.wire.codec import decode, encode
from kraftlog.wire.messages.broker_registration import BrokerRegistrationRequest
from kraftlog.wire.messages.control_records import RemovedVoter, VotersRecord
from kraftlog.wire.messages.describe_cluster import DescribeClusterRequest
from kraftlog.wire.messages.describe_configs import DescribeConfigsRequest
from kraftlog.wire.messages.describe_topic_partitions import DescribeTopicPartitionsRequest
from kraftlog.wire.messages.discover_brokers import (
    DiscoverBrokersRequest,
    DiscoverBrokersResponse,
    DiscoveredBroker,
)
from kraftlog.wire.messages.list_config_resources import ListConfigResourcesRequest
from kraftlog.wire.messages.metadata import MetadataRequest
from kraftlog.wire.messages.metadata_records import PartitionChangeRecord, PartitionRecord
from kraftlog.wire.messages.read_offset import (
    ReadOffsetPartition,
    ReadOffsetPartitionResult,
    ReadOffsetRequest,
    ReadOffsetResponse,
    ReadOffsetTopic,
    ReadOffsetTopicResult,
)
from kraftlog.wire.messages.remove_partitions import (
    RemovePartitionsRequest,
    RemovePartitionsResponse,
    RemovePartitionsTopic,
    RemovePartitionsTopicResult,
)
from kraftlog.wire.schema import Message
from tests.house_rules import ROOT
from tests.wire.samples import plain

GOLDEN: list[tuple[type[Message], Message, str]] = [
    (
        DiscoverBrokersRequest,
        DiscoverBrokersRequest(
            cluster_id="c", broker_id=3, host="h", port=9093, boot_timestamp_ms=258
        ),
        "0263 00000003 0268 2385 0000000000000102 00",
    ),
    (
        DiscoverBrokersRequest,
        DiscoverBrokersRequest(cluster_id=None),
        "00 ffffffff 01 0000 ffffffffffffffff 00",
    ),
    (
        DiscoverBrokersResponse,
        DiscoverBrokersResponse(
            error_code=104,
            cluster_id="c",
            leader_id=1,
            leader_epoch=7,
            brokers=(DiscoveredBroker(broker_id=3, host="h", port=65535, boot_timestamp_ms=-1),),
        ),
        "0068 0263 00000001 00000007 02 00000003 0268 ffff ffffffffffffffff 00 00",
    ),
    (
        ReadOffsetRequest,
        ReadOffsetRequest(
            cluster_id="c",
            read_timestamp_ms=5,
            topics=(
                ReadOffsetTopic(
                    topic_name="t", partitions=(ReadOffsetPartition(partition_index=2),)
                ),
            ),
        ),
        "0263 0000000000000005 02 0274 02 00000002 00 00 00",
    ),
    (
        ReadOffsetResponse,
        ReadOffsetResponse(
            cluster_id=None,
            topics=(
                ReadOffsetTopicResult(
                    topic_name="t",
                    partitions=(
                        ReadOffsetPartitionResult(
                            partition_index=2, error_code=6, leader_id=1, leader_epoch=4, offset=9
                        ),
                    ),
                ),
            ),
        ),
        "0000 00 02 0274 02 00000002 0006 00000001 00000004 0000000000000009 00 00 00",
    ),
    (
        RemovePartitionsRequest,
        RemovePartitionsRequest(
            topics=(RemovePartitionsTopic(name="t", partitions=(4, 5)),),
            timeout_ms=1000,
            validate_only=True,
        ),
        "02 0274 03 00000004 00000005 00 000003e8 01 00",
    ),
    (
        RemovePartitionsResponse,
        RemovePartitionsResponse(
            throttle_time_ms=2,
            results=(RemovePartitionsTopicResult(name="t", error_code=37, error_message="no"),),
        ),
        "00000002 02 0274 0025 036e6f 00 00",
    ),
]


@pytest.mark.parametrize(("cls", "message", "golden"), GOLDEN)
def test_our_apis_have_their_exact_bytes(cls: type[Message], message: Message, golden: str) -> None:
    raw = bytes.fromhex(golden)
    assert encode(message, 0) == raw
    assert plain(decode(cls, 0, raw)) == plain(message)


def test_docs_wire_md_names_each_of_our_apis() -> None:
    text = Path(ROOT, "docs/understand/wire.md").read_text(encoding="utf-8")
    own = [f"{api.name} ({key})" for key, api in APIS.items() if key >= FIRST_OWN]
    assert [name for name in own if name not in text] == []


@pytest.mark.parametrize(
    ("message", "version", "golden"),
    [
        # 10000 is the varint 90 4e
        (VotersRecord(version=0, voters=()), 0, "0000 01 00"),
        (
            VotersRecord(version=0, voters=(), target_voters=(4, 5), cluster_id="id"),
            0,
            "0000 01 02 904e 09 03 00000004 00000005 914e 03 03 6964",
        ),
        (
            VotersRecord(
                version=0,
                voters=(),
                removed_voters=(RemovedVoter(voter_id=5, voter_directory_id=b"\x07" * 16),),
            ),
            0,
            f"0000 01 01 924e 16 02 00000005 {'07' * 16} 00",
        ),
        (
            VotersRecord(version=0, voters=(), target_voters=()),
            0,
            "0000 01 01 904e 01 01",
        ),
        (
            PartitionChangeRecord(partition_id=1, topic_id=bytes(16), removed=True),
            0,
            "00000001 00000000000000000000000000000000 01 904e 01 01",
        ),
        (
            PartitionRecord(
                partition_id=1,
                topic_id=bytes(16),
                replicas=(),
                isr=(),
                removing_replicas=(),
                adding_replicas=(),
                first_leader_epoch=7,
            ),
            0,
            f"00000001 {bytes(16).hex()} 01 01 01 01 {'ff' * 12} 01 904e 04 00000007",
        ),
        (
            MetadataRequest(topics=None, linearizable=True),
            13,
            "00 01 00 01 904e 01 01",
        ),
        (
            BrokerRegistrationRequest(
                broker_id=1,
                cluster_id="",
                incarnation_id=bytes(16),
                listeners=(),
                features=(),
                rack=None,
                replaced_broker_epoch=5,
            ),
            0,
            f"00000001 01 {bytes(16).hex()} 01 01 00 01 904e 08 0000000000000005",
        ),
        (DescribeConfigsRequest(resources=(), linearizable=True), 4, "01 00 00 01 904e 01 01"),
    ],
)
def test_our_tagged_fields_have_their_exact_bytes(
    message: Message, version: int, golden: str
) -> None:
    raw = bytes.fromhex(golden)
    assert encode(message, version) == raw
    assert decode(type(message), version, raw) == message


def test_p7_a_linearizable_read_needs_a_version_with_the_tag() -> None:
    """P7: an older version would silently return stale metadata."""
    with pytest.raises(UnsupportedVersionError, match="linearizable = true is not"):
        encode(MetadataRequest(topics=None, linearizable=True), 12)


@pytest.mark.parametrize(
    ("ordinary", "linearizable", "version"),
    [
        (MetadataRequest(topics=None), MetadataRequest(topics=None, linearizable=True), 13),
        (
            DescribeTopicPartitionsRequest(topics=()),
            DescribeTopicPartitionsRequest(topics=(), linearizable=True),
            0,
        ),
        (
            DescribeConfigsRequest(resources=()),
            DescribeConfigsRequest(resources=(), linearizable=True),
            4,
        ),
        (
            DescribeClusterRequest(include_cluster_authorized_operations=False),
            DescribeClusterRequest(include_cluster_authorized_operations=False, linearizable=True),
            2,
        ),
        (ListConfigResourcesRequest(), ListConfigResourcesRequest(linearizable=True), 1),
    ],
)
def test_p7_a_request_without_the_tag_has_kafkas_bytes(
    ordinary: Message, linearizable: Message, version: int
) -> None:
    """P7: a tagged field, which ordinary clients do not send, requests a linearizable read."""
    raw = encode(ordinary, version)
    assert encode(linearizable, version) == raw[:-1] + bytes.fromhex("01 904e 01 01")
    assert decode(type(ordinary), version, raw) == ordinary
    assert ordinary != linearizable
