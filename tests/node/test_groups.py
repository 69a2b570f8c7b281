"""Group requests as they come off the wire, in every version, to shards whose log is bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from kraftlog.errors import ErrorCode
from kraftlog.groups.config import GroupConfig
from kraftlog.groups.shard import partition_of
from kraftlog.metadata.image import Image
from kraftlog.metadata.values import TopicImage
from kraftlog.node.groups.groups import GROUPS_TOPIC, Groups
from kraftlog.records.builder import BatchBuilder
from kraftlog.records.control import build_end_marker
from kraftlog.records.header import read_header, stamp
from kraftlog.types import Now
from kraftlog.wire import codec
from kraftlog.wire.apis import APIS, ApiKey
from kraftlog.wire.messages.group_records import OffsetCommitKey, OffsetCommitValue
from kraftlog.wire.messages.join_group import JoinGroupRequestProtocol
from kraftlog.wire.messages.leave_group import MemberIdentity
from kraftlog.wire.messages.offset_commit import (
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kraftlog.wire.messages.offset_delete import (
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from kraftlog.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from kraftlog.wire.messages.sync_group import SyncGroupRequestAssignment
from kraftlog.wire.record_frames import OFFSETS_LOG, encode_versioned

if TYPE_CHECKING:
    from collections.abc import Callable

PARTITIONS = 3
OK = ErrorCode.NONE
NOT_OURS = ErrorCode.NOT_COORDINATOR
LOADING = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
T_ID, GONE_ID = b"t" * 16, b"g" * 16


class Asked:
    """A request's slot: what it is told, as the client reads it."""

    def __init__(self, api_key: int, version: int) -> None:
        self.api = APIS[api_key]
        self.version = version
        self.client_id: str | None = "me"
        self.told: Any = None  # until it is answered

    def answer(self, response: Any) -> None:
        assert self.told is None, "answered twice"
        raw = codec.encode(response, self.version)
        self.told = codec.decode(self.api.response(), self.version, raw)


