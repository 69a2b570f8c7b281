"""`kraftlog reassign`: the flags of `kafka-reassign-partitions`, and a balanced plan."""

from __future__ import annotations

import sys
import time

from kraftlog.cli.common import UsageError, new_parser, require_options, run_with_client
from kraftlog.cli.progress import POLL_S, ChangeProgress
from kraftlog.cli.show import numbers, print_json, print_table
from kraftlog.client.properties import read_text
from kraftlog.errors import ClientError
from kraftlog.types import METADATA_TOPIC
from kraftlog.value import TYPE_CHECKING, Value

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable, Mapping, Sequence

    from kraftlog.client.client import Client
    from kraftlog.client.directory_moves import ReplicaName
    from kraftlog.client.model import Partition, PartitionName
    from kraftlog.client.reassignments import Reassignment
    from kraftlog.errors import RefusedError

    Assignment = Mapping[PartitionName, Sequence[int]]

#: The partition whose replicas are the voters of the metadata quorum.
METADATA = METADATA_TOPIC, 0
#: In `log_dirs`: the broker chooses the directory.
ANY = "any"


def _parser() -> argparse.ArgumentParser:
    from kraftlog.client.arguments import MAX_INT64
    from kraftlog.client.command_parser import whole_number

    parser = new_parser(
        "reassign",
        "Move replicas of partitions to other brokers.",
        "--balance --dry-run\n"
        '  FILE: {"partitions": [{"topic": "demo", "partition": 0, "replicas": [1, 2]}]}',
        usage="kraftlog reassign --balance | --execute | --verify | --cancel | --list | "
        "--generate [options]",
    )
    actions = parser.add_argument_group("what to do").add_mutually_exclusive_group(required=True)
    for name, action_help in _HELP.items():
        actions.add_argument(
            f"--{name}", dest="action", action="store_const", const=name, help=action_help
        )
    add = parser.add_argument
    add("--reassignment-json-file", metavar="FILE", help="replicas of partitions")
    add("--topics-to-move-json-file", metavar="FILE", help="topics for --generate")
    add("--broker-list", "--brokers", metavar="1,2,3", help="brokers to use; default: all")
    add("--disable-rack-aware", action="store_true", help="ignore the racks of brokers")
    add("--dry-run", action="store_true", help="with --balance: only show the plan")
    add("--wait", action="store_true", help="with --execute: show the progress until the end")
    add(
        "--additional",
        action="store_true",
        help="with --execute: start even while other reassignments are ongoing; those of the "
        "same partitions are replaced",
    )
    add(
        "--throttle",
        type=whole_number(0, MAX_INT64),
        metavar="BYTES",
        help="with --execute or --balance: bytes per second that a broker may send or receive",
    )
    add(
        "--replica-alter-log-dirs-throttle",
        type=whole_number(0, MAX_INT64),
        metavar="BYTES",
        help="with --execute: bytes per second that a broker may copy between its directories",
    )
    add(
        "--timeout",
        type=whole_number(),
        default=10_000,
        metavar="MS",
        help="how long to wait until replicas can be moved between directories; default: 10000",
    )
    add(
        "--preserve-throttles",
        action="store_true",
        help="with --verify or --cancel: keep the throttles that were set",
    )
    add(
        "--disallow-replication-factor-change",
        action="store_true",
        help="with --execute: refuse to change the number of replicas",
    )
    return parser


_HELP = {
    "balance": "propose a balanced assignment and carry it out",
    "execute": "start the reassignments of the file",
    "verify": "show whether the reassignments of the file are completed; exit code 1 if not",
    "cancel": "cancel the reassignments of the file",
    "list": "list ongoing reassignments",
    "generate": "propose a balanced assignment of topics as JSON",
}


def run(arguments: Sequence[str]) -> int:
    options = _parser().parse_args(arguments)
    return run_with_client("reassign", options, _ACTIONS[options.action])


# Files -------------------------------------------------------------------------------------------


class ReassignmentPlan(Value):
    """The target replicas of partitions, and the target log directories of some replicas."""

    replicas: dict[PartitionName, tuple[int, ...]]
    directories: dict[ReplicaName, str]


