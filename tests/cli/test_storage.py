"""`kraftlog format` and `kraftlog storage`: files, output and refusals."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

import pytest

from kraftlog.cli import main
from kraftlog.cli.config_file import load_config
from kraftlog.errors import ConfigError
from kraftlog.records.control import decode_control_key
from kraftlog.records.header import CONTROL_BIT, BatchHeader
from kraftlog.records.reader import read_records
from kraftlog.records.walk import walk
from kraftlog.server.files import OsFiles
from kraftlog.storage.machine_restarts import BOOT_ID
from kraftlog.storage.meta_properties import load
from kraftlog.types import uuid_from_text
from kraftlog.wire.messages import control_records as control
from kraftlog.wire.messages.metadata_records import FeatureLevelRecord
from kraftlog.wire.record_frames import decode_control, decode_metadata

if TYPE_CHECKING:
    from pathlib import Path

    from kraftlog.wire.schema import Message

PROPERTIES = """\
process.roles=broker,controller
node.id=3
controller.listener.names=CONTROLLER
listeners=PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093
controller.quorum.bootstrap.servers=127.0.0.1:9093
log.dirs={folder}/data
"""
SNAPSHOT = "__cluster_metadata-0/00000000000000000000-0000000000.checkpoint"
FIRST, SECOND = "JEXY6aqzQY-32P5TStzaFg", "MvDxzVmcRsaTz33bUuRU6A"
VOTERS = f"4@h2:9094:{SECOND},3@h:9093:{FIRST}"
STATIC = "controller.quorum.bootstrap.servers= ; controller.quorum.voters=3@127.0.0.1:9093"


def properties(folder: Path, changes: str = "") -> str:
    """Write a properties file with changes such as `key=value ; key=value`; return its path."""
    path = folder / "server.properties"
    path.write_text(PROPERTIES.format(folder=folder) + changes.replace(" ; ", "\n"))
    return str(path)


def messages(path: str) -> list[Message]:
    """Every record of a checkpoint."""
    with open(path, "rb") as file:
        data = file.read()
    all_messages = []
    for position, fields in walk(data):
        for record in read_records(data, position):
            assert record.value is not None
            if BatchHeader(*fields).attributes & CONTROL_BIT:
                assert decode_control_key(record.key) >= 3
                assert record.key is not None
                all_messages.append(decode_control(record.key, record.value)[1])
            else:
                all_messages.append(decode_metadata(record.value)[0])
    return all_messages


def storage_command(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str]:
    code = main(["storage", *words])
    shown = capsys.readouterr()
    return code, shown.out + shown.err


def files_in(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def test_standalone_formats_the_only_voter(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = properties(tmp_path)
    assert main(["format", "-c", path, "-t", "abc", "--standalone"]) == 0
    data = tmp_path / "data"
    assert capsys.readouterr().out == (
        f"Formatting dynamic metadata voter directory {data} with metadata.version 4.4-IV2.\n"
    )
    assert files_in(data) == [SNAPSHOT, BOOT_ID, "meta.properties"]
    meta = load(OsFiles(), str(data))
    assert (meta.cluster_id, meta.node_id) == ("abc", 3)
    header, version, voters, *_, footer = messages(str(data / SNAPSHOT))
    assert isinstance(header, control.SnapshotHeaderRecord)
    assert version == control.KRaftVersionRecord(version=0, k_raft_version=1)
    assert isinstance(voters, control.VotersRecord)
    [voter] = voters.voters
    assert (voter.voter_id, voter.voter_directory_id) == (3, meta.directory_id)
    [end] = voter.endpoints
    assert (end.name, end.host, end.port) == ("CONTROLLER", "127.0.0.1", 9093)
    assert isinstance(footer, control.SnapshotFooterRecord)


def features(folder: Path) -> dict[str, int]:
    records = messages(str(folder / "data" / SNAPSHOT))
    return {it.name: it.feature_level for it in records if isinstance(it, FeatureLevelRecord)}


def test_feature_flags_change_the_levels(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = properties(tmp_path)
    assert storage_command(capsys, "format", "-c", path, "-s", "-f", "group.version=0")[0] == 0
    assert list(features(tmp_path).items()) == [
        ("metadata.version", 33),
        ("eligible.leader.replicas.version", 1),
        ("transaction.version", 2),
    ]


@pytest.mark.parametrize(
    ("flags", "description", "has_voters", "directory_id"),
    [
        (["-I", VOTERS], "dynamic metadata voter directory", True, FIRST),
        (["-I", f"4@h2:9094:{SECOND}"], "dynamic metadata directory", True, None),
        (["-N"], "metadata directory", False, None),
    ],
)
def test_options_choose_the_initial_voters(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    flags: list[str],
    description: str,
    has_voters: bool,
    directory_id: str | None,
) -> None:
    code, shown = storage_command(capsys, "format", "-c", properties(tmp_path), "-t", "abc", *flags)
    assert code == 0, shown
    assert shown.startswith(f"Formatting {description} ")
    data = tmp_path / "data"
    kinds = [type(message) for message in messages(str(data / SNAPSHOT))]
    assert (control.VotersRecord in kinds) == has_voters
    assert control.KRaftVersionRecord in kinds
    if directory_id is not None:
        assert load(OsFiles(), str(data)).directory_id == uuid_from_text(directory_id)
        voters = messages(str(data / SNAPSHOT))[2]
        assert isinstance(voters, control.VotersRecord)
        assert [voter.voter_id for voter in voters.voters] == [3, 4]


@pytest.mark.parametrize("flags", [[], ["-N"]])
def test_static_voters_are_not_in_the_snapshot(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], flags: list[str]
) -> None:
    code, _ = storage_command(
        capsys, "format", "-c", properties(tmp_path, STATIC), "-t", "abc", *flags
    )
    assert code == 0
    assert files_in(tmp_path / "data") == [SNAPSHOT, BOOT_ID, "meta.properties"]
    kinds = {type(message) for message in messages(str(tmp_path / "data" / SNAPSHOT))}
    assert kinds == {
        control.SnapshotHeaderRecord,
        FeatureLevelRecord,
        control.SnapshotFooterRecord,
    }


def test_a_broker_needs_no_voters(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = properties(tmp_path, "process.roles=broker ; listeners=PLAINTEXT://127.0.0.1:9092")
    assert storage_command(capsys, "format", "-c", path)[0] == 0


def test_several_directories_have_their_own_ids(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A second run formats only the directories that are not formatted yet."""
    path = properties(tmp_path, f"metadata.log.dir={tmp_path}/deep/meta")
    assert storage_command(capsys, "format", "-c", path, "-s")[0] == 0
    first, second = (load(OsFiles(), f"{tmp_path}/{name}") for name in ("data", "deep/meta"))
    assert first.cluster_id == second.cluster_id
    assert first.directory_id != second.directory_id
    assert files_in(tmp_path / "data") == [BOOT_ID, "meta.properties"]
    assert (tmp_path / "deep" / "meta" / SNAPSHOT).exists()
    for name in files_in(tmp_path / "data"):
        os.remove(tmp_path / "data" / name)
    code, shown = storage_command(capsys, "format", "-c", path, "-s", "-g")
    assert (code, shown) == (
        0,
        f"Formatting data directory {tmp_path}/data with metadata.version 4.4-IV2.\n",
    )
    assert load(OsFiles(), f"{tmp_path}/data").cluster_id == first.cluster_id
    assert load(OsFiles(), f"{tmp_path}/deep/meta") == second
    code, shown = storage_command(capsys, "format", "-c", path, "-s", "-g")
    assert (code, shown) == (0, "All of the log directories are already formatted.\n")
    assert "is already formatted" in storage_command(capsys, "format", "-c", path, "-s")[1]
    code, shown = storage_command(capsys, "format", "-c", path, "-s", "-g", "-t", "other")
    assert code == 1
    assert f"meta.properties says cluster.id={first.cluster_id} and node.id=3" in shown


