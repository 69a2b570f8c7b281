"""Encoded group requests of every version, sent to a node with a log."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from kraftlog.errors import ErrorCode
from kraftlog.groups.config import GroupConfig
from kraftlog.groups.consumer.cluster_metadata import ClusterMetadata
from kraftlog.groups.shard import GroupShard, partition_of
from kraftlog.metadata.image import Image
from kraftlog.node.coordinators.group_coordinators import TOPIC
from kraftlog.node.coordinators.group_log import replay
from kraftlog.records.builder import BatchBuilder
from kraftlog.records.header import read_header
from kraftlog.types import Now
from kraftlog.wire.apis import APIS, ApiKey
from kraftlog.wire.messages.delete_topics import DeleteTopicsRequest
from kraftlog.wire.messages.group_records import OffsetCommitKey, OffsetCommitValue
from kraftlog.wire.messages.join_group import JoinGroupRequestProtocol
from kraftlog.wire.messages.leave_group import MemberIdentity
from kraftlog.wire.messages.metadata_records import PartitionRecord
from kraftlog.wire.messages.offset_commit import (
    OffsetCommitRequest,
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
from tests.node.frame_client import (
    FrameClient,
    create_partitions,
    make_host,
    remove_partitions,
    set_config,
)
from tests.node.test_requests import batch, produce, produce_result
from tests.records.end_markers import build_end_marker

if TYPE_CHECKING:
    from collections.abc import Callable

    from kraftlog.node.coordinators.group_coordinators import GroupCoordinators
    from kraftlog_simulator.files import MemoryFiles

PARTITIONS = 3
OK = ErrorCode.NONE
NOT_COORDINATOR = ErrorCode.NOT_COORDINATOR
LOADING = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
UNKNOWN_ID = b"g" * 16
TOPIC_RESOURCE = 2


class Broker:
    """A node, and a client that sends it requests about groups."""

    def __init__(self, files: MemoryFiles | None = None) -> None:
        self.host = make_host(files, **{TOPIC: PARTITIONS, "t": 1})
        self.client = FrameClient(self.host)
        self.host.settle()
        self.t_id = self.host.node.image.topic_ids["t"]

    @property
    def group_coordinators(self) -> GroupCoordinators:
        assert self.host.node.group_coordinators is not None
        return self.host.node.group_coordinators

    def shard(self, group: str = "g") -> GroupShard:
        shard = self.group_coordinators.shard_of(group)
        assert isinstance(shard, GroupShard)
        return shard

    def move_coordinator(self, group: str) -> None:
        """Another broker becomes the coordinator of the group's partition."""
        del self.group_coordinators._shards[partition_of(group, PARTITIONS)]

    def start_loading(self, group: str = "g") -> None:
        """Replace the group's shard by one that has not loaded its groups yet."""
        context = self.group_coordinators._shards[partition_of(group, PARTITIONS)]
        context.shard = GroupShard(GroupConfig(), str, ClusterMetadata(Image))

    def ask(self, api_key: int, version: int, **fields: Any) -> Any:
        """Send a request, run the node until it is idle, and return the response."""
        self.client.send(api_key, version, APIS[api_key].request()(**fields))
        self.host.settle()
        [(_, response)] = self.client.take()
        return response

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

    def sync(self, version: int, member_id: str) -> Any:
        return self.ask(
            ApiKey.SYNC_GROUP,
            version,
            group_id="g",
            generation_id=1,
            member_id=member_id,
            protocol_type="consumer",
            protocol_name="range",
            assignments=(SyncGroupRequestAssignment(member_id=member_id, assignment=b"all"),),
        )

    def commit(self, version: int, group: str = "g", topic: str = "t", **fields: Any) -> Any:
        part = OffsetCommitRequestPartition(
            partition_index=0, committed_offset=7, committed_metadata="m"
        )
        topic_id = self.t_id if topic == "t" else UNKNOWN_ID
        return self.ask(
            ApiKey.OFFSET_COMMIT,
            version,
            group_id=group,
            member_id=fields.pop("member_id", ""),
            topics=(OffsetCommitRequestTopic(name=topic, topic_id=topic_id, partitions=(part,)),),
            **fields,
        )

    def fetch(self, version: int, *topics: str, group: str = "g") -> Any:
        """Fetch a group's offsets of these topics, or of all."""
        if version < 8:
            named = [OffsetFetchRequestTopic(name=t, partition_indexes=(0,)) for t in topics]
            return self.ask(ApiKey.OFFSET_FETCH, version, group_id=group, topics=named or None)
        of_group = [
            OffsetFetchRequestTopics(
                name=t, topic_id=self.t_id if t == "t" else UNKNOWN_ID, partition_indexes=(0,)
            )
            for t in topics
        ]
        requested = OffsetFetchRequestGroup(group_id=group, topics=of_group or None)
        return self.ask(ApiKey.OFFSET_FETCH, version, groups=(requested,))


