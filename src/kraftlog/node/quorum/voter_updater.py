"""A voter's own record in the log, kept true by the voter itself; and a controller that joins.

A voter tells the leader by UpdateRaftVoter until its record says what is true; a leader writes its
own. So a voter that settings name by its id gets its directory recorded (R11), and one that listens
elsewhere since its last start is found again (KIP-853). With controller.quorum.auto.join.enable a
controller that does not vote asks the leader to let it, as Kafka's does: first to remove the voter
that has its id and another directory, then to add this one.
"""

from __future__ import annotations

from kraftlog.logstate.voters import Endpoint, ReplicaKey, Voter
from kraftlog.types import uuid_text
from kraftlog.value import TYPE_CHECKING, Value
from kraftlog.wire.apis import ApiKey

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from kraftlog.config.endpoints import Listener
    from kraftlog.logstate.voters import VoterSet
    from kraftlog.node.broker.controller_channel import ControllerChannel
    from kraftlog.node.quorum.driver import QuorumDriver
    from kraftlog.types import Now
    from kraftlog.wire.schema import Message

#: How soon what failed is tried again: at first, and at the longest.
RETRY_MS, LONGEST_RETRY_MS = 50, 1000
#: How soon what succeeded is, unless another leads: one of Kafka's keeps it in memory alone while
#: kraft.version is 0.
ACCEPTED_RETRY_MS = 60_000
VERSION = 0
#: How long the leader may wait for the new voter to catch up.
JOIN_TIMEOUT_MS = 30_000


class VoterChange(Value):
    """What to ask of the leader: the API, and the voter that the log should have or lose."""

    api_key: int
    voter: Voter


def true_record(voter: Voter, me: ReplicaKey, listeners: Sequence[Listener]) -> Voter:
    """What the record of a voter should say, by its directory and where it listens.

    A host that the listeners leave open stays what it was, as the name that a machine has for
    itself may mean nothing to others. So do all endpoints if a port may be any that is free.
    """
    voter = voter.replace(key=me)
    if not listeners or not all(it.port for it in listeners):
        return voter
    hosts = {it.name: it.host for it in voter.endpoints}
    result = [
        Endpoint(it.name, hosts.get(it.name, "") if it.is_anywhere else it.host, it.port)
        for it in listeners
    ]
    mine = Voter(me, tuple([it for it in result if it.host]))
    return mine if mine.endpoints else voter


def _another_votes(voter: ReplicaKey, me: ReplicaKey) -> str:
    mine, old = uuid_text(me.directory_id), uuid_text(voter.directory_id)
    return (
        f"this node is not a voter: its directory id is {mine}, but voter {me.id} has directory id "
        f"{old}. If that directory is lost for good, replace the voter: run kraftlog quorum "
        f"remove-controller -i {me.id} -d {old}, then kraftlog quorum add-controller on this node"
    )


