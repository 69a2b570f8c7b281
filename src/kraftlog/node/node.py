"""`Node`: requests in, effects out. Pure; the server and the simulator are its hosts.

Two doors. Control traffic comes in by `handle` and leaves as effects. Requests come in by `frame`
or `request`; what they do to partitions, its `replica_manager` has for the host.

Its parts are cores: the quorum of the metadata (`quorum`), what governs the cluster while this
node leads that quorum, the replicas and the coordinators. What the cluster is, `image` says, and
only replayed records change it: who follows it is in the list of the `metadata_loader`.
"""

from __future__ import annotations

from functools import partial
from heapq import heapify, heappop, heappush

from kraftlog.config.keys import BROKER
from kraftlog.config.layers import ConfigLayers
from kraftlog.effects import (
    LogFailed,
    LogFlushed,
    LogLine,
    LogOpened,
    LogRead,
    LogStartMoved,
    LogStartNotStored,
    LogUnreadable,
    RequestFailed,
    ResponseReceived,
    VersionUnsupported,
)
from kraftlog.errors import ProtocolError
from kraftlog.logstate.voters import Endpoint, ReplicaKey
from kraftlog.metadata.image import ReplayError
from kraftlog.metadata.loader import MetadataLoader
from kraftlog.node.api_table import SERVED, handler
from kraftlog.node.broker.controller_channel import CONTROLLER_CHANNEL, ControllerChannel
from kraftlog.node.broker.producer_ids import ProducerIds
from kraftlog.node.config import MOST_REPLICAS
from kraftlog.node.containment import Attempts, contain, fail
from kraftlog.node.counts import Counts
from kraftlog.node.encoded_topics import EncodedTopics
from kraftlog.node.fast_path.request_templates import learn
from kraftlog.node.fetch_sessions import FetchSessions
from kraftlog.node.quorum.addresses import named_voters, reached_at
from kraftlog.node.quorum.batches import METADATA_LOG, unreplayable_snapshot
from kraftlog.node.quorum.driver import QuorumDriver
from kraftlog.node.quorum.snapshotter import snapshot_policy_of
from kraftlog.node.sliced import SlicedRequests, kept_body, read_and_serve
from kraftlog.raft.core import RaftCore
from kraftlog.replication.producer_expiration import ProducerExpiration
from kraftlog.replication.replica_manager import ReplicaManager
from kraftlog.replication.topic_configs import TopicConfigs
from kraftlog.steps import result_of
from kraftlog.value import TYPE_CHECKING
from kraftlog.wire import codec
from kraftlog.wire.apis import APIS, ApiKey
from kraftlog.wire.frames import read_request_head
from kraftlog.wire.versioned_schema import has_batches

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Iterator, Sequence
    from typing import Any

    from kraftlog.logstate.voters import Voter
    from kraftlog.metadata.image import Image
    from kraftlog.node.broker.broker_lifecycle import BrokerAddress, BrokerLifecycle
    from kraftlog.node.config import NodeConfig, RecoveredMetadata
    from kraftlog.node.controller.active_controller import ActiveController
    from kraftlog.node.coordinators.group_coordinators import GroupCoordinators
    from kraftlog.node.pending_response import PendingResponse
    from kraftlog.node.quorum.snapshotter import SnapshotPolicy
    from kraftlog.node.quorum.voter_updater import VoterUpdater
    from kraftlog.ports.logs import LogReader
    from kraftlog.types import Buffer, Now
    from kraftlog.wire.schema import Message

#: So many waiting requests are not worth looking through for those that are done.
WAITING_UNTIDIED = 1024
#: A request of more bytes is read step by step: it may have thousands of items.
LARGE_REQUEST = 8 << 10
JOINING = "sending a registration or heartbeat of the broker"
#: What comes a thousand times as often as anything else, and mostly changes nothing but logs.
_DATA = frozenset((ApiKey.PRODUCE, ApiKey.FETCH))


