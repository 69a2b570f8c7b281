"""Statements about a comparison, samples of it, and comparisons again and again."""

from __future__ import annotations

import hashlib
import json
import struct
from contextlib import suppress
from threading import Thread
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from kraftlog import Client
from kraftlog.client.deadline import Deadline
from kraftlog.spark.lake_check import blocks, plan, table_check
from kraftlog.spark.lake_check.check import Known, check
from kraftlog.spark.lake_check.plan import Range, aligned
from kraftlog.spark.lake_check.sample import Sample, Sampled, drawn
from kraftlog.spark.pipelines import verify
from kraftlog.spark.pipelines.common import Pipeline
from kraftlog.spark.pipelines.verify import run
from tests.spark.tampering import (
    BATCH,
    COUNT,
    TOPIC,
    Table,
    added,
    changed,
    make_lake,
    truncate,
    without,
)
from tests.time_limit import LIMIT_S

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from pyspark.sql import SparkSession

    from kraftlog.spark.lake_check.compare import RangeResult


@pytest.fixture(scope="session")
def original(our_node: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    lake = tmp_path_factory.mktemp("original") / "lake"
    make_lake(our_node, lake, f"{TOPIC}-again")
    return lake


@pytest.fixture
def table(original: Path, tmp_path: Path) -> Table:
    return Table(original, tmp_path / "lake", f"{TOPIC}-again")


def stated(path: Path, *arguments: str) -> dict[str, Any]:
    run([*arguments, "--statement", str(path)])
    data: dict[str, Any] = json.loads(path.read_text())
    return data


def without_clock(statement: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in statement.items() if name != "clock"}


def test_a_statement_is_the_same_for_everybody(
    table: Table, our_node: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However the rows are spread over files and ranges, and wherever the table is."""
    for module in (blocks, table_check):
        monkeypatch.setattr(module, "BLOCK", 16)
    words = (table.lake, "-b", our_node)
    first = stated(tmp_path / "first", *words)
    assert first["equal"]
    assert without_clock(stated(tmp_path / "again", *words)) == without_clock(first)
    elsewhere = Table(tmp_path / "lake", tmp_path / "copy", table.topic)
    assert without_clock(stated(tmp_path / "copied", elsewhere.lake, *words[1:])) == without_clock(
        first
    )
    DeltaTable(table.path).optimize.compact()
    compacted = stated(tmp_path / "compacted", *words)
    [one, other] = [each["tables"][0]["partitions"] for each in (first, compacted)]
    assert one == other
    assert compacted["id"] != first["id"]  # it is about another version of the table


def test_digests_are_as_documented(table: Table, our_node: str, tmp_path: Path) -> None:
    """docs/use/verify.md has this code."""
    statement = stated(tmp_path / "statement", table.lake, "-b", our_node)
    rows = [
        row
        for file in table.files
        for row in pq.read_table(file, partitioning=None).to_pylist()
        if row["partition"] == 0
    ]
    partition = statement["tables"][0]["partitions"][0]
    assert partition["sha256"] == dict.fromkeys(("lake", "log"), digest(rows))


def digest(rows: list[dict[str, Any]]) -> str:
    """The digest of a partition's rows, which are in order of offsets."""

    def int64(numbers: list[int]) -> bytes:
        return struct.pack(f"<{len(numbers)}q", *numbers)

    def int32(numbers: list[int]) -> bytes:
        return struct.pack(f"<{len(numbers)}i", *numbers)

    def texts(name: str, values: list[Any]) -> dict[str, bytes]:
        data = [value.encode() if isinstance(value, str) else value for value in values]
        return {
            f"{name} lengths": int32([-1 if value is None else len(value) for value in data]),
            f"{name} bytes": b"".join(value or b"" for value in data),
        }

    whole = hashlib.sha256(b"kraftlog records 1\n")
    numbers = sorted({row["offset"] // 16384 for row in rows})
    for number in numbers:
        block = [row for row in rows if row["offset"] // 16384 == number]
        headers = [header for row in block for header in row["headers"] or []]
        streams = {
            "offset": int64([row["offset"] for row in block]),
            **texts("key", [row["key"] for row in block]),
            **texts("value", [row["value"] for row in block]),
            "timestamp": int64([round(row["timestamp"].timestamp() * 1e6) for row in block]),
            "timestampType": int32([row["timestampType"] for row in block]),
            "headers counts": int32([len(row["headers"] or []) for row in block]),
            **texts("headers.key", [header["key"] for header in headers]),
            **texts("headers.value", [header["value"] for header in headers]),
        }
        of_block = hashlib.sha256()
        for name in sorted(streams):
            of_block.update(name.encode() + b"\0" + hashlib.sha256(streams[name]).digest())
        whole.update(struct.pack(">qq", number, len(block)) + of_block.digest())
    return whole.hexdigest()


def test_a_statement_says_what_differs(table: Table, our_node: str, tmp_path: Path) -> None:
    table.rewrite(changed(3, value=b"X"))
    statement = stated(tmp_path / "statement", table.lake, "-b", our_node)
    assert not statement["equal"]
    [finding] = statement["findings"]
    assert (finding["kind"], finding["offsets"], finding["rows"]) == (
        "different",
        [[3, 3]],
        [[3, 3]],
    )
    assert finding["files"][0].startswith(f"{table.topic}/")
    digests = [each["sha256"] for each in statement["tables"][0]["partitions"]]
    assert [each["lake"] == each["log"] for each in digests] == [False, True]


def test_a_sample_is_repeated_by_its_seed(
    table: Table,
    our_node: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """It says how much may be wrong; who draws the damaged range, finds the damage."""
    table.rewrite(changed(3, value=b"X"))
    outputs: dict[int, set[str]] = {0: set(), 3: set()}
    for seed in (*range(12), *range(12)):
        code = run([table.lake, "-b", our_node, "--sample", "1", "--seed", str(seed)])
        output = capsys.readouterr().out
        outputs[code].add(output)
        assert f"sample: 1 of 4 ranges, chosen by 1 offsets at random (--seed {seed})" in output
    assert len(outputs[0]) + len(outputs[3]) == 12
    assert all("at offset 3 (in value)" in output for output in outputs[3])
    assert all("equal: 50 records compared; with 95% confidence" in o for o in outputs[0])
    assert outputs[0]
    assert outputs[3]


def test_ranges_are_drawn_by_their_offsets() -> None:
    """The bound is about offsets: a range with half of them is drawn half of the time."""
    ranges = [
        Range("t", 0, 0, 100, (), 0),
        *(Range("t", 0, n, n + 1, (), 0) for n in range(100, 200)),
    ]
    hits = sum(ranges[0] in drawn(ranges, Sample(1, seed)) for seed in range(400))
    assert 150 < hits < 250
    assert Sampled(Sample(3000, 0), 1, 2).bound == pytest.approx(0.000998, abs=1e-6)
    assert drawn([], Sample(5, 0)) == []


def test_each_block_of_offsets_is_in_one_range() -> None:
    old = [
        Range("t", 0, a, b, (f"{a}",), b - a) for a, b in ((3, 20), (20, 22), (22, 70), (70, 71))
    ]
    moved = aligned([*old, old[0]._replace(partition=1)], 16)
    assert [(each.start, each.end) for each in moved] == [(3, 32), (32, 71), (3, 20)]
    assert [each.files for each in moved[:2]] == [("3", "20", "22"), ("22", "70")]


def test_rounds_compare_what_is_new_or_changed(
    table: Table, our_node: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    compared: list[list[Range]] = []
    known = Known()

    def one_round() -> bool:
        verification = verify._Verification(
            Pipeline("verify", verify._command_line().parse_args([table.lake, "-b", our_node]))
        )
        verification._open_tables()

        def compare_ranges(due: Sequence[Range]) -> list[RangeResult]:
            compared.append([*due])
            return verification._compare_ranges(due)

        report = check(table.lake, verification._tables, compare_ranges, known=known)
        assert report.records == 2 * COUNT
        return not report.findings

    assert one_round()
    assert len(compared.pop()) == 4
    assert one_round()
    assert compared.pop() == []
    table.rewrite(lambda rows: rows)
    assert one_round()
    assert [(each.partition, each.start, each.end) for each in compared.pop()] == [(0, 0, BATCH)]
    table.rewrite(changed(3, value=b"X"), file=1)
    assert not one_round()
    assert [(each.partition, each.start) for each in compared.pop()] == [(0, BATCH)]


def test_rounds_end_at_a_finding_and_write_metrics(
    table: Table, our_node: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    metrics = tmp_path / "metrics.prom"
    codes: list[int] = []
    words = [table.lake, "-b", our_node, "--continuous", "--every", "1", "--metrics", str(metrics)]
    rounds = Thread(target=lambda: codes.append(run(words)))
    rounds.start()
    deadline = Deadline(LIMIT_S)
    while not metrics.exists() and not deadline.is_over:
        deadline.pause(0.02)
    assert f'kraftlog_verify_equal{{topic="{table.topic}"}} 1' in metrics.read_text()
    table.rewrite(changed(3, value=b"X"))
    rounds.join(LIMIT_S)
    assert codes == [3]
    lines = metrics.read_text().splitlines()
    assert f'kraftlog_verify_equal{{topic="{table.topic}"}} 0' in lines
    assert f'kraftlog_verify_findings{{topic="{table.topic}",kind="different"}} 1' in lines
    assert f'kraftlog_verify_findings{{topic="{table.topic}",kind="missing"}} 0' in lines
    assert f'kraftlog_verify_records{{topic="{table.topic}",partition="0"}} {COUNT}' in lines
    assert "equal: 200 records compared" in capsys.readouterr().out


def test_options_that_do_not_go_together_are_refused(
    table: Table, capsys: pytest.CaptureFixture[str]
) -> None:
    for words in (["--seed", "1"], ["--continuous", "--statement", "x"], ["--sample", "0"]):
        assert run_words([table.lake, *words]) == 2
        capsys.readouterr()


def run_words(words: list[str]) -> object:
    """The exit code, which argparse raises."""
    with suppress(SystemExit):
        return run(words)
    return 2


#: Damage to records that the log no longer has, and the output.
EXPIRED: dict[str, tuple[Callable[[Table], object], str]] = {
    "none": (Table.versions, "60 only in the lake (retention)"),
    "removed": (
        lambda t: t.rewrite(without(5), described="all"),
        "wrote 200 rows, and there are 199",
    ),
    "twice": (lambda t: t.rewrite(added(5), described="all"), "0: 1 record duplicate at offset 5"),
    "negative": (
        lambda t: t.rewrite(added(5, offset=-1)),
        "0: 1 record not in the log at offset -1",
    ),
    "cut": (lambda t: truncate(t.files[0], 0.5), "unreadable"),
}


def test_expired_records_are_counted(
    our_node: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    topic = f"{TOPIC}-expired"
    make_lake(our_node, tmp_path / "lake", topic)
    with Client(our_node, timeout_s=LIMIT_S) as client:
        client.delete_records({(topic, 0): 60})
    for name, (damage, said) in EXPIRED.items():
        table = Table(tmp_path / "lake", tmp_path / name, topic)
        damage(table)
        code = run([table.lake, "-b", our_node])
        output = capsys.readouterr()
        assert said in output.out, name
        assert (code, output.err) == (0 if name == "none" else 3, "")


def test_tasks_of_spark_compare_ranges(
    spark: SparkSession,
    table: Table,
    our_node: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The statement is that of a comparison in this process."""
    here = stated(tmp_path / "here", table.lake, "-b", our_node)
    monkeypatch.setattr(plan, "TASK_RECORDS", 60)
    there = stated(tmp_path / "there", table.lake, "-b", our_node)
    assert without_clock(there) == without_clock(here)
