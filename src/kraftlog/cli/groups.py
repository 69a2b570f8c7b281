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


def _parser() -> argparse.ArgumentParser:
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
    parser.add_argument("--timeout", type=int, metavar="MS", help="request timeout")
    _add_reset(parser)
    return parser


def _add_reset(parser: argparse.ArgumentParser) -> None:
    where = parser.add_argument_group(
        "with --reset-offsets: where to"
    ).add_mutually_exclusive_group()
    for name in ("to-earliest", "to-latest", "to-current"):
        where.add_argument(f"--{name}", dest="spec", action="store_const", const=name)
    where.add_argument("--to-offset", type=int, metavar="N")
    where.add_argument(
        "--shift-by", type=int, metavar="N", help="shift offsets by N; negative: back"
    )
    where.add_argument(
        "--to-datetime", metavar="YYYY-MM-DDTHH:MM:SS.sss", help="UTC or with +HH:MM"
    )
    where.add_argument("--by-duration", metavar="PnDTnHnMnS", help="this long before now")
    where.add_argument("--from-file", metavar="CSV", help="offsets in the format of --export")
    doing = parser.add_mutually_exclusive_group()
    doing.add_argument("--execute", action="store_true", help="apply the reset")
    doing.add_argument("--dry-run", action="store_true", help="print the reset only (default)")
    parser.add_argument("--export", action="store_true", help="print offsets as CSV")


def run(arguments: Sequence[str]) -> int:
    return run_with_client("groups", _parser().parse_args(arguments), _run)


def _run(client: Client, options: argparse.Namespace) -> int:
    if options.timeout is not None:
        client.cluster.timeout_s = options.timeout / 1000
    return _ACTIONS[options.action](client, options)


def _list(client: Client, options: argparse.Namespace) -> int:
    found = [each for each in client.groups() if _is_selected(each, options)]
    if options.json:
        print_json([{"group": each.id, "state": each.state, "type": each.type} for each in found])
        return 0
    if options.state is None and options.type is None:
        for each in found:
            print(each.id)
        return 0
    heads = (
        ["GROUP"] + ["TYPE"] * (options.type is not None) + ["STATE"] * (options.state is not None)
    )
    columns = {"GROUP": "id", "TYPE": "type", "STATE": "state"}
    print_table(heads, [[getattr(each, columns[head]) for head in heads] for each in found])
    return 0


def _is_selected(group: ListedGroup, options: argparse.Namespace) -> bool:
    """Whether it is a consumer group with one of the given states and types."""
    if group.protocol_type not in {"", "consumer"}:
        return False
    for wanted, own in ((options.state, group.state), (options.type, group.type)):
        if wanted and own.lower() not in [word.strip().lower() for word in wanted.split(",")]:
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
        parts = [_members(client, name, options) for name in _selected_groups(client, options)]
    elif options.state is not None:
        parts = [_state(client, name) for name in _selected_groups(client, options)]
    else:
        parts = [_offsets(client, name, options) for name in _selected_groups(client, options)]
    heads = parts[0][0] if parts else ()
    rows = [row for _, part in parts for row in part]
    if options.json:
        keys = [head.lower().replace(" ", "_") for head in heads]
        print_json([dict(zip(keys, row, strict=True)) for row in rows])
        return 0
    print_table(heads, rows)
    return 0


def _offsets(
    client: Client, name: str, options: argparse.Namespace
) -> tuple[Sequence[str], list[list[object]]]:
    """Offset, lag and member of each partition."""
    group = client.describe_group(name)
    owners = {place: member for member in group.members for place in member.assignment}
    committed = client.committed(name)
    names = sorted(set(owners) | set(committed))
    ends = _ends(client, names)
    rows: list[list[object]] = []
    for place in names:
        done = committed.get(place)
        end = ends.get(place)
        lag = None if done is None or end is None else max(0, end - done.offset)
        owner = owners.get(place)
        row: list[object] = [name, *place]
        if options.verbose:
            row.append(done.leader_epoch if done and done.leader_epoch >= 0 else None)
        row += [done.offset if done else None, end, lag]
        row += [owner.id, owner.host, owner.client_id] if owner else [None] * 3
        rows.append(row)
    if not group.members:
        print(f"group {name} has no members: {group.state}", file=sys.stderr)
    epoch = ["LEADER EPOCH"] * options.verbose
    heads = ["GROUP", "TOPIC", "PARTITION", *epoch, "OFFSET", "END", "LAG"]
    return [*heads, "MEMBER", "HOST", "CLIENT"], rows