class Broker:
    """Leads the partitions of `__consumer_offsets`; what shards write is in its logs at once."""

    def __init__(self, *, leads: tuple[int, ...] = (0, 1, 2)) -> None:
        self.image = Image()
        for topic in (
            TopicImage(b"o" * 16, GROUPS_TOPIC, PARTITIONS),
            TopicImage(T_ID, "t", 1),
        ):
            self.image.topics[topic.id] = topic
            self.image.topic_ids[topic.name] = topic.id
        self.logs: dict[int, bytes] = dict.fromkeys(range(PARTITIONS), b"")
        self.ends = dict.fromkeys(range(PARTITIONS), 0)
        self.ms = 0
        self.ids = 0
        self.groups = Groups(GroupConfig(), self.image, self.new_id, lambda _: "/10.0.0.1")
        for partition in leads:
            self.groups.lead(partition)
            self.groups.loaded(partition, self.now)

    def new_id(self, prefix: str) -> str:
        self.ids += 1
        return f"{prefix}-{self.ids}"

    @property
    def now(self) -> Now:
        return Now(self.ms, 1_700_000_000_000 + self.ms)

    def write(self, error: int = OK) -> None:
        while batches := self.groups.take_batches():
            for each in batches:
                if error:
                    self.groups.failed(each.partition, each.token, error, self.now)
                    continue
                base = self.append(each.partition, each.batch)
                self.groups.written(each.partition, each.token, base, self.now)

    def append(self, partition: int, batch: bytes) -> int:
        whole, base = bytearray(batch), self.ends[partition]
        stamp(whole, 0, base, 0)
        self.logs[partition] += whole
        self.ends[partition] = base + read_header(whole, 0).last_offset_delta + 1
        return base

    def move(self, partition: int) -> None:
        """To another broker and back."""
        self.groups.resign(partition, self.now)
        self.groups.lead(partition)
        self.groups.replay(partition, self.logs[partition], self.now)
        self.groups.loaded(partition, self.now)

    def ask(self, api_key: int, version: int, *, writes: bool = True, **fields: Any) -> Any:
        """A request through its bytes; gives the answer, or None as long as it waits."""
        slot = Asked(api_key, version)
        request: Any = codec.decode(
            slot.api.request(), version, codec.encode(slot.api.request()(**fields), version)
        )
        handle = getattr(self.groups, slot.api.module)
        if api_key in {ApiKey.DESCRIBE_GROUPS, ApiKey.LIST_GROUPS}:
            handle(slot, request)
        else:
            handle(slot, request, self.now)
        if writes:
            self.write()
        if api_key in {ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP}:
            self.groups.poll(self.now)
        return slot.told

    def join(self, version: int, member_id: str = "", group: str = "g") -> Any:
        return self.ask(
            ApiKey.JOIN_GROUP,
            version,
            group_id=group,
            session_timeout_ms=10_000,
            member_id=member_id,
            protocol_type="consumer",
            protocols=(JoinGroupRequestProtocol(name="range", metadata=b""),),
        )

    def commit(self, version: int, group: str = "g", topic: str = "t", **fields: Any) -> Any:
        topic_id = {"t": T_ID}.get(topic, GONE_ID)
        part = OffsetCommitRequestPartition(
            partition_index=0, committed_offset=7, committed_metadata="m"
        )
        return self.ask(
            ApiKey.OFFSET_COMMIT,
            version,
            group_id=group,
            member_id=fields.pop("member_id", ""),
            topics=(OffsetCommitRequestTopic(name=topic, topic_id=topic_id, partitions=(part,)),),
            **fields,
        )

    def fetch(self, version: int, *topics: str, group: str = "g", **fields: Any) -> Any:
        """The given topics, or all; of one group."""
        if version < 8:
            named = [OffsetFetchRequestTopic(name=t, partition_indexes=(0,)) for t in topics]
            return self.ask(
                ApiKey.OFFSET_FETCH, version, group_id=group, topics=named or None, **fields
            )
        of_group = [
            OffsetFetchRequestTopics(
                name=t, topic_id=T_ID if t == "t" else GONE_ID, partition_indexes=(0,)
            )
            for t in topics
        ]
        asked = OffsetFetchRequestGroup(group_id=group, topics=of_group or None)
        return self.ask(ApiKey.OFFSET_FETCH, version, groups=(asked,), **fields)


def versions(api_key: int) -> range:
    return range(APIS[api_key].first, APIS[api_key].last + 1)


def in_every_version(api_key: int) -> Callable[[Any], Any]:
    return pytest.mark.parametrize("version", versions(api_key))


def elsewhere() -> str:
    """A group of another partition than g's."""
    return next(g for g in "abcdef" if partition_of(g, PARTITIONS) != partition_of("g", PARTITIONS))


# The life of a member --------------------------------------------------------------------------


@in_every_version(ApiKey.JOIN_GROUP)
def test_a_member_joins_syncs_beats_and_leaves_in_every_version(version: int) -> None:
    broker = Broker()
    told = broker.join(version)
    if version >= 4:
        assert told.error_code == ErrorCode.MEMBER_ID_REQUIRED
        broker.join(version, told.member_id)
    group = broker.groups.shards[partition_of("g", PARTITIONS)].groups["g"]
    [member] = group.members.values()
    assert (member.member_id, member.client_id, member.client_host) == ("me-1", "me", "/10.0.0.1")
    told = broker.ask(
        ApiKey.SYNC_GROUP,
        min(version, 5),
        group_id="g",
        generation_id=1,
        member_id="me-1",
        assignments=(SyncGroupRequestAssignment(member_id="me-1", assignment=b"all"),),
    )
    assert (told.error_code, told.assignment) == (OK, b"all")
    beat: dict[str, Any] = {"group_id": "g", "generation_id": 1, "member_id": "me-1"}
    assert broker.ask(ApiKey.HEARTBEAT, min(version, 4), **beat).error_code == OK
    leave = min(version, 5)
    whole: dict[str, Any] = (
        {"members": (MemberIdentity(member_id="me-1"),)} if leave > 2 else {"member_id": "me-1"}
    )
    told = broker.ask(ApiKey.LEAVE_GROUP, leave, group_id="g", **whole)
    assert told.error_code == OK
    assert [each.error_code for each in told.members] == ([OK] if leave > 2 else [])
    assert group.state == "Empty"


