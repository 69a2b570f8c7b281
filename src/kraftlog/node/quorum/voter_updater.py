"""`VoterUpdater`: keeps this voter's record in the log current, and joins the quorum.

A voter sends UpdateRaftVoter to the leader until its record is current; a leader updates its own.
So the leader knows the directory ids of static voters when an operator raises kraft.version (R11),
and a voter with new endpoints is found (KIP-853). With controller.quorum.auto.join.enable a
controller that is not a voter joins as in Kafka: it sends RemoveRaftVoter for a voter with its id
and another directory, then AddRaftVoter. Unlike in Kafka, a controller that was removed does not
join again by itself: an operator has to add it (R12).
"""

from __future__ import annotations

from kraftlog.backoff import Backoff
from kraftlog.logstate.voters import Endpoint, ReplicaKey, Voter
from kraftlog.part import Part
from kraftlog.types import uuid_text
from kraftlog.value import TYPE_CHECKING, Value
from kraftlog.wire.apis import ApiKey

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from kraftlog.config.endpoints import Listener
    from kraftlog.logstate.voters import VoterSet
    from kraftlog.node.quorum.driver import QuorumDriver
    from kraftlog.types import Now
    from kraftlog.wire.schema import Message

#: First and longest backoff after a failed request.
RETRY_MS, LONGEST_RETRY_MS = 50, 1000
#: Interval of repeating a successful request to the same leader: with kraft.version 0 a Kafka
#: leader keeps the update only in memory.
ACCEPTED_RETRY_MS = 60_000
#: The version of all three requests.
VERSION = 0
#: How long the leader may wait for the new voter to catch up.
JOIN_TIMEOUT_MS = 30_000


class VoterChange(Value):
    """A request to the leader: the API, and the voter to add, update or remove."""

    api_key: int
    voter: Voter


def current_record(voter: Voter, me: ReplicaKey, listeners: Sequence[Listener]) -> Voter:
    """The current voter record of this node: its directory id and endpoints.

    A listener without host keeps the recorded host, as the machine's own name may be unknown to
    others. With a port of 0 all recorded endpoints stay.
    """
    voter = voter.replace(key=me)
    if not listeners or not all(it.port for it in listeners):
        return voter
    hosts = {it.name: it.host for it in voter.endpoints}
    endpoints = [
        Endpoint(it.name, hosts.get(it.name, "") if it.is_wildcard else it.host, it.port)
        for it in listeners
    ]
    mine = Voter(me, tuple([it for it in endpoints if it.host]))
    return mine if mine.endpoints else voter


def _replaced_voter_line(voter: ReplicaKey, me: ReplicaKey) -> str:
    mine, old = uuid_text(me.directory_id), uuid_text(voter.directory_id)
    return (
        f"this node is not a voter: its directory id is {mine}, but voter {me.id} has directory id "
        f"{old}. First make sure that no other running node has node.id={me.id}: if one has, give "
        f"this one an id of its own. If the voter's directory is lost for good, replace the voter: "
        f"run kraftlog quorum remove-controller -i {me.id} -d {old}, then kraftlog quorum "
        "add-controller on this node"
    )


REMOVED_LINE = (
    "this controller was removed from the voters, so it does not join them again by itself "
    "(controller.quorum.auto.join.enable). To make it a voter again, run kraftlog quorum "
    "add-controller on this node"
)