def versions(api_key: int) -> range:
    return range(APIS[api_key].first, APIS[api_key].last + 1)


def in_every_version(api_key: int) -> Callable[[Any], Any]:
    return pytest.mark.parametrize("version", versions(api_key))


def other_group() -> str:
    """A group in another partition of the offsets topic than the group "g"."""
    return next(g for g in "abcdef" if partition_of(g, PARTITIONS) != partition_of("g", PARTITIONS))


# Members ---------------------------------------------------------------------------------------


@in_every_version(ApiKey.JOIN_GROUP)
def test_a_member_joins_syncs_and_leaves_in_every_version(version: int) -> None:
    broker = Broker()
    response = broker.join(version)
    if version >= 4:
        assert response.error_code == ErrorCode.MEMBER_ID_REQUIRED
        response = broker.join(version, response.member_id)
    assert (response.error_code, response.generation_id, response.leader) == (
        OK,
        1,
        response.member_id,
    )
    [member] = broker.shard().groups["g"].members.values()
    assert (member.client_id, member.client_host) == ("test", "/127.0.0.1")
    member_id = response.member_id
    response = broker.sync(min(version, 5), member_id)
    assert (response.error_code, response.assignment) == (OK, b"all")
    heartbeat: dict[str, Any] = {"group_id": "g", "generation_id": 1, "member_id": member_id}
    assert broker.ask(ApiKey.HEARTBEAT, min(version, 4), **heartbeat).error_code == OK
    leave_version = min(version, 5)
    fields: dict[str, Any] = {"member_id": member_id}
    if leave_version >= 3:
        fields = {"members": (MemberIdentity(member_id=member_id),)}
    response = broker.ask(ApiKey.LEAVE_GROUP, leave_version, group_id="g", **fields)
    assert response.error_code == OK
    assert [each.error_code for each in response.members] == ([OK] if leave_version >= 3 else [])
    assert broker.shard().groups["g"].state == "Empty"


def test_a_new_coordinator_replays_the_members() -> None:
    broker = Broker()
    member_id = broker.join(3).member_id
    broker.sync(5, member_id)
    broker.commit(9, generation_id_or_member_epoch=1, member_id=member_id)
    broker.host.runner.close()
    restarted = Broker(broker.host.files)
    heartbeat: dict[str, Any] = {"group_id": "g", "generation_id": 1, "member_id": member_id}
    assert restarted.ask(ApiKey.HEARTBEAT, 4, **heartbeat).error_code == OK
    assert restarted.fetch(8, "t").groups[0].topics[0].partitions[0].committed_offset == 7


def test_members_with_expired_sessions_are_removed() -> None:
    broker = Broker()
    broker.join(3)
    broker.host.pass_time(10_000)
    broker.host.settle()
    [group] = broker.ask(ApiKey.LIST_GROUPS, 5).groups
    assert (group.group_id, group.group_state, group.group_type) == ("g", "Empty", "classic")


def test_the_deadline_is_never_later_than_that_of_a_shard() -> None:
    """No matter which of many groups in many shards was changed last."""
    broker = Broker()
    for group, timeout in (("late", 30_000), ("soon", 6_000), ("later", 60_000)):
        broker.ask(
            ApiKey.JOIN_GROUP,
            3,
            group_id=group,
            session_timeout_ms=timeout,
            member_id="",
            protocol_type="consumer",
            protocols=(JoinGroupRequestProtocol(name="range", metadata=b""),),
        )
        deadline, due = broker.group_coordinators.deadline(), first_deadline(broker)
        assert deadline is not None
        assert deadline <= due
    for _ in range(3):
        due = first_deadline(broker)
        broker.host.pass_time(due - broker.host.node.now.monotonic_ms)
        broker.host.settle()
        deadline = broker.group_coordinators.deadline()
        assert deadline is not None
        assert broker.host.node.now.monotonic_ms < deadline <= first_deadline(broker)


def first_deadline(broker: Broker) -> int:
    deadlines = [shard.deadline() for shard in broker.group_coordinators.shards()]
    return min(due for due in deadlines if due is not None)


