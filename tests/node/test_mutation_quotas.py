"""Quotas of created and deleted partitions, on one node and through a broker that forwards."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Any

import pytest

from kraftlog.errors import ErrorCode
from kraftlog.node.controller.active_controller import ActiveController, _LogGrownError
from kraftlog.wire.apis import CONTROLLER, ApiKey
from kraftlog.wire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from kraftlog.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from kraftlog.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.node.frame_client import FrameClient, ask_settled, creation, make_host
from tests.node.test_client_quotas import alter
from tests.node.three_nodes import ThreeNodes

if TYPE_CHECKING:
    from kraftlog.effects import SendRequest
    from kraftlog.wire.schema import Message
    from tests.virtual_host import VirtualHost

RATE = "controller_mutation_rate"
#: One partition a second; a full bucket has eleven.
BURST = 11
THROTTLED = ErrorCode.THROTTLING_QUOTA_EXCEEDED


def ask(client: FrameClient, api_key: int, version: int, request: Message) -> Any:
    client.send(api_key, version, request)
    client.host.settle()
    ((_, answer),) = client.take()
    return answer


def create(client: FrameClient, version: int = 7, **topics: int) -> Any:
    return ask(client, ApiKey.CREATE_TOPICS, version, creation(topics))


def codes(response: Any) -> list[int]:
    items = next(
        getattr(response, name)
        for name in ("topics", "responses", "results")
        if hasattr(response, name)
    )
    return [it.error_code for it in items]


def test_an_exhausted_quota_refuses_topics_and_mutes_the_client() -> None:
    """What fits is created, with what exceeds the bucket; the rest is refused, topic by topic."""
    host = make_host()
    alter(host, RATE, 1, user="ANONYMOUS")
    client, other = FrameClient(host), FrameClient(host)
    response = create(client, a=BURST, b=5, c=1)
    assert codes(response) == [0, 0, THROTTLED]
    assert response.topics[2].error_message == "The throttling quota has been exceeded."
    assert response.throttle_time_ms == 5_000
    assert set(host.node.image.topic_ids) == {"demo", "a", "b"}
    assert client.connection.mutes == 1
    assert codes(create(other, c=1)) == [THROTTLED]  # another connection of the same user
    client.send(ApiKey.CREATE_TOPICS, 7, creation({"c": 1}))
    host.pass_time(4_999)
    assert client.take() == []
    host.pass_time(1)
    host.settle()
    assert codes(client.take()[0][1]) == [0]
    assert client.connection.mutes == 0


@pytest.mark.parametrize("version", [5, 6])
def test_versions_of_create_topics(version: int) -> None:
    check_versions(
        ApiKey.CREATE_TOPICS, version, creation({"new": 1}), is_strict=version >= 6, added=1
    )


@pytest.mark.parametrize("version", [4, 5])
def test_versions_of_delete_topics(version: int) -> None:
    request = DeleteTopicsRequest(topic_names=["demo"], timeout_ms=1000)
    check_versions(ApiKey.DELETE_TOPICS, version, request, is_strict=version >= 5, added=3)


def test_topics_are_deleted_by_name_within_the_quota() -> None:
    topic = DeleteTopicState(name="demo", topic_id=bytes(16))
    request = DeleteTopicsRequest(topics=[topic], timeout_ms=1000)
    check_versions(ApiKey.DELETE_TOPICS, 6, request, is_strict=True, added=3)


@pytest.mark.parametrize("version", [2, 3])
def test_versions_of_create_partitions(version: int) -> None:
    topic = CreatePartitionsTopic(name="demo", count=7, assignments=None)
    request = CreatePartitionsRequest(topics=[topic], timeout_ms=1000, validate_only=False)
    check_versions(ApiKey.CREATE_PARTITIONS, version, request, is_strict=version >= 3, added=4)


def check_versions(
    api_key: int, version: int, request: Message, *, is_strict: bool, added: int
) -> None:
    """Older versions are carried out and throttled for what they add."""
    host = make_host(demo=3)
    alter(host, RATE, 1, client_id="test")
    before = dict(host.node.image.partitions)
    assert codes(create(FrameClient(host), full=BURST + 1)) == [0]
    client = FrameClient(host)
    response = ask(client, api_key, version, request)
    assert codes(response) == [THROTTLED if is_strict else 0]
    assert response.throttle_time_ms == 1_000 * (1 if is_strict else 1 + added)
    assert client.connection.mutes == 1
    changed = [key for key in before if key not in host.node.image.partitions]
    assert len(changed) == (3 if api_key == ApiKey.DELETE_TOPICS and not is_strict else 0)


def test_what_is_refused_anyway_does_not_count() -> None:
    host = make_host(demo=1)
    alter(host, RATE, 1, client_id="test")
    client = FrameClient(host)
    for _ in range(20):
        assert codes(create(client, demo=20)) == [ErrorCode.TOPIC_ALREADY_EXISTS]
    assert codes(create(client, b=1)) == [0]


def test_a_quota_that_is_removed_and_set_again_starts_anew() -> None:
    host = make_host()
    alter(host, RATE, 1, client_id="test")
    assert codes(create(FrameClient(host), a=100)) == [0]
    assert codes(create(FrameClient(host), b=1)) == [THROTTLED]
    alter(host, RATE, None, client_id="test")
    assert not host.node.client_quotas.limits_mutations
    assert codes(create(FrameClient(host), c=100)) == [0]
    alter(host, RATE, 1, client_id="test")
    assert codes(create(FrameClient(host), d=1)) == [0]


def test_a_decision_that_is_made_once_more_counts_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """As when the log has grown while it was prepared."""
    host = make_host()
    alter(host, RATE, 1, client_id="test")
    prepare, attempts = ActiveController._prepare, []

    def grow_once(*arguments: Any) -> Any:
        attempts.append(arguments)
        if len(attempts) == 1:
            raise _LogGrownError
        return prepare(*arguments)

    monkeypatch.setattr(ActiveController, "_prepare", grow_once)
    assert codes(create(FrameClient(host), a=BURST)) == [0]
    assert len(attempts) == 2
    assert codes(create(FrameClient(host), b=1)) == [0]


def test_a_decision_that_fails_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    host = make_host()
    alter(host, RATE, 1, client_id="test")

    def fail(*_: object) -> Any:
        raise ZeroDivisionError("raised by the test")

    with monkeypatch.context() as patched:
        patched.setattr(ActiveController, "_prepare", fail)
        assert codes(create(FrameClient(host), a=100)) == [ErrorCode.UNKNOWN_SERVER_ERROR]
    assert codes(create(FrameClient(host), a=100)) == [0]


def test_clients_of_controllers_are_limited_too() -> None:
    host = make_host()
    alter(host, RATE, 1, user="ANONYMOUS")
    client = FrameClient(host, CONTROLLER, "CONTROLLER")
    response = create(client, a=BURST + 3, b=1)
    assert (codes(response), response.throttle_time_ms) == ([0, THROTTLED], 3_000)
    assert client.connection.mutes == 1


def test_topics_that_metadata_requests_create_count() -> None:
    """As in Kafka, the client is not told why a topic is missing: it asks again."""
    host = make_host()
    alter(host, RATE, 1, client_id="test")
    assert codes(create(FrameClient(host), a=BURST + 1)) == [0]
    topic = MetadataRequestTopic(topic_id=bytes(16), name="auto")
    request = MetadataRequest(topics=[topic], allow_auto_topic_creation=True)
    response = ask_settled(host, ApiKey.METADATA, 12, request)
    assert [it.error_code for it in response.topics] == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    host.pass_time(1_000)
    response = ask_settled(host, ApiKey.METADATA, 12, request)
    assert [it.error_code for it in response.topics] == [ErrorCode.NONE]


class TestForwarding:
    """A broker tells the controller whose request it forwards, if a quota may limit it."""

    def start(self) -> tuple[ThreeNodes, VirtualHost]:
        """Three nodes, and one that is not the active controller."""
        nodes = ThreeNodes(Random(1))
        nodes.loss = 0.0
        broker = next(it for it in nodes.hosts.values() if not it.node.quorum.is_leader)
        return nodes, broker

    def ask(
        self, nodes: ThreeNodes, client: FrameClient, api_key: int, version: int, message: Message
    ) -> Any:
        client.send(api_key, version, message)
        nodes.settle(1_000)
        ((_, answer),) = client.take()
        return answer

    def limit(self, nodes: ThreeNodes, host: VirtualHost, value: float | None) -> None:
        from tests.node.test_client_quotas import alter_request

        response = self.ask(
            nodes,
            FrameClient(host),
            ApiKey.ALTER_CLIENT_QUOTAS,
            1,
            alter_request(RATE, value, client_id="quick"),
        )
        assert [it.error_code for it in response.entries] == [0]

    def test_the_quota_is_of_the_client_not_of_the_broker(self) -> None:
        nodes, broker = self.start()
        self.limit(nodes, broker, 1)
        quick, other = FrameClient(broker), FrameClient(broker)
        quick.client_id = "quick"
        first = self.ask(nodes, quick, ApiKey.CREATE_TOPICS, 7, creation({"a": BURST + 100}))
        assert codes(first) == [0]
        second = self.ask(nodes, quick, ApiKey.CREATE_TOPICS, 7, creation({"b": 1}))
        assert codes(second) == [THROTTLED]
        assert 90_000 < second.throttle_time_ms <= 100_000
        assert quick.connection.mutes == 1
        third = self.ask(nodes, other, ApiKey.CREATE_TOPICS, 7, creation({"c": 100}))
        assert codes(third) == [0]
        assert other.connection.mutes == 0
        for host in nodes.hosts.values():
            assert {"a", "c"} <= set(host.node.image.topic_ids)

    def test_requests_are_forwarded_unchanged_without_such_a_quota(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        nodes, broker = self.start()
        sent: list[int] = []
        carry = nodes.network._send

        def look_on(source: int, effect: SendRequest) -> None:
            sent.append(effect.api_key)
            carry(source, effect)

        monkeypatch.setattr(nodes.network, "_send", look_on)
        client = FrameClient(broker)
        for limit, forwarded in ((None, ApiKey.CREATE_TOPICS), (1, ApiKey.ENVELOPE)):
            self.limit(nodes, broker, limit)
            sent.clear()
            answer = self.ask(
                nodes, client, ApiKey.CREATE_TOPICS, 7, creation({f"t{forwarded}": 1})
            )
            assert codes(answer) == [0]
            of_clients = {ApiKey.CREATE_TOPICS, ApiKey.ENVELOPE}
            assert [it for it in sent if it in of_clients] == [forwarded]
