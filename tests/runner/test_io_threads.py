"""The order of jobs on different I/O threads; each thread runs its jobs in submission order."""

from __future__ import annotations

import errno
from types import SimpleNamespace

import pytest

from kraftlog.effects import ElectionWritten, WriteElection
from kraftlog.errors import ErrorCode
from kraftlog.node.quorum.batches import METADATA_LOG
from kraftlog.runner.log_maintenance import INTERVAL_MS
from kraftlog.runner.quorum_io import NodeStoppedError
from kraftlog.storage import quorum_state
from kraftlog.storage.checkpoints import RECOVERY_POINTS
from kraftlog.wire.apis import CONTROLLER, ApiKey
from kraftlog_simulator.files import Fault, MemoryFiles
from tests.node.frame_client import FrameClient, configured_host, create_topics, creation
from tests.node.test_requests import batch, produce, produce_result
from tests.runner.test_full_disk import node_on
from tests.runner.test_log_maintenance import offsets
from tests.runner.test_recreated_topics import delete_topic
from tests.server.test_hanging_disk import vote
from tests.virtual_host import VirtualHost, voters_named

LOG = ("demo", 0)
FOLDER = "data/__cluster_metadata-0"


def host_with_hanging_flush() -> tuple[VirtualHost, FrameClient]:
    """A host whose data flush hangs, and the client whose Produce waits for it."""
    host = configured_host(flush_messages=1)
    host.io_threads.data.hangs = True
    client = FrameClient(host)
    assert client.ask(ApiKey.PRODUCE, 9, produce(batch(b"x"), -1)) is None
    return host, client


def election(epoch: int) -> WriteElection:
    return WriteElection(
        leader_id=-1,
        epoch=epoch,
        voted=None,
        version=epoch,
        kraft_version=1,
        cluster_id=None,
        applied_offset=0,
        voter_ids=(),
    )


def test_topics_are_created_and_deleted_during_a_hanging_flush() -> None:
    """V18: no metadata change waits for a data log."""
    host, client = host_with_hanging_flush()
    create_topics(host, {"other": 1})
    delete_topic(host, "other")
    host.settle()
    assert "other-0" not in host.files.list("data")
    assert client.take() == []
    host.io_threads.data.hangs = False
    host.turn()
    [(_, answer)] = client.take()
    assert produce_result(answer).error_code == ErrorCode.NONE


def test_data_flushes_on_a_full_disk_do_not_pause_the_quorum() -> None:
    """The flush is retried a second later; metadata changes continue in the meantime."""
    host = configured_host(flush_messages=1)
    host.files.faults.append(Fault("pwritev", errno.ENOSPC, "demo-0/leader-epoch-checkpoint"))
    assert FrameClient(host).ask(ApiKey.PRODUCE, 9, produce(batch(b"x"), -1)) is None
    assert [line.startswith("flushes are blocked") for line in host.log_lines] == [True]
    create_topics(host, {"other": 1})


def test_a_checkpoint_never_names_a_recovery_point_before_its_flush() -> None:
    """V15: a checkpoint that is written during the flush has the recovery point from before it."""
    host, _ = host_with_hanging_flush()
    host.pass_time(INTERVAL_MS)
    assert LOG not in offsets(host.files, RECOVERY_POINTS)
    assert offsets(host.files, RECOVERY_POINTS)[METADATA_LOG] > 0
    host.io_threads.data.hangs = False
    host.pass_time(1)
    assert LOG not in offsets(host.files, RECOVERY_POINTS)
    host.pass_time(INTERVAL_MS)
    assert offsets(host.files, RECOVERY_POINTS)[LOG] == 1


def test_a_deleted_log_keeps_its_files_until_its_flush_ends() -> None:
    """V15: the flush writes the epochs by path."""
    host, _ = host_with_hanging_flush()
    delete_topic(host)
    host.pass_time(INTERVAL_MS)
    assert "00000000000000000000.log" in host.files.list("data/demo-0")
    host.io_threads.data.hangs = False
    host.settle()
    host.pass_time(INTERVAL_MS)
    assert [name for name in host.files.list("data") if name.startswith("demo")] == []


def test_a_deleted_log_is_unlinked_after_its_rename_is_durable() -> None:
    """Otherwise a crash could bring back its half-empty folder under the old name."""
    host = configured_host(flush_messages=1)
    FrameClient(host).ask(ApiKey.PRODUCE, 9, produce(batch(b"x"), -1))
    delete_topic(host)
    host.settle()
    host.files.journal = []
    host.pass_time(INTERVAL_MS)
    journal = list(enumerate(host.files.journal))
    first_unlink = next(i for i, line in journal if line.startswith("unlink data/demo"))
    renames = [i for i, line in journal if line == "rename data/demo-0"]
    syncs = [i for i, line in journal if line == "sync_folder data"]
    assert any(max(renames, default=-1) < sync < first_unlink for sync in syncs)


def test_no_metadata_flush_counts_after_a_failed_data_flush() -> None:
    """V18: both logs are on the disk that has failed, whichever flush ends first."""
    host = configured_host(flush_messages=1)
    host.io_threads.quorum.hangs = True
    client = FrameClient(host)
    client.send(ApiKey.CREATE_TOPICS, 7, creation({"other": 1}))
    host.turn()
    host.files.faults.append(Fault("sync", path="demo-0"))
    client.send(ApiKey.PRODUCE, 9, produce(batch(b"x"), -1))
    with pytest.raises(NodeStoppedError, match="demo-0: flushing the log"):
        host.turn()
    assert client.take() == []


def test_q4_the_retry_of_an_election_write_keeps_a_newer_state() -> None:
    """On a full disk the write of epoch 7 is repeated after that of epoch 8."""
    host = node_on(MemoryFiles())
    reports: list[int] = []
    host.runner._quorum._notify = lambda report, _: reports.append(report.version)
    host.files.faults.append(Fault("pwritev", errno.ENOSPC, "quorum-state"))
    for epoch in (7, 8):
        host.runner._quorum.carry_out[WriteElection](election(epoch), host.now)
    while host.io_threads.deliver(host.now):
        pass
    assert ElectionWritten(8).version in reports
    stored = quorum_state.load(host.files, FOLDER)
    assert stored is not None
    assert stored.epoch == 8


@pytest.mark.parametrize("times", [1, 2])
def test_a_quorum_write_is_retried_if_another_thread_used_the_reserve(times: int) -> None:
    """Several threads find the disk full, and one spends the reserve; each retries only once."""
    host = node_on(MemoryFiles())
    reports: list[int] = []
    host.runner._quorum._notify = lambda report, _: reports.append(report.version)
    host.files.faults.append(Fault("pwritev", errno.ENOSPC, "quorum-state", times=times))
    host.runner._quorum.carry_out[WriteElection](election(7), host.now)
    assert host.runner.directory.reserve.spend()
    try:
        while host.io_threads.deliver(host.now):
            pass
    except NodeStoppedError:  # the retry has failed, too
        reports.append(0)
    assert reports == [7 if times == 1 else 0]


def test_q13_a_vote_is_given_while_the_other_threads_hang() -> None:
    unreachable = SimpleNamespace(send=lambda _: None)
    host = VirtualHost(voters=voters_named(1, 2, 3), peers=unreachable, settled=False)
    host.turn()
    host.io_threads.data.hangs = host.io_threads.maintenance.hangs = True
    client = FrameClient(host, CONTROLLER)
    answer = client.ask(ApiKey.VOTE, 1, vote())
    assert answer.topics[0].partitions[0].vote_granted