def _ends(client: Client, names: Sequence[PartitionName]) -> dict[PartitionName, int]:
    """Log end offsets of existing partitions."""
    existing = {(p.topic, p.index) for topic in client.topics() for p in topic.partitions}
    return list_offsets(client, [place for place in names if place in existing], "latest")


def _members(
    client: Client, name: str, options: argparse.Namespace
) -> tuple[Sequence[str], list[list[object]]]:
    from kraftlog.client.groups import by_topic

    heads = ["GROUP", "MEMBER", "HOST", "CLIENT", "PARTITIONS"]
    rows: list[list[object]] = []
    for member in client.describe_group(name).members:
        rows.append([name, member.id, member.host, member.client_id, len(member.assignment)])
        if options.verbose:
            share = by_topic(member.assignment)
            shown = [f"{topic}:{','.join(map(str, at))}" for topic, at in share.items()]
            rows[-1] += [None if member.epoch < 0 else member.epoch, ";".join(shown) or None]
    return heads + ["EPOCH", "ASSIGNMENT"] * options.verbose, rows


def _state(client: Client, name: str) -> tuple[Sequence[str], list[list[object]]]:
    group = client.describe_group(name)
    where = f"{group.coordinator.address} ({group.coordinator.id})"
    heads = ["GROUP", "COORDINATOR", "ASSIGNOR", "TYPE", "STATE", "MEMBERS"]
    row: list[object] = [
        name,
        where,
        group.assignor or None,
        group.type,
        group.state,
        len(group.members),
    ]
    return heads, [row]


def _delete(client: Client, options: argparse.Namespace) -> int:
    done, refused = [], []
    for name in _selected_groups(client, options):
        try:
            client.delete_group(name)
            done.append(name)
        except RefusedError as error:
            refused.append(str(error))
    if options.json:
        print_json({"deleted": done})
    else:
        for name in done:
            print(f"deleted {name}")
    for line in refused:
        print(f"kraftlog groups: {line}", file=sys.stderr)
    return 1 if refused else 0


def _delete_offsets(client: Client, options: argparse.Namespace) -> int:
    from kraftlog.cli.group_offsets import partitions_named

    if len(options.group) != 1 or not options.topic:
        raise UsageError("--delete-offsets needs one --group and a --topic")
    codes = client.delete_offsets(options.group[0], partitions_named(client, options.topic))
    rows = [[*place, error_name(code) if code else "deleted"] for place, code in codes.items()]
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
            _must_be_idle(client, name)
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
        rows = [[name, *at, offset] for name, plan in plans.items() for at, offset in plan.items()]
        print_table(("GROUP", "TOPIC", "PARTITION", "NEW OFFSET"), rows)
    if not options.execute and not options.dry_run:
        print("dry run: nothing was changed; add --execute to apply it", file=sys.stderr)
    return 0


def _must_be_idle(client: Client, name: str) -> None:
    from kraftlog.errors import ErrorCode

    try:
        group: Group = client.describe_group(name)
    except RefusedError as error:
        if error.code == ErrorCode.GROUP_ID_NOT_FOUND:
            return  # the first commit creates the group
        raise
    if group.members:
        raise ClientError(
            f"group {name} is {group.state} with {len(group.members)} members; offsets are set "
            "while it has none"
        )


_ACTIONS = {
    "list": _list,
    "describe": _describe,
    "delete": _delete,
    "reset-offsets": _reset,
    "delete-offsets": _delete_offsets,
}
