"""Messages survive encoding and decoding; a corrupt batch and all later ones are dropped."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from kraftlog.logstate.voters import Endpoint, ReplicaKey, Voter, VoterSet
from kraftlog.raft.messages import (
    Batch,
    BeginEpoch,
    BeginEpochResult,
    EndEpoch,
    EndEpochResult,
    Fetch,
    FetchResult,
    LeaderChange,
    SnapshotChunk,
    SnapshotFetch,
    Vote,
    VoteResult,
)
from kraftlog.types import OffsetAndEpoch
from kraftlog_simulator.faults.corruption import corrupted, damaged
from kraftlog_simulator.rng import Rng
from kraftlog_simulator.run import simulate
from kraftlog_simulator.snapshot import decode_snapshot, encode_snapshot
from kraftlog_simulator.wire import Wire

if TYPE_CHECKING:
    from collections.abc import Callable

ME, OTHER = ReplicaKey(1, bytes(15) + b"a"), ReplicaKey(2, bytes(15) + b"b")
VOTERS = VoterSet((Voter(ME), Voter(OTHER, (Endpoint("C", "host", 9),))), (1, 3), "cluster")
END = OffsetAndEpoch(7, 2)
FETCH = Fetch("cluster", ME, 3, 7, 2, 5, 500, 1 << 20)
CHUNK_FETCH = SnapshotFetch(None, ME, 3, END, 4, 100)
BATCHES = (
    Batch(7, 7, 2, 0, None, 41),
    Batch(8, 8, 3, 0, None, LeaderChange(2, (1, 2), (2,), None)),
    Batch(9, 9, 3, 0, VOTERS, ("voters", VOTERS)),
    Batch(10, 10, 3, 0, None, 42),
)
RESPONSE = FetchResult(0, 2, 3, 6, offset=7, batches=BATCHES)


def exchange(
    request_body: Any, response: Any, damage: Callable[[bytes], bytes] | None = None
) -> Any:
    wire = Wire()
    assert wire.request((1, 1, 1), request_body) == request_body
    return wire.response((1, 1, 1), response, damage)


def without_sizes(batches: tuple[Batch, ...]) -> list[Batch]:
    return [batch.replace(size_bytes=0) for batch in batches]


@pytest.mark.parametrize(
    ("request_body", "response"),
    [
        (Vote("cluster", OTHER, 3, ME, 2, 7, pre_vote=True), VoteResult(0, -1, 3, granted=True)),
        (BeginEpoch(None, OTHER, 1, 3), BeginEpochResult(74, 2, 4)),
        (EndEpoch("cluster", 1, 3, (OTHER, ME)), EndEpochResult(0, -1, 3)),
        (FETCH, FetchResult(0, 2, 3, 6, diverging=END, offset=7)),
        (FETCH, FetchResult(0, 2, 3, 6, snapshot=END, offset=7)),
        (CHUNK_FETCH, SnapshotChunk(0, 2, 3, END, 4, 0, 9, 3, b"abc")),
    ],
    ids=lambda body: type(body).__name__,
)
def test_q18_messages_are_unchanged_by_the_wire(request_body: Any, response: Any) -> None:
    assert exchange(request_body, response) == response


def test_q14_batches_keep_their_content_on_the_wire() -> None:
    received = exchange(FETCH, RESPONSE)
    assert without_sizes(received.batches) == without_sizes(BATCHES)
    assert [batch.size_bytes > 60 for batch in received.batches] == [True] * 4


def test_the_first_record_of_a_cluster_keeps_its_voters() -> None:
    """R11: this LeaderChange record also has the voters."""
    first = Batch(0, 1, 1, 0, VOTERS, LeaderChange(2, (1, 2), (2,), VOTERS))
    received = exchange(FETCH, RESPONSE.replace(batches=(first,)))
    assert without_sizes(received.batches) == [first]


@pytest.mark.parametrize("seed", range(20))
def test_a_corrupt_batch_and_all_later_ones_are_dropped(seed: int) -> None:
    """Q8: the batches before it are decoded."""
    rng = Rng(seed, "damage")
    received = exchange(FETCH, RESPONSE, lambda data: damaged(data, rng))
    for batch in without_sizes(received.batches[:-1]):
        assert batch in BATCHES


def test_bytes_are_damaged_more_often_than_not() -> None:
    rng, whole = Rng(1, "damage"), exchange(FETCH, RESPONSE)
    received = [exchange(FETCH, RESPONSE, lambda data: damaged(data, rng)) for _ in range(20)]
    assert [response == whole for response in received].count(True) < 10


def test_responses_are_corrupted_in_each_of_four_ways() -> None:
    rng = Rng(1, "garbled")
    kinds = set()
    for _ in range(100):
        received = corrupted(RESPONSE, rng).batches
        if any(batch.epoch > RESPONSE.epoch for batch in received):
            kinds.add("epoch")
        elif len(received) > len(BATCHES):
            kinds.add("twice")
        elif received == BATCHES[: len(received)]:
            kinds.add("cut")
        else:
            kinds.add("gap")
    assert kinds == {"epoch", "twice", "cut", "gap"}


def test_the_trace_states_that_messages_cross_as_bytes() -> None:
    lines: list[str] = []
    seed = next(
        seed for seed in range(1, 50) if "messages as bytes" in simulate("quiet", seed).coverage
    )
    simulate("quiet", seed, trace=lines.append)
    assert lines[0].endswith("messages 'cross as bytes'")


def test_q38_chunks_of_two_snapshots_make_no_snapshot() -> None:
    one, two = [encode_snapshot(END, 5, VOTERS, replica_id) for replica_id in (1, 2)]
    assert decode_snapshot(one.data) == one
    assert decode_snapshot(one.data[:50] + two.data[50:]) is None
    assert decode_snapshot(one.data[:10]) is None
