"""Clients of whole nodes: real requests, as bytes, to the active controller."""

from __future__ import annotations

from kraftlog.config.keys import CLIENT_METRICS
from kraftlog.errors import ErrorCode
from kraftlog.logstate.voters import Voter
from kraftlog.metadata.features import KRAFT_VERSION
from kraftlog.node.quorum.batches import records_in
from kraftlog.types import METADATA_TOPIC
from kraftlog.value import TYPE_CHECKING
from kraftlog.wire.apis import ApiKey
from kraftlog.wire.messages import add_raft_voter as adds
from kraftlog.wire.messages import incremental_alter_configs as alters
from kraftlog.wire.messages import remove_raft_voter as removes
from kraftlog.wire.messages import update_raft_voter as updates
from kraftlog.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignableTopic,
)
from kraftlog.wire.messages.metadata_records import ConfigRecord
from kraftlog.wire.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from kraftlog_simulator.invariants.changes_reported import is_result_of
from kraftlog_simulator.process import CLUSTER_ID
from kraftlog_simulator.violation import Violation
from kraftlog_simulator.voter_change import VoterChange
from kraftlog_simulator.workload import Workload

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from kraftlog.raft.messages import Batch
    from kraftlog.wire.schema import Message
    from kraftlog_simulator.nodes.node_process import NodeProcess, Request, WorldOfNodes

#: There are SUBSCRIPTION_COUNT client metrics subscriptions. An append sets the interval of one of
#: them: to the append's value plus the smallest valid interval.
SUBSCRIPTION_COUNT, INTERVAL_KEY, MIN_INTERVAL_MS = 12, "interval.ms", 100
#: The versions of the requests; a change is a removal or an update of a voter.
ALTER_VERSION = 1
ADD_VERSION, REASSIGN_VERSION, CHANGE_VERSION, FEATURES_VERSION = 1, 1, 0, 1
TIMEOUT_MS = 30_000


# Values in the log -------------------------------------------------------------------------------


def subscription_of(value: int) -> str:
    return f"c{value % SUBSCRIPTION_COUNT}"


def append_request(value: int) -> Message:
    config = alters.AlterableConfig(
        name=INTERVAL_KEY, config_operation=0, value=str(MIN_INTERVAL_MS + value)
    )
    resource = alters.AlterConfigsResource(
        resource_type=CLIENT_METRICS, resource_name=subscription_of(value), configs=[config]
    )
    return alters.IncrementalAlterConfigsRequest(resources=[resource], validate_only=False)


def values_in(batch: Batch) -> Iterator[tuple[int, int]]:
    """The offset and the value of each append in a batch."""
    if not isinstance(batch.payload, bytes) or batch.voters is not None:
        return
    for number, record in enumerate(records_in(batch.payload)):
        if isinstance(record, ConfigRecord) and record.resource_type == CLIENT_METRICS:
            assert record.value is not None, "an append sets a value"
            yield batch.base_offset + number, int(record.value) - MIN_INTERVAL_MS


class NodeWorkload(Workload):
    """Appends are changes of client metrics configs, reads are ReadOffset requests."""

    world: WorldOfNodes

    def __init__(self, world: WorldOfNodes) -> None:
        super().__init__(world)
        #: The offset of the newest acknowledged append for each subscription.
        self.newest: dict[str, int] = {}

    def proposed(self, value: int, error: int, end_offset: int) -> None:
        if not error:
            name = subscription_of(value)
            self.newest[name] = max(self.newest.get(name, -1), end_offset - 1)
        super().proposed(value, error, end_offset)

    def judge(self) -> list[str]:
        final: list[tuple[int, int | None]] = []
        for chain, batch in zip(
            self.world.oracle.committed, self.world.oracle.committed_batches, strict=True
        ):
            final += self.world.values.get(chain) or [(batch.base_offset, None)]
        return self.history.finish(final)


class Proposals:
    """The pending appends at one process.

    They are dropped when the process no longer leads: their outcome stays unknown, without a retry.
    """

    def __init__(self, replica: NodeProcess) -> None:
        self._replica = replica
        self._pending: dict[Any, Request] = {}

    def propose(self, pending: Any, value: int) -> int:
        """Send an append; return an immediate error code, or 0 if the workload is notified."""
        immediate_codes: list[int] = []  # the error code of a response during the send
        is_sent = False

        def on_response(response: Any) -> None:
            error = response.responses[0].error_code
            self._pending.pop(pending, None)
            if is_sent:
                self._notify(pending, value, error)
            else:
                immediate_codes.append(error)

        replica = self._replica
        client = replica.send_as_client(
            ApiKey.INCREMENTAL_ALTER_CONFIGS, ALTER_VERSION, append_request(value), on_response
        )
        is_sent = True
        if immediate_codes:
            if not immediate_codes[0]:
                self._notify(pending, value, immediate_codes[0])
            return immediate_codes[0]
        if client.is_open:
            self._pending[pending] = client
        self.drop_if_resigned()
        return 0

    def drop_if_resigned(self) -> None:
        core = self._replica.core
        if self._pending and (core is None or core.role.name != "leader"):
            waiting, self._pending = self._pending, {}
            for pending, client in waiting.items():
                client.close()
                self._replica.world.workload.proposed(pending, ErrorCode.REQUEST_TIMED_OUT, -1)

    def _notify(self, pending: Any, value: int, error: int) -> None:
        end = -1
        if not error:
            end = self._offset_of(value) + 1
        self._replica.world.workload.proposed(pending, error, end)

    def _offset_of(self, value: int) -> int:
        values = self._replica.world.values
        for chain in reversed(self._replica.disk.chains):
            for offset, logged in values.get(chain, ()):
                if logged == value:
                    return offset
        raise Violation("client history", f"value {value} was acknowledged, but is not in the log")


