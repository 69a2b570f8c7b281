"""`kraftlog metadata`: on live clusters of kraftlog and Kafka, and on a copied directory."""

from __future__ import annotations

import json
import shutil
from argparse import _SubParsersAction
from typing import TYPE_CHECKING

import pytest

from kraftlog.cli import main
from kraftlog.cli.metadata import _parser
from kraftlog.client.metadata_folder import MetadataFolder
from kraftlog.metadata.history import MetadataState, Moment
from kraftlog.metadata.tree import tree_of
from kraftlog.wire.messages.metadata_records import ClientQuotaRecord, EntityData
from tests.cli.test_flags import flags_of
from tests.metadata import samples

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.cli.shell import Shell

    Named = Callable[[str], str]


def browse(shell: Shell, *lines: str, code: int = 0) -> str:
    words = [word for line in lines for word in ("-c", line)]
    return shell.run("metadata shell", *words, code=code)


def check_browsing(shell: Shell, topic: str) -> None:
    """Directories, files, wildcards, earlier offsets and errors."""
    offset = int(browse(shell, "at"))
    shell.run(f"topics --create --topic {topic} --partitions 2 --config retention.ms=86400000")
    files = json.loads(browse(shell, f"cat /topics/{topic}"))
    assert sorted(files) == ["0", "1", "id"]
    assert files["1"]["isr"] == [1]
    assert browse(shell, f"ls /topics/{topic}", "cd /topics", f"cat {topic}/1/leader", "pwd") == (
        "id\n0/\n1/\n1\n/topics\n"
    )
    assert browse(shell, f"cat /topicIds/{files['id']}") == f"{topic}\n"
    assert browse(shell, f"cat /configs/topic/{topic}/retention.ms") == "86400000\n"
    assert browse(shell, f"find /topics/{topic} lead*") == "".join(
        f"/topics/{topic}/{n}/{name}\n" for n in (0, 1) for name in ("leader", "leader_epoch")
    )
    assert f"/topics/{topic}/1\n" in browse(shell, f"tree /topics/{topic}/?")
    assert "  replicas: [1]\n" in shell.run("metadata shell", "-c", f"tree /topics/{topic}/1")
    assert "metadata.version" in browse(shell, "ls /features")
    assert browse(shell, f"at {offset}", f"ls /topics/{topic}", code=1) == f"{offset}\n"
    assert f"no such file or directory: /topics/{topic}" in shell.stderr
    browse(shell, f"ls /topics/{topic}", "at latest")
    assert "unknown command 'rm'" in shell.fails("metadata shell", "-c", "rm -r /")
    assert f"+ {topic}: " in shell.run(f"metadata diff {offset} latest")
    changes = shell.json(f"metadata diff {offset} latest")["changes"]
    assert {"topic": topic} in [change["key"] for change in changes if change["what"] == "added"]
    assert "expected an offset" in shell.fails("metadata diff 1 yesterday", code=2)


def test_the_metadata_of_a_live_cluster_is_browsed(shell: Shell, named: Named) -> None:
    check_browsing(shell, named("t"))


def test_the_metadata_of_kafka_is_browsed(
    kafka_shell: Shell, kafka_folder: str, named: Named, tmp_path: Path
) -> None:
    """That of the live cluster, and that of a copy of the node's directory."""
    topic = named("t")
    check_browsing(kafka_shell, topic)
    live = json.loads(browse(kafka_shell, "cat /topics"))
    copy = tmp_path / "data"
    shutil.copytree(f"{kafka_folder}/data/__cluster_metadata-0", copy / "__cluster_metadata-0")
    state = MetadataFolder(str(copy)).state_at(Moment())
    assert tree_of(state)["topics"] == live
    words = ["metadata", "shell", str(copy), "-c"]
    assert kafka_shell.run("metadata shell", str(copy), "-c", "pwd") == "/\n"
    assert kafka_shell.run("metadata shell --data", str(copy), "-c", "pwd") == "/\n"
    assert main([*words, f"cat /topics/{topic}/id"]) == 0
    assert main([*words, "cat /none"]) == 1


def test_shell_and_diff_take_the_same_arguments() -> None:
    """--data, the cluster and --json; -c is a command of the shell, and nothing else in diff."""
    [commands] = [action for action in _parser()._actions if isinstance(action, _SubParsersAction)]
    shell, diff = [set(flags_of(commands.choices[name])) for name in ("shell", "diff")]
    assert shell - diff == {"-c", "--as-of"}
    assert diff - shell == set()
    assert {"--data", "--bootstrap-server", "--command-config", "--json"} <= diff


def test_the_shell_prints_json(shell: Shell, named: Named) -> None:
    topic = named("t")
    shell.run(f"topics --create --topic {topic} --partitions 1")
    lines = (f"cd /topics/{topic}", "pwd", "ls", "ls id", "cat 0/leader", "find . lead*", "cat id")
    words = [word for line in lines for word in ("-c", line)]
    shown = [json.loads(line) for line in shell.run("metadata shell --json", *words).splitlines()]
    path = f"/topics/{topic}"
    (described,) = shell.json(f"topics --describe --topic {topic}")
    assert shown == [
        path,
        {path: ["id", "0"]},
        {f"{path}/id": None},
        1,
        [f"{path}/0/leader", f"{path}/0/leader_epoch"],
        described["id"],
    ]


def test_lines_of_standard_input_are_commands(shell: Shell, named: Named) -> None:
    topic = named("t")
    shell.run(f"topics --create --topic {topic} --partitions 1")
    lines = f"# a comment\ncd /topics/{topic}\nls\nexit\nls\n".encode()
    assert shell.feed(lines, "metadata shell") == "id\n0/\n"
    assert shell.feed(b"cat nothing\npwd\n", "metadata shell", code=1) == "/\n"
    assert shell.feed(b"at noon\npwd\n", "metadata shell", code=1) == "/\n"


def test_names_with_slashes_are_one_part_of_a_path() -> None:
    state = MetadataState()
    entity = (EntityData(entity_type="user", entity_name="a/b"),)
    state.image.replay(
        ClientQuotaRecord(entity=entity, key="producer_byte_rate", value=9.0, remove=False)
    )
    state.image.replay(samples.config("", "min.insync.replicas", "2", kind=4))
    tree = tree_of(state)
    assert tree["quotas"] == {"user a%2Fb": {"producer_byte_rate": "9.0"}}
    assert tree["configs"] == {"broker": {"<default>": {"min.insync.replicas": "2"}}}


def test_secrets_are_hidden() -> None:
    state = MetadataState()
    state.image.replay(samples.config("1", "ssl.keystore.password", "secret", kind=4))
    assert "secret" not in json.dumps(tree_of(state))


@pytest.mark.parametrize("command", ["shell", "shell --data", "diff 1 2 --data"])
def test_a_directory_without_metadata_is_refused(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["metadata", *command.split(), str(tmp_path)]) == 1
    assert "has no metadata log" in capsys.readouterr().err