def test_a_coordinator_that_reads_the_log_knows_the_members() -> None:
    broker = Broker()
    broker.join(3)
    broker.ask(
        ApiKey.SYNC_GROUP,
        5,
        group_id="g",
        generation_id=1,
        member_id="me-1",
        assignments=(SyncGroupRequestAssignment(member_id="me-1", assignment=b"all"),),
    )
    broker.commit(9, generation_id_or_member_epoch=1, member_id="me-1")
    broker.move(partition_of("g", PARTITIONS))
    beat: dict[str, Any] = {"group_id": "g", "generation_id": 1, "member_id": "me-1"}
    assert broker.ask(ApiKey.HEARTBEAT, 4, **beat).error_code == OK
    assert broker.fetch(8, "t").groups[0].topics[0].partitions[0].committed_offset == 7


def test_time_is_told_to_all_shards() -> None:
    broker = Broker()
    broker.join(3)
    assert broker.groups.deadline() == 10_000  # the session of its member
    broker.ms = 10_000
    broker.groups.poll(broker.now)
    broker.write()
    [group] = broker.ask(ApiKey.LIST_GROUPS, 5).groups
    assert (group.group_id, group.group_state, group.group_type) == ("g", "Empty", "classic")


# Where a group is --------------------------------------------------------------------------------

ONE_GROUP: dict[int, dict[str, Any]] = {
    ApiKey.JOIN_GROUP: {
        "session_timeout_ms": 6000,
        "member_id": "m",
        "protocol_type": "p",
        "protocols": (),
    },
    ApiKey.SYNC_GROUP: {"generation_id": 1, "member_id": "m", "assignments": ()},
    ApiKey.HEARTBEAT: {"generation_id": 1, "member_id": "m"},
    ApiKey.LEAVE_GROUP: {"members": ()},
    ApiKey.OFFSET_DELETE: {"topics": ()},
}


@pytest.mark.parametrize("api_key", ONE_GROUP)
def test_where_a_group_is_not_the_client_looks_elsewhere(api_key: int) -> None:
    fields = ONE_GROUP[api_key]
    last = APIS[api_key].last
    broker = Broker(leads=())
    assert broker.ask(api_key, last, group_id="g", **fields).error_code == NOT_OURS
    assert broker.ask(api_key, last, group_id="", **fields).error_code == ErrorCode.INVALID_GROUP_ID
    broker.groups.lead(partition_of("g", PARTITIONS))
    # Members are believed while they are being read.
    expected = OK if api_key == ApiKey.HEARTBEAT else LOADING
    assert broker.ask(api_key, last, group_id="g", **fields).error_code == expected
    broker.image.topic_ids.clear()
    assert broker.ask(api_key, last, group_id="g", **fields).error_code == NOT_OURS


@in_every_version(ApiKey.OFFSET_FETCH)
def test_a_fetch_where_the_group_is_not(version: int) -> None:
    told = Broker(leads=()).fetch(version, "t")
    if version >= 8:
        assert [group.error_code for group in told.groups] == [NOT_OURS]
    elif version >= 2:
        assert (told.error_code, told.topics) == (NOT_OURS, ())
    else:
        [part] = told.topics[0].partitions
        assert (part.error_code, part.committed_offset) == (NOT_OURS, -1)


def test_a_commit_where_the_group_is_not() -> None:
    told = Broker(leads=()).commit(9)
    assert told.topics[0].partitions[0].error_code == NOT_OURS


# Offsets -----------------------------------------------------------------------------------------


