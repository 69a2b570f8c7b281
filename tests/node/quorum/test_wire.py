"""The quorum's messages are equal after encoding and decoding in Kafka's format."""

from __future__ import annotations

from typing import Any

import pytest

from kraftlog.errors import ErrorCode, ProtocolError
from kraftlog.logstate.quorum_records import voters_from_record, voters_record
from kraftlog.logstate.voters import Endpoint, ReplicaKey, Voter, VoterSet
from kraftlog.node.quorum.batches import control_batch, summaries
from kraftlog.node.quorum.requests import VERSIONS, request_from_wire, request_to_wire
from kraftlog.node.quorum.responses import response_from_wire, response_to_wire
from kraftlog.raft import messages as raft
from kraftlog.raft.messages import Batch, LeaderChange
from kraftlog.records.builder import BatchBuilder
from kraftlog.types import OffsetAndEpoch
from kraftlog.wire.apis import APIS, ApiKey
from kraftlog.wire.codec import decode, encode
from kraftlog.wire.messages.fetch import ReplicaState

ME, OTHER = ReplicaKey(1, b"a" * 16), ReplicaKey(2, b"b" * 16)
POINT = OffsetAndEpoch(77, 3)

REQUESTS = [
    raft.Vote("c", OTHER, 5, ME, 4, 100, pre_vote=True),
    raft.Vote(None, OTHER, 5, ME, 4, 100, pre_vote=False),
    raft.BeginEpoch("c", OTHER, 1, 5),
    raft.EndEpoch("c", 1, 5, (OTHER, ReplicaKey(3, b"c" * 16))),
    raft.EndEpoch(None, -1, 5, ()),
    raft.Fetch("c", ME, 5, 100, 4, 90, 500, 1 << 20),
    raft.Fetch(None, ME, -1, 0, -1, -1, 0, 1),
    raft.SnapshotFetch("c", ME, 5, POINT, 4096, 1 << 20),
    raft.ReadOffset("c"),
    raft.ReadOffset("c", ReplicaKey(2, bytes(range(16))), 7, 1_700_000_000_000),
]
FETCH = REQUESTS[5]
REQUESTS_AND_RESPONSES = [
    (REQUESTS[0], raft.VoteResult(0, 1, 5, granted=True)),
    (REQUESTS[0], raft.VoteResult(ErrorCode.FENCED_LEADER_EPOCH, 3, 9, granted=False)),
    (REQUESTS[2], raft.BeginEpochResult(0, 1, 5)),
    (REQUESTS[3], raft.EndEpochResult(ErrorCode.INVALID_REQUEST, 1, 5)),
    (FETCH, raft.FetchResult(0, 1, 5, 99, offset=100)),
    (FETCH, raft.FetchResult(0, 1, 5, 99, diverging=POINT, offset=100)),
    (FETCH, raft.FetchResult(0, 1, 5, 99, snapshot=POINT, offset=100)),
    (FETCH, raft.FetchResult(ErrorCode.NOT_LEADER_OR_FOLLOWER, -1, 6, -1, offset=100)),
    (
        FETCH,
        raft.FetchResult(ErrorCode.NOT_LEADER_OR_FOLLOWER, 1, 6, 99, offset=100, removed_at=98),
    ),
    (REQUESTS[7], raft.SnapshotChunk(0, 1, 5, POINT, 4096, size=5000, length=4, data=b"data")),
    (REQUESTS[8], raft.ReadOffsetResult(0, 1, 5, 123)),
]


def encode_and_decode(api_key: int, message: Any, version: int) -> Any:
    return decode(type(message), version, encode(message, version))


@pytest.mark.parametrize("body", REQUESTS, ids=lambda body: type(body).__name__)
def test_a_request_is_equal_after_encoding_and_decoding(body: Any) -> None:
    api_key, message = request_to_wire(body)
    assert type(message) is APIS[api_key].request()
    arrived = request_from_wire(api_key, encode_and_decode(api_key, message, VERSIONS[api_key]))
    assert arrived == body


@pytest.mark.parametrize(("sent", "body"), REQUESTS_AND_RESPONSES)
def test_a_response_is_equal_after_encoding_and_decoding(sent: Any, body: Any) -> None:
    api_key, _ = request_to_wire(sent)
    message = response_to_wire(body, getattr(body, "data", None) or b"")
    assert type(message) is APIS[api_key].response()
    arrived = encode_and_decode(api_key, message, VERSIONS[api_key])
    assert response_from_wire(arrived, sent) == body


@pytest.mark.parametrize("sent", REQUESTS, ids=lambda body: type(body).__name__)
def test_a_top_level_error_has_the_requests_epoch(sent: Any) -> None:
    """Q31, P4: such a response has no epoch, and must not count as outdated."""
    api_key, _ = request_to_wire(sent)
    refusal = APIS[api_key].response()
    fields = {
        "error_code": ErrorCode.INCONSISTENT_CLUSTER_ID,
        "responses" if api_key == ApiKey.FETCH else "topics": (),
    }
    if api_key == ApiKey.READ_OFFSET:
        fields["cluster_id"] = None
    arrived = response_from_wire(refusal(**fields), sent)
    assert arrived.error == ErrorCode.INCONSISTENT_CLUSTER_ID
    assert arrived.epoch == getattr(sent, "epoch", -1)


