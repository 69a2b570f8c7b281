"""Voted: knows no leader, and has voted for another replica in this epoch."""

from __future__ import annotations

from kraftlog.raft import quorum
from kraftlog.raft.roles.unattached import Unattached


class Voted(Unattached):
    """Behaves as unattached; the election state prevents a second vote."""

    __slots__ = ()
    name = quorum.VOTED