@in_every_version(ApiKey.OFFSET_COMMIT)
def test_an_offset_is_committed_in_every_version(version: int) -> None:
    broker = Broker()
    [topic] = broker.commit(version).topics
    assert (topic.name, topic.topic_id) == (("", T_ID) if version >= 10 else ("t", bytes(16)))
    assert topic.partitions[0].error_code == OK
    shard = broker.groups.shards[partition_of("g", PARTITIONS)]
    kept = shard.durable.offsets.get("g", "t", 0)
    assert kept is not None
    assert (kept.offset, kept.topic_id) == (7, T_ID)


@pytest.mark.parametrize("version", [9, 10])
def test_a_commit_for_a_topic_that_there_is_not(version: int) -> None:
    broker = Broker()
    [topic] = broker.commit(version, topic="gone").topics
    code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if version < 10 else ErrorCode.UNKNOWN_TOPIC_ID
    assert topic.partitions[0].error_code == code
    assert broker.logs == dict.fromkeys(range(PARTITIONS), b"")


@in_every_version(ApiKey.OFFSET_FETCH)
def test_offsets_are_fetched_in_every_version(version: int) -> None:
    broker = Broker()
    broker.commit(9)

    def topics(told: Any) -> Any:
        return told.groups[0].topics if version >= 8 else told.topics

    told = topics(broker.fetch(version, "t", "gone"))
    parts = [topic.partitions[0] for topic in told]
    unknown = ErrorCode.UNKNOWN_TOPIC_ID if version >= 10 else OK
    assert [(p.committed_offset, p.metadata, p.error_code) for p in parts] == [
        (7, "m", OK),
        (-1, "", unknown),
    ]
    assert [(t.topic_id if version >= 10 else t.name) for t in told] == (
        [T_ID, GONE_ID] if version >= 10 else ["t", "gone"]
    )
    if version >= 2:
        [every] = topics(broker.fetch(version))
        assert every.partitions[0].committed_offset == 7
        assert version < 10 or every.topic_id == T_ID


def test_of_all_offsets_those_without_an_id_are_left_out_for_who_knows_ids_only() -> None:
    broker = Broker()
    broker.commit(9)
    del broker.image.topic_ids["t"]
    broker.image.topic_ids[GROUPS_TOPIC] = b"o" * 16
    assert broker.fetch(10).groups[0].topics == ()
    assert len(broker.fetch(9).groups[0].topics) == 1


def test_one_fetch_is_of_groups_here_and_elsewhere_and_of_such_that_must_wait() -> None:
    here = partition_of("g", PARTITIONS)
    broker = Broker(leads=(here,))
    broker.commit(9, writes=False)
    slot: Any = Asked(ApiKey.OFFSET_FETCH, 9)  # as the host's slots do, it only takes the answer
    topics = (OffsetFetchRequestTopics(name="t", partition_indexes=(0,)),)
    request = OffsetFetchRequest(
        groups=[OffsetFetchRequestGroup(group_id=g, topics=topics) for g in ("g", elsewhere())],
        require_stable=True,
    )
    broker.groups.offset_fetch(slot, request, broker.now)
    waits = slot.told is None
    broker.write()
    assert waits
    ours, other = slot.told.groups
    assert (ours.group_id, ours.topics[0].partitions[0].committed_offset) == ("g", 7)
    assert (other.group_id, other.error_code) == (elsewhere(), NOT_OURS)


