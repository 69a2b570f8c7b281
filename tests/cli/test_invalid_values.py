"""Invalid command lines: one line that names the option, the value and what is expected; code 2."""

from __future__ import annotations

from argparse import _SubParsersAction
from importlib import import_module
from typing import TYPE_CHECKING

import pytest

from kraftlog.cli import COMMANDS, main
from kraftlog.client.command_parser import CommandParser

if TYPE_CHECKING:
    from argparse import ArgumentParser
    from collections.abc import Callable, Iterator
    from pathlib import Path

    Named = Callable[[str], str]

#: Invalid command lines, and what the error says.
OFFLINE = [
    ("topics --list -b nonsense:", "--bootstrap-server 'nonsense:': expected host:port"),
    ("topics --list -b=", "--bootstrap-server '': expected host:port"),
    ("quorum describe --status -C a:0", "--bootstrap-controller 'a:0': expected host:port"),
    ("topics", "one of the arguments --list --describe --create --alter --delete is required"),
    ("topics --list --no-such-flag", "unrecognized arguments: --no-such-flag"),
    ("topics --create --topic t --partitions x", "--partitions x: expected a whole number from 1"),
    ("topics --create --topic t --partitions -3", "--partitions -3: expected a whole number"),
    ("topics --create --topic t --partitions 0", "--partitions 0: expected a whole number from 1"),
    ("topics --create --topic t --partitions 9999999999", "from 1 to 2147483647"),
    ("topics --create --topic t --partitions ²", "--partitions ²: expected a whole number"),
    ("topics --create --topic t --replication-factor 40000", "from 1 to 32767"),
    ("topics --describe --topic-id x", "--topic-id x: expected a UUID"),
    ("topics --create --topic t --config x", "x: expected KEY=VALUE"),
    ("topics --create --topic t --replica-assignment 1:x", "--replica-assignment 1:x: expected"),
    ("topics --create --topic t --replica-assignment 9999999999", "expected numbers as in 1:2"),
    ("topics --list -b a:²", "--bootstrap-server 'a:²': expected host:port"),
    ("topics --list --consistency x", "--consistency x: expected one of stale, linearizable"),
    ("topics --alter --topic t --config a=b", "kraftlog configs --alter --topic"),
    ("produce", "the following arguments are required: --topic"),
    ("produce --topic t --batch-size -1", "--max-partition-memory-bytes -1: expected"),
    ("produce --topic t --timeout x", "--timeout x: expected a whole number"),
    ("produce --topic t --request-required-acks 7", "acks '7': expected one of 0, 1, -1, all"),
    ("produce --topic t --compression-codec x", "compression 'x': expected none, gzip"),
    ("produce --topic t --producer-property linger.ms=x", "linger.ms=x: expected a whole number"),
    ("produce --topic t --producer-property acks=7", "acks '7': expected one of 0, 1, -1, all"),
    ("produce --topic t --reader-property parse.key=x", "parse.key=x: expected true or false"),
    ("consume", "give either --topic or --include"),
    ("consume --topic t --partition -1", "--partition -1: expected a whole number from 0"),
    ("consume --topic t --partition 0 --offset -5", "--offset -5: expected N, earliest or latest"),
    ("consume --topic t --partition 0 --offset ²", "--offset ²: expected N, earliest or latest"),
    ("consume --topic t --partition 0 --offset 99999999999999999999", "expected N, earliest or"),
    ("consume --topic t --partition 0 --offset 1 --from-beginning", "give either --offset or"),
    ("consume --topic t --timeout-ms -5", "--timeout-ms -5: expected a whole number"),
    ("consume --topic t --max-messages -5", "--max-messages -5: expected a whole number from -1"),
    ("consume --topic t --formatter X", "--formatter X: expected one of DefaultMessageFormatter"),
    ("consume --topic t --value-deserializer X", "X: expected String, ByteArray or one of Short"),
    ("consume --topic t --formatter-property x=1", "x: expected one of print.timestamp, print.key"),
    ("consume --topic t --formatter-property print.key=x", "print.key=x: expected true or false"),
    ("consume --topic t --isolation-level x", "--isolation-level x: expected one of"),
    ("consume --topic t --consumer-property isolation.level=x", "isolation.level=x: expected"),
    ("consume --topic t --consumer-property auto.offset.reset=x", "auto.offset.reset=x: expected"),
    ("groups --list --state x", "--state x: expected one of PreparingRebalance"),
    ("groups --list --type x", "--type x: expected one of Consumer, Classic"),
    ("groups --list --timeout -1", "--timeout -1: expected a whole number"),
    ("configs --describe --broker x", "broker x: expected its number"),
    ("configs --describe --entity-type x", "--entity-type x: expected one of topics, brokers"),
    ("configs --alter --topic t --add-config x", "--add-config x: expected KEY=VALUE"),
    ("offsets --topic t --time ²", "--time ²: expected a timestamp in ms or one of latest"),
    ("offsets --topic t --time 99999999999999999999", "expected a timestamp in ms or one of"),
    ("cluster unregister --id -4", "--id -4: expected a whole number"),
    ("cluster unregister-controller --id x", "--id x: expected a whole number"),
    ("features upgrade --release-version 9.9", "unknown release 9.9; expected one of 3.3-IV3"),
    ("features upgrade --feature x", "--feature x: expected feature=level"),
    ("features upgrade --feature x=1", "--feature x=1: expected one of metadata.version"),
    ("features disable --feature x", "--feature x: expected one of metadata.version"),
    ("features describe --node-id -1", "--node-id -1: expected a whole number"),
    ("api-versions --broker -2", "--broker -2: expected a whole number"),
    ("quorum describe", "one of the arguments --status --replication is required"),
    ("quorum remove-controller -i 1 -d x", "--controller-directory-id x: expected a UUID"),
    ("quorum reassign --to x", "--to x: expected a list of node ids such as 4,5,6"),
    ("quorum reassign --to=-1", "--to -1: expected a list of node ids such as 4,5,6"),
    ("quorum reassign --to 1,1", "--to 1,1: expected different node ids"),
    ("quorum repair --voters x", "--voters x: expected ID@HOST:PORT[:DIRECTORY]"),
    ("quorum repair --voters 3@h:1:x", "--voters 3@h:1:x: expected ID@HOST:PORT[:DIRECTORY]"),
    ("quorum repair --voters 1@a:1 --drop-from -1", "--drop-from -1: expected a whole number"),
    ("metadata shell --as-of x", "x: expected an offset, latest or a time such as"),
    ("metadata diff x y", "x: expected an offset, latest or a time such as"),
    ("metadata diff 1", "the following arguments are required: B"),
    ("reassign --execute --throttle -5", "--throttle -5: expected a whole number"),
    ("decommission -3", "ID -3: expected a whole number"),
    ("dump-log", "the following arguments are required: --files"),
    ("dump-log --files a.log --max-bytes -1", "--max-bytes -1: expected a whole number"),
    ("simulate --scenario x", "--scenario x: unknown, --list prints the scenarios"),
    ("simulate --faults x", "--faults x: unknown, --list prints the faults"),
    ("simulate --keep x", "--keep x: expected numbers such as 2,5,7"),
    ("simulate --runs 0", "--runs 0: expected a whole number from 1"),
    ("storage x", "COMMAND x: expected one of info, format"),
    ("storage version-mapping -r 9", "unknown release 9; expected one of 3.3-IV3"),
    ("storage feature-dependencies -f x", "--feature x: expected feature=level"),
    ("storage format -c FILE -s -t a/b", "--cluster-id a/b: expected only letters"),
    ("storage format -c FILE -s -r 9", "unknown release 9; expected one of 3.3-IV3"),
    ("storage format -c FILE -s -f x=1", "--feature x=1: expected one of metadata.version"),
    ("storage format -c FILE -I x", "--initial-controllers x: expected id@host:port:directory-id"),
    ("start --port x", "--port x: expected a whole number from 0 to 65535"),
    ("start --port 65536", "--port 65536: expected a whole number from 0 to 65535"),
    ("start --node-id -1", "--node-id -1: expected a whole number"),
    ("start --nodes 0", "--nodes 0: expected a whole number from 1 to 100"),
    ("start --nodes 3 --port 65000", "--port 65000: expected 0, or 1 to 64533"),
    ("start --nodes 3 --override x", "--override x: expected key=value"),
    ("start --nodes 3 FILE", "--nodes cannot be combined with a properties file"),
    ("start --override x", "--override x: expected key=value"),
    ("start --override log.retention.ms=x", "log.retention.ms=x: expected a whole number"),
    ("start FILE --override log.retention.ms=x", "log.retention.ms=x: expected a whole number"),
    ("start --host=", "--host: it is empty"),
    ("demo x", "unrecognized arguments: x"),
]
#: Those for which a command looks at the cluster first; TOPIC exists.
ONLINE = [
    ("topics --describe --topic [", "[: expected a regular expression"),
    ("reassign --balance --broker-list x", "--broker-list x: expected numbers as in 1,2,3"),
    ("groups --reset-offsets --group g --topic TOPIC", "--reset-offsets needs a target"),
    ("groups --reset-offsets --group g --topic TOPIC:x --to-latest", "expected partition numbers"),
    ("groups --reset-offsets --group g --topic TOPIC:² --to-latest", "expected partition numbers"),
    ("groups --reset-offsets --group g --topic TOPIC --to-offset x", "--to-offset x: expected"),
    ("groups --reset-offsets --group g --topic TOPIC --to-datetime x", "--to-datetime x: expected"),
    (
        "groups --reset-offsets --group g --topic TOPIC --to-datetime 1000-01-01T00:00:00",
        "--to-datetime 1000-01-01T00:00:00: expected a time since 1970",
    ),
    ("groups --reset-offsets --group g --topic TOPIC --by-duration x", "--by-duration x: expected"),
    (
        "groups --reset-offsets --group g --topic TOPIC --by-duration P99999999999999999999D",
        "expected a time since 1970",
    ),
    ("offsets --topic TOPIC --partitions x", "--partitions x: expected numbers"),
    ("log-dirs --broker-list x", "--broker-list x: expected numbers"),
    ("metadata shell -c ls --as-of -3", "-3: expected an offset, latest or a time"),
]