class Node:
    """The whole of a broker that decides. Its parts are the cores; this only connects them."""

    def __init__(
        self, config: NodeConfig, logs: LogReader, metadata: RecoveredMetadata, now: Now
    ) -> None:
        self.config = config
        self.logs = logs
        #: When the turn began that is under way.
        self.now = now
        #: Whether something has come or been done since the host took this back that may have
        #: changed what is due, or when. Data alone does not, unless somebody has to wait.
        self.needs_poll = True
        self.counts = Counts()
        self.metadata_loader = MetadataLoader()
        self._layers = ConfigLayers(config.settings.texts)
        self.topic_configs = TopicConfigs(self.metadata_loader, self.config_layers)
        self.encoded_topics = EncodedTopics()
        self.replica_manager = ReplicaManager(
            config.node_id,
            self.metadata_loader,
            self.topic_configs,
            self.emit,
            self._wait_for_ms,
            partial(fail, self),
        )
        #: The most that one answer carries, whatever was asked for.
        self.max_fetch_bytes = config.settings.fetch_max_bytes
        self.fetch_sessions = FetchSessions(
            config.settings.max_incremental_fetch_session_cache_slots, config.rng
        )
        self._effects: list[Any] = []
        #: Requests that wait with a time limit: (deadline, number, what waits).
        self._waiting: list[tuple[int, int, Any]] = []
        self._tidy_at = WAITING_UNTIDIED
        self.sliced = SlicedRequests(self)
        self._numbers = 0
        me = ReplicaKey(config.node_id, config.directory_id)
        core = RaftCore(me, metadata.log, metadata.election, config.raft, now, config.cluster_id)
        settings = config.settings
        self._bootstrap = metadata.bootstrap
        self._named_voters = named_voters(settings)
        self.quorum = QuorumDriver(
            core,
            self,
            self.emit,
            self.sliced,
            applied=metadata.applied,
            request_timeout_ms=settings.controller_quorum_request_timeout_ms,
            known=dict(zip(config.raft.bootstrap_ids, settings.bootstrap_servers, strict=False)),
            named={i: (at.host, at.port) for i, at in self._named_voters.items()},
            reached_at=reached_at(settings),
            listener=settings.controller_listener_names[0],
        )
        self.active_controller = self._make_active_controller() if settings.is_controller else None
        self.attempts = Attempts(self)
        self.controller_channel = ControllerChannel(
            self.quorum, self.active_controller, self.emit, self.attempts.attempt
        )
        self.voter_updater = self._make_voter_updater()
        self.broker_lifecycle = self._make_broker_lifecycle() if settings.is_broker else None
        self.group_coordinators = self._make_group_coordinators() if settings.is_broker else None
        self.producer_expiration = self._make_producer_expiration() if settings.is_broker else None
        self.producer_ids = ProducerIds(config.node_id, self._broker_epoch, self.controller_channel)
        self._snaps = snapshot_policy_of(settings)
        self._add_publishers()
        try:
            self.replay(metadata.snapshot, metadata.applied - 1)
        except ReplayError as error:
            raise unreplayable_snapshot(metadata.log.snapshot, error) from error
        self.quorum.snapshotter.found(len(metadata.snapshot), metadata.log.snapshot)
        self.quorum.start(now)

    def _make_active_controller(self) -> ActiveController:
        from kraftlog.controller.context import ControllerConfig
        from kraftlog.controller.controller import Controller
        from kraftlog.node.controller.active_controller import ActiveController

        config, settings = self.config, self.config.settings
        controller = Controller(
            ControllerConfig(
                node_id=config.node_id,
                cluster_id=config.cluster_id or "",
                default_partitions=settings.num_partitions,
                default_replication_factor=settings.default_replication_factor,
                most_replicas=MOST_REPLICAS,
                session_timeout_ms=settings.broker_session_timeout_ms,
                delete_topics=settings.delete_topic_enable,
                rebalance_leaders=settings.auto_leader_rebalance_enable,
                rebalance_interval_ms=1000 * settings.leader_imbalance_check_interval_seconds,
            ),
            rng=config.rng,
            new_id=config.new_id,
            static=settings.texts,
            kraft_version=lambda: self.quorum.core.log.voter_set.kraft_version,
        )
        return ActiveController(
            controller, self.quorum, self._bootstrap, self.emit, self.logs, self.sliced
        )

    def _add_publishers(self) -> None:
        """Who follows the image, in the order in which they hear of a change."""
        publishers = self.metadata_loader.publishers
        publishers += [self.encoded_topics, self.topic_configs]
        if self.active_controller is not None:
            from kraftlog.node.controller.unclean_elections import UncleanElections

            publishers.append(UncleanElections(self.counts, self.active_controller))
        if self.group_coordinators is not None:
            publishers.append(self.group_coordinators)
            self.replica_manager.listeners.append(self.group_coordinators)
        publishers.append(self.replica_manager)
        if self.broker_lifecycle is not None:
            publishers.append(self.broker_lifecycle)

    def _make_voter_updater(self) -> VoterUpdater | None:
        """Where settings name the voters, they say where those are."""
        settings = self.config.settings
        if not settings.is_controller:
            return None
        from kraftlog.config.endpoints import Listener
        from kraftlog.node.quorum.voter_updater import VoterUpdater

        listeners = settings.advertised_controller_listeners
        if settings.voters:
            named = self._named_voters.get(self.config.node_id)
            listeners = [Listener(named.name, named.host, named.port)] if named else []
        joins = settings.controller_quorum_auto_join_enable
        return VoterUpdater(
            self.quorum,
            self.controller_channel,
            listeners,
            self._log_line,
            join_at=self._reached_at() if joins else (),
        )

    def _reached_at(self) -> list[Endpoint]:
        """Where others reach this controller once it is a voter."""
        result = self.config.controller_addresses
        return [Endpoint(each.name, each.host, each.port) for each in result]

    def _log_line(self, line: str) -> None:
        self.emit(LogLine(line))

    @property
    def image(self) -> Image:
        """The cluster, as the records say it that were replayed so far."""
        return self.metadata_loader.image

    @property
    def cluster_id(self) -> str | None:
        """To which cluster this node belongs; None until its directory or the log says it (Q29)."""
        return self.quorum.core.cluster_id

    def _broker_epoch(self) -> int:
        return -1 if self.broker_lifecycle is None else self.broker_lifecycle.epoch

    def endpoints_of(self, voter: Voter) -> Sequence[Endpoint | BrokerAddress]:
        """Where a voter is reached. Of itself a node knows better than the log: its port may have
        been any that was free; of others where settings name them."""
        if voter.key.id == self.config.node_id and self.config.controller_addresses:
            return self.config.controller_addresses
        named = self._named_voters.get(voter.key.id)
        return voter.endpoints if named is None else (named,)

    def config_layers(self) -> ConfigLayers:
        """What stands for this broker's settings: its file's, and what was set while it ran."""
        for_all = self.image.config(BROKER, "")
        for_me = self.image.config(BROKER, str(self.config.node_id))
        if (self._layers.all_brokers, self._layers.broker) != (for_all, for_me):
            self._layers = ConfigLayers(self.config.settings.texts, for_all, for_me)
        return self._layers

    def _make_group_coordinators(self) -> GroupCoordinators:
        from kraftlog.node.coordinators.group_coordinators import GroupCoordinators

        return GroupCoordinators(self)

    def _make_producer_expiration(self) -> ProducerExpiration:
        return ProducerExpiration(
            self.replica_manager.partitions,
            self.config.settings["producer.id.expiration.check.interval.ms"],
            lambda: self.config_layers().value("producer.id.expiration.ms"),
            self.now,
        )

    def _make_broker_lifecycle(self) -> BrokerLifecycle:
        from kraftlog.node.broker.broker_lifecycle import BrokerLifecycle

        config, settings = self.config, self.config.settings
        return BrokerLifecycle(
            broker_id=config.node_id,
            cluster_id=lambda: self.cluster_id,
            incarnation=config.new_id(),
            directory_id=config.directory_id,
            addresses=config.addresses,
            rack=settings.broker_rack,
            heartbeat_ms=settings.broker_heartbeat_interval_ms,
            controller_channel=self.controller_channel,
            applied=lambda: self.quorum.applied,
            metadata=self.metadata_loader,
            arrived=self.replica_manager.take_up,
        )

    # The control door ----------------------------------------------------------------------------

    def replay(self, records: Iterable[Message], last_offset: int) -> None:
        """Committed records, at once."""
        result_of(self.replaying(list(records), last_offset))

    def replaying(self, records: Sequence[Message], last_offset: int) -> Generator[int, None, None]:
        """Committed records: the image follows, and the partitions follow the image."""
        began_ns = self.config.stopwatch_ns()
        if self.active_controller is not None:
            yield from self.active_controller.replaying(records, last_offset)
        yield from self.metadata_loader.replaying(records)
        took_ms = (self.config.stopwatch_ns() - began_ns) / 1e6
        self.quorum.times.applying.add(took_ms, self.now.monotonic_ms)

    def reload(self, records: Iterable[Message], last_offset: int) -> None:  # noqa: ARG002 - see StateMachine
        """A snapshot has taken the place of everything that was replayed before."""
        records = list(records)
        if self.active_controller is not None:
            self.active_controller.controller.installed(records)
        self.metadata_loader.reload(records)

    def led_by(self, leader_id: int, epoch: int) -> None:  # noqa: ARG002 - see StateMachine
        """The quorum has another leader, or none (-1)."""
        if self.active_controller is not None:
            self.active_controller.end(self.now)
        if leader_id >= 0:
            self._contact_new_leader(self.now)
        else:
            self._poll_soon()

    def leads(self, epoch: int, now: Now) -> None:
        """This node leads the quorum and has replayed all there was before: it governs now."""
        if self.active_controller is not None:
            self.counts.activations += 1
            # An earlier life of this broker is over, and need not be waited for.
            lifecycle = self.broker_lifecycle
            is_gone = lifecycle is None or lifecycle.registration is None
            self.active_controller.begin(epoch, now, is_gone=is_gone)
            self._contact_new_leader(now)

    def _poll_soon(self) -> None:
        for part in (self.voter_updater, self.broker_lifecycle):
            if part is not None:
                part.soon()

    def _contact_new_leader(self, now: Now) -> None:
        """First of all that this broker is there: it may have been fenced while nobody led, and
        what others want of it would be refused."""
        self.controller_channel.give_up(now)
        self._poll_soon()
        if self.broker_lifecycle is not None:
            self.attempts.poll(JOINING, self.broker_lifecycle, now)
        self.controller_channel.try_again(now)

    def handle(self, message: Any, now: Now) -> None:
        """What came of an effect."""
        self.now = now
        self.needs_poll = True
        if isinstance(message, LogOpened | LogStartMoved | LogStartNotStored | LogFailed):
            self.replica_manager.handle(message)
        elif isinstance(message, ResponseReceived | RequestFailed | VersionUnsupported) and (
            message.channel == CONTROLLER_CHANNEL
        ):
            self.controller_channel.handle(message, now)
        elif isinstance(message, LogRead | LogUnreadable) and message.log != METADATA_LOG:
            if self.group_coordinators is not None:
                self.group_coordinators.read(message, now)
        elif not isinstance(message, LogFlushed) or message.log == METADATA_LOG:
            self.quorum.handle(message, now)

    @property
    def is_ready(self) -> bool:
        """Whether clients may come: a broker is let in, and knows it from the log itself.

        Before that its answers would name no broker, and some clients do not ask again for long.
        """
        lifecycle = self.broker_lifecycle
        return lifecycle is None or lifecycle.is_let_in

    def shut_down(self, now: Now) -> None:
        """Begin to leave: what this node leads is handed over where there is somebody to take it.

        A broker that is alone and governs itself has nobody to wait for; to controllers elsewhere
        it says goodbye, or its next life would have to wait until this one is given up.
        """
        others = [b for b in self.image.brokers.values() if b.id != self.config.node_id]
        is_missed = self.active_controller is None or any(not broker.fenced for broker in others)
        is_orderly = self.config.settings.controlled_shutdown_enable
        if self.broker_lifecycle is not None and is_missed and is_orderly:
            self.broker_lifecycle.leave()
        self.quorum.shut_down(now)

    @property
    def has_left(self) -> bool:
        """Whether nobody is left to be told anything."""
        lifecycle = self.broker_lifecycle
        left = lifecycle is None or lifecycle.has_left or not lifecycle.wants_to_leave
        return left and not self.quorum.is_taking_leave

    def emit(self, effect: Any) -> None:
        self.needs_poll = True
        self._effects.append(effect)

    @property
    def has_work(self) -> bool:
        """Whether the host has something to carry out or to write."""
        return bool(self._effects or self.replica_manager.turn or self.quorum.proposal_batch)

    def take_effects(self) -> list[Any]:
        self.quorum.append_batched(self.now)
        taken = self._effects[:]
        self._effects.clear()
        return taken

    def poll(self, now: Now) -> None:
        """Do what is due."""
        self.now = now
        self.quorum.poll(now)
        self.snap_if_due(now, self._snaps)
        if self.active_controller is not None:
            self.active_controller.poll(now)
        poll = self.attempts.poll
        if self.voter_updater is not None:
            poll("updating the voter record of this node", self.voter_updater, now)
        if self.broker_lifecycle is not None:
            poll(JOINING, self.broker_lifecycle, now)
        if self.group_coordinators is not None:
            self.group_coordinators.poll(now)
        if self.producer_expiration is not None:
            poll("forgetting producers", self.producer_expiration, now)
        while self._waiting and self._waiting[0][0] <= now.monotonic_ms:
            waiter = heappop(self._waiting)[2]
            try:
                waiter.expire(now)
            except Exception as error:
                fail(self, waiter.slot, error)

    def snap_if_due(self, now: Now, snapshot_policy: SnapshotPolicy) -> None:
        """A transaction that is open is in no snapshot, so it is waited for, and so is a batch of
        which a part was replayed; and who has just started has first of all to catch up."""
        if self.image.transaction or self.quorum.is_applying or self.quorum.is_catching_up:
            return
        if self.quorum.snapshotter.is_due(now, snapshot_policy):
            self.quorum.snapshotter.take(self.image.records(), self.quorum.applied, now)

    def deadline(self) -> int | None:
        """When `poll` has something to do, in monotonic milliseconds."""
        waiting = self._waiting
        while waiting and waiting[0][2].done:
            heappop(waiting)
        due = [waiting[0][0]] if waiting else []
        parts = (self.quorum, self.active_controller, self.voter_updater, self.broker_lifecycle)
        for part in (*parts, self.group_coordinators, self.producer_expiration):
            at = part.deadline() if part is not None else None
            if at is not None:
                due.append(at)
        return min(due, default=None)

    def _wait_for_ms(self, waiter: Any, timeout_ms: int) -> None:
        self.wait(waiter, self.now.monotonic_ms + timeout_ms)

    def wait(self, waiter: Any, deadline_ms: int) -> None:
        """Have `waiter.expire` called then, unless it is done before."""
        self.needs_poll = True
        if len(self._waiting) >= self._tidy_at:
            # Those that are done lie about until their time comes, which may be weeks.
            self._waiting = [entry for entry in self._waiting if not entry[2].done]
            heapify(self._waiting)
            self._tidy_at = max(2 * len(self._waiting), WAITING_UNTIDIED)
        self._numbers += 1
        heappush(self._waiting, (deadline_ms, self._numbers, waiter))

    # The data door -------------------------------------------------------------------------------

    def frame(self, slot: PendingResponse, buffer: Buffer, pos: int, end: int, now: Now) -> None:
        """A request as bytes. Raises ProtocolError when it is none that we serve.

        A giant frame has a buffer to itself: whoever hands it over does not touch that again.
        """
        head = read_request_head(buffer, pos, end)
        slot.correlation_id = head.correlation_id
        slot.client_id = head.client_id
        slot.asked_ms = now.monotonic_ms
        slot.version = head.version
        served = SERVED.get(head.api_key)
        if served is None or not APIS[head.api_key].listeners & slot.connection.listener:
            raise ProtocolError(f"API {head.api_key} is not served", position=0)
        slot.api = api = APIS[head.api_key]
        if head.api_key not in _DATA:
            self.needs_poll = True
        if not api.first <= head.version <= served.last:
            if api.key == ApiKey.API_VERSIONS:
                # The asker learns what to ask instead, in the oldest form.
                slot.version = 0
                handler(api.key)(self, slot, None, now)
                return
            raise ProtocolError(f"{api.name} version {head.version} is not served", position=2)
        self.counts.count_request(head.api_key, head.version)
        is_large = end - head.body > LARGE_REQUEST and not has_batches(api.request())
        request = None
        if not is_large:
            request = codec.decode_request(api.request(), head.version, buffer, head.body, end)
        try:
            if is_large:
                kept = kept_body(buffer, head.body, end)
                steps: Iterator[int] | None = read_and_serve(self, slot, *kept)
            else:
                steps = handler(api.key)(self, slot, request, now)
            if steps is not None:
                self.sliced.run(slot, steps, request if head.api_key in _DATA else None)
        except ProtocolError:
            raise
        except Exception as error:
            raise contain(self, slot, error, request) from error
        if api.key in _DATA and not is_large:
            learn(self, slot, request, buffer, pos, end)

    def request(
        self, slot: PendingResponse, api_key: int, version: int, request: Message, now: Now
    ) -> None:
        """A request as an object, as the simulator sends them."""
        self.needs_poll = True
        slot.api = APIS[api_key]
        slot.version = version
        steps = handler(api_key)(self, slot, request, now)
        if steps is not None:
            self.sliced.run(slot, steps)
