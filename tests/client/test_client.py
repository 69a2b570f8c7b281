"""The client, against kraftlog and against Apache Kafka."""

from __future__ import annotations

import threading
from contextlib import suppress
from itertools import islice
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Consumer as LibrdkafkaConsumer
from confluent_kafka import Producer

import kraftlog
from kraftlog import Client
from kraftlog.client import configs, consumer, group_membership, reader, versions
from kraftlog.client.connection import Connection
from kraftlog.client.partitioner import partition_of
from kraftlog.errors import ClientError, ErrorCode, RefusedError, UnreachableError
from kraftlog.wire.apis import ApiKey
from kraftlog.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from kraftlog.wire.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from tests.client.waiting import until
from tests.time_limit import LIMIT_S

if TYPE_CHECKING:
    from collections.abc import Callable

    from kraftlog.client.consumer import Consumer

    Named = Callable[[str], str]

CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]

#: The newest version of each API in Kafka 2.1, by API key.
NEWEST_OF_KAFKA_2_1 = {
    ApiKey.PRODUCE: 7,
    ApiKey.FETCH: 10,
    ApiKey.LIST_OFFSETS: 4,
    ApiKey.METADATA: 7,
    ApiKey.OFFSET_COMMIT: 6,
    ApiKey.OFFSET_FETCH: 5,
    ApiKey.FIND_COORDINATOR: 2,
    ApiKey.JOIN_GROUP: 3,
    ApiKey.HEARTBEAT: 2,
    ApiKey.LEAVE_GROUP: 2,
    ApiKey.SYNC_GROUP: 2,
    ApiKey.DESCRIBE_GROUPS: 2,
    ApiKey.LIST_GROUPS: 2,
    ApiKey.CREATE_TOPICS: 3,
    ApiKey.DELETE_TOPICS: 3,
    ApiKey.INIT_PRODUCER_ID: 1,
    ApiKey.DESCRIBE_CONFIGS: 2,
    ApiKey.CREATE_PARTITIONS: 1,
    ApiKey.DELETE_GROUPS: 1,
}


def poll_until_assigned(records: Consumer, partitions: int) -> None:
    """Poll, which sends heartbeats, until the consumer has this many partitions."""

    def assigned() -> int:
        next(records, None)
        return len(records.assignment)

    until(assigned, partitions)


def values(client: Client, topic: str) -> list[bytes | None]:
    with client.consume(topic, "beginning", until_end=True) as records:
        return [record.value for record in records]


@pytest.mark.parametrize("codec", CODECS)
def test_consume_returns_produced_records(client: Client, named: Named, codec: str) -> None:
    topic = named("t")
    client.create_topic(topic, partitions=3)
    counts: list[int] = []
    with client.producer(
        compression=codec, batch_size=4000, acknowledged=counts.append
    ) as producer:
        for n in range(300):
            headers = [("number", b"%d" % n), ("none", None)]
            producer.send(topic, f"v{n}", key=f"k{n}", headers=headers, timestamp_ms=1000 + n)
    assert sum(counts) == 300
    with client.consume(topic, "beginning", until_end=True) as consumed:
        records = sorted(consumed, key=lambda record: record.timestamp_ms)
    assert [record.value for record in records] == [b"v%d" % n for n in range(300)]
    assert records[7].headers == (("number", b"7"), ("none", None))
    [keyed] = [record for record in records if record.key == b"k7"]
    assert keyed.partition == partition_of(b"k7", 3)
    for partition in range(3):
        offsets = [record.offset for record in records if record.partition == partition]
        assert offsets == list(range(len(offsets)))


@pytest.mark.parametrize("acks", ["0", "1", "all"])
def test_produce_works_with_each_acks_value(client: Client, named: Named, acks: str) -> None:
    topic = named("t")
    client.create_topic(topic, partitions=1)
    client.produce(topic, "first")  # acks=0 has no error if the topic is missing
    with client.producer(acks=acks, idempotent=acks == "all") as producer:
        producer.send(topic, b"a")
        producer.send(topic, None, key=b"gone")
    assert values(client, topic) == [b"first", b"a", None]