# Groups of other nodes ----------------------------------------------------------------------------

#: The fields of requests about one group, without its id.
ONE_GROUP: dict[int, dict[str, Any]] = {
    ApiKey.JOIN_GROUP: {
        "session_timeout_ms": 6000,
        "member_id": "m",
        "protocol_type": "p",
        "protocols": (),
    },
    ApiKey.SYNC_GROUP: {
        "generation_id": 1,
        "member_id": "m",
        "protocol_type": "p",
        "protocol_name": "range",
        "assignments": (),
    },
    ApiKey.HEARTBEAT: {"generation_id": 1, "member_id": "m"},
    ApiKey.LEAVE_GROUP: {"members": ()},
    ApiKey.OFFSET_DELETE: {"topics": ()},
}


@pytest.mark.parametrize("api_key", ONE_GROUP)
def test_requests_for_a_remote_group_get_not_coordinator(api_key: int) -> None:
    fields = ONE_GROUP[api_key]
    last = APIS[api_key].last
    broker = Broker()
    assert broker.ask(api_key, last, group_id="", **fields).error_code == ErrorCode.INVALID_GROUP_ID
    broker.start_loading()
    # While the group is being loaded, any heartbeat is accepted.
    expected = OK if api_key == ApiKey.HEARTBEAT else LOADING
    assert broker.ask(api_key, last, group_id="g", **fields).error_code == expected
    broker.move_coordinator("g")
    assert broker.ask(api_key, last, group_id="g", **fields).error_code == NOT_COORDINATOR


@in_every_version(ApiKey.OFFSET_FETCH)
def test_an_offset_fetch_of_a_remote_group_gets_not_coordinator(version: int) -> None:
    broker = Broker()
    broker.move_coordinator("g")
    response = broker.fetch(version, "t")
    if version >= 8:
        assert [group.error_code for group in response.groups] == [NOT_COORDINATOR]
    elif version >= 2:
        assert (response.error_code, response.topics) == (NOT_COORDINATOR, ())
    else:
        [part] = response.topics[0].partitions
        assert (part.error_code, part.committed_offset) == (NOT_COORDINATOR, -1)


def test_an_offset_commit_to_a_remote_group_gets_not_coordinator() -> None:
    broker = Broker()
    broker.move_coordinator("g")
    assert broker.commit(9).topics[0].partitions[0].error_code == NOT_COORDINATOR


# Offsets -----------------------------------------------------------------------------------------


@in_every_version(ApiKey.OFFSET_COMMIT)
def test_an_offset_is_committed_in_every_version(version: int) -> None:
    broker = Broker()
    [topic] = broker.commit(version).topics
    assert (topic.name, topic.topic_id) == (
        ("", broker.t_id) if version >= 10 else ("t", bytes(16))
    )
    assert topic.partitions[0].error_code == OK
    stored = broker.shard().durable.offsets.get("g", "t", 0)
    assert stored is not None
    assert (stored.offset, stored.topic_id) == (7, broker.t_id)


@pytest.mark.parametrize("version", [9, 10])
def test_a_commit_for_an_unknown_topic_is_refused(version: int) -> None:
    broker = Broker()
    [topic] = broker.commit(version, topic="unknown").topics
    code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if version < 10 else ErrorCode.UNKNOWN_TOPIC_ID
    assert topic.partitions[0].error_code == code
    assert broker.shard().groups == {}


@in_every_version(ApiKey.OFFSET_FETCH)
def test_offsets_are_fetched_in_every_version(version: int) -> None:
    broker = Broker()
    broker.commit(9)

    def topics(response: Any) -> Any:
        return response.groups[0].topics if version >= 8 else response.topics

    fetched = topics(broker.fetch(version, "t", "unknown"))
    parts = [topic.partitions[0] for topic in fetched]
    unknown = ErrorCode.UNKNOWN_TOPIC_ID if version >= 10 else OK
    assert [(p.committed_offset, p.metadata, p.error_code) for p in parts] == [
        (7, "m", OK),
        (-1, "", unknown),
    ]
    assert [(t.topic_id if version >= 10 else t.name) for t in fetched] == (
        [broker.t_id, UNKNOWN_ID] if version >= 10 else ["t", "unknown"]
    )
    if version >= 2:
        [topic] = topics(broker.fetch(version))
        assert topic.partitions[0].committed_offset == 7
        assert version < 10 or topic.topic_id == broker.t_id


