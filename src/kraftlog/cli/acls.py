"""`kraftlog acls`: the flags of `kafka-acls`, and what it prints."""

from __future__ import annotations

import sys
from itertools import product

from kraftlog.authorization.acls import (
    CLUSTER_NAME,
    OPERATIONS,
    PATTERN_TYPES,
    PERMISSIONS,
    RESOURCE_TYPES,
    WILDCARD,
    AclFilter,
    Operation,
    PatternType,
    Permission,
    ResourceType,
)
from kraftlog.cli.common import UsageError, new_parser, run_with_client
from kraftlog.cli.show import print_json
from kraftlog.client import acls
from kraftlog.client.acls import Entry, Pattern, filter_by
from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    import argparse
    from collections.abc import Collection, Iterable, Sequence

    from kraftlog.client.client import Client

    #: What is to be added or removed, by pattern.
    Wanted = dict[Pattern, set[Entry]]

CLUSTER = Pattern(ResourceType.CLUSTER, CLUSTER_NAME, PatternType.LITERAL)
#: Options that name resources of a type, repeatable.
RESOURCES = {
    "topic": (ResourceType.TOPIC, "topics"),
    "group": (ResourceType.GROUP, "groups"),
    "transactional-id": (ResourceType.TRANSACTIONAL_ID, "transactional ids"),
    "delegation-token": (ResourceType.DELEGATION_TOKEN, "delegation tokens"),
    "user-principal": (ResourceType.USER, "users whose tokens others create or describe"),
}
#: The operations on each type of resource, besides ALL.
SUPPORTED = {
    ResourceType.TOPIC: "READ WRITE CREATE DESCRIBE DELETE ALTER DESCRIBE_CONFIGS ALTER_CONFIGS",
    ResourceType.GROUP: "READ DESCRIBE DELETE DESCRIBE_CONFIGS ALTER_CONFIGS",
    ResourceType.CLUSTER: "CREATE CLUSTER_ACTION DESCRIBE_CONFIGS ALTER_CONFIGS "
    "IDEMPOTENT_WRITE ALTER DESCRIBE",
    ResourceType.TRANSACTIONAL_ID: "DESCRIBE WRITE TWO_PHASE_COMMIT",
    ResourceType.DELEGATION_TOKEN: "DESCRIBE",
    ResourceType.USER: "CREATE_TOKENS DESCRIBE_TOKENS",
}
PRODUCER = (Operation.WRITE, Operation.DESCRIBE, Operation.CREATE)
PRODUCER_TRANSACTIONS = (Operation.WRITE, Operation.DESCRIBE)
CONSUMER = (Operation.READ, Operation.DESCRIBE)


def _parser() -> argparse.ArgumentParser:
    parser = new_parser(
        "acls",
        "List, add and remove ACLs, which say who may do what.",
        "--add --allow-principal User:alice --operation Read --topic orders",
        controllers=True,
    )
    action = parser.add_mutually_exclusive_group(required=True)
    action.add_argument("--list", action="store_true", help="list the ACLs of resources, or all")
    action.add_argument("--add", action="store_true", help="add ACLs")
    action.add_argument("--remove", action="store_true", help="remove ACLs")
    resources = parser.add_argument_group("resources")
    for name, (_, what) in RESOURCES.items():
        resources.add_argument(
            f"--{name}", action="append", default=[], metavar="NAME", help=f"{what}; *: all"
        )
    resources.add_argument("--cluster", action="store_true", help="the cluster")
    resources.add_argument(
        "--resource-pattern-type",
        default="literal",
        type=str.lower,
        choices=[name.lower() for name in PATTERN_TYPES.values()],
        help="literal (default); prefixed: names that begin so; to list and remove also any, and "
        "match: all patterns that match the name",
    )
    who = parser.add_argument_group("who may do what")
    for verb in ("allow", "deny"):
        who.add_argument(
            f"--{verb}-principal", action="append", default=[], metavar="TYPE:NAME", type=_principal
        )
        who.add_argument(
            f"--{verb}-host", action="append", default=[], metavar="ADDRESS", help="default: *"
        )
    names = ", ".join(_camel(name) for name in OPERATIONS.values() if name != "ANY")
    who.add_argument("--operation", action="append", default=[], metavar="NAME", help=names)
    who.add_argument("--producer", action="store_true", help="all that a producer of topics needs")
    who.add_argument("--idempotent", action="store_true", help="with --producer: idempotent writes")
    who.add_argument(
        "--consumer", action="store_true", help="all that a consumer of topics in a group needs"
    )
    parser.add_argument(
        "--principal",
        action="append",
        default=[],
        metavar="TYPE:NAME",
        type=_principal,
        help="with --list: only ACLs that name it",
    )
    parser.add_argument("--force", action="store_true", help="remove without asking")
    return parser


