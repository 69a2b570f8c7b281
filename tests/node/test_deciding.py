"""V14: the controller makes one decision at a time, in slices if it is large, and can undo it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from kraftlog.errors import ErrorCode
from kraftlog.metadata.features import OFFERED
from kraftlog.wire.apis import ApiKey
from kraftlog.wire.messages.broker_registration import (
    BrokerRegistrationRequest,
    Feature,
    Listener,
)
from kraftlog.wire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from kraftlog.wire.messages.delete_topics import DeleteTopicsRequest
from kraftlog.wire.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from kraftlog.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kraftlog.wire.messages.metadata_records import NoOpRecord
from kraftlog.wire.messages.unregister_broker import UnregisterBrokerRequest
from tests.node.frame_client import FrameClient, create_topics, creation, make_host
from tests.node.proposals import proposal_of
from tests.node.turn_cost import CALLS_OF_A_TURN, Turns

if TYPE_CHECKING:
    from kraftlog.node.controller.active_controller import ActiveController
    from kraftlog.wire.schema import Message
    from tests.virtual_host import VirtualHost

MANY = 3_000


# Large decisions ---------------------------------------------------------------------------------


def check_turns(host: VirtualHost, api_key: int, version: int, request: Message) -> Any:
    """Check that a request takes several short turns; return its response."""
    turns = Turns(host, api_key, version, request)
    assert turns.others_answered >= 3
    assert turns.longest < CALLS_OF_A_TURN
    return turns.answer


def test_a_topic_of_many_partitions_is_created_and_deleted_in_slices() -> None:
    host = make_host()
    created = check_turns(host, ApiKey.CREATE_TOPICS, 7, creation({"many": MANY}))
    assert (created.topics[0].error_code, created.topics[0].num_partitions) == (0, MANY)
    topic = CreatePartitionsTopic(name="many", count=2 * MANY, assignments=None)
    growth = CreatePartitionsRequest(topics=[topic], timeout_ms=1000, validate_only=False)
    assert check_turns(host, ApiKey.CREATE_PARTITIONS, 3, growth).results[0].error_code == 0
    deletion = DeleteTopicsRequest(topic_names=["many"], timeout_ms=1000)
    assert check_turns(host, ApiKey.DELETE_TOPICS, 5, deletion).responses[0].error_code == 0


def test_many_topics_are_created_and_deleted_in_slices() -> None:
    """The response has about thirty configs of each created topic."""
    host = make_host()
    names = [f"t{number}" for number in range(500)]
    created = check_turns(host, ApiKey.CREATE_TOPICS, 7, creation(dict.fromkeys(names, 1)))
    assert [topic.name for topic in created.topics] == names
    assert {topic.error_code for topic in created.topics} == {0}
    deletion = DeleteTopicsRequest(topic_names=names, timeout_ms=1000)
    assert len(check_turns(host, ApiKey.DELETE_TOPICS, 5, deletion).responses) == 500


def test_too_many_topics_are_refused_in_slices() -> None:
    host = make_host()
    names = [f"t{number}" for number in range(12_000)]
    response = check_turns(host, ApiKey.CREATE_TOPICS, 7, creation(dict.fromkeys(names, 1)))
    assert [topic.name for topic in response.topics] == names
    assert {topic.error_code for topic in response.topics} == {ErrorCode.POLICY_VIOLATION}


def test_many_resources_are_configured_in_slices() -> None:
    host = make_host()
    create_topics(host, {f"t{number}": 1 for number in range(500)})
    change = AlterableConfig(name="retention.ms", config_operation=0, value="77")
    resources = [
        AlterConfigsResource(resource_type=2, resource_name=f"t{number}", configs=[change])
        for number in range(500)
    ]
    request = IncrementalAlterConfigsRequest(resources=resources, validate_only=False)
    response = check_turns(host, ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, request)
    assert {it.error_code for it in response.responses} == {0}
    settings = host.node.topic_configs.of("t499")
    assert settings.config["retention.ms"] == 77


def test_configs_reach_many_partitions_in_slices() -> None:
    host = make_host(many=5 * MANY // 2)
    change = AlterableConfig(name="retention.ms", config_operation=0, value="77")
    resource = AlterConfigsResource(resource_type=2, resource_name="many", configs=[change])
    request = IncrementalAlterConfigsRequest(resources=[resource], validate_only=False)
    check_turns(host, ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, request)


def test_many_leaders_are_elected_in_slices() -> None:
    host = make_host(many=MANY)
    topics = [TopicPartitions(topic="many", partitions=range(MANY))]
    request = ElectLeadersRequest(election_type=0, topic_partitions=topics, timeout_ms=1000)
    response = check_turns(host, ApiKey.ELECT_LEADERS, 2, request)
    results = response.replica_election_results[0].partition_result
    assert {it.error_code for it in results} == {ErrorCode.ELECTION_NOT_NEEDED}


# One at a time -----------------------------------------------------------------------------------


def slow_host() -> tuple[VirtualHost, ActiveController]:
    """A node whose turns have time for one or two records."""
    host = make_host(demo=1)
    host.node.sliced.limit(10)
    assert host.node.active_controller is not None
    return host, host.node.active_controller


class Requests:
    """Sends requests to the controller; `responses` has their names and responses, in order."""

    def __init__(self, host: VirtualHost) -> None:
        self._host = host
        self.responses: list[tuple[str, Any]] = []

    def ask(self, name: str, api_key: int, request: Message) -> None:
        self._host.node.controller_channel.send(
            api_key, 0, request, lambda it, _: self.responses.append((name, it)), self._host.now
        )

    def create(self, **topics: int) -> None:
        """Begin to create topics, which takes several turns."""
        self.ask("create", ApiKey.CREATE_TOPICS, creation(topics))
        self._host.one_turn()
        assert not self.responses

    def finish(self, count: int) -> list[str]:
        """Run turns until `count` requests have responses; return the names of those requests."""
        while len(self.responses) < count:
            self._host.one_turn()
            self._host.deliver()
        return [name for name, _ in self.responses]


def registration_of(broker_id: int) -> BrokerRegistrationRequest:
    return BrokerRegistrationRequest(
        broker_id=broker_id,
        cluster_id="AAAAAAAAQACAAAAAAAAAAQ",
        incarnation_id=bytes([broker_id]) * 16,
        listeners=[Listener(name="PLAINTEXT", host="h", port=9000, security_protocol=0)],
        features=[
            Feature(name=name, min_supported_version=low, max_supported_version=high)
            for name, (low, high) in OFFERED.items()
        ],
        rack=None,
        log_dirs=[bytes([2, broker_id]) + bytes(14)],
    )


def test_requests_during_a_decision_are_decided_after_it() -> None:
    host, _ = slow_host()
    requests = Requests(host)
    requests.create(many=20)
    deletion = DeleteTopicsRequest(topic_names=["many"], timeout_ms=1000)
    requests.ask("delete", ApiKey.DELETE_TOPICS, deletion)
    requests.ask("unregister", ApiKey.UNREGISTER_BROKER, UnregisterBrokerRequest(broker_id=7))
    assert requests.finish(3) == ["create", "delete", "unregister"]
    codes = dict(requests.responses)
    assert codes["create"].topics[0].error_code == 0
    assert codes["delete"].responses[0].error_code == 0, "it is decided after the creation"
    assert set(host.node.image.topic_ids) == {"demo"}


def test_v14_a_leader_that_resigns_undoes_a_half_made_decision() -> None:
    """C237, C239: the controller's state and the log end are as they were before the decision."""
    host, active_controller = slow_host()
    requests = Requests(host)
    requests.create(many=20)
    state, end = active_controller.controller.state, host.node.quorum.end
    while not any(topic != "demo" for topic in state.partitions.values()) or (
        len(state.partitions) < 5
    ):
        host.one_turn()
    requests.ask("later", ApiKey.UNREGISTER_BROKER, UnregisterBrokerRequest(broker_id=7))
    active_controller.end(host.now)
    assert requests.responses == [("create", None), ("later", None)]
    assert state.maps() == host.node.image.maps()
    assert (state.unpublished, host.node.quorum.end) == (None, end)
    host.settle()
    assert host.node.quorum.end == end
    active_controller.begin(host.node.quorum.epoch, host.now, own_broker_ended=False)
    requests.responses.clear()
    requests.ask("again", ApiKey.CREATE_TOPICS, creation({"many": 20}))
    assert requests.finish(1) == ["again"]
    assert requests.responses[0][1].topics[0].error_code == 0


