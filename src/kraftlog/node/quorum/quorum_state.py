"""The contents of the `quorum-state` file."""

from __future__ import annotations

from kraftlog.effects import WriteElection
from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from kraftlog.raft.core import RaftCore
    from kraftlog.raft.messages import PersistElection


def election_to_write(core: RaftCore, effect: PersistElection, applied: int) -> WriteElection:
    """The election state with the committed voters and the applied offset (Q4)."""
    state = effect.state
    voters = core.log.voters.committed(core.log.high_watermark)
    return WriteElection(
        effect.version,
        state.epoch,
        state.leader_id,
        state.voted,
        kraft_version=voters.kraft_version,
        cluster_id=core.cluster_id,
        applied_offset=applied,
        voter_ids=voters.ids,
    )
