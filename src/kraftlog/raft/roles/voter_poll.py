"""Requests votes from every other voter and counts them, for pre-votes and elections."""

from __future__ import annotations

from kraftlog.errors import ErrorCode
from kraftlog.raft.messages import Vote
from kraftlog.raft.roles.role import Role
from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Any

    from kraftlog.raft.interfaces import Core


class VoterPoll(Role):
    """The first response of each voter puts its id in `granted` or `refused`, for good."""

    __slots__ = ("granted", "refused")
    pre_vote = False

    def __init__(self) -> None:
        self.granted: tuple[int, ...] = ()
        self.refused: tuple[int, ...] = ()

    def key(self) -> tuple[Any, ...]:
        return tuple(sorted(self.granted)), tuple(sorted(self.refused))

    def on_won(self, core: Core) -> None:
        raise NotImplementedError  # each poll decides

    def on_lost(self, core: Core) -> None:
        raise NotImplementedError  # as above

    def request_votes(self, core: Core) -> None:
        for peer in core.others:
            self.request_vote(core, peer)

    def request_vote(self, core: Core, peer: int) -> None:
        voter = core.log.voter_set.voter(peer)
        if voter is None:
            return
        vote = Vote(
            cluster_id=core.cluster_id,
            receiver=voter.key,
            epoch=core.election.epoch,
            candidate=core.me,
            last_epoch=core.log.last_epoch,
            end_offset=core.log.end,
            pre_vote=self.pre_vote,
        )
        core.send(peer, vote)

    def on_response(self, core: Core, peer: int, request: Any, body: Any) -> None:
        if not isinstance(request, Vote):
            return
        # P4: a peer without pre-votes counts as granting this one, and decides in the election.
        lacks_pre_vote = self.pre_vote and body.error == ErrorCode.UNSUPPORTED_VERSION
        granted = body.granted and not body.error
        self.count(core, peer, granted=granted or lacks_pre_vote)

    def count(self, core: Core, peer: int, *, granted: bool) -> None:
        """Count a voter's first response; only voters of this replica's own log count."""
        if peer in self.granted or peer in self.refused or peer not in core.log.voter_set.ids:
            return
        if granted:
            self.granted = (*self.granted, peer)
        else:
            self.refused = (*self.refused, peer)
        voters = core.log.voter_set
        if len(self.granted) >= voters.majority:
            self.on_won(core)
        elif len(self.refused) > len(voters.voters) - voters.majority:
            self.on_lost(core)

    def on_no_response(self, core: Core, peer: int, request: Any) -> None:  # noqa: ARG002 - one interface for all roles
        core.arm(f"ask {peer}", core.backoff(core.peer(peer).failures))

    def on_timer(self, core: Core, name: str) -> None:
        if name.startswith("ask "):
            self.request_vote(core, int(name[4:]))
        elif name == "election":
            self.on_lost(core)
