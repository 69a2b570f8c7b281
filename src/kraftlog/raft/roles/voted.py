"""Voted: knows no leader, and has given its vote in this epoch to another."""

from __future__ import annotations

from kraftlog.raft import quorum
from kraftlog.raft.roles.unattached import Unattached


class Voted(Unattached):
    """Behaves as unattached; that it will not vote again is in the election state."""

    __slots__ = ()
    name = quorum.VOTED
