"""`QuorumDriver`: runs the raft core of a node and applies committed records.

The core decides; the driver turns its effects into the node's. It holds back messages until what
they depend on is durable, encodes batches, finds the addresses of peers, and applies each committed
record once, in order, from the tail in memory or from the log (`CommitApplier`).
"""

from __future__ import annotations

from collections import deque
from types import MappingProxyType

from kraftlog import effects
from kraftlog.errors import ErrorCode, InternalError, ProtocolError
from kraftlog.logstate.voters import endpoint_of
from kraftlog.node.channels import QUORUM_CHANNEL, TO_CONTROLLERS
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
from kraftlog.node.quorum.contacts import Contacts
from kraftlog.node.quorum.known_nodes import KnownNodes
from kraftlog.node.quorum.proposal_batch import EncodedBatch, ProposalBatch, largest_batch
from kraftlog.node.quorum.quorum_latency import QuorumLatency
from kraftlog.node.quorum.quorum_state import election_to_write
from kraftlog.node.quorum.requests import VERSIONS, request_to_wire
from kraftlog.node.quorum.responses import response_from_wire, response_to_wire
from kraftlog.node.quorum.snapshotter import Snapshotter
from kraftlog.node.quorum.tail import Tail
from kraftlog.node.quorum.twin_processes import SharedIds, TwinProcesses, twin_line
from kraftlog.part import Part
from kraftlog.raft import messages as raft
from kraftlog.raft.roles.leader import Leader
from kraftlog.records.header import stamp
from kraftlog.value import TYPE_CHECKING
from kraftlog.wire.apis import APIS
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
    from kraftlog.node.slices import Slices
    from kraftlog.raft.core import RaftCore
    from kraftlog.types import Now, Responder
    from kraftlog.wire.schema import Message

#: Responses with the leader's endpoint: the first version and the struct.
ENDPOINTS_SINCE: dict[type, tuple[int, type[Message]]] = {
    raft.FetchResult: (16, fetch.NodeEndpoint),
    raft.VoteResult: (1, vote.NodeEndpoint),
}
#: Instead of a leader id: no leader is known.
NO_LEADER = -1
#: How often a refused epoch is logged.
LOG_REFUSED_EVERY_MS = 60_000


