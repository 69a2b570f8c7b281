"""`Metadata`: the host of a real `Controller`, and its log, which commits records at once."""

from __future__ import annotations

from kraftlog.controller.context import ControllerConfig
from kraftlog.controller.controller import Controller
from kraftlog.metadata.features import ELR_FEATURE
from kraftlog.metadata.snapshot import METADATA_VERSION
from kraftlog.types import Now
from kraftlog.value import TYPE_CHECKING
from kraftlog.wire.apis import ApiKey
from kraftlog.wire.messages import alter_partition_reassignments as reassignments_api
from kraftlog.wire.messages import create_topics as topics_api
from kraftlog.wire.messages import metadata_records as records
from kraftlog.wire.messages.broker_heartbeat import BrokerHeartbeatRequest
from kraftlog.wire.messages.broker_registration import (
    BrokerRegistrationRequest,
    Feature,
    Listener,
)
from kraftlog.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from kraftlog.wire.messages.elect_leaders import ElectLeadersRequest
from kraftlog_simulator.explorer.bounds import NAMES
from kraftlog_simulator.explorer.invariants import Broken

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from kraftlog.metadata.values import BrokerImage, PartitionImage
    from kraftlog.types import Uuid
    from kraftlog.wire.messages.broker_heartbeat import BrokerHeartbeatResponse
    from kraftlog.wire.schema import Message
    from kraftlog_simulator.explorer.replication.bounds import Bound

TOPIC, TOPIC_ID = "t", b"t" * 16
LISTENER = "PLAINTEXT"
CLUSTER_ID = "cluster"
NOW = Now(0, 0)
PORT = 9092
TOPIC_RESOURCE = 2
PREFERRED, UNCLEAN = 0, 1
#: The features and their levels; ELR is on if the bound has it.
LEVELS = {METADATA_VERSION: 25, ELR_FEATURE: 1}


