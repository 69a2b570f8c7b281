"""V18: a directory whose disk is full, or in which a sync hangs, is reported as unwritable."""

from __future__ import annotations

import errno

import pytest

from kraftlog.errors import ErrorCode
from kraftlog.runner.log_lifecycle import FULL_BACKOFF_MS
from kraftlog.runner.writability import CALM_MS, LONGEST_CALM_MS, PROBE, PROBE_AGAIN_MS
from kraftlog.wire.apis import ApiKey
from kraftlog_simulator.files import Fault, MemoryFiles
from tests.node.frame_client import FrameClient, configured_host, create_topics, make_host
from tests.node.test_requests import batch, produce, produce_result
from tests.runner.test_strays import restart_with_foreign_log
from tests.virtual_host import SETTINGS, VirtualHost

LIMIT_MS = 15_000
CANNOT = "data: cannot be written at present"


def write(host: VirtualHost) -> int:
    response = FrameClient(host).ask(ApiKey.PRODUCE, 9, produce(batch(b"x")))
    return int(produce_result(response).error_code)


def is_unwritable(host: VirtualHost) -> bool:
    assert host.runner.logs.unwritable() in {(), (host.runner.directory.id,)}
    return bool(host.runner.logs.unwritable())


def pass_time(host: VirtualHost, ms: int) -> None:
    host.pass_time(ms)
    host.settle()


def full_host() -> VirtualHost:
    """A host whose disk is full."""
    host = make_host()
    assert write(host) == ErrorCode.NONE
    assert not is_unwritable(host)
    fill(host)
    assert write(host) == ErrorCode.KAFKA_STORAGE_ERROR
    return host


def fill(host: VirtualHost, *names: str) -> None:
    """Have writes of the log and of probes fail, or those of the named files."""
    for name in names or ("demo-0", PROBE):
        host.files.faults.append(Fault("pwritev", errno.ENOSPC, name, times=1_000_000))


def free(host: VirtualHost) -> None:
    host.files.faults.clear()


def test_v18_a_full_disk_is_unwritable_until_a_probe_succeeds() -> None:
    host = full_host()
    assert is_unwritable(host)
    assert len([line for line in host.log_lines if line.startswith(CANNOT)]) == 1
    for _ in range(5):
        pass_time(host, PROBE_AGAIN_MS)
        assert is_unwritable(host)
    free(host)
    fill(host, PROBE)
    pass_time(host, PROBE_AGAIN_MS)
    assert is_unwritable(host), "a full disk may have a little space by chance"
    free(host)
    assert host.runner.deadline() <= host.now.monotonic_ms + PROBE_AGAIN_MS
    pass_time(host, PROBE_AGAIN_MS)
    assert not is_unwritable(host)
    assert host.log_lines[-1] == "data: can be written again"
    assert not host.files.exists(f"data/{PROBE}")


def test_v18_an_unwritable_directory_needs_time_to_recover() -> None:
    """Space that comes and goes does not move leaders back and forth."""
    host = full_host()
    for _ in range(3):
        pass_time(host, CALM_MS - 1)
        assert write(host) == ErrorCode.KAFKA_STORAGE_ERROR
        assert is_unwritable(host)
    free(host)
    assert write(host) == ErrorCode.NONE, "the leader itself tries each write"
    pass_time(host, CALM_MS - 1)
    assert is_unwritable(host)
    pass_time(host, 1)
    assert not is_unwritable(host)


def test_a_directory_that_fails_again_soon_needs_longer_to_recover() -> None:
    host, calm_ms = full_host(), CALM_MS
    while calm_ms < LONGEST_CALM_MS:
        free(host)
        pass_time(host, calm_ms - 1)
        assert is_unwritable(host)
        pass_time(host, 1)
        assert not is_unwritable(host)
        fill(host)
        assert write(host) == ErrorCode.KAFKA_STORAGE_ERROR
        calm_ms = min(2 * calm_ms, LONGEST_CALM_MS)
    free(host)
    pass_time(host, LONGEST_CALM_MS)
    pass_time(host, LONGEST_CALM_MS + 1)
    fill(host)
    assert write(host) == ErrorCode.KAFKA_STORAGE_ERROR
    free(host)
    pass_time(host, CALM_MS)
    assert not is_unwritable(host), "after a long calm time the first failure counts as the first"


