"""`kraftlog groups`: the flags of `kafka-consumer-groups`."""

from __future__ import annotations

import sys

from kraftlog.cli.common import UsageError, new_parser, run_with_client
from kraftlog.cli.group_offsets import list_offsets
from kraftlog.cli.show import print_json, print_table
from kraftlog.errors import ClientError, RefusedError, error_name
from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from kraftlog.client.client import Client
    from kraftlog.client.groups import Group, ListedGroup
    from kraftlog.client.model import PartitionName


#: The states and types of groups in Kafka.
STATES = (
    *("PreparingRebalance", "CompletingRebalance", "Stable", "Dead", "Empty"),
    *("Assigning", "Reconciling", "NotReady"),
)
TYPES = ("Consumer", "Classic", "Share", "Streams")


def _parser() -> argparse.ArgumentParser:
    from kraftlog.client.command_parser import whole_number

    parser = new_parser(
        "groups",
        "List and describe consumer groups, set their offsets, delete them.",
        "--reset-offsets --group readers --topic demo:0 --to-earliest --execute",
        usage="kraftlog groups --list | --describe | --reset-offsets | --delete | "
        "--delete-offsets [options]",
    )
    actions = parser.add_argument_group("what to do").add_mutually_exclusive_group(required=True)
    for name in _ACTIONS:
        actions.add_argument(f"--{name}", dest="action", action="store_const", const=name)
    parser.add_argument("--group", action="append", default=[], metavar="ID")
    parser.add_argument("--all-groups", action="store_true")
    parser.add_argument("--topic", action="append", default=[], metavar="NAME[:0,1]")
    parser.add_argument(
        "--all-topics", action="store_true", help="all topics with committed offsets"
    )
    parser.add_argument("--members", action="store_true", help="with --describe: members")
    parser.add_argument("--offsets", action="store_true", help="with --describe: offsets and lag")
    parser.add_argument(
        "--state",
        nargs="?",
        const="",
        metavar="STATES",
        help="with --describe: state; with --list: filter by state",
    )
    parser.add_argument(
        "--type", nargs="?", const="", metavar="TYPES", help="with --list: show or filter by type"
    )
    parser.add_argument("--verbose", action="store_true", help="more detail: assignments, epochs")
    parser.add_argument("--timeout", type=whole_number(), metavar="MS", help="request timeout")
    _add_reset(parser)
    return parser


def _add_reset(parser: argparse.ArgumentParser) -> None:
    from kraftlog.client.arguments import MAX_INT64
    from kraftlog.client.command_parser import whole_number

    offset = whole_number(-MAX_INT64, MAX_INT64)
    target = parser.add_argument_group(
        "with --reset-offsets: where to"
    ).add_mutually_exclusive_group()
    for name in ("to-earliest", "to-latest", "to-current"):
        target.add_argument(f"--{name}", dest="spec", action="store_const", const=name)
    target.add_argument("--to-offset", type=offset, metavar="N")
    target.add_argument(
        "--shift-by", type=offset, metavar="N", help="shift offsets by N; negative: back"
    )
    target.add_argument(
        "--to-datetime", metavar="YYYY-MM-DDTHH:MM:SS.sss", help="UTC or with +HH:MM"
    )
    target.add_argument("--by-duration", metavar="PnDTnHnMnS", help="this long before now")
    target.add_argument("--from-file", metavar="CSV", help="offsets in the format of --export")
    mode = parser.add_mutually_exclusive_group()
    mode.add_argument("--execute", action="store_true", help="apply the reset")
    mode.add_argument("--dry-run", action="store_true", help="print the reset only (default)")
    parser.add_argument("--export", action="store_true", help="print offsets as CSV")


def run(arguments: Sequence[str]) -> int:
    return run_with_client("groups", _parser().parse_args(arguments), _run)


def _run(client: Client, options: argparse.Namespace) -> int:
    if options.timeout is not None:
        client.cluster.timeout_s = options.timeout / 1000
    return _ACTIONS[options.action](client, options)


