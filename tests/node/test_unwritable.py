"""Records are encoded and read back before they change anything."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from kraftlog.controller.decision import Decision
from kraftlog.errors import ErrorCode, UnwritableError
from kraftlog.wire.apis import ApiKey
from kraftlog.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kraftlog.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from kraftlog.wire.messages.metadata_records import (
    ConfigRecord,
    PartitionChangeRecord,
    TopicRecord,
)
from kraftlog.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kraftlog.wire.messages.sync_group import SyncGroupRequest
from kraftlog.wire.messages.unregister_broker import UnregisterBrokerRequest
from tests.node.frame_client import FrameClient, ask_settled, create_topics, make_host
from tests.node.proposals import proposal_of
from tests.virtual_host import VirtualHost

if TYPE_CHECKING:
    from collections.abc import Generator

    from kraftlog.controller.controller import Controller

GROUPS = "__consumer_offsets"
#: The most bytes of a string in Kafka's protocol.
LONGEST_STRING_BYTES = 32_767


def restarted(host: VirtualHost) -> VirtualHost:
    """The node after a crash; its log must replay to the same image."""
    host.files.kill()
    after_crash = VirtualHost(host.files)
    assert after_crash.node.image.topics == host.node.image.topics
    assert after_crash.node.image.configs == host.node.image.configs
    return after_crash


# Metadata ----------------------------------------------------------------------------------------


def controller_of(host: VirtualHost) -> Controller:
    assert host.node.active_controller is not None
    return host.node.active_controller.controller


def decide_one_request(host: VirtualHost) -> Any:
    """The controller's response to a request."""
    responses: list[Any] = []
    request = UnregisterBrokerRequest(broker_id=7)
    host.node.controller_channel.send(
        ApiKey.UNREGISTER_BROKER, 0, request, lambda it, _: responses.append(it), host.now
    )
    while not responses:
        host.one_turn()
    [response] = responses
    return response


def decide_in_steps(decision: Decision, *_: object) -> Generator[int, None, Decision]:
    """Stands in for `Controller.decide_in_steps`, and returns this decision."""
    yield 1
    return decision


def test_appending_to_a_config_value_beyond_the_limit_is_refused() -> None:
    """The limit counts bytes: a record with a longer string could never be read."""
    host = make_host(demo=1)
    codes = []
    for number in range(3):
        value = ",".join(f"{'ä' * 100}{number}{n}" for n in range(150))
        change = AlterableConfig(name="metrics", config_operation=2, value=value)
        resource = AlterConfigsResource(resource_type=16, resource_name="m", configs=[change])
        request = IncrementalAlterConfigsRequest(resources=[resource], validate_only=False)
        answer = ask_settled(host, ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, request)
        codes += [(it.error_code, it.error_message) for it in answer.responses]
    too_long = (
        "The configuration value cannot be added because it exceeds the maximum value "
        "size of 32767 bytes."
    )
    assert codes == [(0, None), (ErrorCode.INVALID_CONFIG, too_long), (40, too_long)]
    restarted(host)


UNWRITABLE = {
    "a string that is too long": TopicRecord(
        name="x" * (LONGEST_STRING_BYTES + 1), topic_id=b"x" * 16
    ),
    "a lone surrogate": TopicRecord(name="\ud800", topic_id=b"x" * 16),
    "a number out of range": PartitionChangeRecord(
        partition_id=2**31, topic_id=b"x" * 16, leader=1
    ),
    "null in a non-nullable field": ConfigRecord(
        resource_type=2,
        resource_name=None,  # type: ignore[arg-type]  # an invalid value
        name="n",
        value="v",
    ),
    "an id of 17 bytes": TopicRecord(name="x", topic_id=b"x" * 17),
}