def run(arguments: Sequence[str]) -> int:
    return run_with_client("acls", _parser().parse_args(arguments), _work)


def _work(client: Client, options: argparse.Namespace) -> None:
    _check(options)
    if options.list:
        _list(client, options)
    elif options.add:
        _add(client, options)
    else:
        _remove(client, options)


def _principal(text: str) -> str:
    if ":" not in text:
        from argparse import ArgumentTypeError

        raise ArgumentTypeError(f"{text}: expected TYPE:NAME, as in User:alice")
    return text.strip()


def _camel(name: str) -> str:
    return name.title().replace("_", "")


def _check(options: argparse.Namespace) -> None:
    """Refuse options that do not go together, as Kafka's tool does."""
    changes = ("producer", "consumer", "allow_host", "allow_principal", "deny_host")
    _refuse_with(options, "list", (*changes, "deny_principal"))
    for role in ("producer", "consumer"):
        _refuse_with(options, role, ("operation", "deny_principal", "deny_host"))
    if options.principal and not options.list:
        raise UsageError("--principal is for --list")
    if options.producer and not options.topic:
        raise UsageError("--producer needs --topic")
    if options.idempotent and not options.producer:
        raise UsageError("--idempotent is for --producer")
    others = not options.producer and (options.cluster or options.transactional_id)
    if options.consumer and (not options.topic or not options.group or others):
        raise UsageError("--consumer needs --topic and --group, and no other resource")


def _refuse_with(options: argparse.Namespace, name: str, others: Iterable[str]) -> None:
    given = [each for each in others if getattr(options, each)]
    if getattr(options, name) and given:
        raise UsageError(f"--{given[0].replace('_', '-')} cannot be combined with --{name}")


# Options to ACLs ---------------------------------------------------------------------------------


def _patterns(options: argparse.Namespace) -> list[Pattern]:
    """The resources that the options name."""
    pattern_type = _number(PATTERN_TYPES, options.resource_pattern_type)
    named = [
        Pattern(kind, name.strip(), pattern_type)
        for option, (kind, _) in RESOURCES.items()
        for name in getattr(options, option.replace("-", "_"))
    ]
    if pattern_type == PatternType.LITERAL and (options.cluster or options.idempotent):
        named.append(CLUSTER)
    return list(dict.fromkeys(named))


def _wanted(options: argparse.Namespace) -> Wanted:
    """The ACLs that the options ask for, by resource."""
    patterns = _patterns(options)
    if not patterns:
        options_of = ", ".join(f"--{name}" for name in RESOURCES)
        raise UsageError(f"name at least one resource: {options_of} or --cluster")
    wanted: Wanted = {}
    if not options.producer and not options.consumer:
        operations = [_operation(text) for text in options.operation] or [Operation.ALL]
        wanted = {pattern: _entries(options, operations) for pattern in patterns}
    for pattern in patterns:
        operations = _operations_of_roles(options, pattern.resource_type)
        if operations:
            wanted[pattern] = _entries(options, operations)
    if options.idempotent:
        wanted[CLUSTER] = _entries(options, [Operation.IDEMPOTENT_WRITE])
    _check_operations(wanted)
    return wanted


def _operations_of_roles(options: argparse.Namespace, kind: int) -> list[int]:
    """What a producer, a consumer or both need of a resource."""
    operations: list[int] = []
    if options.producer and kind == ResourceType.TOPIC:
        operations += PRODUCER
    if options.producer and kind == ResourceType.TRANSACTIONAL_ID:
        operations += PRODUCER_TRANSACTIONS
    if options.consumer and kind == ResourceType.TOPIC:
        operations += CONSUMER
    if options.consumer and kind == ResourceType.GROUP:
        operations.append(Operation.READ)
    return operations


def _entries(options: argparse.Namespace, operations: Collection[int]) -> set[Entry]:
    return {
        Entry(principal, host.strip(), operation, permission)
        for principals, hosts, permission in (
            (options.allow_principal, options.allow_host, Permission.ALLOW),
            (options.deny_principal, options.deny_host, Permission.DENY),
        )
        for principal, host, operation in product(principals, hosts or [WILDCARD], operations)
    }


