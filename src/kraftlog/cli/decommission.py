"""`kraftlog decommission`: takes a node out of the cluster for good, in order (R14).

It removes the node from the voters, moves its partitions away, and unregisters it, as a broker and
as a controller. Each step looks at the cluster first, so that a repeated command continues where an
interrupted one ended.
"""

from __future__ import annotations

import sys
import time

from kraftlog.cli.common import new_parser, run_with_client
from kraftlog.cli.progress import POLL_S, ChangeProgress
from kraftlog.cli.show import numbers, print_json
from kraftlog.client.deadline import Deadline
from kraftlog.errors import (
    ClientError,
    ErrorCode,
    RefusedError,
    UnsupportedApiError,
    UnsupportedVersionError,
)
from kraftlog.value import TYPE_CHECKING, Value

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from kraftlog.client.client import Client
    from kraftlog.client.model import Broker, PartitionName


def run(arguments: Sequence[str]) -> int:
    from kraftlog.client.command_parser import whole_number

    parser = new_parser(
        "decommission",
        "Take a node out of the cluster for good: out of the voters, its partitions moved to other "
        "brokers, unregistered.\nIf it was interrupted, run it again: it continues where it ended.",
        "3 --dry-run",
    )
    parser.add_argument("node", type=whole_number(), metavar="ID", help="the id of the node")
    parser.add_argument("--dry-run", action="store_true", help="print what would be done")
    parser.add_argument(
        "--disable-rack-aware", action="store_true", help="ignore the racks of brokers"
    )
    return run_with_client("decommission", parser.parse_args(arguments), _decommission)


#: The node is no registered controller, or metadata.version is below 4.4-IV2.
_NO_REGISTRATION = {ErrorCode.CONTROLLER_ID_NOT_REGISTERED, ErrorCode.UNSUPPORTED_VERSION}


class _FencedBrokersError(ClientError):
    """The moves need brokers that are fenced."""


class _Moves(Value):
    """The partitions to be moved from a node."""

    #: The new replicas of each partition that is on the node and not leaving it, or will be on it.
    changes: dict[PartitionName, tuple[int, ...]]
    #: How many partitions have a replica on the node, or will by an ongoing reassignment.
    partitions: int
    #: Those of `changes` that replace an ongoing reassignment.
    replacing: set[PartitionName]


def _voters(client: Client) -> list[int]:
    return [each.id for each in client.describe_quorum().voters]


def _broker(client: Client, node: int) -> Broker | None:
    """The registered broker with this id."""
    brokers = client.describe_cluster(fenced=True).brokers
    return next((each for each in brokers if each.id == node), None)


def _moves(client: Client, options: argparse.Namespace) -> _Moves:
    from kraftlog.cli.balance import TooFewBrokersError, moved_away

    node = options.node
    ongoing = client.reassignments()
    current = {
        (topic.name, each.index): each.replicas
        for topic in client.topics()
        for each in topic.partitions
    }
    wanted = {
        name: ongoing[name].target if name in ongoing else replicas
        for name, replicas in current.items()
    }
    others = [each for each in client.describe_cluster(fenced=True).brokers if each.id != node]
    racks = {
        each.id: None if options.disable_rack_aware else each.rack
        for each in others
        if not each.is_fenced
    }
    try:
        changes = moved_away(wanted, racks, node)
    except TooFewBrokersError as error:
        if error.needed > len(others):
            raise
        fenced = numbers([each.id for each in others if each.is_fenced])
        raise _FencedBrokersError(f"{error} (fenced, not counted: {fenced})") from None
    return _Moves(
        changes,
        sum(1 for name, replicas in current.items() if node in (*replicas, *wanted[name])),
        {name for name in changes if name in ongoing},
    )


def _decommission(client: Client, options: argparse.Namespace) -> int:
    node = options.node
    voters = _voters(client)
    if voters == [node]:
        raise ClientError(f"node {node} is the only voter: add another one first")
    is_voter, is_registered = node in voters, _broker(client, node) is not None
    if options.dry_run:
        _print_plan(voters, _moves(client, options), options, is_registered=is_registered)
        return 0
    # An impossible decommission is refused before any change.
    progress = ChangeProgress(sys.stderr)
    try:
        moves = _plan(client, options, progress, Deadline(0))
    finally:
        progress.end()
    if is_voter:
        _remove_voter(client, node)
    if is_registered or moves.partitions:
        _move_partitions(client, options)
    if is_registered:
        _unregister(client, options)
    _unregister_controller(client, node)
    if node in _voters(client):
        raise ClientError(
            f"node {node} is a voter again. Either an operator has added it: run this command "
            "again. Or it has joined by itself under a leader that is a node of Apache Kafka: set "
            "controller.quorum.auto.join.enable=false on it, restart it, and run this command again"
        )
    if options.json:
        print_json({"node": node, "wasVoter": is_voter, "moved": moves.partitions})
    elif is_voter or is_registered:
        print(f"node {node} is decommissioned")
    else:
        print(f"node {node} is neither a voter nor a registered broker")
    return 0


