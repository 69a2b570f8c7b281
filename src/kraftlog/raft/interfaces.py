"""The parts of the core, its peers and its role that other modules use; for type checkers alone.

The core creates the roles (`roles`) and calls the rules (`changes`, `elections`, `fetching` and
`snapshots`), so neither can import the core.
"""

from __future__ import annotations

from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any, Protocol

    from kraftlog.logstate.voters import ReplicaKey, Voter, VoterSet
    from kraftlog.raft.config import RaftConfig
    from kraftlog.raft.log import RaftLog
    from kraftlog.raft.messages import ElectionState, Fetch, LogDurable, Request
    from kraftlog.raft.progress import ProgressTable
    from kraftlog.types import Now

    class Core(Protocol):
        """What a replica keeps when its role changes, and the only ways to act."""

        me: ReplicaKey
        log: RaftLog
        election: ElectionState
        config: RaftConfig
        now: Now
        cluster_id: str | None
        #: Describes an observer as a voter; None while its endpoints are unknown.
        new_voter: Callable[[ReplicaKey], Voter | None]
        #: Whether the quorum has confirmed the cluster id since the start (Q31).
        is_cluster_id_confirmed: bool
        timers: dict[str, int]
        #: While the log names no voters: nodes that may be controllers (R9). They have no vote.
        discovered: tuple[int, ...]
        #: The offset of a committed record without this replica as a voter (R7); -1 for none.
        removed_at: int
        #: The campaigns that this replica has lost since it last knew a leader, or since another
        #: candidate began an epoch.
        attempt: int
        #: The voters that granted their vote in the last election that this replica won.
        granted: tuple[int, ...]
        #: The newest version of the election state, and the newest that is durable.
        election_version: int
        durable_election_version: int

        @property
        def role(self) -> CurrentRole: ...
        @property
        def is_voter(self) -> bool: ...
        @property
        def may_campaign(self) -> bool: ...
        @property
        def may_be_counted(self) -> bool: ...
        @property
        def others(self) -> list[int]: ...
        @property
        def peers(self) -> Mapping[int, Peer]: ...
        @property
        def leader_and_epoch(self) -> dict[str, Any]: ...

        def peer(self, replica_id: int) -> Peer: ...
        def become(self, role: str, election: ElectionState | None = None) -> None: ...
        def adapt_role(self) -> None: ...
        def vote_for(self, candidate: ReplicaKey) -> None: ...
        def cluster_id_differs(self, theirs: str | None) -> bool: ...
        def report_foreign_peer(self, peer: int, theirs: str | None = None) -> None: ...
        def effect(self, effect: Any) -> None: ...
        def send(self, peer: int, body: Any, after: tuple[LogDurable, ...] = ()) -> None: ...
        def reply(self, pending: object, body: Any) -> None: ...
        def arm(self, name: str, in_ms: int) -> None: ...
        def jitter(self, *purpose: int, below: int) -> int: ...
        def backoff(self, failures: int) -> int: ...

    class Peer(Protocol):
        """What the core knows about another replica."""

        in_flight: int
        failures: int
        is_down: bool
        is_foreign: bool
        down_in_epoch: int

    class CurrentRole(Protocol):
        """The role of the core, for rules that hold in every role."""

        @property
        def name(self) -> str: ...
        def has_live_leader(self, core: Core) -> bool: ...
        def on_response(self, core: Core, peer: int, request: Any, body: Any) -> None: ...
        def on_succession(self, core: Core, position: int) -> None: ...
        def on_fetch(self, core: Core, request: Request, fetch: Fetch) -> None: ...
        def on_snapshot_installed(self, core: Core) -> None: ...
        def on_snapshot_damaged(self, core: Core) -> None: ...

    class LeaderRole(Protocol):
        """A leader, for voter changes and snapshots."""

        epoch_start: int
        progress: ProgressTable
        reported: dict[int, Voter]

        def append(
            self, core: Core, count: int, size_bytes: int, payload: Any, voters: VoterSet | None
        ) -> None: ...
        def complete_when_committed(self, core: Core, pending: object, offset: int) -> None: ...
        def voters_changed(self, core: Core) -> None: ...
        def epoch_error(self, core: Core, cluster_id: str | None, epoch: int) -> int: ...
        def resign(self, core: Core) -> None: ...
        def hand_over(self, core: Core) -> None: ...