def test_produce_returns_partition_and_offset(client: Client, named: Named) -> None:
    topic = named("t")
    client.create_topic(topic, partitions=2)
    assert client.produce(topic, "a", partition=1) == (1, 0)
    assert client.produce(topic, "b", partition=1) == (1, 1)
    assert client.produce(topic, "c", partition=0) == (0, 0)


def test_consume_begins_at_the_given_start(client: Client, named: Named) -> None:
    topic = named("t")
    client.create_topic(topic, partitions=1)
    with client.producer() as producer:
        for n in range(10):
            producer.send(topic, str(n), timestamp_ms=1000 * (n + 1))

    def read(*start: str | int, at_ms: int | None = None) -> list[int]:
        with client.consume(topic, *start, at_ms=at_ms, until_end=True) as records:
            return [record.offset for record in records]

    assert read(7) == [7, 8, 9]
    assert read("end") == []
    assert read(at_ms=8500) == [8, 9]
    assert read(at_ms=99_999) == []
    with client.consume(topic, "beginning", partitions=[0], timeout_s=LIMIT_S) as records:
        assert [record.offset for record in islice(records, 10)] == list(range(10))
    with pytest.raises(ClientError, match="no partition 1"):
        client.consume(topic, partitions=[1])
    with client.consume(topic, 99, timeout_s=0.5) as records:  # beyond the end: reset to the end
        client.produce(topic, "late")
        assert list(records) == []


def test_an_offset_out_of_range_is_reported_and_reset(client: Client, named: Named) -> None:
    topic = named("t")
    client.create_topic(topic, partitions=1)
    client.produce(topic, "first")
    resets = []

    def on_reset(*found: object) -> None:
        resets.append(found)
        client.produce(topic, "late")

    for reset, expected in ((None, b"late"), ("end", b"late"), ("beginning", b"first")):
        with client.consume(
            topic, 99, timeout_s=LIMIT_S, reset=reset, on_reset=on_reset
        ) as records:
            assert next(records).value == expected
    assert resets == [((topic, 0), 99, 1), ((topic, 0), 99, 2), ((topic, 0), 99, 0)]
    with pytest.raises(ValueError, match='expected "beginning" or "end"'):
        client.consume(topic, reset="latest")


def test_offsets_are_found_by_name_and_by_timestamp(client: Client, named: Named) -> None:
    topic = named("t")
    client.create_topic(topic, partitions=2)
    for timestamp in (1000, 3000, 2000):
        client.produce(topic, "x", partition=1, timestamp_ms=timestamp)
    assert [client.offsets(topic)[n].offset for n in (0, 1)] == [0, 3]
    assert client.offsets(topic, "earliest", [1])[1].offset == 0
    assert client.offsets(topic, 1500, [1])[1].offset == 1
    assert client.offsets(topic, "max-timestamp", [1])[1].offset == 1
    assert client.offsets(topic, 9000, [1])[1].offset == -1


def test_a_group_resumes_at_its_committed_offset(client: Client, named: Named) -> None:
    topic, group = named("t"), named("g")
    client.create_topic(topic, partitions=2)
    with client.producer() as producer:
        for n in range(100):
            producer.send(topic, str(n), partition=n % 2)
    seen = []
    with client.consume(topic, "beginning", group=group) as records:
        assert records.assignment == [(topic, 0), (topic, 1)]
        for record in records:
            seen.append(record.value)
            if len(seen) == 40:
                break
        member = client.describe_group(group).members[0]
        assert member.assignment == ((topic, 0), (topic, 1))
    with suppress(KeyboardInterrupt), client.consume(topic, "beginning", group=group) as records:
        next(records)
        raise KeyboardInterrupt  # the current record is not committed
    with client.consume(topic, "beginning", group=group, until_end=True) as records:
        seen += [record.value for record in records]
    assert sorted(map(int, filter(None, seen))) == list(range(100))
    assert sum(committed.offset for committed in client.committed(group).values()) == 100


