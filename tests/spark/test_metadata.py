"""`kraftlog pipeline metadata`: earlier states, from a running cluster or a copy of its log."""

from __future__ import annotations

import json
import random
import re
import shutil
from base64 import b64decode, b64encode
from typing import TYPE_CHECKING

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from kraftlog import Client
from kraftlog.client.deadline import Deadline
from kraftlog.client.metadata_folder import MetadataFolder
from kraftlog.client.metadata_quorum import MetadataQuorum
from kraftlog.metadata.history import Moment
from kraftlog.records.reader import read_records
from kraftlog.records.walk import walk
from kraftlog.spark.pipelines.metadata import run
from tests.metadata.test_against_kafka import frames_of, normalized
from tests.server.node_process import NodeProcess
from tests.time_limit import LIMIT_S

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from typing import Any

    from tests.interop.driver import Driver

SEED = 17
CONTROL_BATCH = 0x20
#: The types of the records around a metadata transaction.
BEGIN_TRANSACTION, END_TRANSACTION = b"\x17", b"\x18"


def json_output(capsys: pytest.CaptureFixture[str], *arguments: object) -> dict[str, Any]:
    assert run([*map(str, arguments), "--json"]) == 0
    [line] = capsys.readouterr().out.splitlines()
    output: dict[str, Any] = json.loads(line)
    return output


def test_a_live_cluster_is_shown_as_it_was(
    client: Client, address: str, named: Callable[[str], str], capsys: pytest.CaptureFixture[str]
) -> None:
    """The newest state is what the brokers report; the earlier one lacks the new topic."""
    topic = named("t")
    before = json_output(capsys, "-b", address)["as_of"]["offset"]
    client.create_topic(topic, partitions=3, configs={"retention.ms": "4000"})

    now = json_output(capsys, "-b", address)["tables"]
    assert [
        (row["partition"], row["leader"], row["isr"], row["leader_epoch"])
        for row in now["partitions"]
        if row["topic"] == topic
    ] == [
        (part.index, part.leader, list(part.isr), part.leader_epoch)
        for part in client.describe_topic(topic).partitions
    ]
    assert [row["topic"] for row in now["topics"]] == sorted(each.name for each in client.topics())
    assert [row["broker"] for row in now["brokers"] if row["state"] == "active"] == [1]
    assert {"type": "topic", "name": topic, "key": "retention.ms", "value": "4000"} in now[
        "configs"
    ]
    assert [row["voter"] for row in now["voters"]] == [1]
    earlier = json_output(capsys, "-b", address, "--as-of", before, "--table", "topics")["tables"]
    assert topic not in [row["topic"] for row in earlier["topics"]]
    changes = json_output(capsys, "-b", address, "--diff", before, "latest", "--table", "topics")
    added = [each for each in changes["changes"] if each["key"] == {"topic": topic}]
    assert [each["what"] for each in added] == ["added"]
    assert added[0]["fields"]["partitions"] == [None, 3]


def test_kafkas_own_image_is_the_same_at_any_offset(
    kafka: str, kafka_folder: str, jvm: Driver, named: Callable[[str], str], tmp_path: Path
) -> None:
    """At random offsets; read from the running broker and from a copy of its directory."""
    rng = random.Random(SEED)
    with Client(kafka, timeout_s=LIMIT_S) as client:
        change_at_random(client, rng, named)
        live = MetadataQuorum(client.cluster)
        shutil.copytree(f"{kafka_folder}/data/__cluster_metadata-0", tmp_path / "copy")
        copied = MetadataFolder(str(tmp_path / "copy"))
        written = [
            (record.offset, record.value or b"")
            for data in live.read(0)
            for position, fields in walk(data)
            if not fields[5] & CONTROL_BATCH
            for record in read_records(data, position)
        ]
        last = written[-1][0]
        offsets = [*rng.sample(range(written[0][0], last), 12), last]
        states = [[log.state_at(Moment(offset=o)) for log in (live, copied)] for o in offsets]
        live.close()
    records_by_offset = [committed_records(written, offset) for offset in offsets]
    # Kafka writes no image before the first transaction is committed, which sets metadata.version.
    images = [records for records in records_by_offset if records]
    oracle_output = jvm.tool("ImageOracle", stdin=json.dumps(images).encode()).ok().stdout
    kafka_images = iter(json.loads(oracle_output))
    for offset, both_states, records in zip(offsets, states, records_by_offset, strict=True):
        kafka_image = next(kafka_images) if records else []
        expected = sorted(normalized(b64decode(record)) for record in kafka_image)
        for state in both_states:
            ours = sorted(map(normalized, frames_of(state.image.records())))
            assert ours == expected, f"at offset {offset} of {last}; seed {SEED}"


