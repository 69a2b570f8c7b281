"""The messages that `bench.wire` measures, the most frequent ones of a broker."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kraftlog.types import NULL_UUID
from kraftlog.wire.codec import encode_piece
from kraftlog.wire.messages.fetch import (
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)
from kraftlog.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
    ListOffsetsTopicResponse,
)
from kraftlog.wire.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from kraftlog.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from kraftlog.wire.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)

if TYPE_CHECKING:
    from kraftlog.wire.schema import Message

TOPIC_ID = bytes(range(16))
BATCH = bytes(170)


@dataclass(frozen=True)
class Sample:
    name: str
    message: Message
    version: int
    decoded: bool = True
    encoded: bool = True


def produce_request() -> ProduceRequest:
    data = PartitionProduceData(index=3, records=BATCH)
    topic = TopicProduceData(name="orders", partition_data=(data,))
    return ProduceRequest(acks=-1, timeout_ms=30000, topic_data=(topic,))


def produce_response() -> ProduceResponse:
    done = PartitionProduceResponse(index=3, error_code=0, base_offset=10**6, log_start_offset=0)
    return ProduceResponse(
        responses=(TopicProduceResponse(name="orders", partition_responses=(done,)),)
    )


def name_or_id(version: int) -> dict[str, str | bytes]:
    return {"topic": "orders"} if version < 13 else {"topic_id": TOPIC_ID}


def fetch_request(version: int, count: int) -> FetchRequest:
    partitions = tuple(
        [
            FetchPartition(
                partition=n,
                current_leader_epoch=5,
                fetch_offset=10**6 + n,
                log_start_offset=0,
                partition_max_bytes=1 << 20,
            )
            for n in range(count)
        ]
    )
    return FetchRequest(
        max_wait_ms=500,
        min_bytes=1,
        max_bytes=50 << 20,
        session_id=0,
        session_epoch=-1,
        topics=(FetchTopic(**name_or_id(version), partitions=partitions),),  # type: ignore[arg-type]  # name or id
        rack_id="",
    )


def fetch_response(version: int, count: int) -> FetchResponse:
    partitions = tuple(
        [
            PartitionData(
                partition_index=n,
                error_code=0,
                high_watermark=10**6 + n,
                last_stable_offset=10**6 + n,
                log_start_offset=0,
                aborted_transactions=None,
                records=BATCH,
            )
            for n in range(count)
        ]
    )
    topic = FetchableTopicResponse(**name_or_id(version), partitions=partitions)  # type: ignore[arg-type]  # name or id
    return FetchResponse(responses=(topic,))


def metadata_partition(n: int) -> MetadataResponsePartition:
    replicas = (n % 3, (n + 1) % 3, (n + 2) % 3)
    return MetadataResponsePartition(
        error_code=0,
        partition_index=n,
        leader_id=n % 3,
        leader_epoch=5,
        replica_nodes=replicas,
        isr_nodes=replicas,
    )


def metadata_topic(n: int, partitions: int) -> MetadataResponseTopic:
    return MetadataResponseTopic(
        error_code=0,
        name=f"topic-{n}",
        topic_id=TOPIC_ID,
        partitions=tuple([metadata_partition(p) for p in range(partitions)]),
    )


def metadata_response(topics: int, partitions: int) -> MetadataResponse:
    return MetadataResponse(
        brokers=tuple(
            [MetadataResponseBroker(node_id=n, host=f"node-{n}", port=9092) for n in range(3)]
        ),
        cluster_id="kraftlog-cluster-22-chr",
        controller_id=1,
        topics=tuple([metadata_topic(n, partitions) for n in range(topics)]),
    )


def metadata_response_of_pieces() -> tuple[MetadataResponse, int]:
    """The large Metadata response, made of topics that are encoded already, and its version."""
    whole = metadata_response(100, 10)
    pieces = tuple([encode_piece(MetadataResponse, 12, topic) for topic in whole.topics])
    return whole.replace(topics=pieces), 12


def list_offsets() -> tuple[ListOffsetsRequest, ListOffsetsResponse]:
    partition = ListOffsetsPartition(partition_index=3, current_leader_epoch=5, timestamp=-1)
    result = ListOffsetsPartitionResponse(
        partition_index=3, error_code=0, offset=10**6, leader_epoch=5
    )
    return (
        ListOffsetsRequest(
            replica_id=-1, topics=(ListOffsetsTopic(name="orders", partitions=(partition,)),)
        ),
        ListOffsetsResponse(
            topics=(ListOffsetsTopicResponse(name="orders", partitions=(result,)),)
        ),
    )


def offset_commit() -> tuple[OffsetCommitRequest, OffsetCommitResponse]:
    commit = OffsetCommitRequestPartition(
        partition_index=3, committed_offset=10**6, committed_leader_epoch=5, committed_metadata=""
    )
    done = OffsetCommitResponsePartition(partition_index=3, error_code=0)
    return (
        OffsetCommitRequest(
            group_id="billing",
            generation_id_or_member_epoch=3,
            member_id="rdkafka-6f0b2a1c-3c7e-4a43-9f5a-3d9f5e0f6c11",
            topics=(OffsetCommitRequestTopic(name="orders", partitions=(commit,)),),
        ),
        OffsetCommitResponse(
            topics=(OffsetCommitResponseTopic(name="orders", partitions=(done,)),)
        ),
    )


def samples() -> tuple[Sample, ...]:
    fetches = [(12, 1), (12, 50), (17, 1), (17, 50)]
    metadata_request = MetadataRequest(
        topics=(MetadataRequestTopic(topic_id=NULL_UUID, name="orders"),)
    )
    list_request, list_response = list_offsets()
    commit_request, commit_response = offset_commit()
    return (
        Sample("Produce v9 request", produce_request(), 9),
        Sample("Produce v9 response", produce_response(), 9),
        *[
            Sample(f"Fetch v{v} request, {n} partitions", fetch_request(v, n), v)
            for v, n in fetches
        ],
        *[
            Sample(f"Fetch v{v} response, {n} partitions", fetch_response(v, n), v)
            for v, n in fetches
        ],
        Sample("Metadata v12 request", metadata_request, 12),
        Sample("Metadata v12 response, 1000 partitions", metadata_response(100, 10), 12),
        Sample("ListOffsets v7 request", list_request, 7),
        Sample("ListOffsets v7 response", list_response, 7),
        Sample("OffsetCommit v8 request", commit_request, 8),
        Sample("OffsetCommit v8 response", commit_response, 8),
    )


SAMPLES = samples()