def test_a_lack_of_descriptors_does_not_make_a_directory_unwritable() -> None:
    host = make_host()
    host.files.faults.append(Fault("open", errno.EMFILE, "demo-0", times=100))
    assert write(host) == ErrorCode.KAFKA_STORAGE_ERROR
    assert not is_unwritable(host)


@pytest.mark.parametrize("code", [errno.EDQUOT, errno.EFBIG])
def test_a_quota_and_a_file_size_limit_count_as_a_full_disk(code: int) -> None:
    host = make_host()
    host.files.faults.append(Fault("pwritev", code, "demo-0", times=100))
    assert write(host) == ErrorCode.KAFKA_STORAGE_ERROR
    assert is_unwritable(host)


def test_v18_a_log_that_cannot_be_opened_for_lack_of_space() -> None:
    """Otherwise its replica could lead without a log."""
    host = restart_with_foreign_log(make_host(), ("demo", 0))
    host.files.faults.append(Fault("rename", errno.ENOSPC, "demo-0", times=2))
    host.settle()
    assert is_unwritable(host)
    pass_time(host, FULL_BACKOFF_MS)
    pass_time(host, FULL_BACKOFF_MS)
    pass_time(host, FULL_BACKOFF_MS)
    assert not is_unwritable(host)


# A sync that hangs -------------------------------------------------------------------------------


def hang(host: VirtualHost, ms: int) -> None:
    """Let time pass in which no I/O thread completes a job."""
    due_ms = host.now.monotonic_ms + ms
    while host.now.monotonic_ms < due_ms:
        next_ms = min(due_ms, max(host.runner.deadline(), host.now.monotonic_ms + 100))
        host.now = host.now.replace(monotonic_ms=next_ms)
        host.one_turn()


def send(host: VirtualHost) -> FrameClient:
    """Send a record, and run the turn that writes it."""
    client = FrameClient(host)
    client.send(ApiKey.PRODUCE, 9, produce(batch(b"x")))
    host.one_turn()
    return client


@pytest.mark.parametrize("setting", ["", "kraftlog.sync.timeout.ms=500\n"])
def test_v18_a_hanging_sync_makes_its_directory_unwritable(setting: str) -> None:
    """By default after half of replica.lag.time.max.ms."""
    host = VirtualHost(MemoryFiles(), SETTINGS + setting)
    create_topics(host, {"demo": 1}, {"flush.messages": 1})
    assert write(host) == ErrorCode.NONE
    limit_ms = 500 if setting else LIMIT_MS
    client = send(host)
    hang(host, limit_ms - 1)
    assert not is_unwritable(host)
    hang(host, 1)
    assert is_unwritable(host)
    assert host.log_lines[-1].startswith(CANNOT)
    assert f"a sync has not returned for {limit_ms} ms" in host.log_lines[-1]
    hang(host, 10 * LIMIT_MS)
    assert is_unwritable(host)
    host.settle()
    assert [code.error_code for _, it in client.take() for code in [produce_result(it)]] == [0]
    pass_time(host, max(CALM_MS, limit_ms))
    pass_time(host, max(CALM_MS, limit_ms))
    assert not is_unwritable(host)


def test_a_hanging_sync_that_no_request_waits_for_changes_nothing() -> None:
    """Records are acknowledged before the periodic flush; no leader has to move."""
    host = make_host()
    host.runner._flushes.request(("demo", 0), 1)
    send(host)
    hang(host, 2 * LIMIT_MS)
    assert not is_unwritable(host)


def test_a_slow_sync_changes_nothing() -> None:
    host = configured_host(flush_messages=1)
    for _ in range(5):
        send(host)
        hang(host, LIMIT_MS - 1)
        host.settle()
    assert not is_unwritable(host)
