"""Log directories written by Apache Kafka 4.3.1, closed cleanly and killed (`data/`).

`tx-0`: 18 transactions of five records by three producers, every other one aborted, and one left
open; `codecs-0`: 200 records with each codec; `small-0`, `small-1`: 15 records each.
"""

from __future__ import annotations

import tarfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kraftlog.records.reader import read_records
from kraftlog.server.files import OsFiles
from kraftlog.storage.directory import LogDirectory
from kraftlog.storage.disk import HandleCache
from kraftlog.storage.recovery import run
from tests.storage.making import read_all
from tests.storage.model import producer_values

if TYPE_CHECKING:
    from kraftlog.storage.log import Log
    from kraftlog.storage.recovery import RecoveryReport

ARCHIVE = Path(__file__).parent / "data" / "kafka-4.3.1.tar.xz"
NAMES = [("codecs", 0), ("small", 0), ("small", 1), ("tx", 0)]


def open_directory(path: Path) -> tuple[LogDirectory, dict[str, tuple[Log, RecoveryReport]]]:
    files = OsFiles()
    logs = LogDirectory(files, str(path), HandleCache(files, 16))
    assert logs.names() == NAMES
    return logs, {f"{name[0]}-{name[1]}": run(logs.open_log(name)) for name in NAMES}


@pytest.fixture
def unpacked(tmp_path: Path) -> Path:
    with tarfile.open(ARCHIVE) as archive:
        archive.extractall(tmp_path, filter="data")
    return tmp_path


@pytest.mark.parametrize("shutdown", ["clean", "killed"])
def test_kafkas_directory_opens(unpacked: Path, shutdown: str) -> None:
    logs, opened = open_directory(unpacked / shutdown)
    try:
        assert logs.was_clean == (shutdown == "clean")
        for log, report in opened.values():
            assert not report.problem
            assert report.scanned_bytes == (0 if shutdown == "clean" else log.size_bytes)
        ends = {name: log.end_offset for name, (log, _) in opened.items()}
        assert ends["codecs-0"] == 1000
        assert (ends["small-0"], ends["small-1"]) == (15, 15)
        codecs = [
            record for data in read_all(opened["codecs-0"][0]) for record in read_records(data)
        ]
        assert [record.offset for record in codecs] == list(range(1000))
        for number, codec in enumerate(("none", "gzip", "snappy", "lz4", "zstd")):
            for i in (0, 199):
                record = codecs[200 * number + i]
                assert record.value == (codec * 20 + str(i)).encode()
                assert record.headers == (("h", b"v"),)
    finally:
        logs.release()


def test_recovery_of_kafkas_directory_agrees_with_its_files(unpacked: Path) -> None:
    """Recovery finds the producers, aborted transactions and times that Kafka's files have."""
    clean, by_file = open_directory(unpacked / "clean")
    killed, by_scan = open_directory(unpacked / "killed")
    try:
        for name, (log, _) in by_scan.items():
            loaded = by_file[name][0]
            if name == "tx-0":  # the broker ended the open transaction when it was started again
                assert log.producers.first_undecided() == 108
                aborted = loaded.aborted_transactions(0, 108)
                assert log.aborted_transactions(0, log.end_offset) == aborted
                assert len(aborted) == 9
                continue
            assert producer_values(log.producers) == producer_values(loaded.producers)
            assert log.end_offset == loaded.end_offset
            assert log.epochs.entries()[0] == (0, 0)
            for scanned, stored in zip(log.segments, loaded.segments, strict=True):
                assert scanned.max_timestamp == stored.max_timestamp
                assert scanned.max_timestamp_offset == stored.max_timestamp_offset
    finally:
        clean.release()
        killed.release()


def test_kafkas_directory_opens_clean_after_our_shutdown(unpacked: Path) -> None:
    logs, opened = open_directory(unpacked / "killed")
    log = opened["codecs-0"][0]
    before = read_all(log)
    logs.close(9)
    logs, opened = open_directory(unpacked / "killed")
    try:
        log, report = opened["codecs-0"]
        assert report.clean
        assert read_all(log) == before
    finally:
        logs.release()