def committed_records(written: list[tuple[int, bytes]], offset: int) -> list[str]:
    """The records up to an offset, in Base64, without those of an open transaction."""
    encoded: list[str] = []
    committed_count = 0
    is_in_transaction = False
    for _, value in [record for record in written if record[0] <= offset]:
        if value[1:2] in {BEGIN_TRANSACTION, END_TRANSACTION}:
            is_in_transaction = value[1:2] == BEGIN_TRANSACTION
        else:
            encoded.append(b64encode(value).decode())
        committed_count = committed_count if is_in_transaction else len(encoded)
    return encoded[:committed_count]


def change_at_random(client: Client, rng: random.Random, named: Callable[[str], str]) -> None:
    """Change topics, their partitions and configs, and a broker's config."""
    topics: dict[str, int] = {}
    for number in range(20):
        change = rng.choice(["topic", "partitions", "config", "broker", "deletion"])
        topic = rng.choice([*topics, ""])
        if change == "broker":
            client.alter_configs("brokers", "", {"log.cleaner.backoff.ms": 15_000 + number})
        elif change == "topic" or not topic:
            topics[named(f"t{number}")] = rng.randint(1, 3)
            client.create_topic(named(f"t{number}"), partitions=topics[named(f"t{number}")])
        elif change == "partitions":
            topics[topic] += rng.randint(1, 2)
            client.create_partitions(topic, topics[topic])
        elif change == "config":
            value = rng.choice([None, str(5000 + number)])
            client.alter_configs("topics", topic, {"retention.ms": value})
        else:
            client.delete_topic(topic)
            del topics[topic]
    client.alter_configs("brokers", "", {"log.cleaner.backoff.ms": None})


def test_quotas_and_scram_credentials_are_those_of_kafkas_tools(
    kafka: str, jvm: Driver, named: Callable[[str], str], capsys: pytest.CaptureFixture[str]
) -> None:
    user = named("u")

    def configs(*arguments: str) -> str:
        words = ["--bootstrap-server", kafka, "--entity-type", "users", *arguments]
        return jvm.tool("org.apache.kafka.tools.ConfigCommand", *words).ok().stdout

    credential = "SCRAM-SHA-256=[iterations=8192,password=secret]"
    configs("--entity-name", user, "--alter", "--add-config", credential)
    configs("--entity-name", user, "--alter", "--add-config", "request_percentage=12.5")
    configs("--entity-default", "--alter", "--add-config", "consumer_byte_rate=7")
    try:
        described = configs("--describe")
        tables = json_output(capsys, "-b", kafka, "--table", "quotas", "--table", "scram")["tables"]
    finally:
        configs("--entity-default", "--alter", "--delete-config", "consumer_byte_rate")
    quotas = {row["entity"]: f"{row['key']}={row['value']}" for row in tables["quotas"]}
    assert f"Quota configs for user-principal '{user}' are {quotas[f'user {user}']}" in described
    assert f"the default user-principal are {quotas['user <default>']}" in described
    [scram] = [row for row in tables["scram"] if row["user"] == user]
    text = f"{scram['mechanism']}=iterations={scram['iterations']}"
    assert f"SCRAM credential configs for user-principal '{user}' are {text}" in described