class Metadata:
    """The metadata log, with the controller that writes it.

    The Bound has the brokers, the replicas, and how often each kind of event may happen.
    """

    def __init__(self, bound: Bound) -> None:
        config = ControllerConfig(node_id=0, cluster_id=CLUSTER_ID)
        self.bound = bound
        self.controller = Controller(
            config, rng=ConstantBits(), new_id=self._new_id, static_config={}
        )
        self.batches: tuple[tuple[Message, ...], ...] = ()
        #: The offset of the next record.
        self.end = 0
        #: The first batch that a running broker has not replayed.
        self.oldest = 0
        #: The leader of each epoch of a topic.
        self.elected: dict[tuple[Uuid, int], int] = {}
        #: How many topics named `TOPIC` have been created.
        self.topics = 1
        #: The brokers in controlled shutdown, each with the number of metadata batches that all
        #: others must replay first; 0 for a broker that led nothing.
        self.leaving: dict[int, int] = {}
        #: The brokers that have stopped after a controlled shutdown.
        self.stopped: frozenset[int] = frozenset()
        self._commit(list(_first_records(bound)))
        self.controller.activate((), NOW)

    def _new_id(self) -> Uuid:
        """The id of the next topic."""
        self.topics += 1
        return TOPIC_ID[:-1] + bytes([self.topics])

    @property
    def topic_id(self) -> Uuid | None:
        return self.controller.state.topic_ids.get(TOPIC)

    @property
    def partition(self) -> PartitionImage | None:
        """The partition; None while its topic is deleted."""
        topic_id = self.topic_id
        return None if topic_id is None else self.controller.state.partitions[topic_id, 0]

    @property
    def brokers(self) -> dict[int, BrokerImage]:
        return self.controller.state.brokers

    def offset_of(self, count: int) -> int:
        """The offset of the last record in the first `count` batches."""
        return sum(map(len, self.batches[:count])) - 1

    def _commit(self, batch: Sequence[Message]) -> None:
        if not batch:
            return
        controller, before = self.controller, self.partition
        self.end += len(batch)
        for _ in controller.replay_in_steps(batch, self.end - 1):
            pass
        self.batches = (*self.batches, tuple(batch))
        after = self.partition
        if after is not None:
            self.elected[after.topic_id, after.leader_epoch] = after.leader
            if before is not None and before.topic_id == after.topic_id:
                check_reassignment(before, after)

    def decide(self, api_key: int, request: Message) -> Any:
        """Decide on a request and commit the records; return the response."""
        steps = self.controller.decide_in_steps(api_key, request, NOW, self.end)
        while True:
            try:
                next(steps)
            except StopIteration as stop:
                self._commit(stop.value.records)
                return stop.value.response

    # Brokers -------------------------------------------------------------------------------------

    def heartbeat(self, broker_id: int, offset: int, *, leaves: bool = False) -> Any:
        """A broker that has replayed the metadata up to this offset sends a heartbeat."""
        request = BrokerHeartbeatRequest(
            broker_id=broker_id,
            broker_epoch=self.brokers[broker_id].epoch,
            current_metadata_offset=offset,
            want_fence=False,
            want_shut_down=leaves,
        )
        return self.decide(ApiKey.BROKER_HEARTBEAT, request)

    def session_ends(self, broker_id: int) -> None:
        """A broker's session times out, while all others send heartbeats."""
        sessions = self.controller.sessions
        later = Now(sessions.timeout_ms + 1, sessions.timeout_ms + 1)
        # At `later` the session expires; then the others' sessions are set back to NOW, the time of
        # all other events.
        for now in (later, NOW):
            for other in self.brokers:
                session = sessions.get(other)
                if session is not None and other != broker_id:
                    offset = session.metadata_offset
                    sessions.touch(other, session.epoch, now.monotonic_ms, offset)
            if now is later:
                decision = self.controller.poll(now, self.end)
                self._commit([] if decision is None else decision.records)

    def shut_down(self, broker_id: int, offset: int) -> BrokerHeartbeatResponse:
        """A broker requests a controlled shutdown, or repeats the request."""
        partition = self.partition
        leads = partition is not None and partition.leader == broker_id
        response: BrokerHeartbeatResponse = self.heartbeat(broker_id, offset, leaves=True)
        if response.should_shut_down:
            self.leaving.pop(broker_id, None)
            self.stopped |= {broker_id}
        elif broker_id not in self.leaving:
            self.leaving[broker_id] = len(self.batches) if leads else 0
        return response

    def waits_for(self, broker_id: int) -> bool:
        """Whether another broker, in controlled shutdown, waits for a heartbeat of this one."""
        sessions = self.controller.sessions
        own = sessions.get(broker_id)
        return own is not None and any(
            leaver != broker_id
            and (session := sessions.get(leaver)) is not None
            and own.metadata_offset < session.shutdown_offset
            for leaver in self.leaving
        )

    def register(self, broker_id: int) -> int:
        """Register a new process of a broker; return its broker epoch."""
        is_clean = broker_id in self.stopped
        self.leaving.pop(broker_id, None)
        self.stopped -= {broker_id}
        registered = self.brokers.get(broker_id)
        known_epoch = -1 if registered is None else registered.epoch
        request = BrokerRegistrationRequest(
            broker_id=broker_id,
            cluster_id=CLUSTER_ID,
            incarnation_id=self.end.to_bytes(16, "big"),
            listeners=[
                Listener(name=LISTENER, host=_host(broker_id), port=PORT, security_protocol=0)
            ],
            features=[
                Feature(name=name, min_supported_version=0, max_supported_version=level)
                for name, level in LEVELS.items()
            ],
            rack=None,
            log_dirs=[_directory(broker_id)],
            previous_broker_epoch=known_epoch if is_clean else -1,
            replaced_broker_epoch=known_epoch,
        )
        response = self.decide(ApiKey.BROKER_REGISTRATION, request)
        assert not response.error_code, response
        epoch: int = response.broker_epoch
        return epoch

    # Topics and partitions -----------------------------------------------------------------------

    def elect(self, election_type: int) -> None:
        """Elect the preferred leader, or an unclean one."""
        request = ElectLeadersRequest(election_type=election_type, topic_partitions=None)
        self.decide(ApiKey.ELECT_LEADERS, request)

    def reassign(self, replicas: Sequence[int] | None) -> None:
        """Begin a reassignment; None: cancel it."""
        partition = reassignments_api.ReassignablePartition(partition_index=0, replicas=replicas)
        topic = reassignments_api.ReassignableTopic(name=TOPIC, partitions=[partition])
        request = reassignments_api.AlterPartitionReassignmentsRequest(topics=[topic])
        self.decide(ApiKey.ALTER_PARTITION_REASSIGNMENTS, request)

    def delete(self) -> None:
        topic = DeleteTopicState(name=TOPIC)
        self.decide(ApiKey.DELETE_TOPICS, DeleteTopicsRequest(topics=[topic], timeout_ms=0))

    def create(self) -> None:
        """Create the topic again, with its first replicas."""
        assigned = topics_api.CreatableReplicaAssignment(
            partition_index=0, broker_ids=self.bound.replicas
        )
        min_isr = topics_api.CreatableTopicConfig(
            name="min.insync.replicas", value=str(self.bound.min_isr)
        )
        topic = topics_api.CreatableTopic(
            name=TOPIC,
            num_partitions=-1,
            replication_factor=-1,
            assignments=[assigned],
            configs=[min_isr],
        )
        request = topics_api.CreateTopicsRequest(topics=[topic], timeout_ms=0, validate_only=False)
        response = self.decide(ApiKey.CREATE_TOPICS, request)
        [created] = response.topics
        assert not created.error_code, created

    @property
    def can_be_created(self) -> bool:
        """Whether the topic is deleted, and a broker that would have a replica is unfenced."""
        return self.topic_id is None and any(
            self.brokers[broker].active for broker in self.bound.replicas
        )