@pytest.mark.parametrize(
    ("changes", "flags", "why"),
    [
        ("", [], "give --standalone, --initial-controllers or --no-initial-controllers"),
        (STATIC, ["-s"], "controller.quorum.voters names voters that never change"),
        (STATIC, ["-I", VOTERS], "controller.quorum.voters names voters that never change"),
        (STATIC, ["-f", "kraft.version=1"], "--feature kraft.version=1: expected 1 for a quorum"),
        ("", ["-s", "-f", "kraft.version=0"], "--feature kraft.version=0: expected 1 for a quorum"),
        ("process.roles=broker ; listeners=PLAINTEXT://:9092", ["-s"],
         "--standalone: expected controller among process.roles"),
        ("", ["-I", "junk"], "--initial-controllers junk: expected id@host:port:directory-id"),
        ("", ["-I", f"{VOTERS},3@x:1:{FIRST}"], "controller 3 appears twice"),
        ("", ["-s", "-f", "x"], "--feature x: expected feature=level"),
        ("", ["-s", "-f", "nope=1"], "--feature nope=1: expected one of metadata.version, kraft"),
        ("", ["-s", "-f", "group.version=9"], "expected a level from 0 to 1"),
        ("", ["-s", "-f", "share.version=1"], "share.version=1: this version supports only 0"),
        ("", ["-s", "-r", "4.0"], "metadata.version=25: this version supports only 30 to 33"),
        ("", ["-s", "-r", "9.9"], "unknown release 9.9; expected one of 3.3-IV3"),
        ("", ["-s", "-r", "4.3", "-f", "metadata.version=30"], "give --release-version or"),
        ("", ["-s", "-S", "SCRAM-SHA-1=[name=a,password=b]"], "--add-scram: expected one of"),
        ("", ["-s", "-S", "SCRAM-SHA-256=[password=b]"], "SCRAM-SHA-256: expected name=USER"),
        ("", ["-s", "-S", "SCRAM-SHA-256=[name=a]"], "expected password=… or saltedpassword=…"),
        ("", ["-s", "-S", "SCRAM-SHA-256=[name=a,password=b,iterations=9]"], "expected 4096 to"),
        ("", ["-s", "-S", "SCRAM-SHA-256=[name=a,saltedpassword=YQ==]"], "needs salt"),
        ("", ["-s", "-t", "a b"], "--cluster-id a b: expected only letters, digits"),
        ("node.id=x", ["-s"], "node.id=x: expected a whole number"),
    ],
)  # fmt: skip
def test_invalid_options_of_format_are_refused(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    changes: str,
    flags: list[str],
    why: str,
) -> None:
    """One error line, and nothing is written."""
    code, shown = storage_command(capsys, "format", "-c", properties(tmp_path, changes), *flags)
    assert code == (1 if changes == "node.id=x" else 2)
    assert shown.startswith("kraftlog storage format: ")
    assert why in shown
    assert shown.count("\n") == 1
    assert files_in(tmp_path) == ["server.properties"]