@pytest.fixture
def copy(
    our_node: str, named: Callable[[str], str], tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """A copy of our node's metadata log, with a topic."""
    with Client(our_node, timeout_s=LIMIT_S) as client:
        client.create_topic(named("t"), partitions=1)
        [folder] = client.log_dirs()[1]
    data = tmp_path_factory.mktemp("copy") / "data"
    shutil.copytree(f"{folder.log_dir}/__cluster_metadata-0", data / "__cluster_metadata-0")
    return data


def test_each_run_writes_a_new_version_of_the_delta_tables(
    copy: Path, tmp_path: Path, named: Callable[[str], str], capsys: pytest.CaptureFixture[str]
) -> None:
    """Each version of a Delta table names its metadata offset; no Spark session is used."""
    session = SparkSession.getActiveSession()
    lake = tmp_path / "lake"
    for as_of in (1, "latest"):
        json_output(capsys, "--data", copy, "--as-of", as_of, "--to", lake)
    topics = DeltaTable(str(lake / "topics"))
    assert named("t") in topics.to_pyarrow_table().column("topic").to_pylist()
    states = [commit["kraftlog"] for commit in reversed(topics.history())]
    assert states[0]["offset"] == 1
    assert states[1]["offset"] > 1
    topics.load_as_version(0)
    assert topics.to_pyarrow_table().num_rows == 0
    partitions = DeltaTable(str(lake / "partitions")).to_pyarrow_table().to_pylist()
    assert [row["isr"] for row in partitions if row["topic"] == named("t")] == [[1]]
    assert SparkSession.getActiveSession() is session


def test_the_text_of_a_diff_lists_the_changes(
    copy: Path, named: Callable[[str], str], capsys: pytest.CaptureFixture[str]
) -> None:
    """A copy that ends in half a batch is read up to its last whole one."""
    segment = copy / "__cluster_metadata-0" / f"{0:020d}.log"
    with segment.open("ab") as file:
        file.write(segment.read_bytes()[:70])
    arguments = ["--data", str(copy), "--diff", "1", "latest", "--table", "partitions"]
    assert run(arguments) == 3
    lines = capsys.readouterr().out.splitlines()
    assert re.match(r"from offset 1, epoch \d+, ", lines[0])
    [line] = [line for line in lines if named("t") in line]
    assert line.startswith(f"  + {named('t')} 0: leader 1, leader_epoch 0, ")


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["--as-of", "yesterday"], 2, "expected an offset, latest or a time such as"),
        (["--as-of", "3", "--diff", "1", "2"], 2, "--diff cannot be combined with --as-of or --to"),
        (["--as-of", "99999"], 1, "offset 99999 is not in the metadata log; its last one is"),
        (["-b", "a:1"], 2, "--data and --bootstrap-server: give only one of them"),
        (["-C", "a:1"], 2, "--data and --bootstrap-controller: give only one of them"),
        (["-c", "f"], 2, "--data and --command-config: give only one of them"),
        (["--to", "/proc/nope", "--dry-run"], 1, "--to /proc/nope: nothing can be written to"),
    ],
)
def test_invalid_arguments_of_metadata_are_refused(
    copy: Path,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    code: int,
    words: str,
) -> None:
    assert run(["--data", str(copy), *arguments]) == code
    assert words in capsys.readouterr().err


