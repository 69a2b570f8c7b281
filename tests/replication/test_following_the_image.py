"""Which logs a broker keeps, opens or replaces when it replays changes or loads a snapshot."""

from __future__ import annotations

from kraftlog.errors import ErrorCode
from kraftlog.wire.apis import ApiKey
from kraftlog.wire.messages.delete_topics import DeleteTopicsRequest
from kraftlog_simulator.files import MemoryFiles
from tests.node.frame_client import FrameClient, ask_settled, create_topics, make_host
from tests.node.test_requests import batch, fetch, produce, produce_result, values_in
from tests.virtual_host import VirtualHost


def recreate_topic(host: VirtualHost) -> None:
    """Delete `demo`, create another topic of that name and write a record to it."""
    request = DeleteTopicsRequest(topic_names=["demo"], timeout_ms=1000)
    ask_settled(host, ApiKey.DELETE_TOPICS, 3, request)
    create_topics(host, {"demo": 1})
    write(host, b"second topic")


def write(host: VirtualHost, value: bytes) -> None:
    response = produce_result(FrameClient(host).ask(ApiKey.PRODUCE, 9, produce(batch(value))))
    assert response.error_code == ErrorCode.NONE


def values(host: VirtualHost) -> list[bytes | None]:
    return values_in(FrameClient(host).ask(ApiKey.FETCH, 12, fetch(0)))


def test_a_recreated_topic_keeps_its_records_after_a_restart() -> None:
    """The metadata log also has the deleted topic, which must not claim the folder."""
    host = make_host()
    write(host, b"first")
    recreate_topic(host)
    host.files.kill()
    assert values(VirtualHost(host.files)) == [b"second topic"]


def test_logs_are_untouched_until_the_registration_is_replayed() -> None:
    host = make_host()
    host.files.kill()
    restarted = VirtualHost(host.files, settled=False)
    states = []  # is_registered, and the number of partitions
    while not restarted.node.is_ready:
        states.append(
            (
                restarted.node.replica_manager.is_registered,
                len(restarted.node.replica_manager.partitions),
            )
        )
        restarted.turn()
    assert (False, 0) in states
    assert (False, 1) not in states
    assert len(restarted.node.replica_manager.partitions) == 1


def test_a_topic_recreated_in_a_snapshot_starts_with_an_empty_log() -> None:
    """A broker that was paused for long loads a snapshot instead of replaying each change."""
    host = make_host()
    write(host, b"first")
    node = host.node
    [old] = node.replica_manager.partitions.values()
    files = MemoryFiles()
    files.starts = 2  # so its topic ids differ from those of the first host
    other = VirtualHost(files)
    create_topics(other, {"demo": 1, "more": 1})
    topics = [
        r for r in other.node.image.records() if type(r).__name__.startswith(("Topic", "Part"))
    ]
    registrations = [
        r for r in node.image.records() if type(r).__name__.startswith(("Reg", "Feat"))
    ]
    node.reload([*registrations, *topics], 100)
    host.settle()
    [partition] = [
        partition
        for partition in node.replica_manager.partitions.values()
        if partition.topic == "demo"
    ]
    assert partition.topic_id != old.topic_id
    assert node.replica_manager.by_log["demo", 0] is partition
    assert partition.online
    assert values(host) == []
    write(host, b"second topic")
    assert values(host) == [b"second topic"]
