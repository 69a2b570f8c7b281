"""A session of Kafka's command-line tools, as an operator types them.

`facts.txt` has the commands, each after a `$`, and the output of the tools with a Kafka broker.
Ids, times, addresses and directories, which differ between runs, are replaced by words. Text after
`<` is typed into the tool, with / between lines; the address of the broker is added. To add a
command, write it in `facts.txt` and run all commands again:

    python -m tests.interop.tool_session
"""

from __future__ import annotations

import json
import os
import re
import tempfile
from typing import TYPE_CHECKING, NamedTuple

from tests.interop.driver import LONG_TIMEOUTS, Driver
from tests.interop.kafka_broker import standalone_kafka

if TYPE_CHECKING:
    from collections.abc import Iterator

FACTS = os.path.join(os.path.dirname(__file__), "facts.txt")
CLASSES = {
    "kafka-topics": "org.apache.kafka.tools.TopicCommand",
    "kafka-configs": "org.apache.kafka.tools.ConfigCommand",
    "kafka-console-producer": "org.apache.kafka.tools.ConsoleProducer",
    "kafka-console-consumer": "org.apache.kafka.tools.consumer.ConsoleConsumer",
    "kafka-consumer-groups": "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
    "kafka-get-offsets": "org.apache.kafka.tools.GetOffsetShell",
    "kafka-log-dirs": "org.apache.kafka.tools.LogDirsCommand",
    "kafka-delete-records": "org.apache.kafka.tools.DeleteRecordsCommand",
    "kafka-broker-api-versions": "org.apache.kafka.tools.BrokerApiVersionsCommand",
    "kafka-features": "org.apache.kafka.tools.FeatureCommand",
    "kafka-cluster": "org.apache.kafka.tools.ClusterTool",
    "kafka-metadata-quorum": "org.apache.kafka.tools.MetadataQuorumCommand",
    "kafka-producer-perf-test": "org.apache.kafka.tools.ProducerPerformance",
    "kafka-consumer-perf-test": "org.apache.kafka.tools.ConsumerPerformance",
    "kafka-leader-election": "org.apache.kafka.tools.LeaderElectionCommand",
    "kafka-acls": "org.apache.kafka.tools.AclCommand",
    "kafka-delegation-tokens": "org.apache.kafka.tools.DelegationTokenCommand",
    "kafka-reassign-partitions": "org.apache.kafka.tools.reassign.ReassignPartitionsCommand",
}
#: Arguments added to those in the file.
ADDED_ARGUMENTS = {
    "kafka-broker-api-versions": ("--command-config", LONG_TIMEOUTS),
    "kafka-delegation-tokens": ("--command-config", LONG_TIMEOUTS),
}
DELETIONS = {"version": 1, "partitions": [{"topic": "lines", "partition": 0, "offset": 2}]}

#: Patterns of text that differs between runs, and its replacements.
REPLACEMENTS = [
    (r"\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3}\]", "[TIME]"),
    (r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d:\d{3}", "TIME"),
    (r"until timestamp \d+", "until timestamp TIME"),
    (r"127\.0\.0\.1:\d+", "ADDRESS"),
    (r"clientId=[\w-]+", "clientId=CLIENT"),
    (r"127\.0\.0\.1 \d+", "HOST PORT"),
    (r"(HighWatermark|LeaderEpoch): +\d+", r"\1: N"),
    (r"(?m)(?<=Epoch: )\d+$", "N"),
    (r"(?m)(?<=^1     \t)\S+ *\t\d+ *\t(\d+ *\t)\d+ *\t\d+", r"ID\tN\t\1TIME\tTIME"),
    (r"(?m)\b[\w-]{22}\b(?=\s|\"|$|,|\))", "ID"),
    (r'"logDir":"[^"]+"', '"logDir":"DIR"'),
    # Timestamp deltas of later records need more bytes.
    (r'"size":\d+', '"size":N'),
    (r"\d+(?:\.\d+)? (ms|records/sec|MB/sec|MB\b)", r"N \1"),
    (r"(?<=TIME, TIME, )[\d., -]+", "FIGURES"),
]


class CommandOutput(NamedTuple):
    """A command line, and what the tool printed."""

    line: str
    shown: str


def session(jvm: Driver, address: str, folder: str) -> Iterator[CommandOutput]:
    """Run all commands of `facts.txt` against a broker."""
    deletions = os.path.join(folder, "deletions.json")
    with open(deletions, "w", encoding="utf-8") as file:
        json.dump(DELETIONS, file)
    with open(FACTS, encoding="utf-8") as file:
        lines = [done.line for done in read(file.read())]
    for line in lines:
        command, _, typed = line.partition(" < ")
        tool, *words = command.replace("DELETIONS", deletions).split()
        # kafka-cluster takes the address after its subcommand.
        subcommand = words[:1] if tool == "kafka-cluster" else []
        words = [
            *subcommand,
            "--bootstrap-server",
            address,
            *words[len(subcommand) :],
            *ADDED_ARGUMENTS.get(tool, ()),
        ]
        done = jvm.tool(CLASSES[tool], *words, stdin=typed.replace("/", "\n").encode())
        yield CommandOutput(line, normalized(done.stdout, done.stderr, done.exit_code))


def normalized(stdout: str, stderr: str, code: int) -> str:
    """A tool's output, without stack traces and without differences between runs."""
    lines = [line.rstrip() for line in (stdout + stderr).splitlines()]
    lines = [line for line in lines if line and not re.match(r"\s+at |\t\.\.\. \d+ more", line)]
    text = "\n".join(lines)
    for pattern, word in REPLACEMENTS:
        text = re.sub(pattern, word, text)
    return text + (f"\nexit {code}" if code else "")


def write(outputs: Iterator[CommandOutput]) -> str:
    return "".join(f"$ {done.line}\n{done.shown}\n\n" for done in outputs)


def read(text: str) -> list[CommandOutput]:
    """Parse a text that `write` has returned."""
    outputs = []
    for part in ("\n" + text).split("\n$ ")[1:]:
        line, _, shown = part.partition("\n")
        outputs.append(CommandOutput(line, shown.strip("\n")))
    return outputs


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        driver = Driver.start(os.path.join(folder, "jvm.txt"))
        try:
            with standalone_kafka(folder) as address:
                text = write(session(driver, address, folder))
        finally:
            driver.close()
    with open(FACTS, "w", encoding="utf-8") as file:
        file.write(text)


if __name__ == "__main__":
    main()
