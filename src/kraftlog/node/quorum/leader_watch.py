"""`LeaderWatch`: logs why a node knows no leader of the quorum, and when it has found one again.

A quorum without a majority elects nobody and serves nothing. The operator learns which voters are
needed, which of them respond, and why the others do not.
"""

from __future__ import annotations

from kraftlog.config.endpoints import bracketed
from kraftlog.effects import printable
from kraftlog.part import Part
from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from kraftlog.node.quorum.driver import QuorumDriver
    from kraftlog.types import Now

#: How long a node knows no leader before it logs that: longer than elections take.
LOG_AFTER_MS = 5_000
#: How often it repeats the line.
REPEAT_MS = 60_000


class LeaderWatch(Part):
    """`poll` logs a missing leader after a while, repeats that rarely, and logs the next leader."""

    task = "watching the leader"

    def __init__(self, quorum: QuorumDriver, log_line: Callable[[str], None]) -> None:
        self._quorum = quorum
        self._log_line = log_line
        #: Since when no leader is known; None while one is.
        self._missing_since_ms: int | None = None
        self._due_ms = 0
        self._has_logged = False

    def deadline(self) -> int | None:
        return None if self._missing_since_ms is None else self._due_ms

    def poll(self, now: Now) -> None:
        core, time_ms = self._quorum.core, now.monotonic_ms
        if core.role.has_live_leader(core):
            self._leader_found(time_ms)
        elif self._missing_since_ms is None:
            self._missing_since_ms, self._due_ms = time_ms, time_ms + LOG_AFTER_MS
            self._quorum.contacts.forget()
        elif time_ms >= self._due_ms:
            self._due_ms = time_ms + REPEAT_MS
            if core.log.voter_set.ids:  # else `Discovery` logs the servers that it asks
                self._has_logged = True
                self._log_line(self._no_leader_line((time_ms - self._missing_since_ms) // 1000))

    def postpone(self, now: Now) -> None:
        """`poll` has raised: describe the voters again later."""
        self._due_ms = now.monotonic_ms + REPEAT_MS

    def _leader_found(self, time_ms: int) -> None:
        if self._has_logged and self._missing_since_ms is not None:
            self._has_logged = False
            seconds = (time_ms - self._missing_since_ms) // 1000
            self._log_line(
                f"quorum: node {self._quorum.leader_id} leads in epoch {self._quorum.epoch}, after "
                f"{seconds} s without a leader"
            )
        self._missing_since_ms = None

    def _no_leader_line(self, seconds: int) -> str:
        core = self._quorum.core
        voters = core.log.voter_set
        states = [self._state(voter_id) for voter_id in voters.ids]
        alive = sum(is_alive for is_alive, _ in states)
        return (
            f"quorum: this node has known no leader for {seconds} s. A leader needs "
            f"{voters.majority} of the voters {', '.join(map(str, voters.ids))}; this node sees "
            f"{alive} of them: {'; '.join([text for _, text in states])}. "
            f"{_remedy(has_majority=alive >= voters.majority)}"
        )

    def _state(self, voter_id: int) -> tuple[bool, str]:
        """Whether a voter is alive, and a description of it."""
        core, quorum = self._quorum.core, self._quorum
        if voter_id == core.me.id:
            if core.is_voter:
                return True, f"voter {voter_id} is this node"
            return False, f"voter {voter_id} has the id of this node and another directory"
        outcome = quorum.contacts.outcome(voter_id)
        address = quorum.addresses.of(voter_id) if outcome is None else outcome[1]
        address = address or quorum.addresses.of(voter_id)
        name = f"voter {voter_id}"
        if address is not None:
            name += f" at {bracketed(printable(address[0]))}:{address[1]}"
        if outcome is None:
            return False, f"{name}: not tried yet"
        if outcome[0]:
            return False, f"{name}: {outcome[0]}"
        peer = core.peers.get(voter_id)
        if peer is not None and peer.is_foreign:
            return False, f"{name}: belongs to another cluster"
        return True, f"{name}: responds"


def _remedy(*, has_majority: bool) -> str:
    if has_majority:
        return (
            "That is a majority, so an election should succeed soon; if this line comes again, "
            "read the logs of these voters"
        )
    return (
        "Start the voters that do not respond, or check these addresses and the network. Only if "
        "too many of them are lost for good, see kraftlog quorum repair --help"
    )