def _print_plan(
    voters: list[int], moves: _Moves, options: argparse.Namespace, *, is_registered: bool
) -> None:
    node = options.node
    if options.json:
        changes = [
            {"topic": name[0], "partition": name[1], "replicas": list(replicas)}
            for name, replicas in sorted(moves.changes.items())
        ]
        print_json(
            {
                "node": node,
                "removeVoter": node in voters,
                "move": changes,
                "unregister": is_registered,
            }
        )
        return
    rest = numbers([each for each in voters if each != node])
    print(f"voters:     {f'{rest} would be left' if node in voters else 'the node is not a voter'}")
    print(f"partitions: {len(moves.changes)} would move to other brokers")
    for name, replicas in sorted(moves.changes.items()):
        print(f"  {name[0]}-{name[1]} to {numbers(replicas)}")
    text = (
        "the node would be unregistered once it is stopped"
        if is_registered
        else "the node is not a registered broker"
    )
    print(f"broker:     {text}")


def _remove_voter(client: Client, node: int) -> None:
    _report(f"removing node {node} from the voters")
    try:
        client.remove_voter(node, client.voter_directory(node))
    except RefusedError as error:
        # VOTER_NOT_FOUND: it was removed, but the response was lost.
        if error.code != ErrorCode.VOTER_NOT_FOUND:
            raise


def _move_partitions(client: Client, options: argparse.Namespace) -> None:
    """Move until no partition has the node; new topics may have been placed on it meanwhile."""
    progress = ChangeProgress(sys.stderr)
    try:
        while True:
            moves = _plan(client, options, progress, client.cluster.deadline(), starts_moves=True)
            if not moves.partitions:
                return
            progress.show(f"{moves.partitions} partitions to be moved from node {options.node}")
            time.sleep(POLL_S)
    finally:
        progress.end()


def _plan(
    client: Client,
    options: argparse.Namespace,
    progress: ChangeProgress,
    deadline: Deadline,
    *,
    starts_moves: bool = False,
) -> _Moves:
    """Plan the moves, and start them with `starts_moves`; wait while they need fenced brokers.

    The broker that is asked may lag, and a plan made from stale metadata may be impossible or
    refused: until the deadline, such a plan is made again.
    """
    from kraftlog.cli.balance import TooFewBrokersError

    while True:
        try:
            moves = _moves(client, options)
            if starts_moves:
                _start(client, moves)
            return moves
        except _FencedBrokersError as error:
            progress.show(f"waiting for other brokers: {error}")
        except (RefusedError, TooFewBrokersError) as error:
            if deadline.is_over:
                raise
            progress.show(f"planning again: {error}")
        time.sleep(POLL_S)


def _start(client: Client, moves: _Moves) -> None:
    """Start the moves; raise the first refusal.

    Only a move that replaces an ongoing reassignment may change the number of replicas. Any other
    move keeps it, unless the asked broker still showed the replicas of a finished reassignment;
    such a move must be refused.
    """
    for may_change in (False, True):
        targets = {
            name: replicas
            for name, replicas in moves.changes.items()
            if (name in moves.replacing) is may_change
        }
        if not targets:
            continue
        try:
            refused = client.reassign_partitions(
                targets, allow_replication_factor_change=may_change
            )
        except UnsupportedVersionError:  # an old broker cannot refuse changes of the factor
            refused = client.reassign_partitions(targets)
        for error in refused.values():
            raise error


def _unregister(client: Client, options: argparse.Namespace) -> None:
    """Unregister the broker once it is stopped: a running one would register again.

    Until it was fenced, new topics may have been placed on it: their partitions are moved first.
    """
    node, is_reported = options.node, False
    while (broker := _broker(client, node)) is not None and not broker.is_fenced:
        if not is_reported:
            _report(f"stop node {node} now; waiting until it is fenced")
            is_reported = True
        time.sleep(POLL_S)
    if broker is not None:
        _move_partitions(client, options)
        _report(f"unregistering broker {node}")
        client.unregister_broker(node)


def _unregister_controller(client: Client, node: int) -> None:
    """Remove its registration as a controller, which would limit the levels of features forever."""
    try:
        client.unregister_controller(node)
    except UnsupportedApiError:  # Kafka before 4.4
        return
    except RefusedError as error:
        if error.code not in _NO_REGISTRATION:
            raise
    else:
        _report(f"unregistered controller {node}")


def _report(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
