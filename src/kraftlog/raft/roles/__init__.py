"""The roles, one file each; `quorum` has the transitions between them."""

from __future__ import annotations

from kraftlog.raft.roles.candidate import Candidate
from kraftlog.raft.roles.follower import Follower
from kraftlog.raft.roles.leader import Leader
from kraftlog.raft.roles.observer import Observer
from kraftlog.raft.roles.prospective import Prospective
from kraftlog.raft.roles.resigned import Resigned
from kraftlog.raft.roles.unattached import Unattached
from kraftlog.raft.roles.voted import Voted
from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from kraftlog.raft.roles.role import Role

_ROLES: dict[str, type[Role]] = {
    role.name: role
    for role in (
        Unattached,
        Voted,
        Prospective,
        Candidate,
        Leader,
        Follower,
        Resigned,
        Observer,
    )
}


def make_role(name: str) -> Role:
    return _ROLES[name]()
