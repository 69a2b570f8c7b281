"""Feature levels, producer id blocks, the first records of a new controller, directories."""

from __future__ import annotations

from typing import Any

import pytest

from kraftlog.config.keys import BROKER
from kraftlog.controller.activation import bootstrap_records
from kraftlog.controller.decision import RECORDS_IN_BATCH, batches
from kraftlog.errors import ErrorCode
from kraftlog.logstate.voters import voters_by_id
from kraftlog.metadata.features import SET_BY_RECORDS
from kraftlog.metadata.releases import chosen_levels
from kraftlog.metadata.values import DirectoryId
from kraftlog.wire.apis import ApiKey
from kraftlog.wire.messages import assign_replicas_to_dirs as directories_api
from kraftlog.wire.messages.allocate_producer_ids import AllocateProducerIdsRequest
from kraftlog.wire.messages.controller_registration import (
    ControllerRegistrationRequest,
    Feature,
    Listener,
)
from kraftlog.wire.messages.metadata_records import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    ClearElrRecord,
    ConfigRecord,
    EndTransactionRecord,
    FeatureLevelRecord,
    NoOpRecord,
    PartitionChangeRecord,
    ProducerIdsRecord,
    TopicRecord,
)
from kraftlog.wire.messages.unregister_controller import UnregisterControllerRequest
from kraftlog.wire.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from tests.controller.cluster import SESSION_MS, VOTERS, Cluster, directory, numbered_id

ELR = "eligible.leader.replicas.version"
UPGRADE, SAFE, UNSAFE = 1, 2, 3


def update(cluster: Cluster, name: str, level: int, kind: int = UPGRADE, **fields: Any) -> Any:
    key = FeatureUpdateKey(feature=name, max_version_level=level, upgrade_type=kind)
    request = UpdateFeaturesRequest(feature_updates=[key], **fields)
    return cluster.ask(ApiKey.UPDATE_FEATURES, request)


# Features ----------------------------------------------------------------------------------------


def test_a_feature_level_is_upgraded_and_downgraded() -> None:
    cluster = Cluster(brokers=1)
    cluster.configure(BROKER, "1", {"min.insync.replicas": "2"})
    decision = update(cluster, ELR, 1)
    assert decision.records == [
        FeatureLevelRecord(name=ELR, feature_level=1),
        # with the ELR, min.insync.replicas must be the same on all brokers
        ConfigRecord(resource_type=4, resource_name="", name="min.insync.replicas", value="1"),
        ConfigRecord(resource_type=4, resource_name="1", name="min.insync.replicas", value=None),
    ]
    assert [result.error_code for result in decision.response.results] == [0]
    assert update(cluster, ELR, 0, UNSAFE).records == [
        FeatureLevelRecord(name=ELR, feature_level=0),
        ClearElrRecord(topic_name=""),
    ]
    assert ELR not in cluster.committed.features
    assert update(cluster, ELR, 1, validate_only=True).records == []


@pytest.mark.parametrize(
    ("name", "level", "kind", "error_text"),
    [
        (ELR, 2, UPGRADE, "only supports versions 0-1"),
        (ELR, 0, UPGRADE, "without setting the upgrade type"),
        (ELR, 1, 7, "does not support the given upgrade type"),
        (ELR, -1, UPGRADE, "less than 0"),
        ("transaction.version", 1, UPGRADE, "Broker 1 does not support this feature"),
        ("nonsense", 1, UPGRADE, "Local controller does not support this feature"),
        ("metadata.version", 29, SAFE, "only supports versions 30-33"),
        ("metadata.version", 34, UPGRADE, "only supports versions 30-33"),
    ],
)
def test_invalid_feature_updates_are_refused(
    name: str, level: int, kind: int, error_text: str
) -> None:
    decision = update(Cluster(brokers=1, elr=True), name, level, kind)
    assert decision.records == []
    assert decision.response.error_code == ErrorCode.INVALID_UPDATE_VERSION
    assert error_text in decision.response.error_message


