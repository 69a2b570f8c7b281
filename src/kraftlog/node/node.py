"""`Node`: requests in, effects out. Pure; the server and the simulator are its hosts.

Control traffic enters by `handle` and leaves as effects. Requests enter by `frame` or `request`;
the `replica_manager` holds what they append to partitions until the host writes it.

A node connects cores: the metadata quorum (`quorum`), the active controller, the replicas and the
coordinators. `image` describes the cluster; only replayed records and loaded snapshots change it,
and the publishers of the `metadata_loader` act on each change.
"""

from __future__ import annotations

from kraftlog.config.delegation_tokens import token_config
from kraftlog.effects import (
    BootTimestampWritten,
    ConnectionRefused,
    LogFailed,
    LogFlushed,
    LogLine,
    LogRead,
    LogReport,
    LogUnreadable,
    RequestFailed,
    RequestReport,
    SendResponse,
    StopNode,
)
from kraftlog.errors import ProtocolError
from kraftlog.metadata.image import Image
from kraftlog.metadata.loader import MetadataLoader
from kraftlog.node import parts
from kraftlog.node.access import is_permitted
from kraftlog.node.api_table import SERVED, handler, template_maker
from kraftlog.node.broker.controller_channel import ControllerChannel
from kraftlog.node.broker.cordoned_directories import CordonedDirectories
from kraftlog.node.broker.dynamic_config import DynamicConfig
from kraftlog.node.broker.failed_leaders import FailedLeaders
from kraftlog.node.broker.producer_ids import ProducerIds
from kraftlog.node.containment import Attempts, contain, fail
from kraftlog.node.counts import Counts
from kraftlog.node.delayed_operations import DelayedOperations
from kraftlog.node.denials import Denials
from kraftlog.node.encoded_topics import EncodedTopics
from kraftlog.node.fetch_sessions import FetchSessions
from kraftlog.node.quorum.addresses import named_voters
from kraftlog.node.quorum.batches import METADATA_LOG, unreplayable_snapshot
from kraftlog.node.quorum.due_snapshots import DueSnapshots
from kraftlog.node.quorum.linearizable_reads import LinearizableReads
from kraftlog.node.quorum.metadata_fetches import MetadataFetches
from kraftlog.node.quorum.snapshotter import snapshot_policy_of
from kraftlog.node.sliced import LARGE_REQUEST_BYTES, SlicedRequests, kept_body, read_and_serve
from kraftlog.node.templates.request_templates import ServedRequest, learn
from kraftlog.replication.replicating_node import ReplicatingNode
from kraftlog.replication.topic_configs import TopicConfigs
from kraftlog.steps import result_of
from kraftlog.types import NEVER_MS
from kraftlog.value import TYPE_CHECKING
from kraftlog.wire import codec
from kraftlog.wire.apis import APIS, LOGIN, ApiKey
from kraftlog.wire.frames import read_request_head
from kraftlog.wire.versioned_schema import has_batches

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Iterator, Sequence
    from typing import Any

    from kraftlog.effects import SendRequest
    from kraftlog.logstate.voters import Endpoint, Voter
    from kraftlog.node.api_table import ServedApi
    from kraftlog.node.config import BrokerAddress, NodeConfig, RecoveredMetadata
    from kraftlog.node.controller_request import OnDone
    from kraftlog.node.delayed_operations import DelayedOperation
    from kraftlog.node.pending_response import PendingResponse
    from kraftlog.ports.logs import LogReader
    from kraftlog.types import Buffer, Now
    from kraftlog.wire.apis import Api
    from kraftlog.wire.frames import RequestHead
    from kraftlog.wire.schema import Message

#: The APIs of the data path: by far the most requests, and they change little but logs.
_DATA = frozenset((ApiKey.PRODUCE, ApiKey.FETCH))
#: Requests that bring no deadline forward, unless their handlers call `wait` or `emit`.
_WITHOUT_DEADLINES = _DATA | {ApiKey.READ_OFFSET}


