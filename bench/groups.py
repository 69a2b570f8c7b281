"""The cost of the group coordinator on one core: `python -m bench groups`."""

from __future__ import annotations

import gc
import tracemalloc
from time import perf_counter

from kraftlog.groups.config import GroupConfig
from kraftlog.groups.consumer.cluster_metadata import ClusterMetadata
from kraftlog.groups.messages import GroupResponse, RequestContext, WriteRecords, Written
from kraftlog.groups.shard import GroupShard
from kraftlog.metadata.image import Image
from kraftlog.types import Now
from kraftlog.wire.messages.heartbeat import HeartbeatRequest
from kraftlog.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from kraftlog.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kraftlog.wire.messages.offset_fetch import OffsetFetchRequestGroup, OffsetFetchRequestTopics
from kraftlog.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

MEMBERS = 1_000
OFFSETS = 100_000
GROUPS = 1_000
REPEATS = 5_000
RUNS = 5
NOW = Now(0, 1_700_000_000_000)
CONTEXT = RequestContext(9, "consumer", "/127.0.0.1")
SUBSCRIPTION = bytes.fromhex("0000 00000001 0001 74 ffffffff")


class ShardHarness:
    """A shard whose batches are committed immediately."""

    def __init__(self, log: list[tuple[int, bytes, bytes | None]] | None = None) -> None:
        ids = iter(range(1 << 30))
        self.shard = GroupShard(
            GroupConfig(), lambda prefix: f"{prefix}-{next(ids):036}", ClusterMetadata(Image)
        )
        self.log = log or []
        self.responses: list[Any] = []
        self.shard.replay_batch(self.log)
        self.shard.finish_loading(NOW)

    def settle(self) -> None:
        shard = self.shard
        while effects := shard.take_effects():
            for effect in effects:
                if isinstance(effect, GroupResponse):
                    self.responses.append(effect.response)
                else:
                    assert isinstance(effect, WriteRecords)
                    base = len(self.log)
                    self.log += [(base + i, k, v) for i, (k, v) in enumerate(effect.records)]
                    shard.handle(Written(effect.token, base), NOW)

    def join(self, member_id: str) -> None:
        request = JoinGroupRequest(
            group_id="g",
            session_timeout_ms=45_000,
            rebalance_timeout_ms=300_000,
            member_id=member_id,
            protocol_type="consumer",
            protocols=(JoinGroupRequestProtocol(name="range", metadata=SUBSCRIPTION),),
        )
        self.shard.join_group(1, CONTEXT, request, NOW)

    def rebalance(self, ids: list[str]) -> None:
        """All members join, the leader assigns, and all receive their assignments."""
        for member_id in ids:
            self.join(member_id)
        self.shard.poll(NOW)
        self.settle()
        generation = self.shard.groups["g"].generation
        assignments = [SyncGroupRequestAssignment(member_id=i, assignment=b"\0" * 40) for i in ids]
        for member_id in reversed(ids):
            request = SyncGroupRequest(
                group_id="g",
                generation_id=generation,
                member_id=member_id,
                assignments=assignments if member_id == ids[0] else (),
            )
            self.shard.sync_group(1, request, NOW)
        self.settle()


def best_seconds(run: Callable[[], object], runs: int = RUNS) -> float:
    """The duration of the fastest of several runs."""
    times = []
    for _ in range(runs):
        start = perf_counter()
        run()
        times.append(perf_counter() - start)
    return min(times)


def cases() -> Iterator[tuple[str, float, str]]:
    harness = ShardHarness()
    for _ in range(MEMBERS):
        harness.join("")
    harness.settle()
    ids = [response.member_id for response in harness.responses]
    harness.rebalance(ids)
    yield (
        f"rebalance of {MEMBERS} members",
        1e3 * best_seconds(lambda: harness.rebalance(ids)),
        "ms",
    )
    assert len(harness.shard.groups["g"].members) == MEMBERS
    generation = harness.shard.groups["g"].generation
    heartbeat = HeartbeatRequest(group_id="g", generation_id=generation, member_id=ids[500])

    def heartbeats() -> None:
        for _ in range(REPEATS):
            harness.shard.heartbeat(1, heartbeat, NOW)
        harness.shard.take_effects()

    yield f"heartbeat in a group of {MEMBERS}", 1e6 * best_seconds(heartbeats) / REPEATS, "µs"
    yield from offset_cases(harness, ids[500], generation)
    yield from loading_cases()


def offset_cases(
    harness: ShardHarness, member_id: str, generation: int
) -> Iterator[tuple[str, float, str]]:
    commit = commit_request("g", range(1), member_id, generation)
    request = OffsetFetchRequestGroup(
        group_id="g", topics=(OffsetFetchRequestTopics(name="t", partition_indexes=(0,)),)
    )

    def commits() -> None:
        for _ in range(REPEATS):
            harness.shard.offset_commit(1, CONTEXT, commit, NOW)
            harness.settle()

    def fetches() -> None:
        for _ in range(REPEATS):
            harness.shard.offset_fetch(1, request, require_stable=True)
        harness.shard.take_effects()

    yield "OffsetCommit of one offset", 1e6 * best_seconds(commits) / REPEATS, "µs"
    yield "OffsetFetch of one offset", 1e6 * best_seconds(fetches) / REPEATS, "µs"


def loading_cases() -> Iterator[tuple[str, float, str]]:
    """Load a partition with the offsets of many groups that have no members."""
    source = ShardHarness()
    for number in range(GROUPS):
        source.shard.offset_commit(1, CONTEXT, commit_request(f"group-{number}", range(100)), NOW)
        source.settle()
    log = source.log
    del source
    seconds = best_seconds(lambda: load(log), 3)
    yield f"coordinator loads {OFFSETS:,} offsets of {GROUPS:,} groups", 1e3 * seconds, "ms"
    gc.collect()
    tracemalloc.start()
    kept = load(log)
    size, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(kept.groups) == GROUPS
    yield "memory of an offset and its share of the group", size / OFFSETS, "bytes"


def load(log: list[tuple[int, bytes, bytes | None]]) -> GroupShard:
    return ShardHarness(log).shard


def commit_request(
    group: str, indexes: range, member_id: str = "", generation: int = -1
) -> OffsetCommitRequest:
    parts = [
        OffsetCommitRequestPartition(
            partition_index=index, committed_offset=1 << 33, committed_metadata=""
        )
        for index in indexes
    ]
    return OffsetCommitRequest(
        group_id=group,
        generation_id_or_member_epoch=generation,
        member_id=member_id,
        topics=(OffsetCommitRequestTopic(name="t", partitions=parts),),
    )