def plan_in(text: str) -> ReassignmentPlan:
    """Parse a file in the format of kafka-reassign-partitions."""
    from kraftlog.cli.json_entries import Entries

    replicas: dict[PartitionName, tuple[int, ...]] = {}
    directories: dict[ReplicaName, str] = {}
    form = '{"partitions": [{"topic": …, "partition": …, "replicas": […]}]}'
    entries = Entries(text, "partitions", form)
    for entry in entries.all:
        name = (entries.topic(entry), entries.number(entry, "partition"))
        if name in replicas:
            raise ValueError(f"partition {_partition_text(name)} is listed twice")
        replicas[name] = entries.numbers(entry, "replicas")
        paths = entry.get("log_dirs", [ANY] * len(replicas[name]))
        if not isinstance(paths, list) or len(paths) != len(replicas[name]):
            raise ValueError(
                f"partition {_partition_text(name)}: expected a list of log_dirs, one for each "
                "of the replicas"
            )
        directories.update(
            {
                (*name, broker): str(path)
                for broker, path in zip(replicas[name], paths, strict=True)
                if path != ANY
            }
        )
    return ReassignmentPlan(replicas, directories)


def _assignment_json(assignment: Assignment) -> dict[str, object]:
    partitions = [
        {"topic": topic, "partition": index, "replicas": [*replicas]}
        for (topic, index), replicas in sorted(assignment.items())
    ]
    return {"version": 1, "partitions": partitions}


def _read_plan(options: argparse.Namespace) -> ReassignmentPlan:
    require_options(options, "reassignment-json-file")
    path = options.reassignment_json_file
    try:
        return plan_in(read_text(path))
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None


def _partition_text(name: PartitionName) -> str:
    return f"{name[0]}-{name[1]}"


def _partitions_text(names: Iterable[PartitionName]) -> str:
    return ",".join(map(_partition_text, sorted(names)))


def _partitions(client: Client, topics: Iterable[str]) -> dict[PartitionName, Partition]:
    described = client.describe_topics(sorted(set(topics)))
    return {(topic.name, each.index): each for topic in described for each in topic.partitions}


# Actions -----------------------------------------------------------------------------------------


def _execute(client: Client, options: argparse.Namespace) -> int:
    plan = _read_plan(options)
    targets = plan.replicas
    _check_replicas(client, targets)
    partitions = _partitions(client, [topic for topic, _ in targets])
    unknown = targets.keys() - partitions.keys()
    if unknown:
        raise ClientError(f"partition {_partitions_text(unknown)} does not exist")
    if not options.additional and client.reassignments():
        raise ClientError("there are ongoing reassignments; --additional starts these as well")
    current = {name: partitions[name].replicas for name in targets}
    _print_rollback(current, options)
    code = _start(client, options, current, targets, is_watched=options.wait)
    if plan.directories:
        return _move_directories(client, options, plan.directories) or code
    return code


def _check_replicas(client: Client, targets: Assignment) -> None:
    """Refuse unknown brokers; for the metadata partition, nodes that do not replicate it."""
    broker_ids = {broker for replicas in targets.values() for broker in replicas}
    if METADATA not in targets:
        brokers = {broker.id for broker in client.describe_cluster(fenced=True).brokers}
        missing = sorted(broker_ids - brokers)
        if missing:
            raise ClientError(f"broker {missing[0]} is not in the cluster")
        return
    if len(targets) > 1:
        raise ClientError(
            f"{_partition_text(METADATA)} is the metadata quorum, whose voters its leader "
            "moves: put it into a file of its own"
        )
    quorum = client.describe_quorum()
    missing = sorted(broker_ids - {replica.id for replica in (*quorum.voters, *quorum.observers)})
    if missing:
        raise ClientError(
            f"node {missing[0]} is neither a voter nor an observer of the metadata quorum: start it"
        )


