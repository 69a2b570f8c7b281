"""A recreated topic has another id: which log belongs to which topic."""

from __future__ import annotations

from kraftlog.errors import ErrorCode
from kraftlog.simulator.files import MemoryFiles
from kraftlog.simulator.host import VirtualHost
from kraftlog.wire.apis import ApiKey
from kraftlog.wire.messages.delete_topics import DeleteTopicsRequest
from tests.node.frame_client import FrameClient, ask_settled, create_topics, make_host
from tests.node.test_requests import batch, fetch, produce, produce_result, values_in


def recreate_topic(host: VirtualHost) -> None:
    """Delete `demo`, create another topic of that name and write a record to it."""
    request = DeleteTopicsRequest(topic_names=["demo"], timeout_ms=1000)
    ask_settled(host, ApiKey.DELETE_TOPICS, 3, request)
    create_topics(host, {"demo": 1})
    write(host, b"second topic")


def write(host: VirtualHost, value: bytes) -> None:
    answer = produce_result(FrameClient(host).ask(ApiKey.PRODUCE, 9, produce(batch(value))))
    assert answer.error_code == ErrorCode.NONE


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
    again = VirtualHost(host.files, settled=False)
    seen = []
    while not again.node.is_ready:
        seen.append(
            (again.node.replica_manager.is_registered, len(again.node.replica_manager.partitions))
        )
        again.turn()
    assert (False, 0) in seen
    assert (False, 1) not in seen
    assert len(again.node.replica_manager.partitions) == 1


def test_a_snapshot_may_have_another_topic_of_the_same_name() -> None:
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
    mine = [r for r in node.image.records() if type(r).__name__.startswith(("Reg", "Feat"))]
    node.reload([*mine, *topics], 100)
    host.settle()
    [name] = [p for p in node.replica_manager.partitions.values() if p.topic == "demo"]
    assert name.topic_id != old.topic_id
    assert node.replica_manager.by_log["demo", 0] is name
    assert name.online
    assert values(host) == []
    write(host, b"second topic")
    assert values(host) == [b"second topic"]