def test_q31_a_leader_that_refuses_another_cluster_names_itself() -> None:
    """The error code is at the top level, where Kafka's replicas read it, and in the partition."""
    refusal = raft.FetchResult(ErrorCode.INCONSISTENT_CLUSTER_ID, 1, 5, -1)
    message: Any = encode_and_decode(
        ApiKey.FETCH, response_to_wire(refusal), VERSIONS[ApiKey.FETCH]
    )
    assert message.error_code == ErrorCode.INCONSISTENT_CLUSTER_ID
    arrived = response_from_wire(message, FETCH)
    assert (arrived.error, arrived.leader_id) == (ErrorCode.INCONSISTENT_CLUSTER_ID, 1)


def test_q18_an_older_fetch_names_its_replica_at_the_top() -> None:
    """Up to version 14 the replica id is a top-level field."""
    api_key, message = request_to_wire(FETCH)
    old = message.replace(replica_id=1, replica_state=ReplicaState())
    assert request_from_wire(api_key, old).replica == ME


def test_a_request_without_partition_is_invalid() -> None:
    _, message = request_to_wire(REQUESTS[0])
    with pytest.raises(ProtocolError, match="exactly one partition"):
        request_from_wire(ApiKey.VOTE, message.replace(topics=()))


def voters() -> VoterSet:
    endpoint = Endpoint("CONTROLLER", "localhost", 9093)
    return VoterSet(
        (Voter(ME, (endpoint,), 0, 1), Voter(OTHER)),
        targets=(2, 3),
        cluster_id="cluster",
        removed=(ReplicaKey(ME.id, b"r" * 16), ReplicaKey(9, b"s" * 16)),
    )


def test_r1_r12_the_voters_record_has_targets_id_and_removed_voters() -> None:
    assert voters_from_record(voters_record(voters())) == voters()


def test_q14_r11_the_bootstrap_batch_is_equal_after_encoding() -> None:
    change = LeaderChange(1, (1, 2), (1,), voters())
    bootstrap = Batch(10, 11, 4, 0, voters(), change)
    data = control_batch(bootstrap, 1000)
    (summary,) = summaries(data)
    assert (summary.base_offset, summary.last_offset, summary.epoch) == (10, 11, 4)
    assert summary.size_bytes == len(data)
    assert summary.voters == voters()


def test_summaries_stop_at_an_unfinished_end() -> None:
    """C81: the first bytes of a batch whose write did not finish are no batch."""
    builder = BatchBuilder(base_offset=3, leader_epoch=2)
    builder.append(0, None, b"x")
    complete = builder.build()
    batches = list(summaries(complete + complete[:20]))
    assert [(b.base_offset, b.epoch, b.voters) for b in batches] == [(3, 2, None)]


@pytest.mark.parametrize(
    ("position", "wrong"),
    [(-1, b"\xff"), (16, b"\x09"), (8, b"\xff\xff\xff\xff"), (0, bytes(8))],
    ids=["checksum", "format", "length", "offset"],
)
def test_summaries_end_before_a_corrupt_batch(position: int, wrong: bytes) -> None:
    """C81, C139: the checksum is verified before anything is appended."""
    valid = []
    for offset in (3, 4, 5):
        builder = BatchBuilder(base_offset=offset, leader_epoch=2)
        builder.append(0, None, b"x")
        valid.append(builder.build())
    broken = bytearray(valid[1])
    position %= len(broken)
    broken[position : position + len(wrong)] = wrong
    batches = list(summaries(valid[0] + bytes(broken) + valid[2]))
    assert [batch.base_offset for batch in batches] == [3]
    assert [batch.base_offset for batch in summaries(b"".join(valid))] == [3, 4, 5]


def test_kafka_reads_the_voters_record(jvm: Any) -> None:
    """R1: Kafka's classes skip the unknown tagged fields, and read the rest."""
    raw = voters_record(voters())
    (decoded,) = jvm.decode([("VotersRecord", 0, raw)])
    assert [voter["voterId"] for voter in decoded.json["voters"]] == [1, 2]
    assert decoded.left == 0


def test_every_field_of_a_request_is_encoded() -> None:
    """A change of any field changes the bytes."""
    for body in REQUESTS:
        api_key, message = request_to_wire(body)
        before = encode(message, VERSIONS[api_key])
        for field in type(body)._fields:
            value = getattr(body, field)
            if isinstance(value, int):
                changed = not value if isinstance(value, bool) else value + 1
                changed_message = request_to_wire(body.replace(**{field: changed}))[1]
                assert encode(changed_message, VERSIONS[api_key]) != before, field
