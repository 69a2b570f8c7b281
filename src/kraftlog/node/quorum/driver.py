"""`QuorumDriver`: runs the raft core of a node and applies committed records.

The core decides; here its wishes become the node's effects. What must wait for the disk is held
until the core knows its point to be durable, batches of records become bytes, peers get their
addresses, and committed records are handed to the state machine in order, once each: from the
tail that is kept in memory, or else read back from the log in chunks (`applier`).
"""

from __future__ import annotations

from collections import deque
from types import MappingProxyType

from kraftlog import effects
from kraftlog.errors import ErrorCode, InternalError, ProtocolError
from kraftlog.logstate.voters import endpoint_of
from kraftlog.node.quorum.addresses import Addresses
from kraftlog.node.quorum.batches import (
    METADATA_LOG,
    control_batch,
    records_in,
    snapshot_voters,
    summaries,
    unreplayable_snapshot,
)
from kraftlog.node.quorum.commit_applier import CommitApplier
from kraftlog.node.quorum.proposal_batch import EncodedBatch, ProposalBatch, largest_batch
from kraftlog.node.quorum.quorum_latency import QuorumLatency
from kraftlog.node.quorum.quorum_state import election_to_write
from kraftlog.node.quorum.requests import VERSIONS, request_to_wire
from kraftlog.node.quorum.responses import response_from_wire, response_to_wire
from kraftlog.node.quorum.snapshotter import Snapshotter
from kraftlog.node.quorum.tail import Tail
from kraftlog.raft import messages as raft
from kraftlog.raft.roles.leader import Leader
from kraftlog.records.header import stamp
from kraftlog.value import TYPE_CHECKING
from kraftlog.wire.messages import fetch, vote
from kraftlog.wire.messages.begin_quorum_epoch import LeaderEndpoint

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

    from kraftlog.logstate.voters import Endpoint
    from kraftlog.node.pending_response import PendingResponse
    from kraftlog.node.quorum.commit_applier import StateMachine
    from kraftlog.node.quorum.proposal import Proposal
    from kraftlog.node.quorum.proposal_batch import OnDone
    from kraftlog.node.sliced import Slices
    from kraftlog.raft.core import RaftCore
    from kraftlog.types import Now, Responder
    from kraftlog.wire.schema import Message

#: Answers that say where the leader is: since which version, and how.
ENDPOINTS_SINCE: dict[type, tuple[int, type[Message]]] = {
    raft.FetchResult: (16, fetch.NodeEndpoint),
    raft.VoteResult: (1, vote.NodeEndpoint),
}
#: The line on which a core's requests travel.
QUORUM_CHANNEL = "quorum"
#: The leader while none is known.
NOBODY = -1