class QuorumDriver(Part):
    """`handle` takes the outcomes of effects, `handle_request` the requests of peers."""

    def __init__(
        self,
        core: RaftCore,
        machine: StateMachine,
        emit: Callable[[Any], None],
        slices: Slices,
        *,
        applied: int = 0,
        request_timeout_ms: int = 2000,
        bootstrap_addresses: Mapping[int, tuple[str, int]] = MappingProxyType({}),
        static_addresses: Mapping[int, tuple[str, int]] = MappingProxyType({}),
        advertised_endpoints: Sequence[Endpoint] = (),
        listener: str = "",  # the name of the controller listener to connect to
    ) -> None:
        self.core = core
        self.latency = QuorumLatency()
        self._machine = machine
        self._emit = emit
        self._request_timeout_ms = request_timeout_ms
        self.listener = listener
        self.known_nodes = KnownNodes(core.me.id, self.member_ids)
        self.addresses = Addresses(
            core, self.known_nodes, bootstrap_addresses, static_addresses, listener
        )
        self._advertised_endpoints = [
            LeaderEndpoint(name=each.name, host=each.host, port=each.port)
            for each in advertised_endpoints
        ]
        #: Messages of the core that wait until the disk has what they depend on, in order.
        self._waiting_for_disk: list[Any] = []
        self._tail = Tail()
        self.proposal_batch = ProposalBatch()
        #: Find two processes with one node id: with the same directory id, and with different ones.
        self.twins = TwinProcesses()
        self.shared_ids = SharedIds(core.me)
        #: The outcome of the last request to each peer, for the operator.
        self.contacts = Contacts()
        #: Ends this node if its leader belongs to another cluster: `WrongClusterStop.stop`.
        self.stop_for_cluster: Callable[[int, str | None], None] | None = None
        #: Proposals that are committed and not applied: (offset, callbacks).
        self.committed_proposals: deque[tuple[int, Sequence[OnDone]]] = deque()
        #: Called with the applied offset whenever it has moved.
        self.applied_listeners: list[Callable[[int, Now], None]] = []
        #: No refused epoch is logged before this.
        self._log_refused_from_ms = 0
        self._last_number = 0
        self._is_settling = False
        #: The number of steps of the core in progress; one that has raised stays counted.
        self.steps = 0
        #: Requests in flight by peer and number: a response is decoded according to its request.
        self._in_flight: dict[tuple[int, int], Any] = {}
        self.snapshotter = Snapshotter(core, emit)
        self.applier = CommitApplier(
            core, machine, self._tail, self.snapshotter, emit, slices, self._on_applied, applied
        )
        #: The latest epoch in which the state machine was notified that this node leads.
        self._led_epoch = -1
        #: What the first response of a leader reported as committed; -1: there was none yet.
        self._committed_at_start = -1
        self._carry_out = self._effect_handlers()
        self._on_report = self._report_handlers()

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
            raft.ClusterIdKnown: self._persist_cluster_id,
            raft.WrongCluster: self._refuse_cluster,
            raft.EpochRefused: self._log_refused_epoch,
            raft.Stop: self._stop,
        }

    def _report_handlers(self) -> dict[type, Callable[[Any, Now], None]]:
        return {
            effects.LogFlushed: self._flushed,
            effects.LogRead: self._read,
            effects.ElectionWritten: self._election_written,
            effects.SnapshotStored: self.snapshotter.stored,
            effects.SnapshotLoaded: self._snapshot_loaded,
            effects.SnapshotCorrupt: self._snapshot_damaged,
            effects.ResponseReceived: self._response_received,
            effects.RequestFailed: self._request_failed,
            effects.VersionUnsupported: self._version_unsupported,
            effects.ConnectionRefused: self._peer_down,
        }

    def start(self, now: Now) -> None:
        """Carry out the first effects of the core."""
        self.core.announce_resignation(now)
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
        """Whether this node replays the log from disk, as after a start."""
        return self.applier.is_reading

    @property
    def has_caught_up(self) -> bool:
        """Whether this node has applied all that was committed when it found a leader first."""
        return self._led_epoch >= 0 or 0 <= self._committed_at_start <= self.applied

    @property
    def applied(self) -> int:
        """The offset before which the state machine has applied everything."""
        return self.applier.end

    @property
    def is_applying(self) -> bool:
        """Whether committed batches are being applied, possibly over several turns."""
        return self.applier.is_applying

    @property
    def epoch(self) -> int:
        return self.core.election.epoch

    def member_ids(self) -> tuple[int, ...]:
        """The ids of the voters and target voters; the configured ones until the log has voters."""
        voters = self.core.log.voter_set
        return voters.ids + (voters.targets or ())

    @property
    def is_resigning(self) -> bool:
        """Whether EndQuorumEpoch requests to peers are pending; other requests do not count."""
        held = [effect.body for effect in self._waiting_for_disk if isinstance(effect, raft.Send)]
        return any(isinstance(body, raft.EndEpoch) for body in (*self._in_flight.values(), *held))

    # Input ---------------------------------------------------------------------------------------

    def handle(self, report: Any, now: Now) -> None:
        """Take the outcome of an effect."""
        self.append_batched(now)
        self._on_report[type(report)](report, now)
        self._settle(now)

    def handle_request(
        self, pending: Responder, body: Any, channel: Any, now: Now, max_bytes: int = 0
    ) -> None:
        """Take a request that a peer sent on the connection `channel`; `pending` responds."""
        self._pass_to_core(pending, body, channel, now, max_bytes)
        self._settle(now)

    def begin_epoch_received(
        self, pending: PendingResponse, body: raft.BeginEpoch, address: tuple[str, int], now: Now
    ) -> None:
        """Take a BeginQuorumEpoch with the leader's address, which may be newer than the log's.

        Only the address of the leader that the core follows is kept.
        """
        self._pass_to_core(pending, body, pending.connection, now)
        core = self.core
        is_followed = body.epoch == self.epoch and body.leader_id == self.leader_id != core.me.id
        if is_followed and not core.cluster_id_differs(body.cluster_id):
            self.addresses.leader_reported(address)
        self._settle(now)

    def _pass_to_core(
        self, pending: Responder, body: Any, channel: Any, now: Now, max_bytes: int = 0
    ) -> None:
        """Pass a request to the core; `_settle` carries out its effects."""
        self.append_batched(now)
        self._last_number += 1
        request = raft.Request((pending, max_bytes), body, channel, self._last_number)
        self._run_step(self.core.handle, request, now)

    def _run_step(self, step: Callable[..., Any], *arguments: Any) -> Any:
        """Run one step of the core, counted in `steps`: if it raises, the node stops."""
        self.steps += 1
        result = step(*arguments)
        self.steps -= 1
        return result

    def peer_down(self, report: effects.ConnectionRefused, now: Now) -> None:
        if report.channel in TO_CONTROLLERS:
            self.handle(report, now)

    def poll(self, now: Now) -> None:
        self.append_batched(now)
        self.core.poll(now)
        self._settle(now)

    def deadline(self) -> int | None:
        return self.core.deadline()

    def propose(self, proposal: Proposal, on_done: OnDone, now: Now) -> int:
        """Propose records as part of one batch; returns the error code of a refusal.

        `on_done` gets the error code of the outcome once the records are committed and applied
        here, or once the outcome is unknown. Successive proposals become one batch, which is
        appended at the end of the turn, or before any other input to the core. So the core cannot
        refuse it.
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
        error = self.core.proposal_error()
        if error:
            return error
        max_bytes = self.core.config.max_batch_bytes
        if any(largest_batch(len(it), it.size_bytes) > max_bytes for it in proposals):
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
            encoded = EncodedBatch(batch, taken.records)
            error = self._run_step(
                self.core.propose, taken.callbacks, len(taken), len(batch), encoded, now
            )
            assert not error, "the core has had no input since `refusal_of`"
            self._settle(now)

    def change_voters(
        self, change: Callable[..., int], argument: Any, on_done: Any, now: Now
    ) -> int:
        """Call the core's method `change` with `argument`; returns the error code of a refusal."""
        self.append_batched(now)
        error: int = self._run_step(change, (on_done,), argument, now)
        self._settle(now)
        return error

    def shut_down(self, now: Now) -> None:
        self.append_batched(now)
        self.core.shut_down(now)
        self._settle(now)

    # Effects of the core -------------------------------------------------------------------------

    def _settle(self, now: Now) -> None:
        """Carry out the effects of the core until there are none.

        A callback may propose at once. The effects of its proposal are carried out after the
        current ones, so that batches reach the log in the order in which the core appended them.
        """
        if self._is_settling:
            return
        self.steps += 1  # inlined `_run_step`: saves a call per turn
        self._is_settling = True
        while core_effects := self.core.take_effects() or self._lead_if_caught_up(now):
            for effect in core_effects:
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
        batch.payload = None  # the core does not need it
        self._tail.append(batch.base_offset, batch.last_offset, data, records)
        # An observer need not flush: it counts for no majority until a batch makes it a voter.
        self._emit(effects.AppendBatch(METADATA_LOG, data, flush=self.core.may_be_counted))
        end = batch.last_offset + 1
        self.latency.append(end - batch.base_offset, end, now.monotonic_ms, leads=self.is_leader)

    def _truncate(self, effect: raft.Truncate, _: Now) -> None:
        self._tail.truncate(effect.offset)
        self.latency.truncate(effect.offset)
        self._emit(effects.TruncateLog(METADATA_LOG, effect.offset))

    def _drop_prefix(self, effect: raft.DropPrefix, _: Now) -> None:
        self._emit(effects.MoveLogStart(METADATA_LOG, effect.offset))

    def _write_snapshot(self, effect: raft.WriteSnapshot, _: Now) -> None:
        self._emit(effects.WriteSnapshotPart(effect.id, effect.position, effect.data))

    def _install_snapshot(self, effect: raft.InstallSnapshot, _: Now) -> None:
        self._emit(effects.LoadSnapshot(effect.id, METADATA_LOG))

    def _persist_cluster_id(self, effect: raft.ClusterIdKnown, _: Now) -> None:
        self._emit(effects.PersistClusterId(effect.cluster_id))

    def _refuse_cluster(self, effect: raft.WrongCluster, _: Now) -> None:
        what = f"node {effect.peer} of another cluster contacts this node as one of its controllers"
        why = "refused; check the controller addresses in the configuration of that node"
        self._emit(effects.LogLine(f"{what}: {why}"))

    def _log_refused_epoch(self, effect: raft.EpochRefused, now: Now) -> None:
        if now.monotonic_ms < self._log_refused_from_ms:
            return
        self._log_refused_from_ms = now.monotonic_ms + LOG_REFUSED_EVERY_MS
        self._emit(
            effects.LogLine(
                f"a request in the name of node {effect.node_id} wanted to raise the epoch of the "
                f"quorum from {self.core.election.epoch} to {effect.epoch}, which no election "
                "explains: refused; check who can reach the listener of this controller"
            )
        )

    def _stop(self, effect: raft.Stop, _: Now) -> None:
        if effect.leader >= 0 and self.stop_for_cluster is not None:
            self.stop_for_cluster(effect.leader, effect.cluster_id)
        else:
            self._emit(effects.StopNode(effect.reason))

    def _leader_changed(self, effect: raft.LeaderChanged, now: Now) -> None:
        if effect.leader_id >= 0:
            self.latency.leader_known(now.monotonic_ms, leads=effect.leader_id == self.core.me.id)
        elif self.core.election.voted == self.core.me:
            self.latency.campaign(now.monotonic_ms)
        self.applier.machine_leads = effect.leader_id == self.core.me.id
        self._machine.leader_changed(effect.leader_id, effect.epoch)

    # Messages ------------------------------------------------------------------------------------

    def _send(self, effect: raft.Send, _: Now) -> None:
        if not self.core.is_durable(effect.after):
            self._waiting_for_disk.append(effect)
            return
        if self.send_on(QUORUM_CHANNEL, effect):
            self._in_flight[effect.peer, effect.number] = effect.body

    def send_on(self, channel: str, effect: raft.Send) -> bool:
        """Send a raft message on this channel; False if the peer has no known address."""
        find = self.addresses.use if channel == QUORUM_CHANNEL else self.address_of
        address = find(effect.peer)
        if address is None:
            self._emit(effects.UnreachablePeer(channel, effect.peer, effect.number))
            return False
        api_key, request = request_to_wire(effect.body, self._advertised_endpoints)
        self._emit(
            effects.SendRequest(
                channel=channel,
                peer=effect.peer,
                host=address[0],
                port=address[1],
                number=effect.number,
                api_key=api_key,
                version=VERSIONS[api_key],
                request=request,
                timeout_ms=self._request_timeout_ms,
                needs_new_connection=effect.needs_new_connection,
            )
        )
        return True

    def address_of(self, peer: int) -> tuple[str, int] | None:
        """The address of a node of the quorum, if known."""
        return self.addresses.of(peer)

    def _reply(self, effect: raft.Reply, _: Now) -> None:
        if not self.core.is_durable(effect.after):
            self._waiting_for_disk.append(effect)
            return
        pending, max_bytes = effect.pending
        body = effect.body
        if isinstance(body, raft.FetchResult) and body.limit > body.offset >= 0:
            self._emit(effects.SendRecords(pending, body, METADATA_LOG, max_bytes))
        elif isinstance(body, raft.SnapshotChunk) and not body.error:
            self._emit(effects.SendSnapshot(pending, body))
        else:
            response = response_to_wire(body)
            endpoints = ENDPOINTS_SINCE.get(type(body))
            if endpoints is not None and pending.version >= endpoints[0]:
                self._add_endpoints(body.leader_id, endpoints[1], response)
            self._emit(effects.SendResponse(pending, response))

    def _add_endpoints(self, leader: int, endpoint_type: Any, response: Any) -> None:
        """Add the leader's endpoint to a response."""
        is_own = leader == self.core.me.id
        own = endpoint_of(self._advertised_endpoints, self.listener) if is_own else None
        address = self.address_of(leader) if own is None else (own.host, own.port)
        if address is not None:
            response.node_endpoints = [
                endpoint_type(node_id=leader, host=address[0], port=address[1])
            ]

    def _release(self, now: Now) -> None:
        """Send the messages that depended on what has just become durable."""
        held, self._waiting_for_disk = self._waiting_for_disk, []
        for effect in held:
            self._carry_out[type(effect)](effect, now)

    # Reports -------------------------------------------------------------------------------------

    def _flushed(self, report: effects.LogFlushed, now: Now) -> None:
        self.latency.flush(report.offset, now.monotonic_ms)
        self.core.handle(raft.Flushed(report.offset), now)
        self._release(now)

    def _election_written(self, report: effects.ElectionWritten, now: Now) -> None:
        self.core.handle(raft.ElectionPersisted(report.version), now)
        self._release(now)

    def _response_received(self, report: effects.ResponseReceived, now: Now) -> None:
        request = self._in_flight.pop((report.peer, report.number), None)
        if request is None:
            return
        self.contacts.answered(report.peer)
        try:
            body = response_from_wire(report.response, request)
        except ProtocolError:  # for another partition: treat it as no response
            self.core.handle(raft.NoResponse(report.peer, report.number), now)
            return
        if body.error == ErrorCode.DUPLICATE_BROKER_REGISTRATION:
            self._emit(effects.StopNode(twin_line(self.core.me)))
            return
        if not body.error:
            self.addresses.answered(report.peer)
        if isinstance(body, raft.FetchResult) and not body.error:
            body.batches = tuple(summaries(records_of(report.response)))
            self.addresses.served_as_leader(report.peer, body.leader_id)
            if self._committed_at_start < 0:
                self._committed_at_start = body.high_watermark
        self.core.handle(raft.Response(report.peer, report.number, body), now)
        nodes = getattr(report.response, "node_endpoints", ())
        self.addresses.learn(report.peer, nodes, body)

    def _request_failed(self, report: effects.RequestFailed, now: Now) -> None:
        if not report.is_aborted:
            self.contacts.failed(report.peer, self.addresses.last_used(report.peer), report.reason)
        self.addresses.unreachable(report.peer)
        self._in_flight.pop((report.peer, report.number), None)
        self.core.handle(raft.NoResponse(report.peer, report.number), now)

    def _version_unsupported(self, report: effects.VersionUnsupported, now: Now) -> None:
        request = self._in_flight.pop((report.peer, report.number), None)
        if request is not None:
            name = APIS[request_to_wire(request)[0]].name
            why = f"responds, but does not support this version of {name}"
            self.contacts.failed(report.peer, self.addresses.last_used(report.peer), why)
        if isinstance(request, raft.Vote):
            refusal = raft.VoteResult(
                ErrorCode.UNSUPPORTED_VERSION, NO_LEADER, request.epoch, granted=False
            )
            self.core.handle(raft.Response(report.peer, report.number, refusal), now)
        else:
            self.core.handle(raft.NoResponse(report.peer, report.number), now)

    def _peer_down(self, report: effects.ConnectionRefused, now: Now) -> None:
        # A node that still replays its log, as after a start, should not campaign at once.
        self.core.handle(raft.PeerDown(report.peer, this_replica_lags=self.is_catching_up), now)

    # Commits -------------------------------------------------------------------------------------

    def _apply_committed(self, effect: raft.Committed, now: Now) -> None:
        self.latency.commit(effect.offset, now.monotonic_ms)
        self.applier.apply_committed()

    def _read(self, report: effects.LogRead, _: Now) -> None:
        self.applier.read(report)

    def _on_applied(self) -> None:
        now = self.core.now
        self._notify_applied(now)
        self._call_applied_listeners(now)
        self._settle(now)

    def _call_applied_listeners(self, now: Now) -> None:
        for listener in self.applied_listeners:
            listener(self.applied, now)

    def _proposed(self, effect: raft.Proposed, now: Now) -> None:
        if effect.error:
            self._notify(effect.pending, effect.error, now)
        else:
            self.committed_proposals.append((effect.offset, effect.pending))
            self._notify_applied(now)

    def _notify_applied(self, now: Now) -> None:
        self.latency.apply(self.applied, now.monotonic_ms)
        waiting = self.committed_proposals
        while waiting and waiting[0][0] <= self.applied:
            self._notify(waiting.popleft()[1], ErrorCode.NONE, now)

    def _notify(self, callbacks: Sequence[OnDone], code: int, now: Now) -> None:
        """Call back with an outcome; an exception of a callback is logged and changes nothing.

        A callback may run a step of the core: an exception in that is raised and ends the node.
        """
        steps = self.steps
        for on_done in callbacks:
            try:
                on_done(code, now)
            except Exception as error:
                if self.steps != steps:
                    raise
                self._emit(effects.LogLine(str(InternalError("notifying of a change", error))))

    def _lead_if_caught_up(self, now: Now) -> list[Any]:
        """Notify the state machine that it leads, once the epoch's first record is applied (Q26).

        Returns the effects of the core that follow from that.
        """
        role = self.core.role
        if (
            isinstance(role, Leader)
            and self.applied > role.epoch_start
            and self._led_epoch != self.epoch
        ):
            self._led_epoch = self.epoch
            self._machine.became_leader(self.epoch, now)
        return self.core.take_effects()

    def _snapshot_loaded(self, report: effects.SnapshotLoaded, now: Now) -> None:
        self.applier.restart_at(report.id.offset)
        try:
            records = list(records_in(report.data))
            self._machine.reload(records, report.id.offset - 1)
        except Exception as error:
            raise unreplayable_snapshot(report.id, error) from error
        self.snapshotter.loaded(len(records), report.id)
        self._call_applied_listeners(now)
        voters = snapshot_voters(report.data) or self.core.log.voter_set
        self.core.handle(raft.SnapshotInstalled(report.id, voters), now)

    def _snapshot_damaged(self, report: effects.SnapshotCorrupt, now: Now) -> None:
        self.core.handle(raft.SnapshotDamaged(report.id), now)


def records_of(response: Any) -> Any:
    """The records in the response to a fetch of the metadata partition."""
    topics = response.responses
    return (topics[0].partitions[0].records or b"") if topics else b""
