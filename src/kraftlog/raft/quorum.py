"""The roles of a replica, and which role may follow which (Q1).

    unattached   knows no leader of its epoch, has not voted in it
    voted        knows no leader of its epoch, has voted for another
    prospective  requests pre-votes; its epoch is unchanged (P1)
    candidate    has voted for itself and requests the others' votes
    leader       has won the election of its epoch
    follower     knows the leader and fetches from it
    resigned     was the leader of this epoch, and has resigned or restarted
    observer     is no voter: fetches, and neither campaigns nor counts

Within an epoch only the transitions of `WITHIN_AN_EPOCH` are legal; a newer epoch makes any role
unattached, voted, follower or observer.
"""

from __future__ import annotations

UNATTACHED = "unattached"
VOTED = "voted"
PROSPECTIVE = "prospective"
CANDIDATE = "candidate"
LEADER = "leader"
FOLLOWER = "follower"
RESIGNED = "resigned"
OBSERVER = "observer"

WITHIN_AN_EPOCH = {
    UNATTACHED: {VOTED, FOLLOWER, PROSPECTIVE, OBSERVER},
    VOTED: {FOLLOWER, PROSPECTIVE, OBSERVER},
    # Back to the previous role when the pre-vote is lost.
    PROSPECTIVE: {UNATTACHED, VOTED, FOLLOWER, OBSERVER},
    # After a lost election it campaigns again, starting with a pre-vote.
    CANDIDATE: {LEADER, FOLLOWER, PROSPECTIVE, OBSERVER},
    LEADER: {RESIGNED, OBSERVER},
    FOLLOWER: {PROSPECTIVE, OBSERVER},
    RESIGNED: {PROSPECTIVE, OBSERVER},
    OBSERVER: {UNATTACHED, VOTED, FOLLOWER, OBSERVER},
}
#: The roles in which a replica may enter a newer epoch. A candidate starts its own.
INTO_A_NEWER_EPOCH = {UNATTACHED, VOTED, FOLLOWER, OBSERVER, CANDIDATE}
#: The roles from which a replica may start an epoch: after a pre-vote, or as a named successor
#: (Q17).
MAY_CAMPAIGN = {PROSPECTIVE, UNATTACHED, VOTED, FOLLOWER}


def check_transition(old: str, new: str, *, newer_epoch: bool) -> None:
    """Assert that a transition is legal; a replica with a bug must stop."""
    legal = new in (INTO_A_NEWER_EPOCH if newer_epoch else WITHIN_AN_EPOCH[old])
    if new == CANDIDATE:
        legal = newer_epoch and old in MAY_CAMPAIGN
    assert legal, (
        f"{old} may not become {new} {'in a newer' if newer_epoch else 'in the same'} epoch"
    )