def check_reassignment(before: PartitionImage, after: PartitionImage) -> None:
    """Replicas that are added are in the ISR once the reassignment is complete (S10)."""
    settled = {*before.replicas} - {*before.adding}
    missing = {*after.replicas} - settled - {*after.isr}
    if missing and not after.reassigning:
        names = "".join([NAMES[broker] for broker in sorted(missing)])
        raise Broken("a reassignment waits for its replicas", f"{names} is not in the ISR")


def _first_records(bound: Bound) -> list[Message]:
    """The brokers, and a topic with one partition."""
    first: list[Message] = [
        records.FeatureLevelRecord(name=name, feature_level=level)
        for name, level in LEVELS.items()
        if name != ELR_FEATURE or bound.has_elr
    ]
    first += [
        records.RegisterBrokerRecord(
            broker_id=broker_id,
            incarnation_id=bytes([broker_id]) * 16,
            broker_epoch=broker_id,
            end_points=[
                records.BrokerEndpoint(
                    name=LISTENER, host=_host(broker_id), port=PORT, security_protocol=0
                )
            ],
            features=(),
            rack=None,
            fenced=False,
            log_dirs=(_directory(broker_id),),
        )
        for broker_id in bound.brokers
    ]
    first += [
        records.TopicRecord(name=TOPIC, topic_id=TOPIC_ID),
        records.PartitionRecord(
            partition_id=0,
            topic_id=TOPIC_ID,
            replicas=bound.replicas,
            isr=bound.replicas,
            removing_replicas=(),
            adding_replicas=(),
            leader=bound.leader,
            leader_epoch=1,
            partition_epoch=0,
            directories=tuple([_directory(broker_id) for broker_id in bound.replicas]),
        ),
        records.ConfigRecord(
            resource_type=TOPIC_RESOURCE,
            resource_name=TOPIC,
            name="min.insync.replicas",
            value=str(bound.min_isr),
        ),
    ]
    return first


def _host(broker_id: int) -> str:
    return f"host-{broker_id}"


def _directory(broker_id: int) -> bytes:
    """The id of a broker's log directory."""
    return bytes([ord("A") + broker_id]) * 16


class ConstantBits:
    """In place of a random generator, as the results of events must not depend on chance."""

    def getrandbits(self, _: int, /) -> int:
        return 1