def _operation(text: str) -> int:
    for number, name in OPERATIONS.items():
        if number != Operation.ANY and _plain(name) == _plain(text):
            return number
    raise UsageError(f"--operation {text}: there is no such operation")


def _plain(name: str) -> str:
    return name.strip().replace("_", "").lower()


def _number(names: dict[int, str], text: str) -> int:
    return next(number for number, name in names.items() if name == text.upper())


def _check_operations(wanted: Wanted) -> None:
    for pattern, entries in wanted.items():
        supported = SUPPORTED[pattern.resource_type].split()
        for entry in entries:
            name = OPERATIONS[entry.operation]
            if name not in {"ALL", *supported}:
                kind = RESOURCE_TYPES[pattern.resource_type]
                expected = ", ".join(map(_camel, ["ALL", *supported]))
                raise UsageError(f"--operation {_camel(name)}: operations on {kind} are {expected}")


# Actions -----------------------------------------------------------------------------------------


def _list(client: Client, options: argparse.Namespace) -> None:
    conditions = [filter_by(pattern) for pattern in _patterns(options)] or [AclFilter()]
    found: dict[Pattern, set[Entry]] = {}
    for condition in conditions:
        for pattern, entries in acls.describe(client.cluster, condition).items():
            found.setdefault(pattern, set()).update(entries)
    if options.json:
        _print_json(found, options.principal)
        return
    if not options.principal:
        _print(found)
    for principal in options.principal:
        print(f"ACLs for principal `{principal}`")
        _print(_of(found, principal))


def _of(found: Wanted, principal: str) -> Wanted:
    named = {
        pattern: {entry for entry in entries if entry.principal == principal}
        for pattern, entries in found.items()
    }
    return {pattern: entries for pattern, entries in named.items() if entries}


def _print(found: Wanted) -> None:
    for pattern in sorted(found):
        print(f"Current ACLs for resource `{pattern}`:")
        print(_lines(found[pattern]))


def _lines(entries: Iterable[Entry]) -> str:
    return "".join([f"\t{entry}\n" for entry in sorted(entries)])


def _print_json(found: Wanted, principals: Sequence[str]) -> None:
    print_json(
        [
            {
                "resource": RESOURCE_TYPES.get(pattern.resource_type, "UNKNOWN"),
                "name": pattern.name,
                "pattern": PATTERN_TYPES.get(pattern.pattern_type, "UNKNOWN"),
                "principal": entry.principal,
                "host": entry.host,
                "operation": OPERATIONS.get(entry.operation, "UNKNOWN"),
                "permission": PERMISSIONS.get(entry.permission, "UNKNOWN"),
            }
            for pattern in sorted(found)
            for entry in sorted(found[pattern])
            if not principals or entry.principal in principals
        ]
    )


def _add(client: Client, options: argparse.Namespace) -> None:
    if options.resource_pattern_type not in {"literal", "prefixed"}:
        raise UsageError(
            f"--resource-pattern-type {options.resource_pattern_type} is not for --add"
        )
    for pattern, entries in _wanted(options).items():
        if not entries:
            raise UsageError("--add needs --allow-principal or --deny-principal")
        existing = acls.describe(client.cluster, filter_by(pattern)).get(pattern, [])
        for entry in sorted(entries.intersection(existing)):
            print(f"Acl (pattern={pattern}, entry={entry}) already exists.")
        new = sorted(entries.difference(existing))
        if new:
            print(f"Adding ACLs for resource `{pattern}`: \n {_lines(new)}")
            acls.create(client.cluster, pattern, new)


def _remove(client: Client, options: argparse.Namespace) -> None:
    for pattern, entries in _wanted(options).items():
        question = f"Are you sure you want to delete all ACLs for resource filter `{pattern}`?"
        if entries:
            question = (
                f"Are you sure you want to remove ACLs: \n {_lines(entries)}"
                f" from resource filter `{pattern}`?"
            )
        if options.force or _is_confirmed(question):
            conditions = [filter_by(pattern, entry) for entry in sorted(entries)]
            acls.delete(client.cluster, conditions or [filter_by(pattern)])


def _is_confirmed(question: str) -> bool:
    print(f"{question} (y/n)", flush=True)
    return sys.stdin.readline().strip().lower() == "y"
