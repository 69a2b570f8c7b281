"""The exact output of commands, against kraftlog and against Kafka."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import pytest

from kraftlog.cli import main
from kraftlog.cli.consume import NOTHING
from kraftlog.cli.delete_records import _FORMAT
from kraftlog.client.client import Client
from kraftlog.client.nodes import Feature, Features
from kraftlog.metadata.releases import LATEST, METADATA_VERSIONS
from tests.client.waiting import until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.cli.shell import Shell

    Named = Callable[[str], str]


def test_a_topic_is_created_described_altered_and_deleted(shell: Shell, named: Named) -> None:
    topic = named("t")
    create = f"topics --create --topic {topic} --partitions=2 --config cleanup.policy=compact"
    assert shell.run(create) == f"created {topic}\n"
    assert "TOPIC_ALREADY_EXISTS" in shell.fails(create)
    assert shell.run(create, "--if-not-exists") == ""
    assert topic in shell.run("topics --list").split()
    assert shell.json(f"topics --list --topic {topic}") == [topic]
    shown = shell.run(f"topics --describe --topic {topic}")
    shown = re.sub(r"id \S{22}  ", "id …  ", shown).replace(", min.insync.replicas=1", "")
    assert shown == (
        f"{topic}  id …  2 partitions  replication 1\n"
        "  cleanup.policy=compact\n"
        "  PARTITION  LEADER  REPLICAS  ISR  ELR  LAST KNOWN ELR\n"
        "  0               1  1         1\n"
        "  1               1  1         1\n"
    )
    (described,) = shell.json(f"topics --describe --topic {topic}")
    assert [each["isr"] for each in described["partitions"]] == [[1], [1]]
    for flag in ("under-replicated", "unavailable", "under-min-isr"):
        assert shell.run(f"topics --describe --topic {topic} --{flag}-partitions") == ""
    assert "1  1" in shell.run(f"topics --describe --topic {topic} --at-min-isr-partitions")
    assert "PARTITION" not in shell.run(
        f"topics --describe --topic {topic} --topics-with-overrides"
    )
    assert shell.run(f"topics --alter --topic {topic} --partitions 3") == f"altered {topic}\n"
    assert len(shell.json(f"topics --describe --topic-id {described['id']}")[0]["partitions"]) == 3
    assert shell.json(f"topics --delete --topic {topic}") == {"deleted": [topic]}
    assert shell.fails(f"topics --describe --topic {topic}") == (
        f"kraftlog topics: topic {topic} does not exist\n"
    )
    assert shell.run(f"topics --delete --topic {topic} --if-exists") == ""
    create_assigned = f"topics --create --topic {topic} --replica-assignment 1,1"
    shell.run(create_assigned)
    assert "remove them" in shell.fails(f"{create_assigned} --partitions 2", code=2)
    shell.run(f"topics --alter --topic {topic} --partitions 3 --replica-assignment 1,1,1")
    assert "numbers as in" in shell.fails(
        f"topics --create --topic {topic} --replica-assignment a", code=2
    )
    assert "--topic is required" in shell.fails("topics --create", code=2)
    assert "kraftlog configs" in shell.fails(
        f"topics --alter --topic {topic} --partitions 9 --config a=b", code=2
    )
    shell.run(f"topics --create --topic {named('a_b.c')}")
    assert "metric names replace . by _" in shell.stderr


def test_produced_lines_are_consumed_with_keys_and_headers(
    shell: Shell, named: Named, tmp_path: Path
) -> None:
    topic = named("t")
    shell.run(f"topics --create --topic {topic} --partitions 1")
    lines = b"h1:v1,h2:v2;k1=one\r\nh3:;k2=NULL\n;k3=three"
    config = tmp_path / "reader.properties"
    config.write_text("parse.headers=true\nheaders.delimiter=;\nnull.marker=NULL\n")
    shell.feed(
        lines,
        f"produce --topic {topic} --compression-codec --reader-config {config} --sync",
        *("--property", "parse.key=true", "--reader-property=key.separator=="),
    )
    print_all = [
        word
        for part in ("key", "headers", "partition", "offset", "epoch")
        for word in ("--formatter-property", f"print.{part}=true")
    ]
    read = f"consume --topic {topic} --from-beginning --max-messages 3"
    assert shell.run(read, *print_all) == (
        "Partition:0\tOffset:0\tEpoch:0\th1:v1,h2:v2\tk1\tone\n"
        "Partition:0\tOffset:1\tEpoch:0\th3:\tk2\tnull\n"
        "Partition:0\tOffset:2\tEpoch:0\tNO_HEADERS\tk3\tthree\n"
    )
    assert shell.stderr == "3 records read\n"
    assert shell.run(f"{read} --formatter {NOTHING}") == ""
    assert shell.stderr == "3 records read\n"
    records = [json.loads(line) for line in shell.run(read, "--json").splitlines()]
    assert records[1]["key"] == "k2"
    assert records[1]["value"] is None
    assert records[0]["headers"] == [{"name": "h1", "value": "v1"}, {"name": "h2", "value": "v2"}]
    read_at = f"consume --topic {topic} --partition 0 --max-messages 1 --offset"
    assert shell.run(f"{read_at} 2") == "three\n"
    assert shell.run(f"{read_at} 3 --timeout-ms 300") == ""
    separator = "--formatter-property line.separator=\\n--\\n"
    assert shell.run(f"{read} --include x", code=2) == ""
    assert shell.run(
        f"consume --include {topic[:-2]}.* --from-beginning --max-messages 1 {separator}"
    ) == ("one\n--\n")
    printed = shell.feed(b"a\nb:c\n", f"produce --topic {topic} --property parse.key=true", code=1)
    assert printed == ""
    assert shell.stderr == 'kraftlog produce: line 1 has no key: "\\t" not found\n'
    assert shell.feed(b"", f"produce --topic {topic} --json") == '{\n  "records": 0\n}\n'
    shell.feed(b"", f"produce --topic {topic} --command-property acks=1 --producer-property x=1")
    assert "x is not supported" in shell.stderr


def test_deserializers_format_numbers(shell: Shell, named: Named) -> None:
    topic = named("t")
    shell.run(f"topics --create --topic {topic} --partitions 1")
    shell.feed(b"\0\0\1\1\n\xff\xfe\n", f"produce --topic {topic}")
    read = f"consume --topic {topic} --from-beginning --max-messages 2"
    integer = "org.apache.kafka.common.serialization.IntegerDeserializer"
    assert (
        "cannot format"
        in shell.fails(f"{read} --value-deserializer {integer}").splitlines()[-1:][0]
    )
    shown = shell.run(f"{read} --value-deserializer {integer} --skip-message-on-error")
    assert shown == "257\n"
    assert '"value_base64": "//4="' in shell.run(read, "--json")
    assert "expected String" in shell.fails(f"{read} --value-deserializer Avro", code=2)


def test_a_group_is_described_reset_and_deleted(shell: Shell, named: Named, tmp_path: Path) -> None:
    topic, group = named("t"), named("g")
    shell.run(f"topics --create --topic {topic} --partitions 2")
    lines = b"".join([b"%d\t%d\n" % (n, n) for n in range(9)])
    shell.feed(lines, f"produce --topic {topic} --reader-property parse.key=true")
    shell.run(f"consume --topic {topic} --group {group} --from-beginning --max-messages 9")
    ends = {
        row["partition"]: row["end"] for row in shell.json(f"groups --describe --group {group}")
    }
    assert sum(ends.values()) == 9
    assert 0 < ends[1] < 9
    assert group in shell.run("groups --list").split()
    assert re.search(rf"{group} +classic +Empty\n", shell.run("groups --list --type --state empty"))
    state = shell.json(f"groups --describe --group {group} --state")
    assert state == [
        {
            "group": group,
            "coordinator": f"{shell.address} (1)",
            "assignor": None,
            "type": "classic",
            "state": "Empty",
            "members": 0,
        }
    ]
    assert shell.run(f"groups --describe --group {group} --members --verbose") == (
        "GROUP  MEMBER  HOST  CLIENT  PARTITIONS  EPOCH  ASSIGNMENT\n"
    )
    reset = f"groups --reset-offsets --group {group} --topic {topic}:1"
    csv = tmp_path / "offsets.csv"
    csv.write_text(shell.run(f"{reset} --to-earliest --export"))
    assert csv.read_text() == f"{topic},1,0\n"
    assert "nothing was changed" in shell.stderr
    assert shell.run(f"groups --reset-offsets --group {group} --from-file {csv} --execute") == (
        f"GROUP{' ' * (len(group) - 3)}TOPIC{' ' * (len(topic) - 3)}PARTITION  NEW OFFSET\n"
        f"{group}  {topic}          1           0\n"
    )
    plans = [
        ("--to-latest", ends[1]),
        ("--to-current", 0),
        ("--to-offset 99", ends[1]),
        ("--shift-by -7", 0),
        ("--by-duration P1D", 0),
        ("--to-datetime 2020-01-01T00:00:00.000", 0),
        ("--to-datetime 2999-01-01T00:00:00+01:00", ends[1]),
    ]
    for flag, expected in plans:
        (row,) = shell.json(f"{reset} {flag} --dry-run")
        assert (row["partition"], row["offset"]) == (1, expected), flag
    all_topics = shell.json(f"groups --reset-offsets --group {group} --all-topics --to-latest")
    assert [row["offset"] for row in all_topics] == [ends[0], ends[1]]
    assert "expected a duration" in shell.fails(f"{reset} --by-duration 5", code=2)
    assert "expected a time" in shell.fails(f"{reset} --to-datetime now", code=2)
    assert "needs a target" in shell.fails(reset, code=2)
    assert "one of --topic" in shell.fails(f"groups --reset-offsets --group {group}", code=2)
    assert "no partition 7" in shell.fails(
        f"groups --reset-offsets --group {group} --topic {topic}:7 --to-latest"
    )
    assert "no committed offset for" in shell.fails(
        f"groups --reset-offsets --group {named('new')} --topic {topic} --shift-by 1"
    )
    assert shell.run(f"groups --delete-offsets --group {group} --topic {topic}:1").endswith(
        "1  deleted\n"
    )
    shell.run(f"groups --delete --group {group} --group {named('none')}", code=1)
    assert "GROUP_ID_NOT_FOUND" in shell.stderr
    assert "GROUP_ID_NOT_FOUND" in shell.fails(f"groups --describe --group {group}")
    assert "--group is required" in shell.fails("groups --describe", code=2)
    shell.run(f"groups --reset-offsets --group {group} --topic {topic} --to-earliest --execute")
    assert shell.json(f"groups --delete --group {group}") == {"deleted": [group]}


def test_configs_are_altered_and_described(shell: Shell, named: Named, tmp_path: Path) -> None:
    topic = named("t")
    shell.run(f"topics --create --topic {topic}")
    file = tmp_path / "more.properties"
    file.write_text("retention.ms=5\n")
    add = "--add-config cleanup.policy=[compact,delete],retention.bytes=7"
    assert shell.run(f"configs --alter --topic {topic} {add} --add-config-file {file}") == (
        f"altered topic {topic}\n"
    )
    shell.run(
        f"configs --alter --entity-type topics --entity-name {topic} --delete-config retention.ms"
    )
    width = len(f"topic {topic}")
    expected = (
        f"{'ENTITY':<{width}}  KEY              VALUE           SOURCE\n"
        f"topic {topic}  cleanup.policy   compact,delete  DYNAMIC_TOPIC_CONFIG\n"
        f"topic {topic}  retention.bytes  7               DYNAMIC_TOPIC_CONFIG\n"
    )
    until(lambda: shell.run(f"configs --describe --topic {topic}"), expected)
    assert len(shell.json(f"configs --describe --topic {topic} --all")[topic]) > 20
    assert topic in shell.json("configs --describe --entity-type topics")
    assert "1" in shell.json("configs --describe --entity-type brokers")
    assert shell.json("configs --describe --entity-type client-metrics") == {}
    assert "INVALID_CONFIG" in shell.fails(f"configs --alter --topic {topic} --add-config a.b=c")
    assert "specify an entity" in shell.fails("configs --describe", code=2)
    shell.run("configs --describe --broker-defaults")
    assert "only brokers have defaults" in shell.fails(
        "configs --describe --entity-type topics --entity-default", code=2
    )
    assert shell.json(f"configs --alter --topic {topic} --delete-config retention.bytes") == {
        "entity_type": "topics",
        "entity_name": topic,
        "changed": {"retention.bytes": None},
    }
    assert "needs --entity-name" in shell.fails(
        "configs --alter --entity-type topics --add-config a=b", code=2
    )
    assert "KEY=VALUE" in shell.fails(f"configs --alter --topic {topic} --add-config x", code=2)
    assert "needs --add-config" in shell.fails(f"configs --alter --topic {topic}", code=2)


def test_offsets_are_printed_by_partition_and_time(shell: Shell, named: Named) -> None:
    topic = named("t")
    shell.run(f"topics --create --topic {topic} --partitions 3")
    shell.feed(b"1\n2\n", f"produce --topic {topic}")
    latest = shell.json(f"offsets --topic {topic}")
    assert sum(row["offset"] for row in latest) == 2
    assert shell.run(f"offsets --topic {topic} --time earliest --partitions 0,2") == (
        f"{topic}:0:0\n{topic}:2:0\n"
    )
    assert shell.run(f"offsets --topic-partitions {topic}:1-,{topic}:-1 --time -2") == (
        f"{topic}:0:0\n{topic}:1:0\n{topic}:2:0\n"
    )
    assert shell.run(f"offsets --topic {topic} --time 99999999999999") == ""
    assert "expected a timestamp" in shell.fails(f"offsets --topic {topic} --time now", code=2)
    assert "no partition matches" in shell.fails("offsets --topic nothing-like-it")


def test_log_directories_are_described_and_records_deleted(
    shell: Shell, named: Named, tmp_path: Path
) -> None:
    topic = named("t")
    shell.run(f"topics --create --topic {topic} --partitions 1")
    shell.feed(b"1\n2\n3\n", f"produce --topic {topic}")
    assert re.search(
        rf"\n +1  /\S+  {topic} +0  \d+ B +0  current\n"
        r"broker 1: /\S+: [\d.]+ \wiB of [\d.]+ \wiB free\n",
        shell.run(f"log-dirs --topic-list {topic}"),
    )
    file = tmp_path / "offsets.json"
    file.write_text(f'{{"partitions": [{{"topic": "{topic}", "partition": 0, "offset": 2}}]}}')
    assert shell.run(f"delete-records --offset-json-file {file}") == (
        f"TOPIC{' ' * (len(topic) - 3)}PARTITION  FIRST OFFSET\n{topic}          0             2\n"
    )
    assert shell.run(f"offsets --topic {topic} --time -2") == f"{topic}:0:2\n"


def test_the_cluster_its_features_and_apis_are_described(shell: Shell) -> None:
    assert len(shell.run("cluster cluster-id").strip()) == 22
    host, _, port = shell.address.partition(":")
    assert shell.run("cluster list-endpoints --include-fenced-brokers") == (
        f"ID  HOST       {'PORT':>{len(port)}}  RACK  STATE     TYPE\n"
        f" 1  {host}  {port}  -     unfenced  broker\n"
    )
    assert "BROKER_ID_NOT_REGISTERED" in shell.fails("cluster unregister --id 9")
    unregistered = shell.fails("cluster unregister-controller --id 9")
    assert "controller 9: CONTROLLER_ID_NOT_REGISTERED" in unregistered
    assert "unregister itself while it is active" in shell.fails(
        "cluster unregister-controller --id 1"
    )
    features = shell.json("features describe")["features"]
    assert {"metadata.version", "kraft.version"} <= {each["feature"] for each in features}
    assert shell.run("features upgrade --feature eligible.leader.replicas.version=1 --dry-run") == (
        "eligible.leader.replicas.version would go to 1\n"
    )
    of_node = shell.json("features describe --node-id 1")["features"]
    assert [each["level"] for each in of_node if each["feature"] == "kraft.version"] in ([0], [1])
    assert "metadata.version" in shell.run("features upgrade --metadata 4.4 --dry-run")
    assert shell.json(
        "features downgrade --feature eligible.leader.replicas.version=1 --dry-run"
    ) == {
        "levels": {"eligible.leader.replicas.version": 1},
        "dry_run": True,
    }
    assert len(shell.json("cluster cluster-id")["cluster_id"]) == 22
    assert shell.json("cluster list-endpoints")[0]["type"] == "broker"
    assert "Produce" in shell.run("api-versions")
    assert shell.run("cluster api-versions") == shell.run("api-versions")
    assert "give --feature" in shell.fails("features upgrade", code=2)
    both = "features upgrade --release-version 4.3 --metadata 4.3"
    assert "give either --release-version or --metadata" in shell.fails(both, code=2)
    apis = {row["api"]: row for row in shell.json("api-versions --broker 1")}
    assert (apis["Fetch"]["to"], apis["Fetch"]["used"]) == (18, 12)


def test_an_unknown_metadata_version_is_printed_as_newer(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    newer = Features((Feature("metadata.version", 7, LATEST + 3, LATEST + 2),), 5)
    monkeypatch.setattr(Client, "features", lambda *_: newer)
    assert main(["features", "describe"]) == 0
    newest = METADATA_VERSIONS[LATEST]
    most, level = f"{LATEST + 3} (newer than {newest})", f"{LATEST + 2} (newer than {newest})"
    row = capsys.readouterr().out.splitlines()[1]
    assert row.split("  ") == ["metadata.version", "3.3-IV3", most, level]


def test_the_quorum_is_described_and_changes_are_checked(shell: Shell) -> None:
    status = shell.run("quorum describe --status")
    assert re.search(r"^LeaderId: +1\n", status, re.MULTILINE)
    assert shell.json("quorum describe --status")["CurrentVoters"][0]["id"] == 1
    (leader,) = shell.json("quorum describe --replication")
    assert (leader["NodeId"], leader["Lag"], leader["Status"]) == (1, 0, "Leader")
    assert "ms ago" in shell.run("quorum describe --replication --human-readable")
    remove = "quorum remove-controller --dry-run --controller-id"
    assert "would be removed" in shell.run(f"{remove} 1")
    assert "controller 9 is not a voter; the voters are 1" in shell.fails(f"{remove} 9")
    assert "1 would be unregistered" in shell.run(f"{remove} 1 --unregister")
    advice = "to unregister it, run: kraftlog cluster unregister-controller --id 9"
    assert advice in shell.fails(f"{remove} 9 --unregister")
    other = "--controller-directory-id=" + "A" * 21 + "g"
    assert "is not a voter" in shell.fails(f"{remove} 1 {other}")
    assert "needs --command-config" in shell.fails("quorum add-controller", code=2)


def test_a_failure_is_one_line(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    def error_line(*words: str) -> str:
        assert main(words) == 1
        return capsys.readouterr().err

    assert error_line("topics", "--list", "-b", "127.0.0.1:1") == (
        "kraftlog topics: no broker responds: 127.0.0.1:1: Connection refused\n"
    )
    file = tmp_path / "client.properties"
    file.write_text("security.protocol=SASL_SSL\n")
    assert "sasl.mechanism=GSSAPI" in error_line("topics", "--list", "-c", str(file))
    assert "No such file" in error_line("topics", "--list", "-c", str(tmp_path / "none"))
    file.write_text("default.api.timeout.ms=soon\n")
    assert error_line("topics", "--list", "-c", str(file)) == (
        "kraftlog topics: default.api.timeout.ms=soon: expected a whole number of at least 0\n"
    )
    file.write_bytes(b"\xff\xfe")
    assert f"{file} is not UTF-8 text" in error_line("topics", "--list", "-c", str(file))
    assert main(["cluster", "cluster-id", "-b", "a:1", "-C", "b:1"]) == 2


def test_an_offset_out_of_range_is_reported_with_where_reading_continues(
    shell: Shell, named: Named
) -> None:
    topic = named("t")
    shell.run(f"topics --create --topic {topic} --partitions 1")
    shell.feed(b"1\n2\n", f"produce --topic {topic}")
    read = f"consume --topic {topic} --partition 0 --offset 99 --max-messages 1"
    assert shell.run(f"{read} --consumer-property auto.offset.reset=earliest") == "1\n"
    assert shell.stderr == (
        f"kraftlog consume: {topic}-0: offset 99 is out of range, beyond the end of the log; "
        "reading continues at offset 0 (auto.offset.reset)\n1 record read\n"
    )


#: Commands that need brokers, and commands that take controllers as well.
OF_BROKERS = [
    "topics --list",
    "reassign --list",
    "produce --topic t",
    "consume --topic t --timeout-ms 1",
    "groups --list",
    "groups --describe --group g",
    "offsets --topic t",
    "delete-records --offset-json-file FILE",
    "log-dirs --describe",
    "decommission 9",
]
OF_BOTH = [
    "configs --describe --topic t",
    "cluster cluster-id",
    "cluster api-versions",
    "cluster unregister --id 9",
    "cluster unregister-controller --id 9",
    "features describe",
    "features upgrade --metadata 4.3 --dry-run",
    "api-versions",
    "quorum describe --status",
    "quorum describe --replication",
    "quorum remove-controller --controller-id 9",
    "quorum reassign --to 9 --dry-run",
    "metadata shell -c pwd",
    "metadata diff 1 2",
]


@pytest.mark.parametrize("command", [*OF_BROKERS, *OF_BOTH])
def test_a_bootstrap_server_that_is_a_controller_is_refused_with_advice(
    our_node: str, capsys: pytest.CaptureFixture[str], tmp_path: Path, command: str
) -> None:
    file = tmp_path / "offsets.json"
    file.write_text('{"partitions": [{"topic": "t", "partition": 0, "offset": 0}]}')
    controller = controller_of(our_node)
    words = command.replace("FILE", str(file)).split()
    assert main([*words, "--bootstrap-server", controller]) == 1
    advice = (
        f"use --bootstrap-controller {controller}, or --bootstrap-server with the listener of a "
        "broker"
        if command in OF_BOTH
        else "controllers do not serve this command: give --bootstrap-server the listener of a "
        "broker"
    )
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.partition(": ")[2] == (
        f"{controller} is the listener of a controller, not of a broker: {advice}\n"
    )


@pytest.mark.parametrize("command", OF_BOTH)
def test_a_bootstrap_controller_that_is_a_broker_is_refused_with_advice(
    our_node: str, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    assert main([*command.split(), "--bootstrap-controller", our_node]) == 1
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.partition(": ")[2] == (
        f"{our_node} is the listener of a broker, not of a controller: "
        f"use --bootstrap-server {our_node}\n"
    )


def test_controllers_among_the_bootstrap_servers_are_passed_over(our_node: str) -> None:
    both = f"{controller_of(our_node)},{our_node}"
    assert main(["topics", "--list", "--bootstrap-server", both]) == 0
    assert main(["cluster", "cluster-id", "--bootstrap-controller", both]) == 0


def controller_of(broker: str) -> str:
    """The address of the cluster's controller."""
    with Client(broker) as client:
        [(_, [(_, host, port)])] = client.describe_quorum().listeners
    return f"{host}:{port}"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("no JSON", "expected JSON: Expecting value: line 1 column 1 (char 0)"),
        ("{}", f"expected {_FORMAT}; 'partitions' is missing"),
        (
            '{"partitions": [{"topic": "t", "partition": 0}]}',
            f"expected {_FORMAT}; 'offset' is missing",
        ),
        ("[]", f"expected {_FORMAT}"),
    ],
)
def test_an_invalid_offsets_file_is_reported_with_its_error(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, text: str, why: str
) -> None:
    file = tmp_path / "offsets.json"
    file.write_text(text)
    words = ["delete-records", "-b", "127.0.0.1:1", "--offset-json-file", str(file)]
    assert main(words) == 1
    assert capsys.readouterr().err == f"kraftlog delete-records: {file}: {why}\n"