def test_v14_a_decision_has_no_effect_after_a_kill_within_it() -> None:
    host, _ = slow_host()
    Requests(host).create(many=20)
    for _ in range(10):
        host.one_turn()
        host.deliver()
    host.files.kill()
    assert set(type(host)(host.files).node.image.topic_ids) == {"demo"}


def test_an_exception_in_a_later_slice_fails_only_that_request(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    host, active_controller = slow_host()
    requests = Requests(host)
    count = 0

    def fail_at_the_tenth_call(*_: object) -> bytes:
        nonlocal count
        count += 1
        if count == 10:
            raise ZeroDivisionError("raised by the test")
        return bytes(16)

    monkeypatch.setattr("kraftlog.controller.topics.default_directory", fail_at_the_tenth_call)
    requests.create(many=20)
    requests.ask("later", ApiKey.UNREGISTER_BROKER, UnregisterBrokerRequest(broker_id=7))
    before = active_controller.controller.state.maps()
    assert requests.finish(2) == ["create", "later"]
    assert requests.responses[0][1].topics[0].error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert active_controller.controller.state.maps() == before == host.node.image.maps()
    assert any("internal error" in line for line in host.log_lines)


def test_a_callback_that_raises_does_not_delay_other_decisions() -> None:
    host, _ = slow_host()

    def raise_error(*_: object) -> None:
        raise ZeroDivisionError("raised by the test")

    host.node.controller_channel.send(
        ApiKey.UNREGISTER_BROKER, 0, UnregisterBrokerRequest(broker_id=7), raise_error, host.now
    )
    requests = Requests(host)
    requests.ask("next", ApiKey.UNREGISTER_BROKER, UnregisterBrokerRequest(broker_id=7))
    assert requests.finish(1) == ["next"]


def test_v5_no_broker_is_fenced_while_its_heartbeat_waits() -> None:
    host, _ = slow_host()
    requests = Requests(host)
    requests.create(many=200)
    for _ in range(20):
        host.pass_time(1_000)
    assert not requests.responses, "the decision takes longer than a session"
    requests.finish(1)
    host.settle()
    assert not host.node.image.brokers[1].fenced


def test_v5_the_broker_epoch_is_the_registrations_offset_in_a_grown_log() -> None:
    host, _ = slow_host()
    host.node.sliced.limit(1)
    requests = Requests(host)
    requests.ask("register", ApiKey.BROKER_REGISTRATION, registration_of(7))
    assert not requests.responses
    error = host.node.quorum.propose(proposal_of([NoOpRecord()]), lambda *_: None, host.now)
    assert error == ErrorCode.NONE
    requests.finish(1)
    end = host.node.quorum.end
    broker = host.node.image.brokers[7]
    assert requests.responses[0][1].broker_epoch == broker.epoch
    assert end - 1 == broker.epoch, "the epoch is the offset of the registration"


def test_validate_only_is_sliced_and_leaves_no_record() -> None:
    host, _ = slow_host()
    requests, end = Requests(host), host.node.quorum.end
    requests.ask("check", ApiKey.CREATE_TOPICS, creation({"many": 50}).replace(validate_only=True))
    assert not requests.responses
    requests.finish(1)
    assert requests.responses[0][1].topics[0].num_partitions == 50
    assert host.node.quorum.end == end


def test_clients_are_served_during_a_decision() -> None:
    host = make_host()
    client = FrameClient(host)
    client.send(ApiKey.CREATE_TOPICS, 7, creation({"many": MANY}))
    create_topics(host, {"small": 1})
    assert set(host.node.image.topic_ids) == {"demo", "many", "small"}
