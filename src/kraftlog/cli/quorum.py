"""`kraftlog quorum`: describe, change and repair the metadata quorum."""

from __future__ import annotations

from kraftlog.cli.common import UsageError, new_parser, run_guarded
from kraftlog.cli.show import print_json
from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from kraftlog.logstate.voters import VoterSet


def _parser() -> argparse.ArgumentParser:
    import argparse

    from kraftlog.client.arguments import MAX_INT64
    from kraftlog.client.command_parser import whole_number

    parser = new_parser(
        "quorum",
        "Describe the metadata quorum, change its voters, repair it.",
        "describe --status",
        controllers=True,
    )
    commands = parser.add_subparsers(
        dest="command", required=True, metavar="COMMAND", prog=parser.prog
    )
    repair = commands.add_parser(
        "repair",
        help="restore a quorum that lost a majority for good",
        description="Offline: append a new voter set to the metadata log of a surviving node after "
        "a majority of the voters is lost for good. Prints what may be lost, and changes "
        "nothing until that is accepted.",
    )
    repair.add_argument("--data", default="data", metavar="DIR", help="default: ./data")
    repair.add_argument(
        "--voters",
        required=True,
        metavar="ID@HOST:PORT[:DIRECTORY],...",
        help="the new voters, including this node",
    )
    repair.add_argument(
        "--accept-loss",
        metavar="OFFSET@EPOCH",
        help="log end offset printed by a run without this flag",
    )
    repair.add_argument(
        "--drop-from",
        type=whole_number(0, MAX_INT64),
        metavar="OFFSET",
        help="drop the record at this offset and all that follow it; for a record that no version "
        "can replay",
    )
    repair.add_argument(
        "--dry-run", action="store_true", help="change nothing, even with --accept-loss"
    )
    repair.add_argument("--json", action="store_true", default=argparse.SUPPRESS, help="print JSON")
    _add_online(commands)
    return parser


def _add_online(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the commands for a working quorum; `quorum_online` runs them."""
    from kraftlog.cli.common import add_connection
    from kraftlog.client.command_parser import uuid, whole_number

    describe = commands.add_parser("describe", help="describe the voters, observers and their lag")
    output = describe.add_mutually_exclusive_group(required=True)
    output.add_argument("--status", action="store_true", help="status of the quorum")
    output.add_argument("--replication", action="store_true", help="status of each replica")
    describe.add_argument(
        "-r", "--human-readable", action="store_true", help="print timestamps as ages"
    )
    add = commands.add_parser(
        "add-controller",
        help="add this machine's controller to the voters",
        description="Add a controller to the voters. --command-config names its server.properties; "
        "its log directory must be on this machine.",
    )
    remove = commands.add_parser(
        "remove-controller",
        help="remove a controller from the voters",
        description="Remove a controller from the voters. It continues as an observer, even with "
        "controller.quorum.auto.join.enable; add-controller makes it a voter again.",
    )
    remove.add_argument("-i", "--controller-id", type=whole_number(), required=True, metavar="N")
    remove.add_argument(
        *("-d", "--controller-directory-id"),
        type=uuid,
        metavar="ID",
        help="default: the directory of the voter with this id",
    )
    remove.add_argument(
        "--unregister",
        action="store_true",
        help="then remove its registration, too; a controller that runs registers again",
    )
    reassign = commands.add_parser(
        "reassign",
        help="move the quorum to other voters, one by one",
        description="Move the quorum to the given voters: the leader adds those that have caught "
        "up and removes the others, one at a time. The move continues even if the leader or this "
        "command ends. Another --to replaces it. Targets that do not fetch from the leader yet are "
        "refused, except with --no-wait.",
    )
    target = reassign.add_mutually_exclusive_group(required=True)
    target.add_argument("--to", metavar="ID,...", help="the node ids of the target voters")
    target.add_argument("--cancel", action="store_true", help="stop an unfinished move")
    reassign.add_argument(
        "--no-wait",
        action="store_true",
        help="return at once, without waiting for the end of the move",
    )
    for subparser in (add, remove, reassign):
        subparser.add_argument("--dry-run", action="store_true", help="print what would be done")
    for subparser in (describe, add, remove, reassign):
        add_connection(subparser, is_subcommand=True, controllers=True)


def run(arguments: Sequence[str]) -> int:
    options = _parser().parse_args(arguments)
    if options.command != "repair":
        from kraftlog.cli import quorum_online

        return quorum_online.run(options)
    return run_guarded("quorum repair", lambda: _repair(options))


def _repair(options: argparse.Namespace) -> int:
    import time

    from kraftlog.raft.repair import describe_repair, possible_losses
    from kraftlog.runner.repair import SurvivingDirectory
    from kraftlog.server.files import OsFiles

    voters = _voters(options.voters)
    accepted = None if options.dry_run else options.accept_loss
    survivor = SurvivingDirectory(OsFiles(), options.data.rstrip("/") or "/")
    try:
        if options.drop_from is not None:
            survivor.drop_from(options.drop_from)
        state = survivor.state
        lines = [*survivor.recovery, *describe_repair(state, voters)]
        if not options.json:
            print(*lines, sep="\n")
        result: dict[str, object] = {
            "node": state.me.id,
            "cluster_id": state.cluster_id,
            "log_start": state.start,
            "log_end": state.end,
            "last_epoch": state.last_epoch,
            "voters": list(state.voters.ids),
            "new_voters": list(voters.ids),
            "may_be_lost": possible_losses(state),
            "description": lines,
        }
        if options.dry_run or (possible_losses(state) and accepted is None):
            command = _repair_command(options, state.point)
            if options.json:
                print_json({**result, "changed": False, "command": command})
            else:
                print(f"Nothing was changed. To proceed:\n  {command}")
            return 0 if options.dry_run else 1
        repaired = survivor.repair(voters, accepted, time.time_ns() // 1_000_000)
        epoch, offset = repaired.election.epoch, repaired.batch.last_offset
        if options.json:
            print_json({**result, "changed": True, "epoch": epoch, "voters_offset": offset})
        else:
            print(f"Done: epoch {epoch}, voters at offset {offset}; start node {state.me.id}.")
        return 0
    finally:
        survivor.close()


def _repair_command(options: argparse.Namespace, point: str) -> str:
    """The command that accepts the losses up to this end of the log."""
    dropping = "" if options.drop_from is None else f" --drop-from {options.drop_from}"
    command = f"kraftlog quorum repair --data {options.data} --voters {options.voters}"
    return f"{command}{dropping} --accept-loss {point}"


def _voters(text: str) -> VoterSet:
    """Parse the voters; a voter without a directory id is identified by its node id alone."""
    from kraftlog.config.endpoints import parse_dynamic_voter, parse_voter
    from kraftlog.logstate.voters import Endpoint, ReplicaKey, Voter, VoterSet
    from kraftlog.types import NULL_UUID

    voters: list[Voter] = []
    for item in text.split(","):
        endpoint = parse_voter(item.strip()) or parse_dynamic_voter(item)
        if endpoint is None:
            raise UsageError(f"--voters {item.strip()}: expected ID@HOST:PORT[:DIRECTORY]")
        key = ReplicaKey(endpoint.id, endpoint.directory_id or NULL_UUID)
        voters.append(Voter(key, (Endpoint("CONTROLLER", endpoint.host, endpoint.port),)))
    return VoterSet(tuple(sorted(voters, key=lambda voter: voter.key.id)))