@pytest.mark.parametrize("record", UNWRITABLE.values(), ids=list(UNWRITABLE))
def test_a_decision_that_cannot_be_encoded_changes_nothing(
    record: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    host = make_host(demo=1)
    controller = controller_of(host)
    valid = TopicRecord(name="good", topic_id=b"g" * 16)
    with pytest.raises(UnwritableError):
        proposal_of([valid, record])
    before = {name: dict(entries) for name, entries in controller.state.maps().items()}
    end = host.node.quorum.end
    decision = Decision([valid, record], None)
    monkeypatch.setattr(controller, "decide_in_steps", partial(decide_in_steps, decision))
    assert decide_one_request(host).error_code == ErrorCode.INVALID_REQUEST
    assert controller.state.maps() == before
    assert not controller.state._undo_log
    assert host.node.quorum.end == end
    monkeypatch.undo()
    create_topics(host, {"good": 1})
    assert "good" in restarted(host).node.image.topic_ids


def test_records_that_cannot_be_replayed_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """C242: valid records before an unreplayable one, also in an earlier batch, change nothing."""
    host = make_host(demo=1)
    controller = controller_of(host)
    unreplayable = PartitionChangeRecord(partition_id=7, topic_id=b"x" * 16, leader=1)
    names = [TopicRecord(name=f"t{n}", topic_id=n.to_bytes(16, "big")) for n in range(10_001)]
    before = {name: dict(entries) for name, entries in controller.state.maps().items()}
    end = host.node.quorum.end
    for records in ([*names[:3], unreplayable], [*names, unreplayable]):
        decision = Decision(records, None)
        monkeypatch.setattr(controller, "decide_in_steps", partial(decide_in_steps, decision))
        assert decide_one_request(host).error_code == ErrorCode.UNKNOWN_SERVER_ERROR
        assert controller.state.maps() == before
        assert not controller.state._undo_log
    assert host.node.quorum.end == end
    host.settle()
    assert [line for line in host.log_lines if "internal error" in line]


# Groups ------------------------------------------------------------------------------------------


def group_host() -> VirtualHost:
    return make_host(None, **{GROUPS: 1, "t": 1})


def restart_and_reload(host: VirtualHost) -> VirtualHost:
    """The node after a crash, which must have loaded the groups from the log."""
    after_crash = restarted(host)
    assert after_crash.node.group_coordinators is not None
    assert [shard.is_loaded for shard in after_crash.node.group_coordinators.shards()] == [True]
    return after_crash


def commit_request(group: str, topic: str, retention_ms: int = -1) -> OffsetCommitRequest:
    part = OffsetCommitRequestPartition(
        partition_index=0, committed_offset=7, committed_metadata=""
    )
    return OffsetCommitRequest(
        group_id=group,
        member_id="",
        retention_time_ms=retention_ms,
        topics=[OffsetCommitRequestTopic(name=topic, partitions=[part])],
    )


@pytest.mark.parametrize("version", [2, 3, 4])
def test_endless_retention_is_stored_as_the_highest_timestamp(version: int) -> None:
    host = group_host()
    host.pass_time(1000)
    request = commit_request("g", "t", 2**63 - 1)
    answer = ask_settled(host, ApiKey.OFFSET_COMMIT, version, request)
    assert answer.topics[0].partitions[0].error_code == ErrorCode.NONE
    [shard] = restart_and_reload(host).node.group_coordinators.shards()  # type: ignore[union-attr]  # the node has coordinators
    stored = shard.durable.offsets.get("g", "t", 0)
    assert stored is not None
    assert (stored.offset, stored.expire_timestamp) == (7, 2**63 - 1)


def join(instance_id: str | None = None, **changes: Any) -> JoinGroupRequest:
    fields: dict[str, Any] = {
        "group_id": "g",
        "session_timeout_ms": 10_000,
        "rebalance_timeout_ms": 10_000,
        "member_id": "",
        "group_instance_id": instance_id,
        "protocol_type": "consumer",
        "protocols": (JoinGroupRequestProtocol(name="range", metadata=b""),),
    }
    return JoinGroupRequest(**{**fields, **changes})


def groups_of(host: VirtualHost) -> dict[str, Any]:
    assert host.node.group_coordinators is not None
    [shard] = host.node.group_coordinators.shards()
    return shard.groups


@pytest.mark.parametrize("version", [3, 4, 5, 9])
@pytest.mark.parametrize("letter", ["x", "ä"])
def test_an_id_that_leaves_no_room_for_a_member_id_is_refused(version: int, letter: str) -> None:
    """A member id is the client id or instance id and a suffix."""
    host = group_host()
    longest = letter * (LONGEST_STRING_BYTES // len(letter.encode()))
    client = FrameClient(host)
    if version >= 5:
        client.send(ApiKey.JOIN_GROUP, version, join(longest))
    else:
        client.client_id = longest
        client.send(ApiKey.JOIN_GROUP, version, join())
    host.settle()
    [(_, answer)] = client.take()
    assert answer.error_code == ErrorCode.INVALID_REQUEST
    assert not groups_of(host)
    restart_and_reload(host)


def test_the_longest_possible_instance_id_is_accepted() -> None:
    host = group_host()
    answer = ask_settled(host, ApiKey.JOIN_GROUP, 5, join("x" * (LONGEST_STRING_BYTES - 40)))
    assert answer.error_code == ErrorCode.NONE
    assert len(groups_of(host)["g"].members) == 1


def test_a_group_too_large_for_its_topic_is_refused_as_in_kafka() -> None:
    """Its record exceeds the topic's max.message.bytes, and is not written."""
    host = group_host()
    protocols = (JoinGroupRequestProtocol(name="range", metadata=bytes(2_000_000)),)
    joined = ask_settled(host, ApiKey.JOIN_GROUP, 3, join(protocols=protocols))
    assert joined.error_code == ErrorCode.NONE
    request = SyncGroupRequest(
        group_id="g",
        generation_id=joined.generation_id,
        member_id=joined.member_id,
        assignments=(),
    )
    answer = ask_settled(host, ApiKey.SYNC_GROUP, 3, request)
    assert answer.error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    largest = max(host.files.size_of(f"data/{GROUPS}-0/{0:020}.log"), 0)
    assert largest < 1_000_000
    restart_and_reload(host)