def test_members_share_partitions_and_rebalance(
    client: Client, address: str, named: Named, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A second member gets half of the partitions; the first gets them back when it leaves."""
    monkeypatch.setattr(group_membership, "HEARTBEAT_S", 0.1)
    topic, group = named("t"), named("g")
    client.create_topic(topic, partitions=4)
    may_stop = threading.Event()
    share: list[int] = []

    def second() -> None:
        with Client(address) as other, other.consume(topic, group=group, timeout_s=0.1) as records:
            share.extend(index for _, index in records.assignment)
            while not may_stop.is_set():
                next(records, None)

    with client.consume(topic, "beginning", group=group, timeout_s=0.1) as records:
        assert len(records.assignment) == 4
        thread = threading.Thread(target=second)
        thread.start()
        try:
            poll_until_assigned(records, 2)
            until(lambda: len(share), 2)
            mine = [index for _, index in records.assignment]
            assert sorted(mine + share) == [0, 1, 2, 3]
            assert mine in ([0, 1], [2, 3])
        finally:
            may_stop.set()
        poll_until_assigned(records, 4)
        thread.join(LIMIT_S)
        assert not thread.is_alive()


def test_groups_can_be_listed_reset_and_deleted(client: Client, named: Named) -> None:
    topic, group = named("t"), named("g")
    client.create_topic(topic, partitions=2)
    client.reset_offsets(group, {(topic, 0): 5, (topic, 1): 6})
    listed = {each.id: each for each in client.groups()}[group]
    assert (listed.state, listed.type) == ("Empty", "classic")
    committed = client.committed(group)
    assert {index: each.offset for (_, index), each in committed.items()} == {0: 5, 1: 6}
    assert client.committed(group, [(topic, 1)])[topic, 1].offset == 6
    assert client.delete_offsets(group, [(topic, 1)]) == {(topic, 1): 0}
    assert client.describe_group(group).state == "Empty"
    client.delete_group(group)
    with pytest.raises(RefusedError) as refused:
        client.describe_group(group)
    assert refused.value.code == ErrorCode.GROUP_ID_NOT_FOUND


def test_topics_can_be_created_described_extended_and_deleted(client: Client, named: Named) -> None:
    topic = named("t")
    client.create_topic(topic, 2, 1, configs={"retention.ms": "1000"}, validate_only=True)
    assert topic not in {each.name for each in client.topics()}
    client.create_topic(topic, assignment={0: [1], 1: [1]}, configs={"retention.ms": "1000"})
    described = client.describe_topic(topic)
    partitions = described.partitions
    assert [(each.index, each.leader, each.replicas, each.isr) for each in partitions] == [
        (0, 1, (1,), (1,)),
        (1, 1, (1,), (1,)),
    ]
    client.create_partitions(topic, 5)
    assert len(client.describe_topics([topic], page_size=2)[0].partitions) == 5
    client.delete_topic(topic)
    assert topic not in {each.name for each in client.topics()}


def test_configs_can_be_described_and_altered(client: Client, named: Named) -> None:
    topic = named("t")
    client.create_topic(topic, configs={"retention.ms": "1000"})

    def own_configs() -> dict[str, str | None]:
        return {
            setting.name: setting.value
            for setting in client.describe_configs("topics", topic)
            if configs.is_set_dynamically(configs.TOPIC, setting)
        }

    until(own_configs, {"retention.ms": "1000"})
    client.alter_configs("topics", topic, {"retention.ms": None, "cleanup.policy": "compact"})
    until(own_configs, {"cleanup.policy": "compact"})
    client.alter_configs("topics", topic, {"retention.ms": "7"}, validate_only=True)
    assert own_configs() == {"cleanup.policy": "compact"}
    node = {each.name: each.value for each in client.describe_configs("brokers", "1")}
    assert node["node.id"] == "1"
    assert client.config_resources("client-metrics") == []


def test_the_cluster_its_features_and_its_quorum_are_described(
    client: Client, address: str
) -> None:
    cluster = client.describe_cluster()
    assert [broker.address for broker in cluster.brokers] == [address]
    quorum = client.describe_quorum()
    assert (quorum.leader_id, [voter.id for voter in quorum.voters]) == (1, [1])
    assert quorum.high_watermark > 0
    levels = {each.name: each.level for each in client.features().features}
    assert levels["metadata.version"] > 0
    client.update_features({"metadata.version": levels["metadata.version"]}, validate_only=True)
    with pytest.raises(RefusedError, match=r"metadata\.version"):
        client.update_features({"metadata.version": 99})


def test_a_client_that_is_led_to_another_cluster_starts_again(client: Client) -> None:
    """The broker answers REBOOTSTRAP_REQUIRED (KIP-1242)."""
    client.topics()
    cluster = client.cluster
    cluster_id, broker = cluster.cluster_id, cluster.brokers[1]
    for wrong_cluster, wrong_node in (("another", 1), (cluster_id, 2)):
        with pytest.raises(RefusedError, match=r"it is not node \d of cluster"):
            Connection(
                broker.host,
                broker.port,
                "test",
                cluster.deadline(),
                cluster_id=wrong_cluster,
                node_id=wrong_node,
            )
    cluster.close()
    cluster.cluster_id = "another"
    cluster.brokers[1] = broker.replace(rack="of the other cluster")
    assert client.describe_cluster().id == cluster_id
    client.topics()
    assert (cluster.cluster_id, cluster.brokers[1].rack) == (cluster_id, None)


def test_refused_error_has_broker_api_and_code(client: Client, address: str, named: Named) -> None:
    with pytest.raises(RefusedError) as refused:
        client.delete_topic(named("none"))
    error = refused.value
    assert (error.code, error.api) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "DeleteTopics")
    assert f"(DeleteTopics, error 3, broker 1 at {address})" in str(error)
    client.create_topic(named("t"))
    with pytest.raises(RefusedError, match="TOPIC_ALREADY_EXISTS"):
        client.create_topic(named("t"))


def test_request_sends_any_message(client: Client) -> None:
    response = client.request("ListGroups", 2, ListGroupsRequest())
    assert isinstance(response, ListGroupsResponse)
    assert not response.error_code


def test_invalid_values_are_refused(client: Client, named: Named) -> None:
    topic = named("t")
    client.create_topic(topic, partitions=1)
    with pytest.raises(ValueError, match="acks '2'"):
        client.producer(acks="2")
    with pytest.raises(ValueError, match="compression 'rar'"):
        client.producer(compression="rar")
    with pytest.raises(ValueError, match="start 'middle'"):
        client.consume(topic, "middle")
    with pytest.raises(ValueError, match="isolation 'none'"):
        client.consume(topic, isolation="none")
    with pytest.raises(ValueError, match="the group assigns partitions"):
        client.consume(topic, group="g", partitions=[0])
    with pytest.raises(RefusedError, match="the topic has 1 partitions"):
        client.produce(topic, "a", partition=7)
    with pytest.raises(UnreachableError, match="broker 99 is not in the cluster"):
        client.cluster.open_connection(99, client.cluster.deadline())
    assert client.describe_topics([]) == []
    with pytest.raises(AttributeError):
        kraftlog.Nothing  # noqa: B018 - naming it is the test


def test_a_refused_batch_is_not_retried(client: Client, named: Named) -> None:
    topic = named("t")
    client.create_topic(topic, partitions=1, configs={"max.message.bytes": "1000"})
    producer = client.producer()
    producer.send(topic, b"x" * 5000)
    with pytest.raises(RefusedError, match="MESSAGE_TOO_LARGE"):
        producer.flush()
    producer.send(topic, b"small")
    producer.flush()
    assert values(client, topic) == [b"small"]


def test_auto_commit_runs_while_consuming(
    client: Client, named: Named, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(consumer, "AUTO_COMMIT_S", 0)
    topic, group = named("t"), named("g")
    client.create_topic(topic, partitions=1)
    with client.producer() as producer:
        for n in range(3):
            producer.send(topic, str(n))
    with client.consume(topic, "beginning", group=group) as records:
        next(records)
        next(records)
        next(records)
        assert client.committed(group)[topic, 0].offset == 2
        records.commit()
        assert client.committed(group)[topic, 0].offset == 3
    with client.consume(topic) as records, pytest.raises(ValueError, match="committed for a group"):
        records.commit()


def test_an_unreachable_cluster_fails_at_once() -> None:
    message = r"no broker responds: 127\.0\.0\.1:1: Connection refused"
    with Client("127.0.0.1:1") as client, pytest.raises(UnreachableError, match=message):
        client.topics()


def test_client_works_with_the_versions_of_kafka_2_1(
    client: Client, named: Named, monkeypatch: pytest.MonkeyPatch
) -> None:
    for key, version in NEWEST_OF_KAFKA_2_1.items():
        monkeypatch.setitem(versions.NEWEST_SUPPORTED, key, version)
    topic, group = named("t"), named("g")
    client.create_topic(topic, partitions=2)
    client.create_partitions(topic, 3)
    with client.producer(compression="lz4") as producer:
        for n in range(30):
            producer.send(topic, str(n), partition=n % 3)
    with client.consume(topic, "beginning", group=group, until_end=True) as records:
        assert len(list(records)) == 30
    assert sum(committed.offset for committed in client.committed(group).values()) == 30
    assert client.offsets(topic)[0].offset == 10
    assert client.describe_group(group).state == "Empty"
    assert any(each.id == group for each in client.groups())
    client.delete_group(group)
    client.delete_topic(topic)


def test_new_partitions_cause_a_rebalance(
    client: Client, named: Named, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(group_membership, "PARTITION_CHECK_S", 0.1)
    topic, group = named("t"), named("g")
    client.create_topic(topic, partitions=1)
    with client.consume(topic, "beginning", group=group, timeout_s=0.1) as records:
        client.create_partitions(topic, 2)
        poll_until_assigned(records, 2)
        client.produce(topic, "new", partition=1)

        def next_value() -> object:
            record = next(records, None)
            return record and (record.partition, record.value)

        until(next_value, (1, b"new"))


def test_a_removed_member_rejoins(
    client: Client, named: Named, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(group_membership, "HEARTBEAT_S", 0)
    topic, group = named("t"), named("g")
    client.create_topic(topic, partitions=1)
    client.produce(topic, "a")
    with client.consume(topic, "beginning", group=group, timeout_s=LIMIT_S) as records:
        first = client.describe_group(group).members[0].id
        leaving = LeaveGroupRequest(group_id=group, member_id=first)
        client.cluster.call_coordinator(group, leaving, LeaveGroupResponse)
        assert next(records).value == b"a"
        assert client.describe_group(group).members[0].id != first


def test_consume_skips_deleted_records(client: Client, named: Named) -> None:
    """A position before the log start offset is reset."""
    topic = named("t")
    client.create_topic(topic, partitions=2)
    with client.producer() as producer:
        for n in range(20):
            producer.send(topic, str(n), partition=n % 2)
    assert client.delete_records({(topic, 0): 4, (topic, 1): -1}) == {
        (topic, 0): 4,
        (topic, 1): 10,
    }
    with client.consume(topic, "beginning", until_end=True) as records:
        records._reader.assign({(topic, 0): 0})
        assert [record.offset for record in records] == [4, 5, 6, 7, 8, 9]
    with pytest.raises(RefusedError, match="OFFSET_OUT_OF_RANGE"):
        client.delete_records({(topic, 0): 99})


def test_log_dirs_describes_directories(client: Client, named: Named) -> None:
    topic = named("t")
    client.create_topic(topic, partitions=1)
    client.produce(topic, "a")
    (directory,) = client.log_dirs()[1]
    sizes = {each.name: each.partitions[0].partition_size for each in directory.topics}
    assert sizes[topic] > 0


def test_read_committed_skips_aborted_transactions(kafka: str, named: Named) -> None:
    topic = named("t")
    with Client(kafka, timeout_s=LIMIT_S) as client:
        client.create_topic(topic, partitions=1)
        producer = Producer({"bootstrap.servers": kafka, "transactional.id": named("x")})
        producer.init_transactions()
        for n in range(4):
            producer.begin_transaction()
            for i in range(3):
                producer.produce(topic, b"%d-%d" % (n, i), partition=0)
            assert producer.flush(LIMIT_S) == 0
            if n % 2:
                producer.abort_transaction()
            else:
                producer.commit_transaction()

        def read(isolation: str) -> list[bytes | None]:
            with client.consume(topic, "beginning", until_end=True, isolation=isolation) as records:
                return [record.value for record in records]

        everything = [b"%d-%d" % (n, i) for n in range(4) for i in range(3)]
        assert read("read_uncommitted") == everything
        assert read("read_committed") == everything[:3] + everything[6:9]


def test_produce_creates_a_missing_topic(kafka: str, named: Named) -> None:
    with Client(kafka, timeout_s=LIMIT_S) as client:
        assert client.produce(named("t"), "a") == (0, 0)
        assert values(client, named("t")) == [b"a"]
        with pytest.raises(RefusedError, match="INVALID_TOPIC_EXCEPTION"):
            client.produce("no topic", "a")


def test_describe_group_supports_the_consumer_protocol(kafka: str, named: Named) -> None:
    topic, group = named("t"), named("g")
    settings = {"bootstrap.servers": kafka, "group.id": group, "group.protocol": "consumer"}
    with Client(kafka, timeout_s=LIMIT_S) as client:
        client.create_topic(topic, partitions=2)
        member = LibrdkafkaConsumer(settings)
        try:
            member.subscribe([topic])

            def assigned() -> int:
                member.poll(0.2)
                return len(member.assignment())

            until(assigned, 2)
            until(lambda: client.describe_group(group).state, "Stable")
            described = client.describe_group(group)
            assert (described.type, described.assignor) == ("consumer", "uniform")
            assert sorted(described.members[0].assignment) == [(topic, 0), (topic, 1)]
        finally:
            member.close()


def test_retriable_fetch_errors_are_raised_after_the_timeout(
    client: Client, named: Named, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The client retries until `timeout_s` is over."""
    topic = named("t")
    client.create_topic(topic, partitions=1)
    monkeypatch.setattr(reader, "BACKOFF_S", 0)
    with client.consume(topic, "beginning") as records:
        client.delete_topic(topic)
        client.cluster.timeout_s = 2
        with pytest.raises(ClientError, match=topic):
            next(records)


def test_plain_values_are_converted(client: Client, named: Named) -> None:
    topic = named("t")
    client.create_topic(
        topic, 1, configs={"retention.ms": 3_600_000, "unclean.leader.election.enable": True}
    )
    client.alter_configs("topic", topic, {"min.cleanable.dirty.ratio": 0.25})

    def topic_configs() -> dict[str, str | None]:
        return {each.name: each.value for each in client.describe_configs("topics", topic)}

    until(lambda: topic_configs()["min.cleanable.dirty.ratio"], "0.25")
    assert topic_configs()["retention.ms"] == "3600000"
    assert topic_configs()["unclean.leader.election.enable"] == "true"
    client.produce(topic, "a", headers={"from": "text", "none": None, "raw": b"\x00"})
    with client.consume(topic, "beginning", until_end=True) as records:
        [record] = records
    assert record.headers == (("from", b"text"), ("none", None), ("raw", b"\x00"))


def test_errors_name_the_invalid_value(client: Client) -> None:
    """No request is sent."""
    send: Any = client.producer().send
    for words, message in (
        ({"value": {"a": 1}}, "value {'a': 1}: expected bytes, text or None"),
        ({"value": "v", "key": 3}, "key 3: expected bytes, text or None"),
        ({"value": "v", "headers": [("n", 1)]}, "header n 1: expected bytes, text or None"),
        ({"value": "v", "headers": ["n"]}, "headers ['n']: expected pairs of a name and a value"),
    ):
        with pytest.raises(TypeError) as refused:
            send("never-made", **words)
        assert str(refused.value) == message
    with pytest.raises(ValueError, match=r"kind 'queue': expected one of topics, brokers, "):
        client.describe_configs("queue", "t")
    with pytest.raises(ValueError, match=r"offsets 'newest': expected a timestamp or one of "):
        client.offsets("t", "newest")