def _move_directories(
    client: Client, options: argparse.Namespace, targets: Mapping[ReplicaName, str]
) -> int:
    """Begin moves between log directories; with --wait, print their state at the end.

    With --json, lines go to standard error, as standard output has the JSON of the reassignment.
    """
    from kraftlog.cli import directory_moves

    stream = sys.stderr if options.json else sys.stdout
    if options.replica_alter_log_dirs_throttle is not None:
        rate = options.replica_alter_log_dirs_throttle
        directory_moves.throttle(client, [name[2] for name in targets], rate)
        print(f"The replica-alter-dir throttle limit was set to {rate} B/s", file=stream)
    refused = directory_moves.begin(client, targets, options.timeout / 1000)
    begun = {name: path for name, path in targets.items() if name not in refused}
    if begun:
        names = ",".join(map(directory_moves.replica_text, sorted(begun)))
        print(f"Successfully started log directory moves for: {names}", file=stream)
    for name, error in refused.items():
        print(f"kraftlog reassign: broker {name[2]}: {error}", file=sys.stderr)
    if not options.wait:
        return int(bool(refused))
    while directory_moves.ONGOING in (states := directory_moves.states(client, begun)).values():
        time.sleep(POLL_S)
    for name, state in states.items():
        print(
            f"Reassignment of replica {directory_moves.replica_text(name)} is {state}.", file=stream
        )
    return int(
        bool(refused) or any(state != directory_moves.COMPLETED for state in states.values())
    )


def _print_rollback(assignment: Assignment, options: argparse.Namespace) -> None:
    import json

    if not options.json:
        print("Current partition replica assignment\n")
        print(json.dumps(_assignment_json(assignment)))
        print("\nSave this to use as the --reassignment-json-file option during rollback")


def _start(
    client: Client,
    options: argparse.Namespace,
    current: Assignment,
    targets: Assignment,
    *,
    is_watched: bool,
) -> int:
    """Start reassignments, and watch them until the end if asked; return the exit code."""
    if options.throttle is not None:
        _throttle(client, options, current, targets)
    refused = client.reassign_partitions(
        targets,
        allow_replication_factor_change=not options.disallow_replication_factor_change,
    )
    started = {name: replicas for name, replicas in targets.items() if name not in refused}
    _print_outcome(options, "started", started, refused)
    is_done = not is_watched or not started or watch(client, started)
    if options.throttle is not None and is_watched and is_done:
        _clear_throttles(client, options, targets)
    return int(bool(refused) or not is_done)


def _throttle(
    client: Client, options: argparse.Namespace, current: Assignment, targets: Assignment
) -> None:
    """Throttle this reassignment and those that are ongoing in its topics."""
    from kraftlog.cli.throttles import throttle

    topics = {topic for topic, _ in targets}
    ongoing = {
        name: reassignment
        for name, reassignment in client.reassignments().items()
        if name[0] in topics
    }
    sources = {
        name: set(reassignment.replicas) - set(reassignment.adding)
        for name, reassignment in ongoing.items()
    }
    throttle(
        client,
        {**current, **{name: tuple(sorted(brokers)) for name, brokers in sources.items()}},
        {**{name: reassignment.replicas for name, reassignment in ongoing.items()}, **targets},
        options.throttle,
    )
    if not options.json:
        print(f"The inter-broker throttle limit was set to {options.throttle} B/s")


def _clear_throttles(client: Client, options: argparse.Namespace, targets: Assignment) -> None:
    from kraftlog.cli.throttles import clear_throttles

    cleared = clear_throttles(client, [topic for topic, _ in targets])
    if cleared and not options.json:
        print(f"Cleared the throttles of {', '.join(cleared)}")


def _print_outcome(
    options: argparse.Namespace,
    outcome: str,
    names: Iterable[PartitionName],
    refused: Mapping[PartitionName, RefusedError],
) -> None:
    names = sorted(names)
    if options.json:
        errors = {_partition_text(name): str(error) for name, error in refused.items()}
        print_json({outcome: [*map(_partition_text, names)], "refused": errors})
    elif names:
        print(f"Successfully {outcome} partition reassignment{'s'[: len(names) != 1]} "
              f"for {_partitions_text(names)}")  # fmt: skip
    for error in refused.values():
        print(f"kraftlog reassign: {error}", file=sys.stderr)


