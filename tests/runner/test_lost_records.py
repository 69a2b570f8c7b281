"""V19: a log that lacks what was committed in it is recognised, also after further restarts."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kraftlog.effects import LogComplete, LogOpened
from kraftlog.runner.log_maintenance import INTERVAL_MS
from kraftlog.storage.batches import describe
from kraftlog.types import Now
from kraftlog.wire.apis import ApiKey
from kraftlog.wire.messages.delete_topics import DeleteTopicsRequest
from tests.node.frame_client import (
    FrameClient,
    ask_settled,
    create_partitions,
    create_topics,
    make_folders,
    make_host,
    remove_partitions,
)
from tests.node.test_log_ends import delete_records
from tests.node.test_requests import batch, produce, produce_result
from tests.virtual_host import VirtualHost

FOLDER = "data/demo-1"


def write(host: VirtualHost, count: int) -> None:
    for _ in range(count):
        answer = FrameClient(host).ask(ApiKey.PRODUCE, 9, produce(batch(b"x"), index=1))
        assert produce_result(answer).error_code == 0


def store_offsets(host: VirtualHost) -> None:
    host.pass_time(INTERVAL_MS)
    host.settle()


def host_with_records(count: int = 3) -> VirtualHost:
    """A node whose partition 1 has records, and whose checkpoints know it."""
    host = make_host(demo=2)
    make_folders(host)
    write(host, count)
    store_offsets(host)
    return host


def restarted(host: VirtualHost) -> tuple[VirtualHost, bool]:
    """Start the node again; return also whether it found that records are lost."""
    host.files.kill()
    again = VirtualHost(host.files)
    return again, any("are lost here" in line for line in again.log_lines)


def remove_folder(host: VirtualHost) -> None:
    for name in host.files.list(FOLDER):
        host.files.unlink(f"{FOLDER}/{name}")
    host.files.remove_folder(FOLDER)


def empty_folder(host: VirtualHost) -> None:
    for name in host.files.list(FOLDER):
        if name != "partition.metadata":
            host.files.unlink(f"{FOLDER}/{name}")


def cut_log(host: VirtualHost) -> None:
    """Cut the last batch off."""
    [name] = [name for name in host.files.list(FOLDER) if name.endswith(".log")]
    path = f"{FOLDER}/{name}"
    file = host.files.open(path)
    host.files.truncate(file, host.files.size_of(path) * 2 // 3)
    host.files.close(file)


LOSSES = pytest.mark.parametrize("lose", [remove_folder, empty_folder, cut_log])


@LOSSES
def test_v19_log_that_lost_committed_records_is_recognised(
    lose: Callable[[VirtualHost], None],
) -> None:
    host = host_with_records()
    lose(host)
    _, is_lost = restarted(host)
    assert is_lost


def test_v19_folder_that_is_gone_after_a_clean_stop_is_recognised() -> None:
    host = make_host(demo=2)
    write(host, 3)
    host.runner.close()
    remove_folder(host)
    assert restarted(host)[1]


@pytest.mark.parametrize("lose", [empty_folder, cut_log])
def test_v18_log_that_lost_flushed_records_is_not_opened(
    lose: Callable[[VirtualHost], None],
) -> None:
    """A clean stop has flushed them: the disk lost what it had confirmed."""
    host = make_host(demo=2)
    write(host, 3)
    host.runner.close()
    lose(host)
    host, _ = restarted(host)
    assert any("below 3 had been flushed" in line for line in host.log_lines)
    assert ("demo", 1) not in host.runner.directory.logs


@LOSSES
def test_v19_lost_records_are_remembered_until_the_replica_is_complete(
    lose: Callable[[VirtualHost], None],
) -> None:
    """The checkpoints of the shorter log do not make it whole."""
    host = host_with_records()
    lose(host)
    for _ in range(3):
        host, is_lost = restarted(host)
        assert is_lost
        store_offsets(host)
    host.node.emit(LogComplete(("demo", 1)))
    host.settle()
    write(host, 1)
    store_offsets(host)
    assert not restarted(host)[1]


def test_v19_whole_log_is_not_taken_for_a_lost_one() -> None:
    """Neither with records beyond the checkpoint, nor emptied by DeleteRecords."""
    host = host_with_records()
    write(host, 2)
    host, is_lost = restarted(host)
    assert not is_lost
    assert delete_records(host, 5, index=1) == (0, 5)
    store_offsets(host)
    host, is_lost = restarted(host)
    assert not is_lost
    assert restarted(host)[1] is False


def test_v23_another_topic_of_the_name_has_lost_nothing() -> None:
    """The topic was deleted, and its folder with it; the checkpoints may still name it."""
    host = host_with_records()
    ask_settled(
        host, ApiKey.DELETE_TOPICS, 5, DeleteTopicsRequest(topic_names=["demo"], timeout_ms=1000)
    )
    create_topics(host, {"demo": 2})
    assert not restarted(host)[1]


def test_v23_partition_added_again_has_lost_nothing() -> None:
    host = host_with_records()
    assert remove_partitions(host, "demo", 1) == 0
    create_partitions(host, "demo", 2)
    host, is_lost = restarted(host)
    assert not is_lost
    make_folders(host)
    write(host, 1)
    store_offsets(host)
    assert not restarted(host)[1]


def test_v19_record_of_removed_partitions_is_removed() -> None:
    """What is kept does not grow with every topic that was ever deleted."""
    host = host_with_records()
    assert host.runner.directory.committed.encode().count(b"demo") == 1
    assert remove_partitions(host, "demo", 1) == 0
    store_offsets(host)
    assert host.runner.directory.committed.encode().count(b"demo") == 0


# Power losses, and folders without a checkpoint --------------------------------------------------


def opened_logs(host: VirtualHost, topic: str, act: Callable[[], None]) -> list[LogOpened]:
    """Act; return the reports of logs of the topic that were opened meanwhile."""
    reports: list[LogOpened] = []
    notify = host.node.handle

    def handle(message: object, now: Now) -> None:
        if isinstance(message, LogOpened) and message.log[0] == topic:
            reports.append(message)
        notify(message, now)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(host.node, "handle", handle)
        act()
    return reports


def starting_again(host: VirtualHost) -> list[LogOpened]:
    """Start the node again; return the reports about the logs of `demo`."""
    again = VirtualHost(host.files, settled=False)
    return opened_logs(again, "demo", again.settle)


def lacking(host: VirtualHost) -> set[int]:
    """The partitions whose logs lack records, or may, after the next start."""
    return {report.log[1] for report in starting_again(host) if report.lacks_records}


@pytest.mark.parametrize("is_kill", [False, True])
def test_v19_log_may_lack_records_after_a_power_loss(is_kill: bool) -> None:
    """A killed process has lost nothing: the kernel has its writes."""
    host = host_with_records()
    host.files.write_back()
    if is_kill:
        host.files.kill()
    else:
        host.files.power_loss()
    assert lacking(host) == (set() if is_kill else {0, 1})


def test_v19_log_lacks_nothing_after_a_power_loss_if_it_was_flushed() -> None:
    host = VirtualHost()
    create_topics(host, {"demo": 2}, {"flush.messages": 1})
    make_folders(host)
    write(host, 1)
    host.files.write_back()
    host.files.power_loss()
    assert lacking(host) == set()


@pytest.mark.parametrize("lose", [remove_folder, empty_folder])
def test_v19_log_removed_around_a_power_loss_is_missed_if_all_is_flushed(
    lose: Callable[[VirtualHost], None],
) -> None:
    """The first flush of its records has synced its line in the journal: partition 0 had none."""
    host = VirtualHost()
    host.files.write_back()
    create_topics(host, {"demo": 2}, {"flush.messages": 1})
    make_folders(host)
    write(host, 1)
    host.files.power_loss()
    lose(host)
    host.files.write_back()
    for _ in range(2):
        assert lacking(host) == {1}
        host.files.kill()


@pytest.mark.parametrize("is_kept", [False, True])
def test_v19_log_that_was_killed_before_its_flush_is_missed_after_it(is_kept: bool) -> None:
    """The next process flushes the records, and with them the line of the earlier one."""
    host = VirtualHost()
    host.files.write_back()
    create_topics(host, {"demo": 2}, {"flush.messages": 1})
    make_folders(host)
    log = host.runner.directory.logs["demo", 1]
    log.append([batch(b"x")], describe([batch(b"x")]), 0)
    host.files.kill()
    VirtualHost(host.files)
    host.files.power_loss()
    if not is_kept:
        remove_folder(host)
        host.files.write_back()
    assert lacking(host) == (set() if is_kept else {1})


def test_v19_power_loss_is_remembered_over_further_kills() -> None:
    """Until a checkpoint has what each log may lack, and after it."""
    host = host_with_records()
    host.files.write_back()
    host.files.power_loss()
    for _ in range(2):
        again = VirtualHost(host.files)
        again.files.kill()
    again = VirtualHost(host.files)
    store_offsets(again)
    again.files.kill()
    assert lacking(host) == {0, 1}


def test_v19_log_created_after_a_power_loss_lacks_nothing() -> None:
    """No earlier process had it, so its replicas lead at once."""
    host = host_with_records()
    host.files.write_back()
    host.files.power_loss()
    again = VirtualHost(host.files)
    reports = opened_logs(again, "new", lambda: create_topics(again, {"new": 2}))
    assert [report.lacks_records for report in reports] == [False, False]


def test_v19_power_loss_after_a_clean_stop_loses_nothing() -> None:
    host = host_with_records()
    host.runner.close()
    host.files.power_loss()
    assert lacking(host) == set()


@pytest.mark.parametrize("is_clean", [False, True])
def test_v19_folder_removed_before_the_first_checkpoint_is_missed(is_clean: bool) -> None:
    """Its journal tells it from one that was never made: partition 0 had no record."""
    host = make_host(demo=2)
    write(host, 1)
    if is_clean:
        host.runner.close()
    else:
        host.files.kill()
    remove_folder(host)
    assert lacking(host) == {1}


@pytest.mark.parametrize("lose", [remove_folder, empty_folder])
def test_v19_folder_that_is_made_again_does_not_hide_the_loss(
    lose: Callable[[VirtualHost], None],
) -> None:
    """The controller may not know yet; once the replica has caught up, it is no loss any more."""
    host = make_host(demo=2)
    write(host, 1)
    host.files.kill()
    lose(host)
    for _ in range(2):
        host = VirtualHost(host.files)
        make_folders(host)
        assert host.files.exists(FOLDER)
        host.files.kill()
        assert lacking(host) == {1}
        host.files.kill()
    host = VirtualHost(host.files)
    host.node.emit(LogComplete(("demo", 1)))
    host.settle()
    host.files.kill()
    assert lacking(host) == set()


def test_v23_folder_of_a_replica_that_was_removed_is_not_missed() -> None:
    """The partition is added again, and its node killed before it has a folder."""
    host = make_host(demo=2)
    write(host, 1)
    assert remove_partitions(host, "demo", 1) == 0
    create_partitions(host, "demo", 2)
    host.files.kill()
    assert lacking(host) == set()