class VoterUpdater(Part):
    """`poll` sends the request that is due, if the voters record is not current.

    `join_endpoints`: the endpoints of this controller if it is to join the quorum by itself.
    """

    task = "updating the voter record of this node"

    def __init__(
        self,
        quorum: QuorumDriver,
        send: Callable[[int, int, Message, Callable[[Any, Now], None], Now], None],
        listeners: Sequence[Listener],
        log_line: Callable[[str], None],
        join_endpoints: Sequence[Endpoint] = (),
    ) -> None:
        self._quorum = quorum
        self._send = send
        self._listeners = listeners
        self._log_line = log_line
        self._join_endpoints = tuple(join_endpoints)
        #: The last checked voter set, and the change that it needs, if any.
        self._checked: VoterSet | None = None
        self._wanted: VoterChange | None = None
        self._last_request: VoterChange | None = None
        #: The voter with this node's id and another directory, once that is logged.
        self._replaced: ReplicaKey | None = None
        #: Whether the removal of this controller is the only reason why it does not join.
        self._stays_removed = False
        self._in_flight = False
        self._due_ms = 0
        self._backoff = Backoff(RETRY_MS, LONGEST_RETRY_MS)
        #: The voters are not checked before this time.
        self._postponed_to_ms = 0

    def deadline(self) -> int | None:
        if self._in_flight:
            return None
        if self._quorum.core.log.voter_set is not self._checked:
            return self._postponed_to_ms
        return None if self._wanted is None else max(self._due_ms, self._postponed_to_ms)

    def postpone(self, now: Now) -> None:
        """`poll` has raised: check the voters again later."""
        self._checked = None
        self._in_flight = False
        self._postponed_to_ms = now.monotonic_ms + LONGEST_RETRY_MS

    def send_soon(self) -> None:
        """The leader has changed: send the next request at once."""
        self._due_ms = 0
        self._backoff.reset()

    def poll(self, now: Now) -> None:
        if now.monotonic_ms < self._postponed_to_ms:
            return
        wanted = self._needed_change()
        if wanted is None or self._in_flight or self._due_ms > now.monotonic_ms:
            return
        core = self._quorum.core
        self._last_request = wanted
        if self._quorum.is_leader and wanted.api_key == ApiKey.UPDATE_RAFT_VOTER:
            self._in_flight = True
            error = self._quorum.change_voters(core.update_voter, wanted.voter, self._on_done, now)
            if error:
                self._on_done(error, now)
        elif core.role.has_live_leader(core):  # only then the local voter set is current
            self._in_flight = True
            self._send(wanted.api_key, VERSION, self._request(wanted), self._on_response, now)
        else:
            self._back_off(now)

    def _needed_change(self) -> VoterChange | None:
        """The change that the current voter set needs."""
        core = self._quorum.core
        voters = core.log.voter_set
        if voters is not self._checked:
            self._checked = voters
            before, self._wanted = self._wanted, self._change(voters)
            if before != self._wanted:
                self.send_soon()
        return self._wanted

    def _change(self, voters: VoterSet) -> VoterChange | None:
        core = self._quorum.core
        recorded = voters.voter(core.me.id)
        if recorded is not None and core.is_voter:
            self._stays_removed = False
            wanted = current_record(recorded, core.me, self._listeners)
            return None if wanted == recorded else VoterChange(ApiKey.UPDATE_RAFT_VOTER, wanted)
        if self._join_endpoints and voters.kraft_version and not self._was_removed():
            if recorded is not None:
                return VoterChange(ApiKey.REMOVE_RAFT_VOTER, recorded)
            return VoterChange(ApiKey.ADD_RAFT_VOTER, Voter(core.me, self._join_endpoints))
        if recorded is not None and recorded.key != self._replaced:
            self._replaced = recorded.key
            self._log_line(_replaced_voter_line(recorded.key, core.me))
        return None

    def _was_removed(self) -> bool:
        """Whether this replica was removed from the voters.

        Logs the removal once, unless another directory votes with this node's id: `_change` logs
        that voter instead.
        """
        core = self._quorum.core
        was_removed = core.log.voters.has_removed(core.me)
        before = self._stays_removed
        self._stays_removed = was_removed and core.log.voter_set.voter(core.me.id) is None
        if self._stays_removed and not before:
            self._log_line(REMOVED_LINE)
        return was_removed

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
                is_auto_join=True,
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

    def _on_response(self, response: Any, now: Now) -> None:
        self._on_done(-1 if response is None else response.error_code, now)

    def _on_done(self, error: int, now: Now) -> None:
        """Plan the next request; even after success, as this log may not have the record yet."""
        self._in_flight = False
        self._back_off(now)  # stays after an error, or if `_needed_change` raises
        if self._needed_change() != self._last_request:
            self.send_soon()
        elif not error:
            self._backoff.reset()
            self._due_ms = now.monotonic_ms + ACCEPTED_RETRY_MS

    def _back_off(self, now: Now) -> None:
        self._due_ms = now.monotonic_ms + self._backoff.next_ms()