def _cancel(client: Client, options: argparse.Namespace) -> int:
    ongoing = client.reassignments()
    targets = _read_plan(options).replicas
    names = [name for name in targets if name in ongoing]
    refused = client.reassign_partitions(dict.fromkeys(names)) if names else {}
    if not names and not options.json:
        print("None of the specified partition reassignments are active.")
    else:
        cancelled = [name for name in names if name not in refused]
        _print_outcome(options, "cancelled", cancelled, refused)
    if not refused and not options.preserve_throttles:
        _clear_throttles(client, options, targets)
    return int(bool(refused))


def _verify(client: Client, options: argparse.Namespace) -> int:
    plan = _read_plan(options)
    targets = plan.replicas
    states = _states(client, targets)
    moves = _move_states(client, plan.directories)
    if options.json:
        print_json({**{_partition_text(name): state for name, state in states.items()}, **moves})
    else:
        print("Status of partition reassignment:")
        for name, state in states.items():
            print(f"Reassignment of partition {_partition_text(name)} is {state}.")
        for replica, state in moves.items():
            print(f"Reassignment of replica {replica} is {state}.")
    all_states = [*states.values(), *moves.values()]
    if _ONGOING not in all_states and not options.preserve_throttles:
        _clear_throttles(client, options, targets)
    return int(any(state != _COMPLETED for state in all_states))


def _move_states(client: Client, targets: Mapping[ReplicaName, str]) -> dict[str, str]:
    if not targets:
        return {}
    from kraftlog.cli import directory_moves

    states = directory_moves.states(client, targets)
    return {directory_moves.replica_text(name): state for name, state in states.items()}


_COMPLETED, _ONGOING = "completed", "still in progress"


def _states(client: Client, targets: Assignment) -> dict[PartitionName, str]:
    ongoing = client.reassignments()
    partitions = _partitions(client, [topic for topic, _ in targets])
    states = {}
    for name, target in targets.items():
        existing = partitions.get(name)
        if name in ongoing:
            state = _ONGOING
        elif existing is None:
            state = "not possible: the partition does not exist"
        elif existing.replicas != (tuple(sorted(target)) if name == METADATA else tuple(target)):
            state = f"not completed: the replicas are {numbers(existing.replicas)}"
        else:
            state = _COMPLETED
        states[name] = state
    return states


def _list(client: Client, options: argparse.Namespace) -> None:
    ongoing = client.reassignments()
    if options.json:
        print_json(
            [
                {
                    "topic": name[0],
                    "partition": name[1],
                    "replicas": each.replicas,
                    "adding": each.adding,
                    "removing": each.removing,
                }
                for name, each in sorted(ongoing.items())
            ]
        )
    elif not ongoing:
        print("No partition reassignments found.")
    else:
        print("Current partition reassignments:")
        for name, reassignment in sorted(ongoing.items()):
            print(_ongoing_text(name, reassignment))


def _ongoing_text(name: PartitionName, reassignment: Reassignment) -> str:
    text = f"{_partition_text(name)}: replicas: {numbers(reassignment.replicas)}."
    text += f" adding: {numbers(reassignment.adding)}." if reassignment.adding else ""
    return text + (f" removing: {numbers(reassignment.removing)}." if reassignment.removing else "")


# Proposals ---------------------------------------------------------------------------------------


def _generate(client: Client, options: argparse.Namespace) -> None:
    import json

    from kraftlog.cli.json_entries import Entries

    require_options(options, "topics-to-move-json-file", "broker-list")
    path = options.topics_to_move_json_file
    try:
        entries = Entries(read_text(path), "topics", '{"topics": [{"topic": …}]}')
        topics = [entries.topic(each) for each in entries.all]
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None
    current, changes = _proposal(client, options, topics)
    proposed = {**current, **changes}
    if options.json:
        assignments = {"current": current, "proposed": proposed}
        print_json({name: _assignment_json(each) for name, each in assignments.items()})
        return
    print(f"Current partition replica assignment\n{json.dumps(_assignment_json(current))}\n")
    print("Proposed partition reassignment configuration")
    print(json.dumps(_assignment_json(proposed)))


