"""V1, V14: decisions see what is committed and what was proposed after it.

After any sequence of requests, commits and changes of leader, the speculative image equals one
that is replayed from the whole log, and its index equals one that is built from its partitions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from kraftlog.controller.decision import Decision
from kraftlog.controller.index import PartitionIndex
from kraftlog.controller.state import collision_name
from kraftlog.metadata.image import Image
from kraftlog.wire.apis import ApiKey
from kraftlog.wire.messages.alter_partition import (
    AlterPartitionRequest,
    BrokerState,
    PartitionData,
    TopicData,
)
from kraftlog.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from kraftlog.wire.messages.controller_registration import ControllerRegistrationRequest
from kraftlog.wire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from kraftlog.wire.messages.delete_topics import DeleteTopicsRequest
from kraftlog.wire.messages.elect_leaders import ElectLeadersRequest
from kraftlog.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kraftlog.wire.messages.metadata_records import FeatureLevelRecord
from kraftlog.wire.messages.remove_partitions import RemovePartitionsRequest, RemovePartitionsTopic
from kraftlog.wire.messages.unregister_broker import UnregisterBrokerRequest
from kraftlog.wire.messages.unregister_controller import UnregisterControllerRequest
from tests.controller.cluster import Cluster, creation, new_topic, numbered_id, registration

if TYPE_CHECKING:
    from kraftlog.metadata.values import PartitionImage

BROKERS = st.integers(1, 4)
TOPICS = st.sampled_from(["a", "b", "a.b", "a_b"])
SETTINGS = [
    ("min.insync.replicas", "1"),
    ("min.insync.replicas", "2"),
    ("unclean.leader.election.enable", "true"),
]
NUMBERS = st.integers(0, 1000)


class Speculation(RuleBasedStateMachine):
    """A cluster that commits its decisions later, or never."""

    def __init__(self) -> None:
        super().__init__()
        self.cluster = Cluster(brokers=3, elr=True)
        level = FeatureLevelRecord(name="metadata.version", feature_level=33)
        self.cluster.append(Decision([level], None))
        #: The log end offset after each batch.
        self.ends = [len(self.cluster.log)]
        self.incarnations = dict.fromkeys(range(1, 5), 1)

    def ask(self, api: int, request: object) -> Decision:
        decision = self.cluster.ask(api, request, commit=False)  # type: ignore[arg-type]  # any
        self.note_batch_end()
        return decision

    def note_batch_end(self) -> None:
        if len(self.cluster.log) > self.ends[-1]:
            self.ends.append(len(self.cluster.log))

    def some_partition(self, number: int) -> PartitionImage | None:
        partitions = self.cluster.state.partitions
        return partitions[sorted(partitions)[number % len(partitions)]] if partitions else None

    # Requests ------------------------------------------------------------------------------------

    @rule(name=TOPICS, partitions=st.integers(1, 3), factor=st.integers(1, 3))
    def create(self, name: str, partitions: int, factor: int) -> None:
        topic = new_topic(name, partitions=partitions, factor=factor)
        self.ask(ApiKey.CREATE_TOPICS, creation(topic))

    @rule(name=TOPICS)
    def delete(self, name: str) -> None:
        self.ask(ApiKey.DELETE_TOPICS, DeleteTopicsRequest(topic_names=[name], timeout_ms=0))

    @rule(name=TOPICS, count=st.integers(2, 5))
    def grow(self, name: str, count: int) -> None:
        topic = CreatePartitionsTopic(name=name, count=count, assignments=None)
        request = CreatePartitionsRequest(topics=[topic], timeout_ms=0, validate_only=False)
        self.ask(ApiKey.CREATE_PARTITIONS, request)

    @rule(name=TOPICS, first=st.integers(1, 3), count=st.integers(1, 2))
    def shrink(self, name: str, first: int, count: int) -> None:
        topic = RemovePartitionsTopic(name=name, partitions=range(first, first + count))
        self.ask(ApiKey.REMOVE_PARTITIONS, RemovePartitionsRequest(topics=[topic], timeout_ms=0))

    @rule(name=TOPICS, key_and_value=st.sampled_from(SETTINGS), operation=st.sampled_from([0, 1]))
    def configure(self, name: str, key_and_value: tuple[str, str], operation: int) -> None:
        key, value = key_and_value
        config = AlterableConfig(name=key, config_operation=operation, value=value)
        resource = AlterConfigsResource(resource_type=2, resource_name=name, configs=[config])
        request = IncrementalAlterConfigsRequest(resources=[resource], validate_only=False)
        self.ask(ApiKey.INCREMENTAL_ALTER_CONFIGS, request)

    @rule(broker=BROKERS, is_new_process=st.booleans())
    def register(self, broker: int, is_new_process: bool) -> None:
        self.incarnations[broker] += is_new_process
        self.ask(ApiKey.BROKER_REGISTRATION, registration(broker, self.incarnations[broker]))

    @rule(broker=BROKERS, stop=st.booleans())
    def heartbeat(self, broker: int, stop: bool) -> None:
        self.cluster.heartbeat(broker, want_shut_down=stop, commit=False)
        self.note_batch_end()

    @rule(broker=BROKERS)
    def stop_broker(self, broker: int) -> None:
        self.cluster.controller.note_broker_down(broker)
        due = self.cluster.controller.poll(self.cluster.now, len(self.cluster.log))
        if due is not None:
            self.cluster.append(due, commit=False)
            self.note_batch_end()

    @rule(broker=BROKERS)
    def unregister(self, broker: int) -> None:
        self.ask(ApiKey.UNREGISTER_BROKER, UnregisterBrokerRequest(broker_id=broker))

    @rule(controller=BROKERS)
    def register_controller(self, controller: int) -> None:
        request = ControllerRegistrationRequest(
            controller_id=controller,
            incarnation_id=numbered_id(controller),
            zk_migration_ready=False,
            listeners=(),
            features=(),
        )
        self.ask(ApiKey.CONTROLLER_REGISTRATION, request)

    @rule(controller=BROKERS)
    def unregister_controller(self, controller: int) -> None:
        request = UnregisterControllerRequest(controller_id=controller)
        self.ask(ApiKey.UNREGISTER_CONTROLLER, request)

    @rule(number=NUMBERS, keep=st.integers(0, 7))
    def alter_isr(self, number: int, keep: int) -> None:
        partition = self.some_partition(number)
        if partition is None or partition.leader < 0:
            return
        brokers = self.cluster.state.brokers
        isr = [b for b in partition.replicas if b == partition.leader or keep >> (b % 3) & 1]
        data = PartitionData(
            partition_index=partition.index,
            leader_epoch=partition.leader_epoch,
            partition_epoch=partition.partition_epoch,
            new_isr_with_epochs=[BrokerState(broker_id=b, broker_epoch=-1) for b in isr],
        )
        request = AlterPartitionRequest(
            broker_id=partition.leader,
            broker_epoch=brokers[partition.leader].epoch,
            topics=[TopicData(topic_id=partition.topic_id, partitions=[data])],
        )
        self.ask(ApiKey.ALTER_PARTITION, request)

    @rule(
        number=NUMBERS,
        new_replicas=st.none() | st.lists(BROKERS, min_size=1, max_size=3, unique=True),
    )
    def reassign(self, number: int, new_replicas: list[int] | None) -> None:
        partition = self.some_partition(number)
        if partition is None:
            return
        name = self.cluster.state.topics[partition.topic_id].name
        reassignable = ReassignablePartition(partition_index=partition.index, replicas=new_replicas)
        topic = ReassignableTopic(name=name, partitions=[reassignable])
        request = AlterPartitionReassignmentsRequest(topics=[topic])
        self.ask(ApiKey.ALTER_PARTITION_REASSIGNMENTS, request)

    @rule(kind=st.sampled_from([0, 1]))
    def elect(self, kind: int) -> None:
        request = ElectLeadersRequest(election_type=kind, topic_partitions=None)
        self.ask(ApiKey.ELECT_LEADERS, request)

    # Commits and changes of leader ---------------------------------------------------------------

    @precondition(lambda self: self.cluster.committed_end < len(self.cluster.log))
    @rule(number=NUMBERS)
    def commit(self, number: int) -> None:
        open_ends = [end for end in self.ends if end > self.cluster.committed_end]
        self.cluster.commit(open_ends[number % len(open_ends)])

    @rule(others_commit=st.booleans())
    def lose_leadership(self, others_commit: bool) -> None:
        """Resign and lead again; a leader in between commits or drops the uncommitted records."""
        cluster = self.cluster
        cluster.controller.resign()
        assert cluster.state.maps() == cluster.committed.maps()
        if others_commit:
            cluster.commit()
        else:
            del cluster.log[cluster.committed_end :]
            self.ends = [end for end in self.ends if end <= cluster.committed_end]
        cluster.append(cluster.controller.activate(cluster.bootstrap, cluster.now), commit=False)
        self.note_batch_end()

    # Invariants ----------------------------------------------------------------------------------

    @invariant()
    def state_is_the_replayed_log(self) -> None:
        replayed = Image()
        for record in self.cluster.log:
            replayed.replay(record)
        assert self.cluster.state.maps() == replayed.maps()

    @invariant()
    def index_is_that_of_the_partitions(self) -> None:
        state = self.cluster.state
        index = PartitionIndex()
        for key, partition in state.partitions.items():
            index.update(key, None, partition)
        assert vars(state.index) == vars(index)
        colliding: dict[str, dict[str, None]] = {}
        for name in state.topic_ids:
            colliding.setdefault(collision_name(name), {})[name] = None
        assert state.colliding == colliding

    @invariant()
    def partitions_are_sound(self) -> None:
        """Leaders are in the ISR; ISR and ELR are disjoint sets of replicas."""
        for partition in self.cluster.state.partitions.values():
            isr, elr = set(partition.isr), set(partition.elr)
            assert partition.leader == -1 or partition.leader in isr, partition
            assert isr | elr <= set(partition.replicas), partition
            assert not isr & elr, partition
            assert len(partition.replicas) == len(set(partition.replicas)), partition
            assert len(partition.directories) == len(partition.replicas), partition
            if partition.leader != -1:
                assert self.cluster.state.active(partition.leader), partition


Speculation.TestCase.settings = settings(max_examples=60, stateful_step_count=25, deadline=None)
TestSpeculation = Speculation.TestCase