def test_metadata_version_is_not_lowered_past_a_change_of_metadata() -> None:
    cluster = Cluster(brokers=1)
    for level in (31, 30, 33):
        records = [FeatureLevelRecord(name="metadata.version", feature_level=level)]
        assert (
            update(cluster, "metadata.version", level, SAFE if level == 30 else UPGRADE).records
            == records
        )
    for kind, level, why in (
        (SAFE, 32, "because it might delete metadata information"),
        (SAFE, 30, "because it might delete metadata information"),
        (UNSAFE, 31, "Unsafe metadata downgrade is not supported in this version"),
    ):
        refused = update(cluster, "metadata.version", level, kind)
        assert refused.records == []
        expected = f"Unsupported metadata.version downgrade from 33 to {level}. "
        assert expected in refused.response.error_message
        assert why in refused.response.error_message


def test_a_downgrade_type_does_not_upgrade() -> None:
    decision = update(Cluster(brokers=1), ELR, 1, SAFE)
    assert "Can't downgrade to a newer version" in decision.response.error_message


@pytest.mark.parametrize(
    ("current_level", "level", "kind", "error_text"),
    [
        (0, 0, UPGRADE, ""),
        (1, 1, UPGRADE, ""),
        (1, 1, SAFE, ""),
        (0, 1, UPGRADE, "voter 1 has not reported it yet"),
        (0, 1, SAFE, "Can't downgrade to a newer version"),
        (1, 0, UPGRADE, "without setting the upgrade type"),
        (1, 0, SAFE, "Can't downgrade the version of this feature."),
        (1, 0, UNSAFE, "Can't downgrade the version of this feature."),
        (1, 2, UPGRADE, "only supports versions 0-1"),
    ],
)
def test_r11_kraft_version_is_the_level_of_the_quorum(
    current_level: int, level: int, kind: int, error_text: str
) -> None:
    """It never decreases, and is not in a FeatureLevelRecord."""
    decision = update(
        Cluster(voters=VOTERS if current_level else voters_by_id(1)), "kraft.version", level, kind
    )
    assert decision.records == []
    expected = ErrorCode.INVALID_UPDATE_VERSION if error_text else ErrorCode.NONE
    assert decision.response.error_code == expected
    assert error_text in (decision.response.error_message or "")


def test_r11_a_refused_kraft_version_names_each_voter_and_its_reason() -> None:
    cluster = Cluster(voters=voters_by_id(1, 2))
    reasons = {1: "is not fetching: start it", 2: "has not reported"}
    cluster.controller._context.missing_report_reasons = lambda: reasons
    decision = update(cluster, "kraft.version", 1)
    message = decision.response.error_message or ""
    assert "voter 1 is not fetching: start it; voter 2 has not reported." in message


@pytest.mark.parametrize("validate_only", [True, False])
def test_r11_kraft_version_is_raised_once_all_directories_are_known(validate_only: bool) -> None:
    """The quorum writes its own record for it; a repeated request changes nothing."""
    cluster = Cluster(voters=voters_by_id(1))
    cluster.controller._context.reported_voters = lambda: VOTERS
    decision = update(cluster, "kraft.version", 1, validate_only=validate_only)
    assert (decision.response.error_code, decision.records) == (0, [])
    assert decision.kraft_version == (0 if validate_only else 1)
    repeated = update(Cluster(voters=VOTERS), "kraft.version", 1)
    assert (repeated.response.error_code, repeated.kraft_version) == (0, 0)


def test_registered_controllers_limit_feature_levels() -> None:
    cluster = Cluster()
    register_controller(cluster)
    assert cluster.committed.controllers[7].incarnation_id == numbered_id(7)
    assert "Controller 7" in update(cluster, ELR, 1).response.error_message


def unregister_controller(cluster: Cluster, controller_id: int) -> tuple[int, str | None]:
    request = UnregisterControllerRequest(controller_id=controller_id)
    response = cluster.ask(ApiKey.UNREGISTER_CONTROLLER, request).response
    return response.error_code, response.error_message


