"""`Metadata`: the host of a real `Controller`, and the metadata log, in which all is committed."""

from __future__ import annotations

from kraftlog.controller.context import ControllerConfig
from kraftlog.controller.controller import Controller
from kraftlog.metadata.features import ELR_FEATURE
from kraftlog.metadata.snapshot import METADATA_VERSION
from kraftlog.types import Now
from kraftlog.value import TYPE_CHECKING
from kraftlog.wire.apis import ApiKey
from kraftlog.wire.messages import metadata_records as records
from kraftlog.wire.messages.broker_heartbeat import BrokerHeartbeatRequest
from kraftlog.wire.messages.broker_registration import (
    BrokerRegistrationRequest,
    Feature,
    Listener,
)
from kraftlog.wire.messages.elect_leaders import ElectLeadersRequest

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from kraftlog.metadata.values import BrokerImage, PartitionImage
    from kraftlog.simulator.explorer.replication.bounds import Bound
    from kraftlog.wire.schema import Message

TOPIC, TOPIC_ID = "t", b"t" * 16
LISTENER = "PLAINTEXT"
CLUSTER = "cluster"
NOW = Now(0, 0)
PORT = 9092
TOPIC_RESOURCE = 2
PREFERRED, UNCLEAN = 0, 1
#: The features and their levels; ELR is on if the bound has it.
LEVELS = {METADATA_VERSION: 25, ELR_FEATURE: 1}


class Metadata:
    """All batches of the metadata log, with the controller that has written them."""

    def __init__(self, bound: Bound) -> None:
        config = ControllerConfig(node_id=0, cluster_id=CLUSTER)
        self.controller = Controller(config, rng=NoChance(), new_id=_no_id, static={})
        self.batches: tuple[tuple[Message, ...], ...] = ()
        #: The offset of the next record.
        self.end = 0
        #: The first batch that a running broker has not replayed.
        self.oldest = 0
        #: The leader of each epoch.
        self.elected: dict[int, int] = {}
        self._commit(list(_first_records(bound)))
        self.controller.activate((), NOW)

    @property
    def partition(self) -> PartitionImage:
        return self.controller.state.partitions[TOPIC_ID, 0]

    @property
    def brokers(self) -> dict[int, BrokerImage]:
        return self.controller.state.brokers

    def _commit(self, batch: Sequence[Message]) -> None:
        if batch:
            controller = self.controller
            self.end += len(batch)
            for _ in controller.replay_in_steps(batch, self.end - 1):
                pass
            self.batches = (*self.batches, tuple(batch))
            self.elected[self.partition.leader_epoch] = self.partition.leader

    def decide(self, api_key: int, request: Message) -> Any:
        """Decide on a request and commit the records; returns the response."""
        steps = self.controller.decide_in_steps(api_key, request, NOW, self.end)
        while True:
            try:
                next(steps)
            except StopIteration as stop:
                self._commit(stop.value.records)
                return stop.value.response

    # Events --------------------------------------------------------------------------------------

    def heartbeat(self, broker_id: int, *, is_fenced: bool) -> None:
        """Fence a broker, whatever the reason, or unfence it after a heartbeat."""
        epoch = self.brokers[broker_id].epoch
        request = BrokerHeartbeatRequest(
            broker_id=broker_id,
            broker_epoch=epoch,
            current_metadata_offset=self.end - 1,
            want_fence=is_fenced,
            want_shut_down=False,
        )
        self.decide(ApiKey.BROKER_HEARTBEAT, request)

    def elect(self, election_type: int) -> None:
        """Elect the preferred leader, or an unclean one."""
        request = ElectLeadersRequest(election_type=election_type, topic_partitions=None)
        self.decide(ApiKey.ELECT_LEADERS, request)

    def register(self, broker_id: int) -> int:
        """Register another process of a broker; returns its epoch."""
        request = BrokerRegistrationRequest(
            broker_id=broker_id,
            cluster_id=CLUSTER,
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
        )
        response = self.decide(ApiKey.BROKER_REGISTRATION, request)
        assert not response.error_code, response
        epoch: int = response.broker_epoch
        return epoch


def _first_records(bound: Bound) -> list[Message]:
    """The brokers, and a topic with one partition."""
    found: list[Message] = [
        records.FeatureLevelRecord(name=name, feature_level=level)
        for name, level in LEVELS.items()
        if name != ELR_FEATURE or bound.has_elr
    ]
    found += [
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
        for broker_id in sorted(bound.replicas)
    ]
    found += [
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
    return found


def _host(broker_id: int) -> str:
    return f"host-{broker_id}"


def _directory(broker_id: int) -> bytes:
    """The id of a broker's log directory."""
    return bytes([ord("A") + broker_id]) * 16


class NoChance:
    """Nothing here depends on chance."""

    def getrandbits(self, _: int, /) -> int:
        return 1


def _no_id() -> bytes:
    raise AssertionError("nothing here gets an id")