class QuorumDriver:
    """Outcomes of effects enter by `handle`, requests of peers by `asked`."""

    def __init__(
        self,
        core: RaftCore,
        machine: StateMachine,
        emit: Callable[[Any], None],
        slices: Slices,
        *,
        applied: int = 0,
        request_timeout_ms: int = 2000,
        known: Mapping[int, tuple[str, int]] = MappingProxyType({}),
        named: Mapping[int, tuple[str, int]] = MappingProxyType({}),
        reached_at: Sequence[Endpoint] = (),
        listener: str = "",
    ) -> None:
        """`known` are addresses to begin with, `named` those of the voters that settings name;
        `reached_at` is what others are told of ours.

        Where others are reached by several listeners, `listener` is the one that is taken.
        """
        self.core = core
        self.times = QuorumLatency()
        self._machine = machine
        self._emit = emit
        self._request_timeout_ms = request_timeout_ms
        self.listener = listener
        self._addresses = Addresses(core, known, named, listener)
        self._reached_at = [
            LeaderEndpoint(name=each.name, host=each.host, port=each.port) for each in reached_at
        ]
        #: What waits for the disk, in order.
        self._held: list[Any] = []
        self._tail = Tail()
        self.proposal_batch = ProposalBatch()
        #: Proposals that are committed and not applied: (offset, whom to tell).
        self._committed: deque[tuple[int, Sequence[OnDone]]] = deque()
        self._numbers = 0
        self._is_settling = False
        #: How many steps of the core, one in the other, are under way or were stopped half way.
        self.steps = 0
        #: What was asked of peers, by its number, as the answer's form depends on it.
        self._asked: dict[tuple[int, int], Any] = {}
        self.snapshotter = Snapshotter(core, emit)
        self.applier = CommitApplier(
            core, machine, self._tail, self.snapshotter, emit, slices, self._has_applied, applied
        )
        #: The epoch in which the state machine was told that it leads.
        self._leading = -1
        self._carry_out = self._effect_handlers()
        self._reports = self._report_handlers()

    def _effect_handlers(self) -> dict[type, Callable[[Any, Now], None]]:
        return {
            raft.PersistElection: self._persist,
            raft.Append: self._append,
            raft.Truncate: self._truncate,
            raft.DropPrefix: self._drop_prefix,
            raft.WriteSnapshot: self._write_snapshot,
            raft.InstallSnapshot: self._install_snapshot,
            raft.Send: self._send,
            raft.Reply: self._reply,
            raft.Committed: self._apply_committed,
            raft.Proposed: self._proposed,
            raft.LeaderChanged: self._leader_changed,
            raft.ClusterIdKnown: self._keep_cluster_id,
            raft.WrongCluster: self._refuse_cluster,
            raft.Stop: self._stop,
        }

    def _report_handlers(self) -> dict[type, Callable[[Any, Now], None]]:
        return {
            effects.LogFlushed: self._flushed,
            effects.LogRead: self._read,
            effects.ElectionWritten: self._election_written,
            effects.SnapshotStored: self.snapshotter.stored,
            effects.SnapshotLoaded: self._snapshot_loaded,
            effects.SnapshotDamaged: self._snapshot_damaged,
            effects.ResponseReceived: self._peer_answered,
            effects.RequestFailed: self._peer_silent,
            effects.VersionUnsupported: self._peer_unaware,
            effects.PeerDown: self._peer_vanished,
        }

    def start(self, now: Now) -> None:
        """Carry out the first effects of the core."""
        self.core.announce(now)
        self._settle(now)

    @property
    def is_leader(self) -> bool:
        return isinstance(self.core.role, Leader)

    @property
    def leader_id(self) -> int:
        """The leader as far as this node knows; -1: unknown."""
        return self.core.me.id if self.is_leader else self.core.election.leader_id

    @property
    def is_catching_up(self) -> bool:
        """Whether it replays the log from disk, as after a start."""
        return self.applier.is_reading

    @property
    def applied(self) -> int:
        """The offset before which the state machine has applied everything."""
        return self.applier.end

    @property
    def is_applying(self) -> bool:
        """Whether a part of the next batch is applied."""
        return self.applier.is_going_on

    @property
    def epoch(self) -> int:
        return self.core.election.epoch

    @property
    def is_taking_leave(self) -> bool:
        """Whether EndQuorumEpoch requests to peers are still without a response.

        What else is asked of them, as a follower always does, nobody waits for who leaves.
        """
        held = [effect.body for effect in self._held if isinstance(effect, raft.Send)]
        return any(isinstance(body, raft.End) for body in (*self._asked.values(), *held))

    # Doors ---------------------------------------------------------------------------------------

    def handle(self, report: Any, now: Now) -> None:
        """Take the outcome of an effect."""
        self.append_batched(now)
        self._reports[type(report)](report, now)
        self._settle(now)

    def asked(self, slot: Responder, body: Any, channel: Any, now: Now, max_bytes: int = 0) -> None:
        """Take the request of a peer; `slot` gets the response as a wire message."""
        self._hear(slot, body, channel, now, max_bytes)
        self._settle(now)

    def leader_learned(
        self, slot: PendingResponse, body: raft.Begin, address: tuple[str, int], now: Now
    ) -> None:
        """Take a BeginQuorumEpoch with the leader's address, which is newer than the voters record.

        Only the address of the leader that the core follows is kept.
        """
        self._hear(slot, body, slot.connection, now)
        core = self.core
        is_followed = body.epoch == self.epoch and body.leader_id == self.leader_id != core.me.id
        if is_followed and not core.cluster_id_differs(body.cluster_id):
            self._addresses.leader_says(address)
        self._settle(now)

    def _hear(self, slot: Responder, body: Any, channel: Any, now: Now, max_bytes: int = 0) -> None:
        """Give the core a request; its effects are carried out later."""
        self.append_batched(now)
        self._numbers += 1
        self._step(
            self.core.handle, raft.Request((slot, max_bytes), body, channel, self._numbers), now
        )

    def _step(self, step: Callable[..., Any], *arguments: Any) -> Any:
        """Run one step of the core and count it as under way: if it raises, the node stops."""
        self.steps += 1
        came_of_it = step(*arguments)
        self.steps -= 1
        return came_of_it

    def poll(self, now: Now) -> None:
        self.append_batched(now)
        self.core.poll(now)
        self._settle(now)

    def deadline(self) -> int | None:
        return self.core.deadline()

    def propose(self, proposal: Proposal, on_done: OnDone, now: Now) -> int:
        """Propose records as part of one batch; returns the error code of a refusal.

        `on_done` gets the code of what became of them, once they are committed and applied here, or
        once nobody can say. What is proposed one after the other becomes one batch: it is
        appended when the turn ends, or before the core hears of anything else. So until then
        nothing can happen by which it would be refused.
        """
        error = self.refusal_of((proposal,))
        if error:
            return error
        if not self.proposal_batch.has_room(proposal.size_bytes):
            self.append_batched(now)
        self.proposal_batch.add(proposal, on_done)
        if not self.proposal_batch.has_room(0):
            self.append_batched(now)
        return ErrorCode.NONE

    def refusal_of(self, proposals: Sequence[Proposal]) -> int:
        """The error code if some of these cannot be proposed now, else NONE."""
        error = self.core.refusal_of_proposal()
        if error:
            return error
        most = self.core.config.max_batch_bytes
        if any(largest_batch(len(it), it.size_bytes) > most for it in proposals):
            return ErrorCode.RECORD_LIST_TOO_LARGE
        return ErrorCode.NONE

    @property
    def end(self) -> int:
        """The offset of the next record that is proposed."""
        return self.core.log.end + len(self.proposal_batch)

    def append_batched(self, now: Now) -> None:
        """Append the proposals so far to the log, as one batch."""
        if self.proposal_batch:
            taken, self.proposal_batch = self.proposal_batch, ProposalBatch()
            batch = taken.batch(now.wall_ms)
            own = EncodedBatch(batch, taken.records)
            error = self._step(self.core.propose, taken.askers, len(taken), len(batch), own, now)
            assert not error, "nothing has happened since it was found that it may be proposed"
            self._settle(now)

    def change(self, change: Callable[..., int], what: Any, on_done: Any, now: Now) -> int:
        """Change the voters; returns the error code of a refusal."""
        self.append_batched(now)
        error: int = self._step(change, (on_done,), what, now)
        self._settle(now)
        return error

    def shut_down(self, now: Now) -> None:
        self.append_batched(now)
        self.core.shut_down(now)
        self._settle(now)

    # Effects of the core -------------------------------------------------------------------------

    def _settle(self, now: Now) -> None:
        """Carry out the effects of the core until there are none.

        Who is told of something may propose at once: that waits for its turn, as batches reach the
        log in the order in which the core has appended them.
        """
        if self._is_settling:
            return
        self.steps += 1  # as in `_step`, which costs a call a turn
        self._is_settling = True
        while wanted := self.core.take_effects() or self._lead_if_caught_up(now):
            for effect in wanted:
                self._carry_out[type(effect)](effect, now)
        self._is_settling = False
        self.steps -= 1

    def _persist(self, effect: raft.PersistElection, _: Now) -> None:
        self._emit(election_to_write(self.core, effect, self.applied))

    def _append(self, effect: raft.Append, now: Now) -> None:
        batch = effect.batch
        payload = batch.payload
        records = None
        if isinstance(payload, EncodedBatch):
            stamp(payload.data, 0, batch.base_offset, batch.epoch)
            data, records = bytes(payload.data), payload.records
        elif isinstance(payload, memoryview):
            data = bytes(payload)
        else:
            data = control_batch(batch, now.wall_ms)
        batch.payload = None  # the core has no use for it
        self._tail.append(batch.base_offset, batch.last_offset, data, records)
        # What an observer holds counts for nobody. It can only become a voter by a batch like this.
        self._emit(effects.AppendBatch(METADATA_LOG, data, flush=self.core.may_campaign))
        end = batch.last_offset + 1
        self.times.append(end - batch.base_offset, end, now.monotonic_ms, leads=self.is_leader)

    def _truncate(self, effect: raft.Truncate, _: Now) -> None:
        self._tail.truncate(effect.offset)
        self.times.truncate(effect.offset)
        self._emit(effects.TruncateLog(METADATA_LOG, effect.offset))

    def _drop_prefix(self, effect: raft.DropPrefix, _: Now) -> None:
        self._emit(effects.MoveLogStart(METADATA_LOG, effect.offset))

    def _write_snapshot(self, effect: raft.WriteSnapshot, _: Now) -> None:
        self._emit(effects.WriteSnapshotPart(effect.id, effect.position, effect.data))

    def _install_snapshot(self, effect: raft.InstallSnapshot, _: Now) -> None:
        self._emit(effects.InstallSnapshot(effect.id, METADATA_LOG))

    def _keep_cluster_id(self, effect: raft.ClusterIdKnown, _: Now) -> None:
        self._emit(effects.PersistClusterId(effect.cluster_id))

    def _refuse_cluster(self, effect: raft.WrongCluster, _: Now) -> None:
        what = f"node {effect.peer} of another cluster contacts this node as one of its controllers"
        why = "refused; check the controller addresses in its configuration"
        self._emit(effects.LogLine(f"{what}: {why}"))

    def _stop(self, effect: raft.Stop, _: Now) -> None:
        self._emit(effects.Stop(effect.why))

    def _leader_changed(self, effect: raft.LeaderChanged, now: Now) -> None:
        if effect.leader_id >= 0:
            self.times.know_leader(now.monotonic_ms, leads=effect.leader_id == self.core.me.id)
        elif self.core.election.voted == self.core.me:
            self.times.stand(now.monotonic_ms)
        self._machine.led_by(effect.leader_id, effect.epoch)

    # What is said --------------------------------------------------------------------------------

    def _send(self, effect: raft.Send, _: Now) -> None:
        if not self.core.is_durable(effect.after):
            self._held.append(effect)
            return
        where = self.address_of(effect.peer)
        if where is None:
            # Nobody knows where it is: the same as not to be reached.
            self._emit(effects.UnreachablePeer(QUORUM_CHANNEL, effect.peer, effect.number))
            return
        api_key, request = request_to_wire(effect.body, self._reached_at)
        self._asked[effect.peer, effect.number] = effect.body
        self._emit(
            effects.SendRequest(
                channel=QUORUM_CHANNEL,
                peer=effect.peer,
                host=where[0],
                port=where[1],
                number=effect.number,
                api_key=api_key,
                version=VERSIONS[api_key],
                request=request,
                timeout_ms=self._request_timeout_ms,
                fresh=effect.fresh,
            )
        )

    def address_of(self, peer: int) -> tuple[str, int] | None:
        """The address of a node of the quorum, if known."""
        return self._addresses.of(peer)

    def _reply(self, effect: raft.Reply, _: Now) -> None:
        if not self.core.is_durable(effect.after):
            self._held.append(effect)
            return
        slot, max_bytes = effect.slot
        body = effect.body
        if isinstance(body, raft.FetchResult) and body.limit > body.offset >= 0:
            self._emit(effects.SendRecords(slot, body, METADATA_LOG, max_bytes))
        elif isinstance(body, raft.SnapshotChunk) and not body.error:
            self._emit(effects.SendSnapshot(slot, body))
        else:
            response = response_to_wire(body)
            since, node = ENDPOINTS_SINCE.get(type(body), (slot.version + 1, None))
            if slot.version >= since:
                self._add_endpoints(body.leader_id, node, response)
            self._emit(effects.Reply(slot, response))

    def _add_endpoints(self, leader: int, node: Any, response: Any) -> None:
        """Add the leader's address to a response, for peers that look for the leader."""
        is_own = leader == self.core.me.id
        own = endpoint_of(self._reached_at, self.listener) if is_own else None
        where = self.address_of(leader) if own is None else (own.host, own.port)
        if where is not None:
            response.node_endpoints = [node(node_id=leader, host=where[0], port=where[1])]

    def _release(self, now: Now) -> None:
        held, self._held = self._held, []
        for effect in held:
            self._carry_out[type(effect)](effect, now)

    # Reports -------------------------------------------------------------------------------------

    def _flushed(self, report: effects.LogFlushed, now: Now) -> None:
        self.times.flush(report.offset, now.monotonic_ms)
        self.core.handle(raft.Flushed(report.offset), now)
        self._release(now)

    def _election_written(self, report: effects.ElectionWritten, now: Now) -> None:
        self.core.handle(raft.ElectionPersisted(report.version), now)
        self._release(now)

    def _peer_answered(self, report: effects.ResponseReceived, now: Now) -> None:
        asked = self._asked.pop((report.peer, report.number), None)
        if asked is None:
            return
        try:
            body = response_from_wire(report.response, asked)
        except ProtocolError:  # not about our partition: as good as none
            self.core.handle(raft.NoResponse(report.peer, report.number), now)
            return
        if isinstance(body, raft.FetchResult) and not body.error:
            body.batches = tuple(summaries(records_of(report.response)))
            self._addresses.answered_as_leader(report.peer, body.leader_id)
        self.core.handle(raft.Response(report.peer, report.number, body), now)
        nodes = getattr(report.response, "node_endpoints", ())
        self._addresses.learn(report.peer, nodes, body)

    def _peer_silent(self, report: effects.RequestFailed, now: Now) -> None:
        self._addresses.unreached(report.peer)
        self._asked.pop((report.peer, report.number), None)
        self.core.handle(raft.NoResponse(report.peer, report.number), now)

    def _peer_unaware(self, report: effects.VersionUnsupported, now: Now) -> None:
        asked = self._asked.pop((report.peer, report.number), None)
        if isinstance(asked, raft.Vote):
            refusal = raft.VoteResult(
                ErrorCode.UNSUPPORTED_VERSION, NOBODY, asked.epoch, granted=False
            )
            self.core.handle(raft.Response(report.peer, report.number, refusal), now)
        else:
            self.core.handle(raft.NoResponse(report.peer, report.number), now)

    def _peer_vanished(self, report: effects.PeerDown, now: Now) -> None:
        # Who still replays what it holds on disk, as after a start, could not govern at once.
        self.core.handle(raft.PeerGone(report.peer, lags=self.is_catching_up), now)

    # What is committed ---------------------------------------------------------------------------

    def _apply_committed(self, effect: raft.Committed, now: Now) -> None:
        self.times.commit(effect.offset, now.monotonic_ms)
        self.applier.go_on()

    def _read(self, report: effects.LogRead, _: Now) -> None:
        self.applier.read(report)

    def _has_applied(self) -> None:
        self._notify_applied(self.core.now)
        self._settle(self.core.now)

    def _proposed(self, effect: raft.Proposed, now: Now) -> None:
        if effect.error:
            self._notify(effect.slot, effect.error, now)
        else:
            self._committed.append((effect.offset, effect.slot))
            self._notify_applied(now)

    def _notify_applied(self, now: Now) -> None:
        self.times.apply(self.applied, now.monotonic_ms)
        waiting = self._committed
        while waiting and waiting[0][0] <= self.applied:
            self._notify(waiting.popleft()[1], ErrorCode.NONE, now)

    def _notify(self, askers: Sequence[OnDone], code: int, now: Now) -> None:
        """Call back with an outcome; exceptions of the callback do not affect it."""
        steps = self.steps
        for on_done in askers:
            try:
                on_done(code, now)
            except Exception as error:
                if self.steps != steps:
                    raise
                self._emit(effects.LogLine(str(InternalError("notifying of a change", error))))

    def _lead_if_caught_up(self, now: Now) -> list[Any]:
        """Take up leadership after replaying to the start of the own epoch (I14)."""
        role = self.core.role
        if (
            isinstance(role, Leader)
            and self.applied > role.epoch_start
            and self._leading != self.epoch
        ):
            self._leading = self.epoch
            self._machine.leads(self.epoch, now)
        return self.core.take_effects()

    def _snapshot_loaded(self, report: effects.SnapshotLoaded, now: Now) -> None:
        self.applier.begin_at(report.id.offset)
        try:
            records = list(records_in(report.data))
            self._machine.reload(records, report.id.offset - 1)
        except Exception as error:
            raise unreplayable_snapshot(report.id, error) from error
        self.snapshotter.found(len(records), report.id)
        voters = snapshot_voters(report.data) or self.core.log.voter_set
        self.core.handle(raft.SnapshotInstalled(report.id, voters), now)

    def _snapshot_damaged(self, report: effects.SnapshotDamaged, now: Now) -> None:
        self.core.handle(raft.SnapshotDamaged(report.id), now)


def records_of(response: Any) -> Any:
    """The records in the response to a fetch of the metadata partition."""
    topics = response.responses
    return (topics[0].partitions[0].records or b"") if topics else b""
