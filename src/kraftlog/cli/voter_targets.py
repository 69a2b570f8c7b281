"""`kraftlog quorum reassign`: moves the quorum to other voters, one by one."""

from __future__ import annotations

import sys
import time

from kraftlog.cli.common import UsageError
from kraftlog.cli.progress import POLL_S, ChangeProgress
from kraftlog.cli.show import print_json
from kraftlog.client.arguments import MAX_INT32
from kraftlog.errors import ConfigError
from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    import argparse

    from kraftlog.client.client import Client
    from kraftlog.client.nodes import Quorum

#: How long a target may take until its first fetch, after which it is refused.
STARTING_S = 5.0


def run(client: Client, options: argparse.Namespace) -> int:
    if options.cancel:
        return _cancel(client, options)
    targets = _ids(options.to)
    if options.dry_run:
        _show_plan(client, targets, options)
        return 0
    _require_known(client, targets, waits=not options.no_wait)
    client.reassign_voters(targets)
    is_done = options.no_wait or _watch(client, targets)
    if options.json:
        print_json({"targets": targets, "voters": _voters(client.describe_quorum())})
    return 0 if is_done else 1


def _ids(text: str) -> list[int]:
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isascii() and part.isdecimal() for part in parts):
        raise UsageError(f"--to {text}: expected a list of node ids such as 4,5,6")
    ids = sorted(map(int, parts))
    if len(set(ids)) < len(ids) or ids[-1] > MAX_INT32:
        raise UsageError(f"--to {text}: expected different node ids, each up to {MAX_INT32}")
    return ids


def _require_known(client: Client, targets: list[int], *, waits: bool) -> None:
    """Refuse targets that do not replicate the metadata log: the move would wait for ever.

    A node that has just started gets some seconds. Without `waits` there is only a warning.
    """
    deadline = client.cluster.deadline(STARTING_S)
    while True:
        quorum = client.describe_quorum()
        known = {each.id for each in (*quorum.voters, *quorum.observers)}
        unknown = [target for target in targets if target not in known]
        if not unknown:
            return
        if not waits:
            warning = f"the move waits for nodes that do not fetch: {_listed(unknown)}"
            print(f"kraftlog quorum reassign: {warning}", file=sys.stderr)
            return
        deadline.pause(POLL_S)
        if deadline.is_over:
            raise ConfigError(
                f"neither voter nor observer of the metadata quorum: {_listed(unknown)}. Nothing "
                "was changed: start them first, or begin the move with --no-wait"
            )


def _voters(quorum: Quorum) -> list[int]:
    return sorted([each.id for each in quorum.voters])


def _cancel(client: Client, options: argparse.Namespace) -> int:
    quorum = client.describe_quorum()
    if not options.dry_run:
        client.reassign_voters(None)
    voters = _voters(client.describe_quorum())
    if options.json:
        print_json({"cancelled": quorum.targets, "voters": voters, "dryRun": options.dry_run})
    elif quorum.targets is None:
        print(f"no reassignment of the voters is in progress: they are {_listed(voters)}")
    else:
        outcome = "would be cancelled" if options.dry_run else "was cancelled"
        print(f"the move to {_listed(quorum.targets)} {outcome}: the voters are {_listed(voters)}")
    return 0


def _show_plan(client: Client, targets: list[int], options: argparse.Namespace) -> None:
    from kraftlog.client import voter_plans

    quorum = client.describe_quorum()
    voter_plans.check_reassignment(client.cluster, quorum, targets)
    plan = voter_plans.reassignment_plan(quorum, targets)
    if options.json:
        print_json(
            {
                "voters": [*plan.voters],
                "add": [*plan.to_add],
                "remove": [*plan.to_remove],
                "notFetching": [*plan.not_fetching],
            }
        )
        return
    print(f"voters now: {_listed(plan.voters)}")
    print(f"to add:     {_listed(plan.to_add)}")
    print(f"to remove:  {_listed(plan.to_remove)}")
    if plan.replaces is not None:
        print(f"replaces the unfinished move to {_listed(plan.replaces)}")
    if plan.not_fetching:
        print(f"not fetching yet, so the move would wait for them: {_listed(plan.not_fetching)}")


def _listed(ids: list[int] | tuple[int, ...]) -> str:
    return ", ".join(map(str, ids)) or "none"


def _watch(client: Client, targets: list[int]) -> bool:
    """Show the progress until the targets are reached; False if they were cancelled or replaced."""
    progress = ChangeProgress(sys.stderr)
    try:
        while True:
            quorum = client.describe_quorum()
            progress.show(progress_text(quorum))
            if quorum.targets is None or sorted(quorum.targets) != targets:
                break
            time.sleep(POLL_S)
    finally:
        progress.end()
    if quorum.targets is None and _voters(quorum) == targets:
        return True
    outcome = "was cancelled" if quorum.targets is None else f"is now to {_listed(quorum.targets)}"
    print(f"kraftlog quorum reassign: the move {outcome}", file=sys.stderr)
    return False


def progress_text(quorum: Quorum) -> str:
    text = f"voters {_listed(_voters(quorum))}"
    if quorum.targets is not None:
        text += f"; target voters {_listed(quorum.targets)}"
    if quorum.awaited_targets:
        text += f"; waits for {_listed(quorum.awaited_targets)} to register and catch up"
    return text