def _list(client: Client, options: argparse.Namespace) -> int:
    _check_words("--state", options.state, STATES)
    _check_words("--type", options.type, TYPES)
    listed = [group for group in client.groups() if _is_selected(group, options)]
    if options.json:
        print_json(
            [{"group": group.id, "state": group.state, "type": group.type} for group in listed]
        )
        return 0
    if options.state is None and options.type is None:
        for group in listed:
            print(group.id)
        return 0
    heads = (
        ["GROUP"] + ["TYPE"] * (options.type is not None) + ["STATE"] * (options.state is not None)
    )
    columns = {"GROUP": "id", "TYPE": "type", "STATE": "state"}
    print_table(heads, [[getattr(group, columns[head]) for head in heads] for group in listed])
    return 0


def _check_words(option: str, text: str | None, expected: Sequence[str]) -> None:
    """Refuse a word of a list that names no state or type; case does not matter."""
    known = {each.lower() for each in expected}
    for word in (text or "").split(","):
        if word.strip() and word.strip().lower() not in known:
            raise UsageError(f"{option} {word.strip()}: expected one of {', '.join(expected)}")


def _is_selected(group: ListedGroup, options: argparse.Namespace) -> bool:
    """Whether this is a consumer group with one of the requested states and types."""
    if group.protocol_type not in {"", "consumer"}:
        return False
    for requested, value in ((options.state, group.state), (options.type, group.type)):
        if requested and value.lower() not in [
            word.strip().lower() for word in requested.split(",")
        ]:
            return False
    return True


def _selected_groups(client: Client, options: argparse.Namespace) -> list[str]:
    if options.all_groups:
        return [each.id for each in client.groups() if each.protocol_type in {"", "consumer"}]
    if not options.group:
        raise UsageError("--group is required")
    return list(options.group)


def _describe(client: Client, options: argparse.Namespace) -> int:
    if sum((options.members, options.offsets, options.state is not None)) > 1:
        raise UsageError("give only one of --members, --offsets and --state")
    if options.members:
        tables = [_members(client, name, options) for name in _selected_groups(client, options)]
    elif options.state is not None:
        tables = [_state(client, name) for name in _selected_groups(client, options)]
    else:
        tables = [_offsets(client, name, options) for name in _selected_groups(client, options)]
    heads = tables[0][0] if tables else ()
    rows = [row for _, table_rows in tables for row in table_rows]
    if options.json:
        keys = [head.lower().replace(" ", "_") for head in heads]
        print_json([dict(zip(keys, row, strict=True)) for row in rows])
        return 0
    if tables:
        print_table(heads, rows)
    return 0


def _offsets(
    client: Client, name: str, options: argparse.Namespace
) -> tuple[Sequence[str], list[list[object]]]:
    """The heads and rows of a table: offset, lag and member of each partition."""
    group = client.describe_group(name)
    owners = {partition: member for member in group.members for partition in member.assignment}
    committed = client.committed(name)
    names = sorted(set(owners) | set(committed))
    ends = _ends(client, names)
    rows: list[list[object]] = []
    for partition in names:
        group_offset = committed.get(partition)
        end = ends.get(partition)
        lag = None if group_offset is None or end is None else max(0, end - group_offset.offset)
        owner = owners.get(partition)
        row: list[object] = [name, *partition]
        if options.verbose:
            row.append(
                group_offset.leader_epoch
                if group_offset and group_offset.leader_epoch >= 0
                else None
            )
        row += [group_offset.offset if group_offset else None, end, lag]
        row += [owner.id, owner.host, owner.client_id] if owner else [None] * 3
        rows.append(row)
    if not group.members:
        print(f"group {name} has no members: {group.state}", file=sys.stderr)
    epoch = ["LEADER EPOCH"] * options.verbose
    heads = ["GROUP", "TOPIC", "PARTITION", *epoch, "OFFSET", "END", "LAG"]
    return [*heads, "MEMBER", "HOST", "CLIENT"], rows


def _ends(client: Client, names: Sequence[PartitionName]) -> dict[PartitionName, int]:
    """The log end offsets of those partitions that exist."""
    existing = {(p.topic, p.index) for topic in client.topics() for p in topic.partitions}
    return list_offsets(
        client, [partition for partition in names if partition in existing], "latest"
    )