class Node(ReplicatingNode):
    """Connects the cores of a broker, a controller, or both."""

    def __init__(
        self, config: NodeConfig, logs: LogReader, metadata: RecoveredMetadata, now: Now
    ) -> None:
        self.config = config
        self.logs = logs
        #: When the current turn began.
        self.now = now
        #: Whether `poll` is needed, as something since the last one may have changed what is due.
        #: Produce, Fetch and ReadOffset do not set it, unless their handlers call `emit`.
        self.needs_poll = True
        #: `poll` is due at this time at the latest, by the calls of `poll_by` since the last poll.
        self.due_ms = NEVER_MS
        self.counts = Counts()
        self.metadata_loader = MetadataLoader()
        dynamic_config = DynamicConfig(self.metadata_loader, config.node_id, config.settings.texts)
        #: The effective settings, with dynamic changes.
        self.config_layers = dynamic_config.layers
        self.cordoned_directories = CordonedDirectories(
            self.config_layers, lambda: self.logs.directories
        )
        self.topic_configs = TopicConfigs(self.metadata_loader, self.config_layers)
        self.encoded_topics = EncodedTopics()
        self.failed_leaders = FailedLeaders(self.metadata_loader, lambda: self.now)
        self.replica_manager = parts.replica_manager(self)
        self.delayed_operations = DelayedOperations(self.fail)
        self.authentication = parts.authentication(self)
        self.client_quotas = parts.client_quotas(self)
        #: Upper bound of a fetch response, whatever the client asks for.
        self.max_fetch_bytes = config.settings.fetch_max_bytes
        self.fetch_sessions = FetchSessions(
            config.settings.max_incremental_fetch_session_cache_slots, config.rng
        )
        self._effects: list[Any] = []
        self.sliced = SlicedRequests(self)
        settings = config.settings
        self.named_voters = named_voters(settings)
        self.quorum = parts.quorum_driver(self, metadata)
        self.authorizer = parts.authorizer(self)
        #: None: there are no delegation tokens.
        self.delegation_tokens = token_config(settings)
        self.denials = Denials(self.log_line)
        self.active_controller = (
            parts.active_controller(self, metadata.bootstrap) if settings.is_controller else None
        )
        self.discovery = parts.discovery(self, metadata.last_boot_ms, now)
        self.linearizable_reads = LinearizableReads(self.quorum, self.emit)
        self.metadata_fetches = MetadataFetches(self.quorum)
        self.attempts = Attempts(self)
        self.controller_channel = ControllerChannel(
            self.quorum, self.active_controller, self.emit, self.attempts.attempt
        )
        self.quorum.stop_for_cluster = parts.wrong_cluster(self).stop
        registrations = parts.controller_registrations(self) if settings.is_controller else []
        self.broker_lifecycle = parts.broker_lifecycle(self) if settings.is_broker else None
        self.group_coordinators = parts.group_coordinators(self) if settings.is_broker else None
        self.producer_ids = ProducerIds(config.node_id, self.broker_epoch, self.controller_channel)
        self.due_snapshots = DueSnapshots(
            self.quorum,
            self.metadata_loader,
            snapshot_policy_of(settings),
            lambda: self.is_ready,
            now,
        )
        #: In the order in which they are polled.
        self.parts = parts.all_of(self, registrations)
        self._part_of_channel = {channel: part for part in self.parts for channel in part.channels}
        self.metadata_loader.publishers += parts.publishers(self)
        try:
            self._install(metadata.snapshot)
        except Exception as error:
            raise unreplayable_snapshot(metadata.log.snapshot, error) from error
        self.quorum.snapshotter.loaded(len(metadata.snapshot), metadata.log.snapshot)
        self.quorum.start(now)

    def log_line(self, line: str) -> None:
        self.emit(LogLine(line))

    @property
    def image(self) -> Image:
        """The cluster as of the last replayed record."""
        return self.metadata_loader.image

    @property
    def cluster_id(self) -> str | None:
        """The cluster id; None until the log directory or the metadata log has it (Q29)."""
        return self.quorum.core.cluster_id

    def broker_epoch(self) -> int:
        return -1 if self.broker_lifecycle is None else self.broker_lifecycle.known_epoch

    def is_registered(self) -> bool:
        """Whether the image has this process under the broker's id."""
        return self.broker_lifecycle is not None and self.broker_lifecycle.registration is not None

    def send_to_controller(
        self, api_key: int, version: int, request: Message, on_done: OnDone, now: Now
    ) -> None:
        self.controller_channel.send(api_key, version, request, on_done, now)

    def endpoints_of(self, voter: Voter) -> Sequence[Endpoint | BrokerAddress]:
        """The endpoints of a voter: from the settings if they name it, else from the log.

        This node's own come from its listeners, whose ports may have been chosen at start.
        """
        if voter.key.id == self.config.node_id and self.config.controller_addresses:
            return self.config.controller_addresses
        named = self.named_voters.get(voter.key.id)
        return voter.endpoints if named is None else (named,)

    # Control -------------------------------------------------------------------------------------

    def replay(self, records: Iterable[Message], last_offset: int) -> None:
        """Replay committed records in one go."""
        result_of(self.replay_in_steps(list(records), last_offset))

    def replay_in_steps(
        self, records: Sequence[Message], last_offset: int
    ) -> Generator[int, None, None]:
        """Replay committed records in steps: the image changes, and its publishers act on it."""
        began_ns = self.config.stopwatch_ns()
        if self.active_controller is not None:
            yield from self.active_controller.replay_in_steps(records, last_offset)
        yield from self.metadata_loader.replay_in_steps(records)
        took_ms = (self.config.stopwatch_ns() - began_ns) / 1e6
        self.quorum.latency.applying.add(took_ms, self.now.monotonic_ms)

    def reload(self, records: Iterable[Message], last_offset: int) -> None:  # noqa: ARG002 - see StateMachine
        """Replace the image by a snapshot."""
        self._install(records)

    def _install(self, records: Iterable[Message]) -> None:
        image = Image.of(records)
        if self.active_controller is not None:
            self.active_controller.controller.install_snapshot(image)
        self.metadata_loader.install(image)

    def leader_changed(self, leader_id: int, epoch: int) -> None:
        """The quorum has a new leader, or none (-1)."""
        for part in self.parts:
            part.leader_changed(leader_id, epoch, self.now)
        if leader_id >= 0:
            self._contact_new_leader(self.now)
        else:
            self._send_soon()

    def became_leader(self, epoch: int, now: Now) -> None:
        """This node leads the quorum and has replayed the log: its controller becomes active."""
        if self.active_controller is None:
            return
        obstacle = self.active_controller.obstacle()
        if obstacle:
            self.emit(StopNode(f"this controller cannot become active: {obstacle}"))
            return
        self.counts.activations += 1
        # A broker with this id that this process has not registered is an earlier incarnation.
        lifecycle = self.broker_lifecycle
        own_broker_ended = lifecycle is None or lifecycle.registration is None
        self.active_controller.begin(epoch, now, own_broker_ended=own_broker_ended)
        for part in self.parts:
            part.controller_began(now)
        self._contact_new_leader(now)

    def _send_soon(self) -> None:
        for part in self.parts:
            part.send_soon()

    def _contact_new_leader(self, now: Now) -> None:
        """Send the broker's heartbeat before forwarded requests.

        A broker that was fenced while there was no leader would have them refused.
        """
        self.controller_channel.fail_pending(now)
        self._send_soon()
        if self.broker_lifecycle is not None:
            self.attempts.poll(self.broker_lifecycle, now)
            if self.broker_lifecycle.is_in_flight:
                return
        self.controller_channel.leader_found(now)

    def handle(self, message: Any, now: Now) -> None:
        """Take the outcome of an effect."""
        self.now = now
        if isinstance(message, RequestReport) and self.replica_manager.is_own_channel(
            message.channel
        ):
            self._fetch_ended(message, now)
            return
        self.needs_poll = True
        if isinstance(message, LogReport):
            self.replica_manager.handle(message)
            if isinstance(message, LogFailed) and self.broker_lifecycle is not None:
                self.broker_lifecycle.send_soon()
        elif isinstance(message, RequestReport):
            part = self._part_of_channel.get(message.channel)
            (self.quorum.handle if part is None else part.request_ended)(message, now)
        elif isinstance(message, ConnectionRefused):
            for part in self.parts:
                part.peer_down(message, now)
        elif isinstance(message, BootTimestampWritten):
            self.discovery.boot_written(message)
        elif isinstance(message, LogRead | LogUnreadable) and message.log != METADATA_LOG:
            if self.group_coordinators is not None:
                self.group_coordinators.read(message, now)
        elif not isinstance(message, LogFlushed) or message.log == METADATA_LOG:
            self.quorum.handle(message, now)

    def _fetch_ended(self, report: RequestReport, now: Now) -> None:
        """Handle the outcome of a follower's fetch. Records alone change no deadline."""
        if isinstance(report, RequestFailed) and not report.is_aborted:
            self.failed_leaders.connection_lost(report.peer, now)
        fetchers = self.replica_manager.fetchers
        due_ms = fetchers.deadline()
        fetchers.handle(report, now)
        self.needs_poll |= fetchers.deadline() != due_ms

    @property
    def is_ready(self) -> bool:
        """Whether clients may connect: the broker has replayed that it is unfenced.

        Before that a Metadata response would not name the broker, and some clients
        retry only much later.
        """
        lifecycle = self.broker_lifecycle
        return lifecycle is None or lifecycle.is_unfenced

    def shut_down(self, now: Now) -> None:
        """Begin a controlled shutdown: leadership moves to other nodes if there are any.

        A single combined node shuts down at once, and so does a broker that is not registered.
        """
        me, lifecycle = self.config.node_id, self.broker_lifecycle
        others = [b for b in self.image.brokers.values() if b.id != me and not b.fenced]
        is_alone = not others and self.quorum.core.log.voter_set.ids == (me,)
        is_enabled = self.config.settings.controlled_shutdown_enable
        if lifecycle is not None and lifecycle.epoch >= 0 and is_enabled and not is_alone:
            lifecycle.leave()
        self.quorum.shut_down(now)

    @property
    def has_left(self) -> bool:
        """Whether the shutdown is complete: the broker has left, no EndQuorumEpoch is pending."""
        lifecycle = self.broker_lifecycle
        broker_has_left = lifecycle is None or lifecycle.has_left or not lifecycle.wants_to_leave
        return broker_has_left and not self.quorum.is_resigning

    def emit(self, effect: Any) -> None:
        if type(effect) is not SendResponse:  # a response changes no deadline
            self.needs_poll = True
        self._effects.append(effect)

    def send_fetch(self, effect: SendRequest) -> None:
        """`emit` for a follower's fetch, which needs no poll: the host keeps its timeout."""
        self._effects.append(effect)

    def poll_by(self, due_ms: int) -> None:
        """Have `poll` called at this time at the latest.

        It costs much less than `needs_poll`, after which all parts are polled, and their deadlines
        computed.
        """
        self.due_ms = min(self.due_ms, due_ms)

    @property
    def has_work(self) -> bool:
        """Whether the host has effects to carry out or appends to write."""
        replicas = self.replica_manager
        return bool(
            self._effects
            or replicas.turn
            or self.quorum.proposal_batch
            or replicas.has_work
            or self.linearizable_reads.has_work
        )

    def take_effects(self) -> list[Any]:
        """Finish the turn; returns the effects that the host has to carry out."""
        self.quorum.append_batched(self.now)
        self.replica_manager.send_requests(self.now)
        self.linearizable_reads.finish_turn(self.now)
        taken = self._effects[:]
        self._effects.clear()
        return taken

    def poll(self, now: Now) -> None:
        """Run whatever is due."""
        self.now = now
        for part in self.parts:
            if part.task:
                self.attempts.poll(part, now)
            else:
                part.poll(now)

    def deadline(self) -> int | None:
        """When `poll` is due next, in monotonic milliseconds."""
        earliest_ms = NEVER_MS
        for part in self.parts:
            due_ms = part.deadline()
            if due_ms is not None and due_ms < earliest_ms:
                earliest_ms = due_ms
        return None if earliest_ms == NEVER_MS else earliest_ms

    def wait_for_ms(self, operation: DelayedOperation, timeout_ms: int) -> None:
        self.wait(operation, self.now.monotonic_ms + timeout_ms)

    def wait(self, operation: DelayedOperation, deadline_ms: int) -> None:
        """Call `operation.expire` at the deadline, unless it is done before."""
        self.poll_by(deadline_ms)
        self.delayed_operations.add(operation, deadline_ms)

    def fail(self, pending: PendingResponse, error: Exception) -> None:
        fail(self, pending, error)

    # Requests ------------------------------------------------------------------------------------

    def accepted(self, connection: Any) -> None:
        """A client has connected: some listeners have it authenticate itself first."""
        if self.authentication is not None:
            self.authentication.accept(connection)

    def frame(self, pending: PendingResponse, buffer: Buffer, pos: int, end: int, now: Now) -> None:
        """Serve an encoded request. Raises ProtocolError if it is malformed or not supported.

        A giant frame has its own buffer, which the host does not reuse.
        """
        head = read_request_head(buffer, pos, end)
        pending.correlation_id = head.correlation_id
        pending.client_id = head.client_id
        pending.received_ms = now.monotonic_ms
        pending.version = head.version
        served = SERVED.get(head.api_key)
        if served is None or not APIS[head.api_key].listeners & pending.connection.serves:
            raise ProtocolError(f"API {head.api_key} is not served", position=0)
        pending.api = api = APIS[head.api_key]
        self.needs_poll |= head.api_key not in _WITHOUT_DEADLINES
        if not api.first <= head.version <= served.last:
            self._refuse_version(pending, api, now)
            return
        if self._awaits_acls(pending, head.api_key):
            from kraftlog.node.access import awaited_acls

            awaited_acls.wait(self, pending, *kept_body(buffer, pos, end))
            return
        if self.client_quotas.limits_time:
            self.client_quotas.measure(pending)
        self._serve(pending, head, served, buffer, pos, end, now)
        if pending.time is not None:
            pending.time.pause()

    def _serve(
        self,
        pending: PendingResponse,
        head: RequestHead,
        served: ServedApi,
        buffer: Buffer,
        pos: int,
        end: int,
        now: Now,
    ) -> None:
        """Decode a request, or begin to, and call its handler."""
        api = APIS[head.api_key]
        self.counts.count_request(head.api_key, head.version)
        is_large = end - head.body > LARGE_REQUEST_BYTES and not has_batches(api.request())
        request = None
        if not is_large:
            request = codec.decode_request(api.request(), head.version, buffer, head.body, end)
        try:
            if is_large:
                kept = kept_body(buffer, head.body, end)
                steps: Iterator[int] | None = read_and_serve(self, pending, *kept)
            elif self.authorizer is not None and not is_permitted(self, pending, request):
                return
            else:
                steps = handler(api.key)(self, pending, request, now)
            if steps is not None:
                self.sliced.run(pending, steps, request if head.api_key in _DATA else None)
        except ProtocolError:
            raise
        except Exception as error:
            raise contain(self, pending, error, request) from error
        if served.template and not is_large and pending.complete is None:
            frame = memoryview(buffer)[pos:end]
            learn(template_maker(api.key), ServedRequest(self, pending, request, frame))

    def _awaits_acls(self, pending: PendingResponse, api_key: int) -> bool:
        """Whether it can't be decided yet what this client may do."""
        authorizer = self.authorizer
        if authorizer is None or authorizer.can_decide(pending.client()[0]):
            return False
        return api_key not in LOGIN

    def _refuse_version(self, pending: PendingResponse, api: Api, now: Now) -> None:
        if api.key != ApiKey.API_VERSIONS:
            raise ProtocolError(f"{api.name} version {pending.version} is not served", position=2)
        # Respond in version 0 with the supported versions, as Kafka does.
        pending.version = 0
        handler(api.key)(self, pending, None, now)

    def request(
        self, pending: PendingResponse, api_key: int, version: int, request: Message, now: Now
    ) -> None:
        """Serve a decoded request, as the simulator sends it."""
        self.needs_poll = True
        pending.api = APIS[api_key]
        pending.version = version
        if self.authorizer is not None and not is_permitted(self, pending, request):
            return
        steps = handler(api_key)(self, pending, request, now)
        if steps is not None:
            self.sliced.run(pending, steps)