def test_an_unregistered_controller_no_longer_limits_levels() -> None:
    cluster = Cluster()
    update(cluster, "metadata.version", 33)
    register_controller(cluster)
    assert unregister_controller(cluster, 7) == (0, None)
    assert 7 not in cluster.committed.controllers
    assert update(cluster, ELR, 1).response.error_code == 0
    assert unregister_controller(cluster, 7)[0] == ErrorCode.CONTROLLER_ID_NOT_REGISTERED


@pytest.mark.parametrize(
    ("level", "controller_id", "code", "message"),
    [
        # the active controller, at any level
        (33, 1, 42, "Controller cannot unregister itself while it is active."),
        (30, 1, 42, "Controller cannot unregister itself while it is active."),
        # its record has come with 4.4-IV2
        (
            32,
            7,
            35,
            "The current MetadataVersion is too old to support controller unregistration.",
        ),
        (33, 8, 136, "Controller ID 8 is not currently registered."),
        (33, -1, 136, "Controller ID -1 is not currently registered."),
    ],
)
def test_an_unregistration_is_refused_as_by_kafka(
    level: int, controller_id: int, code: int, message: str
) -> None:
    """The codes and the messages are those of Kafka 4.4.0."""
    cluster = Cluster()
    if level > 30:
        update(cluster, "metadata.version", level)
    register_controller(cluster)
    assert unregister_controller(cluster, controller_id) == (code, message)
    assert 7 in cluster.committed.controllers


def register_controller(cluster: Cluster) -> None:
    request = ControllerRegistrationRequest(
        controller_id=7,
        incarnation_id=numbered_id(7),
        zk_migration_ready=False,
        listeners=[Listener(name="CONTROLLER", host="h", port=1, security_protocol=0)],
        features=[
            Feature(name=ELR, min_supported_version=0, max_supported_version=0),
            Feature(name="metadata.version", min_supported_version=30, max_supported_version=33),
        ],
    )
    cluster.ask(ApiKey.CONTROLLER_REGISTRATION, request)


# Producer ids ------------------------------------------------------------------------------------


def test_blocks_of_producer_ids_do_not_overlap() -> None:
    cluster = Cluster(brokers=1)
    epoch = cluster.committed.brokers[1].epoch
    request = AllocateProducerIdsRequest(broker_id=1, broker_epoch=epoch)
    first = cluster.ask(ApiKey.ALLOCATE_PRODUCER_IDS, request)
    assert first.records == [
        ProducerIdsRecord(broker_id=1, broker_epoch=epoch, next_producer_id=1000)
    ]
    second = cluster.ask(ApiKey.ALLOCATE_PRODUCER_IDS, request)
    blocks = [(d.response.producer_id_start, d.response.producer_id_len) for d in (first, second)]
    assert blocks == [(0, 1000), (1000, 1000)]


def test_v14_an_uncommitted_block_is_allocated_again() -> None:
    """C237."""
    cluster = Cluster(brokers=1)
    epoch = cluster.committed.brokers[1].epoch
    request = AllocateProducerIdsRequest(broker_id=1, broker_epoch=epoch)
    cluster.ask(ApiKey.ALLOCATE_PRODUCER_IDS, request, commit=False)
    cluster.controller.resign()
    del cluster.log[cluster.committed_end :]
    cluster.controller.activate((), cluster.now)
    repeated = cluster.ask(ApiKey.ALLOCATE_PRODUCER_IDS, request)
    assert repeated.response.producer_id_start == 0


def test_producer_ids_need_the_broker_epoch_and_are_finite() -> None:
    cluster = Cluster(brokers=1)
    epoch = cluster.committed.brokers[1].epoch
    stale = AllocateProducerIdsRequest(broker_id=1, broker_epoch=epoch - 1)
    refused = cluster.ask(ApiKey.ALLOCATE_PRODUCER_IDS, stale)
    assert refused.response.error_code == ErrorCode.STALE_BROKER_EPOCH
    cluster.state.replay(
        ProducerIdsRecord(broker_id=1, broker_epoch=epoch, next_producer_id=2**63 - 5)
    )
    request = AllocateProducerIdsRequest(broker_id=1, broker_epoch=epoch)
    exhausted = cluster.decide(ApiKey.ALLOCATE_PRODUCER_IDS, request)
    assert exhausted.response.error_code == ErrorCode.UNKNOWN_SERVER_ERROR


