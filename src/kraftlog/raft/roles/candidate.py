"""Candidate: has voted for itself in an epoch of its own making, and asks the others (Q13)."""

from __future__ import annotations

from kraftlog.raft import quorum
from kraftlog.raft.roles.polling import Polling
from kraftlog.raft.roles.unattached import election_delay
from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Any

    from kraftlog.raft.core import RaftCore


class Candidate(Polling):
    """Its own vote counts once it is durable; one that lost waits before it asks again (Q10)."""

    __slots__ = ("beaten",)
    name = quorum.CANDIDATE

    def __init__(self) -> None:
        super().__init__()
        self.beaten = False

    def key(self) -> tuple[Any, ...]:
        return (*super().key(), self.beaten)

    def enter(self, core: RaftCore) -> None:
        timeout = core.config.election_timeout_ms
        core.arm("election", timeout + core.chance(6, below=timeout))
        self.ask_all(core)
        self.on_persisted(core)

    def on_persisted(self, core: RaftCore) -> None:
        if core.durable_version >= core.version:
            self.count(core, core.me.id, granted=True)

    def won(self, core: RaftCore) -> None:
        if not self.beaten:
            core.granted = tuple(sorted(self.granted))
            core.become(quorum.LEADER, core.election.replace(leader_id=core.me.id))

    def lost(self, core: RaftCore) -> None:
        if "election" not in core.timers:
            core.become(quorum.PROSPECTIVE)  # it was that timer: time is up
        elif not self.beaten:
            self.beaten = True
            core.attempt += 1
            core.arm("election", election_delay(core))