def test_an_invalid_partition_count_is_refused(
    capsys: pytest.CaptureFixture[str], our_node: str
) -> None:
    """0 must not mean the cluster's default."""
    words = ["topics", "-b", our_node, "--create", "--topic", "of-none", "--partitions", "0"]
    with pytest.raises(SystemExit, match="2"):
        main(words)
    assert "--partitions 0: expected a whole number from 1" in capsys.readouterr().err
    assert main(["topics", "-b", our_node, "--describe", "--topic", "of-none"]) == 1


def test_a_flag_wins_over_the_property_of_the_client(
    shell: Shell, named: Named, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = named("t")
    shell.run(f"topics --create --topic {topic}")
    levels: list[str] = []
    consume = Client.consume

    def noting_the_level(*arguments: Any, isolation: str, **options: Any) -> Any:
        levels.append(isolation)
        return consume(*arguments, isolation=isolation, **options)

    monkeypatch.setattr(Client, "consume", noting_the_level)
    read = f"consume --topic {topic} --from-beginning --timeout-ms 1"
    shell.run(read)
    read_committed = "--consumer-property isolation.level=read_committed"
    shell.run(f"{read} {read_committed}")
    shell.run(f"{read} {read_committed} --isolation-level read_uncommitted")
    assert levels == ["read_uncommitted", "read_committed", "read_uncommitted"]

    lingers: list[int] = []

    def noting_the_linger(_: int, linger_ms: int) -> Iterator[bytes]:
        lingers.append(linger_ms)
        yield b"a"

    monkeypatch.setattr("kraftlog.cli.produce.lines", noting_the_linger)
    for words in ("", "--timeout 0", "--producer-property linger.ms=7"):
        shell.feed(b"", f"produce --topic {topic} {words}")
    shell.feed(b"", f"produce --topic {topic} --timeout 0 --producer-property linger.ms=7")
    assert lingers == [1000, 0, 7, 0]