def test_brokers_that_were_never_reached_are_not_retried(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in the other pipelines, since the address may be wrong."""
    pauses: list[float] = []
    monkeypatch.setattr(Deadline, "pause", lambda _, seconds: pauses.append(seconds))
    assert run(["-b", "127.0.0.1:1"]) == 1
    errors = capsys.readouterr().err
    assert "no broker responds: 127.0.0.1:1: " in errors
    assert errors.endswith("; check --bootstrap-server, and that the brokers run\n")
    assert pauses == []


def test_a_dry_run_writes_nothing_and_says_so(
    copy: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lake = tmp_path / "lake"
    arguments = ["--data", str(copy), "--to", str(lake), "--table", "topics"]
    assert run([*arguments, "--dry-run"]) == 0
    assert f"{lake}: would be written: " in capsys.readouterr().out
    assert not lake.exists()
    assert run(arguments) == 0
    assert "would be written" not in capsys.readouterr().out
    assert (lake / "topics").exists()


def test_internal_topics_are_printed_only_with_internal(
    our_node: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """A group creates __consumer_offsets; --json prints all rows."""
    topic = "__consumer_offsets"
    with Client(our_node, timeout_s=LIMIT_S) as client:
        client.committed("g")
    tables = ["-b", our_node, "--table", "topics", "--table", "partitions"]
    assert run(tables) == 0
    text = capsys.readouterr().out
    assert topic not in text
    assert " rows of internal topics left out; --internal prints them" in text
    assert run([*tables, "--internal"]) == 0
    text = capsys.readouterr().out
    assert (topic in text, "left out" in text) == (True, False)
    assert topic in [row["topic"] for row in json_output(capsys, *tables)["tables"]["topics"]]
    for words, is_shown in (((), False), (("--internal",), True)):
        assert run(["-b", our_node, "--diff", "0", "latest", "--table", "topics", *words]) == 0
        assert (topic in capsys.readouterr().out) == is_shown


def test_a_directory_without_metadata_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["--data", str(tmp_path)]) == 1
    assert "has no metadata log" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        ("empty", "holds no record of the metadata log"),
        ("missing", "holds no record of the metadata log"),
        (
            "first byte",
            "at position 0: base offset 72057594037927936, expected 0; the log holds no",
        ),
        ("sign bit", "at position 0: "),
        ("cut in the first batch", "a batch truncated after 70 bytes; the log holds no record"),
        ("zeros", "holds no record of the metadata log"),
        ("record", "the batch at offset 0: checksum 0x"),
        ("cut", "a batch truncated after 5 bytes; the log holds up to offset {last}"),
        ("last byte", "checksum 0x"),
        ("garbage", "; the log holds up to offset {last}"),
        ("hole", "expected {middle}; the log holds up to offset {before}"),
    ],
)
def test_a_damaged_log_is_reported(
    copy: Path, capsys: pytest.CaptureFixture[str], damage: str, reason: str
) -> None:
    """The error says up to which offset the log holds, and the states until then are shown."""
    segment = copy / "__cluster_metadata-0" / f"{0:020d}.log"
    data = bytearray(segment.read_bytes())
    starts = [(start, fields[0]) for start, fields in walk(data)]
    (middle_start, middle), (after_middle, _) = starts[len(starts) // 2 :][:2]
    last = next(reversed([*read_records(data, starts[-1][0])])).offset
    last_valid = last
    if damage == "missing":
        (segment.parent / f"{0:020d}-{0:010d}.checkpoint").write_bytes(b"")
        segment.unlink()
    elif damage == "empty":
        segment.write_bytes(b"")
    elif damage == "zeros":
        segment.write_bytes(bytes(len(data)))
    elif damage == "cut in the first batch":
        segment.write_bytes(data[:70])
    elif damage == "cut":
        segment.write_bytes(data[: starts[-1][0] + 5])
        last_valid = starts[-1][1] - 1
    elif damage == "garbage":
        segment.write_bytes(data + b"garbage" * 20)
    elif damage == "hole":
        segment.write_bytes(data[:middle_start] + data[after_middle:])
        last_valid = middle - 1
    else:
        position, bit = {
            "first byte": (0, 1),
            "sign bit": (0, 0x80),
            "record": (90, 1),
            "last byte": (-1, 1),
        }[damage]
        data[position] ^= bit
        segment.write_bytes(data)
        last_valid = starts[-1][1] - 1
    is_at_the_end = damage in {"cut", "garbage", "hole"}
    assert run(["--data", str(copy)]) == (3 if is_at_the_end else 1)
    output = capsys.readouterr()
    assert output.out.startswith(f"as of offset {last_valid}, " if is_at_the_end else "")
    numbers = {"last": last_valid, "middle": middle, "before": middle - 1}
    assert reason.format(**numbers) in output.err
    if is_at_the_end or damage == "last byte":
        assert f"the log holds up to offset {last_valid}" in output.err
        data_of_last = json_output(capsys, "--data", copy, "--as-of", last_valid)
        assert data_of_last["as_of"]["offset"] == last_valid
    else:
        assert output.out == ""


def test_preallocated_space_is_no_damage(copy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Brokers of Kafka may have it after the last batch, up to the size of a segment."""
    before = json_output(capsys, "--data", copy)
    with open(copy / "__cluster_metadata-0" / f"{0:020d}.log", "ab") as segment:
        segment.write(bytes(100_000))
    assert json_output(capsys, "--data", copy) == before


def test_a_log_that_begins_with_a_snapshot_is_shown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Offsets before the snapshot are refused; later ones are shown, from the node and a copy."""
    settings = ("--override", "metadata.log.max.record.bytes.between.snapshots=1")
    arguments = (str(tmp_path / "data"), *settings)
    node = NodeProcess(*arguments, errors=str(tmp_path / "errors.txt"), topics={"a": 1})
    try:
        deadline = Deadline(LIMIT_S)
        while not (snapshot_end := _newest_snapshot(tmp_path)):
            assert not deadline.is_over
            deadline.pause(0.02)
        assert node.stop() == 0
        node = NodeProcess(*arguments, errors=str(tmp_path / "errors.txt"), topics={"b": 1})
        for place in (("-b", node.address), ("--data", str(tmp_path / "data"))):
            topics = json_output(capsys, *place, "--table", "topics")["tables"]["topics"]
            assert [row["topic"] for row in topics] == ["a", "b"]
        assert run(["-b", node.address, "--as-of", "0"]) == 1
        assert "earlier states of the cluster cannot be read" in capsys.readouterr().err
    finally:
        node.kill_if_running()
    newest = _newest_snapshot(tmp_path)
    assert newest >= snapshot_end > 0
    for segment in (tmp_path / "data" / "__cluster_metadata-0").glob("*.log"):
        segment.unlink()
    assert run(["--data", str(tmp_path / "data")]) == 3
    missing = f"lacks the segment after its snapshot; the log holds up to offset {newest - 1}"
    assert missing in capsys.readouterr().err
    assert json_output(capsys, "--data", tmp_path / "data", "--as-of", newest - 1)


def _newest_snapshot(folder: Path) -> int:
    """The end offset of the newest snapshot of a node's metadata log."""
    names = (folder / "data" / "__cluster_metadata-0").glob("*.checkpoint")
    return max(int(path.name.partition("-")[0]) for path in names)
