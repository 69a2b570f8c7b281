"""Becoming a candidate: after a won pre-vote, or as a resigning leader's successor (Q17)."""

from __future__ import annotations

from kraftlog.raft import quorum
from kraftlog.raft.messages import MAX_EPOCH, ElectionState, Stop
from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from kraftlog.raft.interfaces import Core

SUCCESSION = "succession"


class Campaigning:
    """Mixin for the roles of voters that become candidates when it is their turn as successor."""

    __slots__ = ()

    def on_succession(self, core: Core, position: int) -> None:
        if position == 0:
            campaign(core)
            return
        config = core.config
        wait = min(config.retry_backoff_ms << min(position - 1, 16), config.retry_backoff_max_ms)
        core.arm(SUCCESSION, wait // 2 + core.jitter(position, below=wait // 2 + 1))

    def on_campaign_timer(self, core: Core, name: str) -> None:
        if name == SUCCESSION:
            campaign(core)


def note_lost(core: Core) -> None:
    """Count a lost campaign, and stop after too many, if the settings have a limit (KIP-650)."""
    core.attempt += 1
    limit = core.config.max_failed_elections
    if 0 < limit <= core.attempt:
        core.effect(
            Stop(
                f"{core.attempt} elections in a row have failed, which is the limit of "
                "kraftlog.quorum.max.failed.elections: check that a majority of the voters runs "
                "and can be reached, then start this node again"
            )
        )


def campaign(core: Core) -> None:
    """Become a candidate: the next epoch, with a vote for itself (Q13)."""
    if core.election.epoch == MAX_EPOCH:
        core.effect(Stop(f"epoch {MAX_EPOCH} is the last one: no leader can be elected any more"))
        return
    core.become(quorum.CANDIDATE, ElectionState(core.election.epoch + 1, -1, core.me))
