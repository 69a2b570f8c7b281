"""`kraftlog log-dirs`: the flags of `kafka-log-dirs`."""

from __future__ import annotations

from kraftlog.cli.common import UsageError, new_parser, run_with_client
from kraftlog.cli.show import print_json, print_table, size_text
from kraftlog.errors import error_name
from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from kraftlog.client.client import Client
    from kraftlog.wire.messages.describe_log_dirs import (
        DescribeLogDirsPartition,
        DescribeLogDirsResult,
    )


def _parser() -> argparse.ArgumentParser:
    parser = new_parser(
        "log-dirs",
        "Show the replicas and sizes in the log directories of brokers.",
        "--topic-list demo",
    )
    parser.add_argument(
        "--describe", action="store_true", help="describe log directories (the only action)"
    )
    parser.add_argument("--broker-list", metavar="1,2", help="only these brokers")
    parser.add_argument("--topic-list", metavar="a,b", help="only these topics")
    return parser


def run(arguments: Sequence[str]) -> int:
    return run_with_client("log-dirs", _parser().parse_args(arguments), _describe)


def _describe(client: Client, options: argparse.Namespace) -> None:
    existing = [broker.id for broker in client.describe_cluster().brokers]
    brokers = existing
    if options.broker_list:
        try:
            brokers = [int(each) for each in options.broker_list.split(",")]
        except ValueError:
            raise UsageError(f"--broker-list {options.broker_list}: expected numbers") from None
        missing = sorted(set(brokers) - set(existing))
        if missing:
            raise ValueError(f"broker {missing[0]} is not in the cluster")
    topics = set(options.topic_list.split(",")) if options.topic_list else None
    by_broker = client.log_dirs(brokers)
    if options.json:
        print_json(_as_json(by_broker, topics))
        return
    print_table(
        ("BROKER", "DIRECTORY", "TOPIC", "PARTITION", "SIZE", "LAG", "STATE"),
        [
            (
                broker,
                directory.log_dir,
                topic,
                partition.partition_index,
                *_size_lag_state(partition),
            )
            for broker, directories in by_broker.items()
            for directory in directories
            for topic, partition in _partitions(directory, topics)
        ],
    )
    for broker, directories in by_broker.items():
        for directory in directories:
            if directory.error_code:
                print(f"broker {broker}: {directory.log_dir}: {error_name(directory.error_code)}")
            elif directory.total_bytes >= 0:
                free, total = size_text(directory.usable_bytes), size_text(directory.total_bytes)
                print(f"broker {broker}: {directory.log_dir}: {free} of {total} free")


def _size_lag_state(partition: DescribeLogDirsPartition) -> tuple[str, int, str]:
    return (
        size_text(partition.partition_size),
        partition.offset_lag,
        "future" if partition.is_future_key else "current",
    )


def _partitions(
    directory: DescribeLogDirsResult, topics: set[str] | None
) -> list[tuple[str, DescribeLogDirsPartition]]:
    partitions = [
        (topic.name, partition)
        for topic in directory.topics
        if topics is None or topic.name in topics
        for partition in topic.partitions
    ]
    return sorted(partitions, key=lambda each: (each[0], each[1].partition_index))


def _as_json(
    by_broker: dict[int, tuple[DescribeLogDirsResult, ...]], topics: set[str] | None
) -> dict[str, object]:
    """The exact output of kafka-log-dirs."""
    return {
        "brokers": [
            {
                "broker": broker,
                "logDirs": [
                    {
                        "partitions": [
                            {
                                "partition": f"{topic}-{partition.partition_index}",
                                "size": partition.partition_size,
                                "offsetLag": partition.offset_lag,
                                "isFuture": partition.is_future_key,
                            }
                            for topic, partition in _partitions(directory, topics)
                        ],
                        "error": error_name(directory.error_code) if directory.error_code else None,
                        "logDir": directory.log_dir,
                    }
                    for directory in directories
                ],
            }
            for broker, directories in by_broker.items()
        ],
        "version": 1,
    }