def test_offsets_are_deleted_and_topics_that_there_are_not_are_told() -> None:
    broker = Broker()
    broker.commit(9)
    told = broker.ask(
        ApiKey.OFFSET_DELETE,
        0,
        group_id="g",
        topics=[
            OffsetDeleteRequestTopic(
                name=name, partitions=(OffsetDeleteRequestPartition(partition_index=0),)
            )
            for name in ("t", "gone")
        ],
    )
    assert [(t.name, t.partitions[0].error_code) for t in told.topics] == [
        ("t", OK),
        ("gone", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ]
    assert broker.fetch(9).groups[0].topics == ()


def test_a_topic_that_is_deleted_takes_its_offsets_with_it() -> None:
    broker = Broker()
    for group in ("g", elsewhere()):
        broker.commit(9, group=group)
    broker.groups.topic_deleted("t", T_ID, broker.now)
    broker.write()
    assert [broker.fetch(9, group=g).groups[0].topics for g in ("g", elsewhere())] == [(), ()]


# Several groups ----------------------------------------------------------------------------------


@in_every_version(ApiKey.DELETE_GROUPS)
def test_groups_are_deleted_wherever_they_are(version: int) -> None:
    here = partition_of("g", PARTITIONS)
    broker = Broker(leads=(here,))
    broker.commit(9)
    told = broker.ask(ApiKey.DELETE_GROUPS, version, groups_names=("g", elsewhere(), "g"))
    assert [(each.group_id, each.error_code) for each in told.results] == [
        ("g", OK),
        (elsewhere(), NOT_OURS),
    ]
    assert broker.ask(ApiKey.LIST_GROUPS, 5).groups == ()


def test_deletions_in_several_partitions_are_told_together() -> None:
    broker = Broker()
    for group in ("g", elsewhere()):
        broker.commit(9, group=group)
    told = broker.ask(ApiKey.DELETE_GROUPS, 2, groups_names=(elsewhere(), "g"), writes=False)
    assert told is None
    broker.write(ErrorCode.NOT_ENOUGH_REPLICAS)
    assert {g.group_id for g in broker.ask(ApiKey.LIST_GROUPS, 5).groups} == {"g", elsewhere()}


@in_every_version(ApiKey.DESCRIBE_GROUPS)
def test_groups_are_described_in_every_version(version: int) -> None:
    here = partition_of("g", PARTITIONS)
    broker = Broker(leads=(here,))
    broker.join(3)
    ours, other = broker.ask(ApiKey.DESCRIBE_GROUPS, version, groups=("g", elsewhere())).groups
    assert (ours.error_code, ours.group_state, ours.members[0].client_host) == (
        OK,
        "CompletingRebalance",
        "/10.0.0.1",
    )
    assert (other.error_code, other.group_id, other.members) == (NOT_OURS, elsewhere(), ())


@in_every_version(ApiKey.LIST_GROUPS)
def test_groups_are_listed_in_every_version(version: int) -> None:
    broker = Broker(leads=(0, 1))
    groups = [g for g in ("g", "a", "b", "c") if partition_of(g, PARTITIONS) < 2]
    for group in groups:
        broker.commit(9, group=group)
    assert sorted(g.group_id for g in broker.ask(ApiKey.LIST_GROUPS, version).groups) == sorted(
        groups
    )
    broker.groups.lead(2)
    told = broker.ask(ApiKey.LIST_GROUPS, version)
    assert (told.error_code, told.groups) == (LOADING, ())


# The log -----------------------------------------------------------------------------------------


def test_transactions_in_the_log_are_read_up_to_a_batch_that_is_cut_off() -> None:
    broker = Broker(leads=())

    def offset(number: int, producer_id: int = -1) -> bytes:
        builder = BatchBuilder(producer_id=producer_id, is_transactional=producer_id >= 0)
        key = OFFSETS_LOG.encode_key(OffsetCommitKey(group="g", topic="t", partition=0))
        value = OffsetCommitValue(offset=number, metadata="", commit_timestamp=1)
        builder.append(5, key, encode_versioned(value, 4))
        return builder.build()

    def end(producer_id: int, *, commit: bool) -> bytes:
        return build_end_marker(
            commit=commit,
            producer_id=producer_id,
            producer_epoch=0,
            coordinator_epoch=0,
            timestamp_ms=5,
        )

    for batch in (
        offset(1),
        offset(2, 5),
        end(5, commit=True),
        offset(3, 6),
        end(6, commit=False),
        offset(4),
    ):
        broker.append(0, batch)
    broker.groups.lead(0)
    assert broker.groups.replay(0, b"", broker.now) == 0
    assert broker.groups.replay(0, broker.logs[0][:-1], broker.now) == 5
    broker.groups.loaded(0, broker.now)
    kept = broker.groups.shards[0].durable.offsets.get("g", "t", 0)
    assert kept is not None
    assert (kept.offset, kept.record_offset) == (2, 1)
