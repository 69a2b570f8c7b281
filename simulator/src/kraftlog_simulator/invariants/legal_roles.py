"""I12: role changes are legal, and roles match the election state and the voters.

Source: Q1, Q2, P1; Kafka's QuorumState, the KRaft specification in TLA+.
"""

from __future__ import annotations

from kraftlog.value import TYPE_CHECKING
from kraftlog_simulator.invariants.invariant import Invariant

if TYPE_CHECKING:
    from kraftlog.logstate.voters import ReplicaKey
    from kraftlog.raft.core import RaftCore
    from kraftlog.raft.messages import ElectionState
    from kraftlog_simulator.process import Replica


#: By role: the roles that a replica may not take later in the same epoch.
NEVER_AFTER = {
    "voted": {"candidate", "leader", "unattached", "resigned"},
    "candidate": {"unattached", "resigned"},
    # A former leader that loses a pre-vote may become `voted`: it voted for itself.
    "leader": {"unattached", "candidate", "follower"},
    "follower": {"unattached", "voted", "candidate", "leader", "resigned"},
    "resigned": {"unattached", "candidate", "leader", "follower"},
    "observer": {"candidate", "leader", "resigned"},
}


def is_legal_state(role: str, state: ElectionState, me: ReplicaKey) -> bool:
    """Whether the election state is legal in a role; prospective and observer allow any."""
    leader, voted = state.leader_id, state.voted
    if role in {"unattached", "voted"}:
        return leader == -1 and (voted is None) == (role == "unattached")
    if role == "candidate":
        return leader == -1 and voted == me
    if role == "leader":
        return leader == me.id and voted == me
    if role == "follower":
        return leader not in {-1, me.id}
    return leader == -1 and voted == me if role == "resigned" else True


class LegalRoles(Invariant):
    name = "legal roles"

    def on_voters(self, replica: Replica, core: RaftCore) -> None:
        self._check_voters(replica, core)

    def _check_voters(self, replica: Replica, core: RaftCore) -> None:
        """Only voters campaign; a removed leader leads until its removal is committed."""
        name, log = core.role.name, core.log
        if core.may_campaign == (name == "observer") and name not in {"leader", "resigned"}:
            right = "may campaign" if core.may_campaign else "may not campaign"
            self.fail(f"replica {replica.id} is {name}, and {right}")
        if name == "leader" and not core.is_voter and log.voters.latest_offset < log.high_watermark:
            self.fail(f"replica {replica.id} leads although its removal is committed")

    def on_role(self, replica: Replica, core: RaftCore) -> None:
        state, name, replica_id = core.election, core.role.name, replica.id
        if not is_legal_state(name, state, core.me):
            self.fail(f"replica {replica_id} is {name} with {state}")
        self._check_voters(replica, core)
        seen = replica.seen_role
        if seen is None or replica.seen_election.epoch != state.epoch:
            return
        if name in NEVER_AFTER.get(seen.name, ()):
            self.fail(
                f"replica {replica_id} became {name} after {seen.name} in epoch {state.epoch}"
            )
        if not (
            replica.seen_election.leader_id in {-1, state.leader_id}
            or name in {"observer", "resigned"}
        ):
            self.fail(
                f"replica {replica_id} knew a leader of epoch {state.epoch} and forgot: {state}"
            )