def outcome(line: str) -> int:
    """The exit code of a command line, also if its parser ends the process."""
    try:
        return main(line.split())
    except SystemExit as ending:
        return int(ending.code or 0)


def check_refused(line: str, expected: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert outcome(line) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert expected in shown.err
    assert shown.err.startswith("kraftlog")
    assert shown.err.count("\n") == 1, shown.err


@pytest.mark.parametrize(("line", "expected"), OFFLINE)
def test_an_invalid_value_is_one_line_and_exit_code_2(
    line: str, expected: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file = tmp_path / "server.properties"
    file.write_text(
        "process.roles=controller\nnode.id=1\nlisteners=CONTROLLER://127.0.0.1:9093\n"
        "controller.listener.names=CONTROLLER\nlog.dirs=/dev/null/data\n"
        "controller.quorum.bootstrap.servers=127.0.0.1:9093\n"
    )
    check_refused(line.replace("FILE", str(file)), expected, capsys)


@pytest.mark.parametrize(("line", "expected"), ONLINE)
def test_an_invalid_value_is_refused_with_a_cluster_too(
    line: str, expected: str, our_node: str, named: Named, capsys: pytest.CaptureFixture[str]
) -> None:
    topic = named("t")
    assert main(["topics", "--create", "--if-not-exists", "--topic", topic, "-b", our_node]) == 0
    capsys.readouterr()
    check_refused(f"{line.replace('TOPIC', topic)} -b {our_node}", expected, capsys)


def parsers(parser: ArgumentParser) -> Iterator[ArgumentParser]:
    yield parser
    for action in parser._actions:
        if isinstance(action, _SubParsersAction):
            for each in action.choices.values():
                yield from parsers(each)


def test_no_option_has_a_type_whose_error_names_python() -> None:
    checked = 0
    for name in COMMANDS:
        module = import_module(f"kraftlog.cli.{name.replace('-', '_')}")
        if hasattr(module, "_parser"):
            for parser in parsers(module._parser()):
                checked += 1
                assert isinstance(parser, CommandParser), name
                types = {action.type for action in parser._actions}
                assert not types & {int, float}, name
    assert checked > 30


@pytest.mark.parametrize(
    "command",
    [
        "configs --describe --broker 99",
        "features describe --node-id 99",
        "api-versions --broker 99",
    ],
)
def test_an_unknown_node_is_refused_at_once(
    command: str, our_node: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """A request to it would be retried until the timeout."""
    assert main([*command.split(), "--bootstrap-server", our_node]) == 1
    assert "there is no live broker 99, only 1\n" in capsys.readouterr().err


@pytest.mark.parametrize("words", ["--trace", "--html", "--soak"])
def test_a_file_that_cannot_be_written_is_one_line(
    words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["simulate", "--scenario", "quiet", words, "/dev/null/file"]) == 1
    assert capsys.readouterr().err == "kraftlog simulate: /dev/null/file: Not a directory\n"
