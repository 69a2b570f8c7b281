"""A controller with its own log: each request is decided, appended and, by default, committed."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any

from kraftlog.controller.activation import bootstrap_records
from kraftlog.controller.context import ControllerConfig
from kraftlog.controller.controller import Controller
from kraftlog.controller.decision import Decision
from kraftlog.logstate.voters import ReplicaKey, Voter, VoterSet
from kraftlog.metadata.image import Image
from kraftlog.steps import result_of
from kraftlog.types import Now
from kraftlog.wire.apis import ApiKey
from kraftlog.wire.messages.broker_heartbeat import BrokerHeartbeatRequest
from kraftlog.wire.messages.broker_registration import (
    BrokerRegistrationRequest,
    Feature,
    Listener,
)
from kraftlog.wire.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from kraftlog.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kraftlog.wire.schema import Message

CLUSTER = "a-cluster"
SESSION_MS = 9000
VOTERS = VoterSet((Voter(ReplicaKey(1, b"d" * 16)),))


def numbered_id(number: int) -> bytes:
    return bytes([1]) + number.to_bytes(15, "big")


class Cluster:
    """A log and two images: brokers have `committed`, and the controller decides on `state`."""

    def __init__(
        self, brokers: int = 0, *, elr: bool = False, voters: VoterSet = VOTERS, **config: Any
    ) -> None:
        self.committed = Image()
        self.voters = voters
        self.log: list[Message] = []
        self.committed_end = 0
        self.now_ms = 1000
        self._ids = 0
        self.controller = Controller(
            ControllerConfig(node_id=1, cluster_id=CLUSTER, **config),
            rng=Random(0),
            new_id=self._new_id,
            static_config={},
            voters=lambda: self.voters,
        )
        self.state = self.controller.state
        levels = {"metadata.version": 30, "eligible.leader.replicas.version": int(elr)}
        self.bootstrap = bootstrap_records(levels)
        self.append(self.controller.activate(self.bootstrap, self.now))
        for broker in range(1, brokers + 1):
            self.register(broker)
            self.heartbeat(broker)

    def _new_id(self) -> bytes:
        self._ids += 1
        return numbered_id(self._ids)

    @property
    def now(self) -> Now:
        return Now(self.now_ms, self.now_ms)

    def decide(self, api: int, request: Message, principal: str = "") -> Decision:
        end = len(self.log)
        return result_of(
            self.controller.decide_in_steps(api, request, self.now, end, principal=principal)
        )

    def propose(self, *batches: Sequence[Message]) -> None:
        """Propose batches whose records will be at the end of the log."""
        result_of(self.controller.state.propose_in_steps(batches, lambda: len(self.log)))

    def append(self, decision: Decision, *, commit: bool = True) -> Decision:
        if decision.records:
            self.propose(decision.records)
            self.log += decision.records
        if commit:
            self.commit()
        return decision

    def ask(
        self, api: int, request: Message, *, commit: bool = True, principal: str = ""
    ) -> Decision:
        return self.append(self.decide(api, request, principal), commit=commit)

    def commit(self, end_offset: int | None = None) -> None:
        """Commit the records before an offset, or the whole log."""
        end = len(self.log) if end_offset is None else end_offset
        for record in self.log[self.committed_end : end]:
            self.committed.replay(record)
        result_of(self.controller.replay_in_steps(self.log[self.committed_end : end], end - 1))
        self.committed_end = max(self.committed_end, end)

    def pass_time(self, ms: int) -> list[Message]:
        """Let time pass, and decide what is due then; return the records."""
        self.now_ms += ms
        records: list[Message] = []
        while (due := self.controller.poll(self.now, len(self.log))) is not None:
            records += self.append(due).records
        return records

    # Frequent requests ---------------------------------------------------------------------------

    def register(self, broker: int, incarnation: int = 1, **changes: Any) -> Decision:
        """Register a process of a broker, by default one that knows of the present registration."""
        registered = self.state.brokers.get(broker)
        changes.setdefault("replaced_broker_epoch", -1 if registered is None else registered.epoch)
        return self.ask(ApiKey.BROKER_REGISTRATION, registration(broker, incarnation, **changes))

    def heartbeat(self, broker: int, *, commit: bool = True, **fields: Any) -> Decision:
        """Send a heartbeat, by default of a broker that has replayed the whole log."""
        registered = self.state.brokers.get(broker)
        fields = {
            "broker_id": broker,
            "broker_epoch": -1 if registered is None else registered.epoch,
            "current_metadata_offset": len(self.log) - 1,
            "want_fence": False,
            "want_shut_down": False,
            **fields,
        }
        return self.ask(ApiKey.BROKER_HEARTBEAT, BrokerHeartbeatRequest(**fields), commit=commit)

    def configure(
        self, resource_type: int, name: str, values: dict[str, str | None], **fields: bool
    ) -> Decision:
        """Set the configs that have a value, and delete those with None."""
        configs = [
            AlterableConfig(name=key, config_operation=int(value is None), value=value)
            for key, value in values.items()
        ]
        resource = AlterConfigsResource(
            resource_type=resource_type, resource_name=name, configs=configs
        )
        request = IncrementalAlterConfigsRequest(
            resources=[resource], validate_only=fields.get("validate_only", False)
        )
        return self.ask(ApiKey.INCREMENTAL_ALTER_CONFIGS, request)

    def create(
        self, name: str, *replicas: tuple[int, ...], configs: dict[str, str] | None = None
    ) -> bytes:
        """Create a topic with a partition for each tuple of replicas; return its id."""
        decision = self.ask(
            ApiKey.CREATE_TOPICS, creation(new_topic(name, *replicas, configs=configs))
        )
        (result,) = decision.response.topics
        assert result.error_code == 0, result
        topic_id: bytes = result.topic_id
        return topic_id


def registration(broker: int, incarnation: int = 1, **changes: Any) -> BrokerRegistrationRequest:
    fields = {
        "broker_id": broker,
        "cluster_id": CLUSTER,
        "incarnation_id": numbered_id(1000 * broker + incarnation),
        "listeners": [
            Listener(name="PLAINTEXT", host="h", port=9000 + broker, security_protocol=0)
        ],
        "features": [
            Feature(name=name, min_supported_version=low, max_supported_version=high)
            for name, low, high in (
                ("metadata.version", 7, 33),
                ("eligible.leader.replicas.version", 0, 1),
            )
        ],
        "rack": None,
        "log_dirs": [directory(broker)],
        **changes,
    }
    return BrokerRegistrationRequest(**fields)


def directory(broker: int, number: int = 1) -> bytes:
    return bytes([2, broker, number]) + bytes(13)


def new_topic(
    name: str,
    *replicas: tuple[int, ...],
    partitions: int = -1,
    factor: int = -1,
    configs: dict[str, str] | None = None,
) -> CreatableTopic:
    return CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=factor,
        assignments=[
            CreatableReplicaAssignment(partition_index=index, broker_ids=brokers)
            for index, brokers in enumerate(replicas)
        ],
        configs=[
            CreatableTopicConfig(name=key, value=value) for key, value in (configs or {}).items()
        ],
    )


def creation(*topics: CreatableTopic, validate_only: bool = False) -> CreateTopicsRequest:
    return CreateTopicsRequest(topics=topics, validate_only=validate_only)