# Activation --------------------------------------------------------------------------------------


def test_bootstrap_records_are_those_of_kafka() -> None:
    """As written by a node of Kafka 4.3.1, without the features that kraftlog does not support."""
    fresh = Cluster(elr=True)
    assert fresh.log == [
        BeginTransactionRecord(name="Bootstrap records"),
        FeatureLevelRecord(name="metadata.version", feature_level=30),
        FeatureLevelRecord(name=ELR, feature_level=1),
        ConfigRecord(resource_type=4, resource_name="", name="min.insync.replicas", value="1"),
        EndTransactionRecord(),
    ]


def test_a_new_cluster_has_the_supported_feature_levels() -> None:
    records = bootstrap_records(chosen_levels(None, {}, SET_BY_RECORDS))
    assert records[0] == FeatureLevelRecord(name="metadata.version", feature_level=33)
    levels = {r.name: r.feature_level for r in records if isinstance(r, FeatureLevelRecord)}
    assert levels == {name: highest for name, (_, highest) in SET_BY_RECORDS.items()}


def test_v14_a_new_controller_aborts_an_open_transaction() -> None:
    """C238."""
    cluster = Cluster(brokers=1)
    cluster.controller.resign()
    assert cluster.controller.activate(cluster.bootstrap, cluster.now).records == []
    cluster.controller.resign()
    half = [BeginTransactionRecord(name="n"), TopicRecord(name="t", topic_id=numbered_id(1))]
    cluster.log += half
    cluster.commit()
    records = cluster.controller.activate(cluster.bootstrap, cluster.now).records
    assert records == [AbortTransactionRecord(reason="Controller failover")]
    cluster.propose(records)
    assert cluster.state.topics == {}
    assert cluster.state.transaction == {}


def test_v14_a_new_controller_restarts_all_sessions() -> None:
    """C243."""
    cluster = Cluster(brokers=1)
    cluster.controller.resign()
    assert cluster.controller.deadline() is None
    assert cluster.controller.poll(cluster.now, 0) is None
    cluster.now_ms += 10**6
    cluster.controller.activate(cluster.bootstrap, cluster.now)
    assert cluster.pass_time(9000) == []
    assert cluster.pass_time(1) != []


def test_v2_a_decision_of_several_batches_is_a_transaction() -> None:
    """C208."""
    full_batch = [NoOpRecord()] * RECORDS_IN_BATCH
    assert list(batches(full_batch, "name")) == [full_batch]
    more = [*full_batch, NoOpRecord()]
    first, second = batches(more, "name")
    assert [*first, *second] == [
        BeginTransactionRecord(name="name"),
        *more,
        EndTransactionRecord(),
    ]
    assert len(first) == RECORDS_IN_BATCH


def test_v2_an_incomplete_transaction_is_undone() -> None:
    """C208."""
    cluster = Cluster(brokers=1)
    records = [TopicRecord(name=f"t{n}", topic_id=numbered_id(n)) for n in range(10_001)]
    first, second = batches(records, "name")
    before = len(cluster.log)
    cluster.propose(first)
    assert cluster.state.topics == {}
    assert len(cluster.state.held_back) == RECORDS_IN_BATCH - 1
    cluster.controller.resign()
    assert cluster.state == cluster.committed
    cluster.controller.activate(cluster.bootstrap, cluster.now)
    cluster.propose(first, second)
    cluster.log += [*first, *second]
    assert len(cluster.state.topics) == 10_001
    cluster.commit(before + len(first))
    assert cluster.committed.topics == {}
    cluster.controller.resign()
    # Half of the transaction is committed; the next controller aborts it.
    assert cluster.state == cluster.committed
    assert cluster.state.held_back != {}