def test_info_describes_directories(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = properties(tmp_path, f"metadata.log.dir={tmp_path}/meta")
    data, meta = tmp_path / "data", tmp_path / "meta"
    problems = f"Found problems:\n  {data} does not exist\n  {meta} does not exist\n\n"
    assert storage_command(capsys, "info", "-c", path) == (1, problems)
    data.mkdir()
    meta.write_text("")
    assert storage_command(capsys, "info", "-c", path) == (
        1,
        (
            f"Found log directory:\n  {data}\n\n"
            f"Found problems:\n  {data} is not formatted.\n  {meta} is not a directory\n\n"
        ),
    )
    meta.unlink()
    assert storage_command(capsys, "format", "-c", path, "-t", "abc", "-I", VOTERS)[0] == 0
    code, shown = storage_command(capsys, "info", "-c", path)
    assert code == 0
    assert shown.startswith(f"Found log directories:\n  {data}\n  {meta}\n\nFound metadata: {{")
    (data / "meta.properties").write_bytes((meta / "meta.properties").read_bytes())
    metadata = f"cluster.id=abc, directory.id={FIRST}, node.id=3, version=1"
    assert f"Found metadata: {{{metadata}}}\n\n" in storage_command(capsys, "info", "-c", path)[1]
    text = (data / "meta.properties").read_text()
    (data / "meta.properties").write_text(text.replace("node.id=3", "node.id=4"))
    assert "Mismatched node IDs" in storage_command(capsys, "info", "-c", path)[1]
    (data / "meta.properties").write_text(text.replace("abc", "abd"))
    assert "Mismatched cluster IDs" in storage_command(capsys, "info", "-c", path)[1]


def test_version_mapping_prints_the_levels_of_a_release(capsys: pytest.CaptureFixture[str]) -> None:
    assert storage_command(capsys, "version-mapping", "-r", "4.0") == (
        0,
        (
            "metadata.version=25 (4.0)\nkraft.version=1\ntransaction.version=2\ngroup.version=1\n"
            "eligible.leader.replicas.version=0\nshare.version=0\nstreams.version=0\n"
        ),
    )
    assert storage_command(capsys, "version-mapping")[1].startswith(
        "metadata.version=33 (4.4-IV2)\n"
    )
    assert storage_command(capsys, "version-mapping", "-r", "4.9")[0] == 2
    flags = ["-f", "metadata.version=25", "-f", "eligible.leader.replicas.version=1"]
    assert storage_command(capsys, "feature-dependencies", *flags) == (
        0,
        (
            "metadata.version=25 (4.0-IV3) has no dependencies.\n"
            "eligible.leader.replicas.version=1 requires:\n    metadata.version=23 (4.0-IV1)\n"
        ),
    )


def test_random_uuid_prints_a_uuid(capsys: pytest.CaptureFixture[str]) -> None:
    code, shown = storage_command(capsys, "random-uuid")
    assert code == 0
    assert len(uuid_from_text(shown.strip())) == 16


def test_a_file_that_is_not_text_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "server.properties"
    path.write_bytes(b"\xff")
    with pytest.raises(ConfigError, match="is not UTF-8 text"):
        load_config(str(path), {})
    code, shown = storage_command(capsys, "info", "-c", f"{path}.missing")
    assert (code, "No such file or directory" in shown) == (1, True)


def test_overrides_are_read_and_checked(tmp_path: Path) -> None:
    path = properties(tmp_path)
    config, warnings = load_config(path, {"node.id": "8", "num.network.threads": "2"})
    assert config.node_id == 8
    assert warnings[-1].endswith("num.network.threads")
    with pytest.raises(ConfigError, match=r"server\.properties: node\.id=x: expected"):
        load_config(path, {"node.id": "x"})


def test_commands_print_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = properties(tmp_path)

    def json_of(*words: str, code: int = 0) -> Any:
        assert main(["storage", *words, "--json"]) == code
        return json.loads(capsys.readouterr().out)

    data = f"{tmp_path}/data"
    assert json_of("info", "-c", file, code=1) == {
        "directories": [],
        "metadata": [],
        "problems": [f"{data} does not exist"],
    }
    formatted = json_of("format", "-c", file, "--standalone")
    assert formatted["formatted"] == [data]
    assert json_of("format", "-c", file, "--standalone", "-g")["formatted"] == []
    info = json_of("info", "-c", file)
    assert (info["directories"], info["problems"]) == ([data], [])
    [meta] = info["metadata"]
    assert (meta["cluster_id"], meta["node_id"]) == (formatted["cluster_id"], 3)
    assert len(json_of("random-uuid")) == 22
    assert json_of("version-mapping", "-r", "4.0")["metadata.version"] == 25
    assert json_of("feature-dependencies", "-f", "metadata.version=25") == {
        "metadata.version=25": {}
    }