def _balance(client: Client, options: argparse.Namespace) -> int:
    ongoing = client.reassignments()
    if ongoing and not options.dry_run:
        raise ClientError(f"there are ongoing reassignments: {_partitions_text(ongoing)}")
    names = [topic.name for topic in client.topics()]
    current, changes = _proposal(client, options, names)
    if options.json and options.dry_run:
        print_json(_assignment_json(changes))
        return 0
    if not options.json:
        _print_plan(current, changes)
    if options.dry_run or not changes:
        return 0
    code = _start(client, options, current, changes, is_watched=True)
    failed = client.elect_preferred_leaders(changes)
    for error in failed.values():
        print(f"kraftlog reassign: no preferred leader: {error}", file=sys.stderr)
    return int(bool(code or failed))


def _proposal(
    client: Client, options: argparse.Namespace, topics: Iterable[str]
) -> tuple[dict[PartitionName, tuple[int, ...]], dict[PartitionName, tuple[int, ...]]]:
    """The current replicas of all partitions, and the new replicas of those to change."""
    from kraftlog.cli.balance import balanced

    rack_of_broker = {broker.id: broker.rack for broker in client.describe_cluster().brokers}
    broker_ids = _broker_list(options.broker_list) or list(rack_of_broker)
    missing = sorted(set(broker_ids) - set(rack_of_broker))
    if missing:
        raise ClientError(f"broker {missing[0]} is not in the cluster, or is fenced")
    racks = {
        each: None if options.disable_rack_aware else rack_of_broker[each] for each in broker_ids
    }
    current = {name: each.replicas for name, each in _partitions(client, topics).items()}
    return current, balanced(current, racks)


def _broker_list(text: str | None) -> list[int]:
    try:
        return [int(each) for each in text.split(",")] if text else []
    except ValueError:
        raise UsageError(f"--broker-list {text}: expected numbers as in 1,2,3") from None


def _print_plan(current: Assignment, changes: Assignment) -> None:
    if not changes:
        print("The partitions are balanced.")
        return
    print_table(
        ("PARTITION", "REPLICAS", "PROPOSED"),
        [
            (_partition_text(name), numbers(current[name]), numbers(replicas))
            for name, replicas in sorted(changes.items())
        ],
    )
    moved = sum(len(set(each) - set(current[name])) for name, each in changes.items())
    print(f"{len(changes)} of {len(current)} partitions change, {moved} replicas move")


# Progress ----------------------------------------------------------------------------------------


def watch(client: Client, targets: Assignment) -> bool:
    """Show the progress until no reassignment is ongoing; return whether all have succeeded."""
    progress = ChangeProgress(sys.stderr)
    try:
        while True:
            ongoing = client.reassignments().keys() & targets.keys()
            partitions = _partitions(client, [topic for topic, _ in targets])
            progress.show(progress_text(targets, partitions, ongoing))
            if not ongoing:
                break
            time.sleep(POLL_S)
    finally:
        progress.end()
    unfinished = {
        name: state for name, state in _states(client, targets).items() if state != _COMPLETED
    }
    for name, state in unfinished.items():
        print(f"kraftlog reassign: partition {_partition_text(name)}: {state}", file=sys.stderr)
    return not unfinished


def progress_text(
    targets: Assignment,
    partitions: Mapping[PartitionName, Partition],
    ongoing: Iterable[PartitionName],
) -> str:
    ongoing = set(ongoing)
    existing = [(targets[name], partitions[name]) for name in targets if name in partitions]
    in_sync = sum(len(set(target) & set(partition.isr)) for target, partition in existing)
    target_count = sum(map(len, targets.values()))
    done_count = len(targets) - len(ongoing)
    return (
        f"{done_count} of {len(targets)} partitions done, "
        f"{in_sync} of {target_count} replicas in sync"
    )


_ACTIONS = {
    "balance": _balance,
    "execute": _execute,
    "verify": _verify,
    "cancel": _cancel,
    "list": _list,
    "generate": _generate,
}
