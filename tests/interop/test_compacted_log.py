"""Kafka's dump tool reads compacted logs: holes, empty batches, delete horizons."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kraftlog.server.files import OsFiles
from kraftlog.storage.disk import Disk, HandleCache
from kraftlog.storage.recovery import open_log, run
from tests.interop.test_dump_log import comma_separated_paths, dump_output
from tests.storage.compacting import COMPACTED, HORIZON_MS, compact
from tests.storage.making import T0, marker, put
from tests.storage.test_compaction import append_keyed, end_segment

if TYPE_CHECKING:
    from pathlib import Path

    from tests.interop.driver import Driver


def test_kafkas_dump_tool_reads_a_compacted_log(jvm: Driver, tmp_path: Path) -> None:
    system = OsFiles()
    folder = tmp_path / "t-0"
    folder.mkdir()
    log = run(open_log(Disk(system, HandleCache(system, 50)), str(folder), COMPACTED))[0]
    append_keyed(log, (98, 1), (99, 1))
    append_keyed(log, (98, None))
    append_keyed(log, (1, 9), producer=(7, 0), transactional=True)
    put(log, marker(log.end_offset, 7, commit=False))
    for number in range(20):
        append_keyed(log, (1, number), (number, number), codec=number % 5)
    end_segment(log)
    assert compact(log)
    append_keyed(log, (1, 1))
    log.close()
    output = dump_output(
        jvm, "--deep-iteration", "--files", comma_separated_paths(str(folder), ".log")
    )
    assert f"deleteHorizonMs: OptionalLong[{T0 + HORIZON_MS}]" in output
    assert "count: 0" in output, "the producer's last batch"
    assert "endTxnMarker: ABORT" in output
    assert output.count("isvalid: true") == output.count("baseOffset: ") > 10
    dump_output(jvm, "--files", comma_separated_paths(str(folder), ".index"))
    # Without the first segment's time index: it has entries of empty batches, about which the tool
    # complains, as it does with logs that Kafka compacted.
    time_indexes = comma_separated_paths(str(folder), ".timeindex").split(",")[1:]
    dump_output(jvm, "--files", ",".join(time_indexes))