def test_offsets_without_topic_id_are_left_out_for_versions_with_ids() -> None:
    broker = Broker()
    broker.commit(9)
    del broker.host.node.image.topic_ids["t"]
    assert broker.fetch(10).groups[0].topics == ()
    assert len(broker.fetch(9).groups[0].topics) == 1


def test_one_offset_fetch_covers_local_remote_and_pending_groups() -> None:
    broker = Broker()
    broker.move_coordinator(other_group())
    topics = (OffsetFetchRequestTopics(name="t", partition_indexes=(0,)),)
    part = OffsetCommitRequestPartition(
        partition_index=0, committed_offset=7, committed_metadata=None
    )
    requests: list[tuple[int, Any]] = [
        (
            ApiKey.OFFSET_COMMIT,
            OffsetCommitRequest(
                group_id="g",
                member_id="",
                topics=(OffsetCommitRequestTopic(name="t", partitions=(part,)),),
            ),
        ),
        (
            ApiKey.OFFSET_FETCH,
            OffsetFetchRequest(
                groups=[
                    OffsetFetchRequestGroup(group_id=g, topics=topics) for g in ("g", other_group())
                ],
                require_stable=True,
            ),
        ),
    ]
    for api_key, request in requests:
        broker.client.send(api_key, 9, request)
    assert broker.client.take() == []
    broker.host.settle()
    _, (_, response) = broker.client.take()
    local, remote = response.groups
    assert (local.group_id, local.topics[0].partitions[0].committed_offset) == ("g", 7)
    assert (remote.group_id, remote.error_code) == (other_group(), NOT_COORDINATOR)