class VoterUpdater:
    """`poll` asks for what is due; nothing is while the log says what is true.

    `join_at`: where this controller is reached, if it is to become a voter by itself.
    """

    def __init__(
        self,
        quorum: QuorumDriver,
        controller_channel: ControllerChannel,
        listeners: Sequence[Listener],
        log_line: Callable[[str], None],
        join_at: Sequence[Endpoint] = (),
    ) -> None:
        self._quorum = quorum
        self._controller_channel = controller_channel
        self._listeners = listeners
        self._log_line = log_line
        self._join_at = tuple(join_at)
        #: The voters that were looked at, and what should change about them, if anything.
        self._seen: VoterSet | None = None
        self._wanted: VoterChange | None = None
        #: What was asked for last.
        self._asked: VoterChange | None = None
        #: The voter under this node's id that has another directory.
        self._replaced: ReplicaKey | None = None
        self._is_asking = False
        self._due_ms = 0
        self._failures = 0
        #: The voters are not looked at before.
        self._postponed_to_ms = 0

    def deadline(self) -> int | None:
        if self._is_asking:
            return None
        if self._quorum.core.log.voter_set is not self._seen:
            return self._postponed_to_ms
        return None if self._wanted is None else max(self._due_ms, self._postponed_to_ms)

    def postpone(self, now: Now) -> None:
        """A mistake of ours has stopped `poll`: it looks at the voters once more, later."""
        self._seen = None
        self._is_asking = False
        self._postponed_to_ms = now.monotonic_ms + LONGEST_RETRY_MS

    def soon(self) -> None:
        """Another leads: look at once."""
        self._due_ms = self._failures = 0

    def poll(self, now: Now) -> None:
        if now.monotonic_ms < self._postponed_to_ms:
            return
        wanted = self._look()
        if wanted is None or self._is_asking or self._due_ms > now.monotonic_ms:
            return
        core = self._quorum.core
        self._asked = wanted
        if self._quorum.is_leader and wanted.api_key == ApiKey.UPDATE_RAFT_VOTER:
            self._is_asking = True
            error = self._quorum.change(core.update_voter, wanted.voter, self._on_done, now)
            if error:
                self._on_done(error, now)
        elif core.role.has_live_leader(core):  # and so has what the leader's log says of it
            self._is_asking = True
            self._controller_channel.ask(
                wanted.api_key, VERSION, self._request(wanted), self._heard, now
            )
        else:
            self._failed(now)

    def _look(self) -> VoterChange | None:
        """What should change about the voters, by the set in force."""
        core = self._quorum.core
        voters = core.log.voter_set
        if voters is not self._seen:
            self._seen = voters
            before, self._wanted = self._wanted, self._change(voters)
            if before != self._wanted:
                self.soon()
        return self._wanted

    def _change(self, voters: VoterSet) -> VoterChange | None:
        core = self._quorum.core
        recorded = voters.voter(core.me.id)
        if recorded is not None and core.is_voter:
            wanted = true_record(recorded, core.me, self._listeners)
            return None if wanted == recorded else VoterChange(ApiKey.UPDATE_RAFT_VOTER, wanted)
        if self._join_at and voters.kraft_version:
            if recorded is not None:
                return VoterChange(ApiKey.REMOVE_RAFT_VOTER, recorded)
            return VoterChange(ApiKey.ADD_RAFT_VOTER, Voter(core.me, self._join_at))
        if recorded is not None and recorded.key != self._replaced:
            self._replaced = recorded.key
            self._log_line(_another_votes(recorded.key, core.me))
        return None

    def _request(self, wanted: VoterChange) -> Message:
        voter = wanted.voter
        if wanted.api_key == ApiKey.REMOVE_RAFT_VOTER:
            from kraftlog.wire.messages.remove_raft_voter import RemoveRaftVoterRequest

            return RemoveRaftVoterRequest(
                cluster_id=self._quorum.core.cluster_id,
                voter_id=voter.key.id,
                voter_directory_id=voter.key.directory_id,
            )
        if wanted.api_key == ApiKey.ADD_RAFT_VOTER:
            from kraftlog.wire.messages import add_raft_voter as add

            return add.AddRaftVoterRequest(
                cluster_id=self._quorum.core.cluster_id,
                timeout_ms=JOIN_TIMEOUT_MS,
                voter_id=voter.key.id,
                voter_directory_id=voter.key.directory_id,
                listeners=[
                    add.Listener(name=it.name, host=it.host, port=it.port) for it in voter.endpoints
                ],
            )
        from kraftlog.wire.messages import update_raft_voter as update

        return update.UpdateRaftVoterRequest(
            cluster_id=self._quorum.core.cluster_id,
            current_leader_epoch=self._quorum.epoch,
            voter_id=voter.key.id,
            voter_directory_id=voter.key.directory_id,
            listeners=[
                update.Listener(name=it.name, host=it.host, port=it.port) for it in voter.endpoints
            ],
            k_raft_version_feature=update.KRaftVersionFeature(
                min_supported_version=voter.min_version, max_supported_version=voter.max_version
            ),
        )

    def _heard(self, response: Any, now: Now) -> None:
        self._on_done(-1 if response is None else response.error_code, now)

    def _on_done(self, error: int, now: Now) -> None:
        """Ask again later even if all is well: the record may not be in this log yet."""
        self._is_asking = False
        self._failed(now)  # so it was, unless this is heard to its end
        if self._look() != self._asked:
            self.soon()
        elif not error:
            self._failures = 0
            self._due_ms = now.monotonic_ms + ACCEPTED_RETRY_MS

    def _failed(self, now: Now) -> None:
        self._due_ms = now.monotonic_ms + min(RETRY_MS << min(self._failures, 16), LONGEST_RETRY_MS)
        self._failures += 1