def _members(
    client: Client, name: str, options: argparse.Namespace
) -> tuple[Sequence[str], list[list[object]]]:
    from kraftlog.client.groups import by_topic

    heads = ["GROUP", "MEMBER", "HOST", "CLIENT", "PARTITIONS"]
    rows: list[list[object]] = []
    for member in client.describe_group(name).members:
        rows.append([name, member.id, member.host, member.client_id, len(member.assignment)])
        if options.verbose:
            indexes_by_topic = by_topic(member.assignment)
            assignment = [
                f"{topic}:{','.join(map(str, indexes))}"
                for topic, indexes in indexes_by_topic.items()
            ]
            rows[-1] += [None if member.epoch < 0 else member.epoch, ";".join(assignment) or None]
    return heads + ["EPOCH", "ASSIGNMENT"] * options.verbose, rows


def _state(client: Client, name: str) -> tuple[Sequence[str], list[list[object]]]:
    group = client.describe_group(name)
    coordinator = f"{group.coordinator.address} ({group.coordinator.id})"
    heads = ["GROUP", "COORDINATOR", "ASSIGNOR", "TYPE", "STATE", "MEMBERS"]
    row: list[object] = [
        name,
        coordinator,
        group.assignor or None,
        group.type,
        group.state,
        len(group.members),
    ]
    return heads, [row]


def _delete(client: Client, options: argparse.Namespace) -> int:
    deleted, refused = [], []
    for name in _selected_groups(client, options):
        try:
            client.delete_group(name)
            deleted.append(name)
        except RefusedError as error:
            refused.append(str(error))
    if options.json:
        print_json({"deleted": deleted})
    else:
        for name in deleted:
            print(f"deleted {name}")
    for line in refused:
        print(f"kraftlog groups: {line}", file=sys.stderr)
    return 1 if refused else 0


def _delete_offsets(client: Client, options: argparse.Namespace) -> int:
    from kraftlog.cli.group_offsets import partitions_named

    if len(options.group) != 1 or not options.topic:
        raise UsageError("--delete-offsets needs one --group and a --topic")
    codes = client.delete_offsets(options.group[0], partitions_named(client, options.topic))
    rows = [
        [*partition, error_name(code) if code else "deleted"] for partition, code in codes.items()
    ]
    if options.json:
        print_json([dict(zip(("topic", "partition", "status"), row, strict=True)) for row in rows])
    else:
        print_table(("TOPIC", "PARTITION", "STATUS"), rows)
    return 1 if any(codes.values()) else 0


def _reset(client: Client, options: argparse.Namespace) -> int:
    """Print new offsets, and with --execute commit them."""
    from kraftlog.cli.group_offsets import as_csv, target_offsets

    plans = {
        name: target_offsets(client, name, options) for name in _selected_groups(client, options)
    }
    if options.execute:
        for name, plan in plans.items():
            _refuse_active_group(client, name)
            client.reset_offsets(name, plan)
    if options.export:
        print(as_csv(plans), end="")
    elif options.json:
        print_json(
            [
                {"group": name, "topic": topic, "partition": index, "offset": offset}
                for name, plan in plans.items()
                for (topic, index), offset in plan.items()
            ]
        )
    else:
        rows = [
            [name, *partition, offset]
            for name, plan in plans.items()
            for partition, offset in plan.items()
        ]
        print_table(("GROUP", "TOPIC", "PARTITION", "NEW OFFSET"), rows)
    if not options.execute and not options.dry_run:
        print("dry run: nothing was changed; add --execute to apply it", file=sys.stderr)
    return 0


def _refuse_active_group(client: Client, name: str) -> None:
    """Raise ClientError if the group has members: offsets can be reset only while it has none."""
    from kraftlog.errors import ErrorCode

    try:
        group: Group = client.describe_group(name)
    except RefusedError as error:
        if error.code == ErrorCode.GROUP_ID_NOT_FOUND:
            return  # the first commit creates the group
        raise
    if group.members:
        raise ClientError(
            f"group {name} is {group.state} with {len(group.members)} members; its "
            "offsets can be reset only while it has none"
        )


_ACTIONS = {
    "list": _list,
    "describe": _describe,
    "delete": _delete,
    "reset-offsets": _reset,
    "delete-offsets": _delete_offsets,
}
