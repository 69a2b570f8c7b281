"""While a flush of a data log hangs, the quorum goes on: it has its own I/O thread."""

from __future__ import annotations

import select
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from kraftlog.errors import ErrorCode
from kraftlog.logstate.voters import ReplicaKey
from kraftlog.server.io_thread import OsIOThreads
from kraftlog.storage import quorum_state
from kraftlog.wire.apis import CONTROLLER, ApiKey
from kraftlog.wire.messages.vote import PartitionData, TopicData, VoteRequest
from kraftlog_simulator.files import MemoryFiles
from tests.node.frame_client import FrameClient, creation
from tests.node.test_requests import batch, produce, produce_result
from tests.time_limit import LIMIT_S
from tests.virtual_host import VirtualHost, voters_named


class HangingFiles(MemoryFiles):
    """A sync of the log `demo` hangs until `may_sync`."""

    def __init__(self) -> None:
        super().__init__()
        self.hangs = threading.Event()
        self.may_sync = threading.Event()

    def sync(self, fd: int) -> None:
        if "/demo-0/" in self._opened(fd)[1]:
            self.hangs.set()
            self.may_sync.wait()
        super().sync(fd)


class ThreadedHost(VirtualHost):
    """A node with the I/O threads of the server."""

    def __init__(self, files: MemoryFiles, **options: Any) -> None:
        self.threads = OsIOThreads()
        super().__init__(files, io_threads=self.threads, settled=False, **options)

    def run_until(self, is_done: Callable[[], Any]) -> None:
        while not is_done():
            self.one_turn()
            due = self.node.deadline()
            is_due = due is not None and due <= self.now.monotonic_ms
            if not (is_done() or is_due or self.runner.has_work or self.node.has_work):
                assert select.select([self.threads.ready_fd], [], [], LIMIT_S)[0]
                self.threads.deliver(self.now)


class LostPeers:
    """Other voters that never respond."""

    def send(self, effect: Any) -> None:
        """Drop the request."""


@pytest.fixture
def host() -> Iterator[ThreadedHost]:
    files = HangingFiles()
    host = ThreadedHost(files)
    host.run_until(lambda: host.node.is_ready)
    yield host
    files.may_sync.set()
    host.threads.finish(host.now)
    host.threads.close()
    host.runner.close()


def response(host: ThreadedHost, client: FrameClient) -> Any:
    """Run the host until the client has received a response; return it."""
    responses: list[Any] = []

    def has_response() -> bool:
        responses.extend(client.take())
        return bool(responses)

    host.run_until(has_response)
    return responses[0][1]


def ask(host: ThreadedHost, client: FrameClient, key: int, version: int, request: Any) -> Any:
    client.send(key, version, request)
    return response(host, client)


def vote() -> VoteRequest:
    """A request of a candidate whose log is longer than the voter's."""
    part = PartitionData(
        partition_index=0, replica_epoch=9, replica_id=2, last_offset_epoch=8, last_offset=1 << 40
    )
    topics = [TopicData(topic_name="__cluster_metadata", partitions=[part])]
    return VoteRequest(cluster_id=None, voter_id=1, topics=topics)


def test_q6_metadata_commits_go_on_while_a_data_flush_hangs(host: ThreadedHost) -> None:
    client, producer = FrameClient(host), FrameClient(host)
    configs: dict[str, object] = {"flush.messages": 1}
    ask(host, client, ApiKey.CREATE_TOPICS, 7, creation({"demo": 1}, configs))
    host.run_until(lambda: ("demo", 0) in host.runner.directory.logs)
    producer.send(ApiKey.PRODUCE, 9, produce(batch(b"x"), -1))
    files = host.files
    assert isinstance(files, HangingFiles)
    host.one_turn()
    assert files.hangs.wait(LIMIT_S)

    created = ask(host, client, ApiKey.CREATE_TOPICS, 7, creation({"more": 1}))
    assert created.topics[0].error_code == ErrorCode.NONE
    assert producer.take() == []
    files.may_sync.set()
    assert produce_result(response(host, producer)).error_code == ErrorCode.NONE


def test_q13_a_vote_is_given_while_a_data_flush_hangs() -> None:
    host = ThreadedHost(MemoryFiles(), voters=voters_named(1, 2, 3), peers=LostPeers())
    may_end = threading.Event()
    for thread in (host.threads.data, host.threads.maintenance):
        thread.submit(may_end.wait, lambda *_: None)
    try:
        answer = ask(host, FrameClient(host, CONTROLLER), ApiKey.VOTE, 1, vote())
    finally:
        may_end.set()
        host.threads.close()
    assert answer.topics[0].partitions[0].vote_granted
    stored = quorum_state.load(host.files, "data/__cluster_metadata-0")
    assert stored is not None
    assert (stored.epoch, stored.voted) == (9, ReplicaKey(2))