def test_v14_a_snapshot_replaces_the_state() -> None:
    lagging, leading = Cluster(brokers=1), Cluster(brokers=2)
    lagging.create("gone", (1,))
    leading.create("there", (1, 2))
    lagging.controller.install_snapshot(leading.committed)
    state = lagging.controller.state
    assert state == leading.committed
    assert vars(state.index) == vars(leading.state.index)
    assert state.colliding == leading.state.colliding
    assert not lagging.controller.active


def test_v14_a_change_of_the_state_does_not_change_its_snapshot() -> None:
    lagging, leading = Cluster(brokers=1), Cluster(brokers=2)
    topic = leading.create("there", (1, 2))
    lagging.controller.install_snapshot(leading.committed)
    state, image = lagging.controller.state, leading.committed
    assert state.partitions[topic, 0] is image.partitions[topic, 0]
    state.drop(state.partitions, (topic, 0))
    assert (topic, 0) in image.partitions


# Directories -------------------------------------------------------------------------------------


def assign(cluster: Cluster, directory_id: bytes, topic: bytes, index: int, epoch: int = 0) -> Any:
    partition = directories_api.PartitionData(partition_index=index)
    topics = [directories_api.TopicData(topic_id=topic, partitions=[partition])]
    request = directories_api.AssignReplicasToDirsRequest(
        broker_id=1,
        broker_epoch=epoch or cluster.state.brokers[1].epoch,
        directories=[directories_api.DirectoryData(id=directory_id, topics=topics)],
    )
    return cluster.ask(ApiKey.ASSIGN_REPLICAS_TO_DIRS, request)


def code_of(decision: Any) -> int:
    code: int = decision.response.directories[0].topics[0].partitions[0].error_code
    return code


def cluster_with_two_directories() -> tuple[Cluster, bytes]:
    cluster = Cluster(brokers=2)
    cluster.register(1, log_dirs=[directory(1), directory(1, 2)])
    topic = cluster.create("t", (1, 2))
    assert cluster.committed.partitions[topic, 0].directories == (
        DirectoryId.UNASSIGNED,
        directory(2),
    )
    return cluster, topic


def test_a_broker_assigns_replicas_to_directories() -> None:
    cluster, topic = cluster_with_two_directories()
    decision = assign(cluster, directory(1, 2), topic, 0)
    assert decision.records == [
        PartitionChangeRecord(
            partition_id=0, topic_id=topic, directories=(directory(1, 2), directory(2))
        )
    ]
    assert code_of(decision) == 0


def test_v18_a_replica_in_a_failed_directory_does_not_lead() -> None:
    cluster, topic = cluster_with_two_directories()
    assign(cluster, DirectoryId.LOST, topic, 0)
    after = cluster.committed.partitions[topic, 0]
    assert (after.leader, after.isr, after.directories[0]) == (2, (2,), DirectoryId.LOST)


def test_v18_a_replica_assigned_to_another_directory_leads_again() -> None:
    """Its former directory was removed from `log.dirs`."""
    cluster = Cluster(brokers=1)
    topic = cluster.create("t", (1,))
    cluster.pass_time(SESSION_MS + 1)
    cluster.register(1, incarnation=2, log_dirs=[directory(1, 2)])
    cluster.heartbeat(1)
    assert cluster.committed.partitions[topic, 0].leader == -1
    assign(cluster, directory(1, 2), topic, 0)
    after = cluster.committed.partitions[topic, 0]
    assert (after.leader, after.directories) == (1, (directory(1, 2),))


def test_an_invalid_directory_assignment_is_refused() -> None:
    cluster, topic = cluster_with_two_directories()
    other = cluster.create("other", (2,))
    assert code_of(assign(cluster, directory(1), numbered_id(9), 0)) == ErrorCode.UNKNOWN_TOPIC_ID
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert code_of(assign(cluster, directory(1), topic, 5)) == unknown
    not_a_replica = ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert code_of(assign(cluster, directory(1), other, 0)) == not_a_replica
    stale = assign(cluster, directory(1), topic, 0, epoch=1)
    assert stale.response.error_code == ErrorCode.STALE_BROKER_EPOCH
