"""What `quorum-state` is to hold: the election state, and what else is known when it changes."""

from __future__ import annotations

from kraftlog.effects import WriteElection
from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from kraftlog.raft.core import RaftCore
    from kraftlog.raft.messages import PersistElection


def election_to_write(core: RaftCore, effect: PersistElection, applied: int) -> WriteElection:
    """Q4: with the committed voters and the applied offset, which the log decides."""
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