# Voters ------------------------------------------------------------------------------------------


def change_voters(replica: NodeProcess, kind: str, attempt: Any, what: Any) -> int:
    """Request a change; return the error code of an immediate response, or 0 if it comes later."""
    immediate_codes: list[int] = []  # the error code of a response during the send
    is_sent = False

    def decided(error: int) -> None:
        if not is_sent:
            immediate_codes.append(error)
            return
        attempt.decided(error, -1 if error else _end_of_change(replica, kind, what))

    api_key, version, request = _voter_request(replica, kind, what)
    replica.send_as_client(api_key, version, request, lambda response: decided(_error_of(response)))
    is_sent = True
    if immediate_codes and not immediate_codes[0]:
        attempt.decided(0, _end_of_change(replica, kind, what))
    return immediate_codes[0] if immediate_codes else 0


def _error_of(response: Any) -> int:
    if isinstance(response, AlterPartitionReassignmentsResponse):
        return response.responses[0].partitions[0].error_code
    code: int = response.error_code
    return code


def _voter_request(replica: NodeProcess, kind: str, what: Any) -> tuple[int, int, Message]:
    if kind == "remove_voter":
        removal = removes.RemoveRaftVoterRequest(
            cluster_id=CLUSTER_ID, voter_id=what.id, voter_directory_id=what.directory_id
        )
        return ApiKey.REMOVE_RAFT_VOTER, CHANGE_VERSION, removal
    if kind == "reassign":
        partition = ReassignablePartition(partition_index=0, replicas=what)
        topic = ReassignableTopic(name=METADATA_TOPIC, partitions=[partition])
        reassignment = AlterPartitionReassignmentsRequest(timeout_ms=TIMEOUT_MS, topics=[topic])
        return ApiKey.ALTER_PARTITION_REASSIGNMENTS, REASSIGN_VERSION, reassignment
    if kind == "raise_kraft_version":
        level = FeatureUpdateKey(feature=KRAFT_VERSION, max_version_level=what)
        raising = UpdateFeaturesRequest(timeout_ms=TIMEOUT_MS, feature_updates=[level])
        return ApiKey.UPDATE_FEATURES, FEATURES_VERSION, raising
    assert isinstance(what, Voter)
    voter: dict[str, Any] = {
        "cluster_id": CLUSTER_ID,
        "voter_id": what.key.id,
        "voter_directory_id": what.key.directory_id,
    }
    if kind == "add_voter":
        listeners = [adds.Listener(name=e.name, host=e.host, port=e.port) for e in what.endpoints]
        addition = adds.AddRaftVoterRequest(timeout_ms=TIMEOUT_MS, listeners=listeners, **voter)
        return ApiKey.ADD_RAFT_VOTER, ADD_VERSION, addition
    assert replica.core is not None
    feature = updates.KRaftVersionFeature(
        min_supported_version=what.min_version, max_supported_version=what.max_version
    )
    update = updates.UpdateRaftVoterRequest(
        current_leader_epoch=replica.core.election.epoch,
        listeners=[updates.Listener(name=e.name, host=e.host, port=e.port) for e in what.endpoints],
        k_raft_version_feature=feature,
        **voter,
    )
    return ApiKey.UPDATE_RAFT_VOTER, CHANGE_VERSION, update


def _end_of_change(replica: NodeProcess, kind: str, what: Any) -> int:
    """The end of the newest committed voters record in this log.

    For a reassignment, the end of the newest such record that matches it: another reassignment may
    have replaced it, and both may have been committed together.
    """
    assert replica.core is not None
    high_watermark, change = replica.core.log.high_watermark, VoterChange(kind, what)
    voter_sets = [
        (batch.last_offset + 1, batch.voters)
        for batch in replica.disk.batches
        if batch.voters is not None and batch.last_offset < high_watermark
    ]
    results = [
        entry for entry in voter_sets if kind == "reassign" and is_result_of(entry[1], change)
    ]
    return max([end for end, _ in results or voter_sets], default=0)