def test_offsets_are_deleted_and_unknown_topics_are_refused() -> None:
    broker = Broker()
    broker.commit(9)
    response = broker.ask(
        ApiKey.OFFSET_DELETE,
        0,
        group_id="g",
        topics=[
            OffsetDeleteRequestTopic(
                name=name, partitions=(OffsetDeleteRequestPartition(partition_index=0),)
            )
            for name in ("t", "unknown")
        ],
    )
    assert [(t.name, t.partitions[0].error_code) for t in response.topics] == [
        ("t", OK),
        ("unknown", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ]
    assert broker.fetch(9).groups[0].topics == ()


def test_v7_nothing_is_committed_without_min_insync_replicas() -> None:
    """V7: as for a produce with acks=all, the coordinator appends nothing."""
    broker = Broker()
    host = broker.host
    set_config(host, TOPIC_RESOURCE, TOPIC, "min.insync.replicas", 2)
    partition = host.node.replica_manager.by_log[TOPIC, partition_of("g", PARTITIONS)]
    change = PartitionRecord(
        partition_id=partition.index,
        topic_id=partition.topic_id,
        replicas=(1, 2),
        isr=(1,),
        removing_replicas=(),
        adding_replicas=(),
        leader=1,
        leader_epoch=partition.leader_epoch,
        partition_epoch=partition.partition_epoch + 1,
    )
    host.node.replay([change], 0)
    end = partition.end
    [part] = broker.commit(9).topics[0].partitions
    assert (part.error_code, partition.end) == (ErrorCode.COORDINATOR_NOT_AVAILABLE, end)


def test_a_topic_that_is_deleted_takes_its_offsets_with_it() -> None:
    broker = Broker()
    for group in ("g", other_group()):
        broker.commit(9, group=group)
    request = DeleteTopicsRequest(topic_names=("t",), timeout_ms=1000)
    broker.client.send(ApiKey.DELETE_TOPICS, 5, request)
    broker.host.settle()
    broker.client.take()
    assert [broker.fetch(9, group=g).groups[0].topics for g in ("g", other_group())] == [(), ()]


def test_removed_partitions_take_their_offsets_with_them() -> None:
    """V11: a partition added later with the same index has no offsets."""
    broker = Broker()
    create_partitions(broker.host, "t", 3)
    parts = [
        OffsetCommitRequestPartition(
            partition_index=index, committed_offset=7, committed_metadata="m"
        )
        for index in range(3)
    ]
    topic = OffsetCommitRequestTopic(name="t", topic_id=broker.t_id, partitions=parts)
    for group in ("g", other_group()):
        broker.ask(ApiKey.OFFSET_COMMIT, 9, group_id=group, member_id="", topics=(topic,))
    remove_partitions(broker.host, "t", 1, 2)
    for group in ("g", other_group()):
        [topic_offsets] = broker.fetch(9, group=group).groups[0].topics
        assert [part.partition_index for part in topic_offsets.partitions] == [0]


# Several groups ----------------------------------------------------------------------------------


@in_every_version(ApiKey.DELETE_GROUPS)
def test_groups_of_all_shards_are_deleted(version: int) -> None:
    broker = Broker()
    broker.move_coordinator(other_group())
    broker.commit(9)
    response = broker.ask(ApiKey.DELETE_GROUPS, version, groups_names=("g", other_group(), "g"))
    assert {each.group_id: each.error_code for each in response.results} == {
        "g": OK,
        other_group(): NOT_COORDINATOR,
    }
    assert broker.ask(ApiKey.LIST_GROUPS, 5).groups == ()


@in_every_version(ApiKey.DESCRIBE_GROUPS)
def test_groups_are_described_in_every_version(version: int) -> None:
    broker = Broker()
    broker.move_coordinator(other_group())
    broker.join(3)
    local, remote = broker.ask(ApiKey.DESCRIBE_GROUPS, version, groups=("g", other_group())).groups
    assert (local.error_code, local.group_state, local.members[0].client_host) == (
        OK,
        "CompletingRebalance",
        "/127.0.0.1",
    )
    assert (remote.error_code, remote.group_id, remote.members) == (
        NOT_COORDINATOR,
        other_group(),
        (),
    )


@in_every_version(ApiKey.LIST_GROUPS)
def test_groups_are_listed_in_every_version(version: int) -> None:
    broker = Broker()
    for group in ("g", other_group()):
        broker.commit(9, group=group)
    groups = broker.ask(ApiKey.LIST_GROUPS, version).groups
    assert {group.group_id for group in groups} == {"g", other_group()}
    broker.start_loading()
    assert broker.ask(ApiKey.LIST_GROUPS, version).error_code == LOADING


# The log -----------------------------------------------------------------------------------------


def test_committed_transactions_in_the_log_take_effect() -> None:
    def commit(base: int, committed: int, producer_id: int = -1) -> bytes:
        builder = BatchBuilder(
            base_offset=base, producer_id=producer_id, is_transactional=producer_id >= 0
        )
        key = OFFSETS_LOG.encode_key(OffsetCommitKey(group="g", topic="t", partition=0))
        value = OffsetCommitValue(offset=committed, metadata="", commit_timestamp=1)
        builder.append(5, key, encode_versioned(value, 4))
        return builder.build()

    def end_marker(base: int, producer_id: int, *, commit: bool) -> bytes:
        return build_end_marker(
            commit=commit,
            producer_id=producer_id,
            producer_epoch=0,
            coordinator_epoch=0,
            timestamp_ms=5,
            base_offset=base,
        )

    batches = [
        commit(0, 1),
        commit(1, 2, 5),
        end_marker(2, 5, commit=True),
        commit(3, 3, 6),
        end_marker(4, 6, commit=False),
        commit(5, 4, 7),
    ]
    now = Now(0, 0)
    shard = GroupShard(GroupConfig(), str, ClusterMetadata(Image))
    assert replay(shard, b"", now) == 0
    assert replay(shard, b"".join(batches), now) == 6
    stored = shard.durable.offsets.get("g", "t", 0)
    assert stored is not None
    assert (stored.offset, stored.record_offset) == (2, 1)
    assert shard.durable.is_unstable("g", "t", 0)


def test_clients_cannot_produce_to_the_offsets_topic() -> None:
    """As in Kafka: else one invalid record could make every load of the groups fail."""
    broker = Broker()
    answer = broker.client.ask(ApiKey.PRODUCE, 9, produce(batch(b"x"), topic=TOPIC))
    assert produce_result(answer).error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
    assert not broker.host.node.replica_manager.turn


def test_an_unreadable_offsets_partition_affects_no_other() -> None:
    broker = Broker()
    broker.commit(8)
    unreadable = (partition_of("g", PARTITIONS) + 1) % PARTITIONS
    partition = broker.host.node.replica_manager.by_log[TOPIC, unreadable]
    raw = memoryview(bytearray(batch(b"no key, which no coordinator has written")))
    partition.append(read_header(raw), raw, broker.host.node.replica_manager.turn)
    broker.host.settle()
    broker.host.runner.close()
    restarted = Broker(broker.host.files)
    assert restarted.shard("g").is_loaded
    lost_group = next(
        name for name in map(str, range(99)) if partition_of(name, PARTITIONS) == unreadable
    )
    assert restarted.group_coordinators.shard_of(lost_group) == ErrorCode.NOT_COORDINATOR
