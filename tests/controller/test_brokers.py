"""V2, V3, V5: brokers register, are unfenced once caught up, and fenced without heartbeats."""

from __future__ import annotations

from typing import Any

import pytest

from kraftlog.errors import ErrorCode
from kraftlog.wire.apis import ApiKey
from kraftlog.wire.messages.broker_registration import (
    NOT_SENT,
    BrokerRegistrationRequest,
    Listener,
)
from kraftlog.wire.messages.metadata_records import (
    BrokerEndpoint,
    BrokerFeature,
    BrokerRegistrationChangeRecord,
    PartitionChangeRecord,
    RegisterBrokerRecord,
)
from kraftlog.wire.messages.unregister_broker import UnregisterBrokerRequest
from tests.controller.cluster import SESSION_MS, Cluster, directory, numbered_id, registration


def test_v5_a_registration_is_a_record_whose_offset_is_the_epoch() -> None:
    cluster = Cluster()
    offset = len(cluster.log)
    decision = cluster.register(1)
    assert decision.records == [
        RegisterBrokerRecord(
            broker_id=1,
            incarnation_id=numbered_id(1001),
            broker_epoch=offset,
            end_points=[BrokerEndpoint(name="PLAINTEXT", host="h", port=9001, security_protocol=0)],
            features=[
                BrokerFeature(
                    name="metadata.version", min_supported_version=7, max_supported_version=33
                ),
                BrokerFeature(
                    name="eligible.leader.replicas.version",
                    min_supported_version=0,
                    max_supported_version=1,
                ),
            ],
            rack=None,
            fenced=True,
            log_dirs=(directory(1),),
        )
    ]
    assert (decision.response.error_code, decision.response.broker_epoch) == (0, offset)


def listener(host: str, port: int) -> Listener:
    return Listener(name="PLAINTEXT", host=host, port=port, security_protocol=0)


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"cluster_id": "another"}, ErrorCode.INCONSISTENT_CLUSTER_ID),
        ({"log_dirs": []}, ErrorCode.INVALID_REGISTRATION),
        ({"log_dirs": [bytes(15) + b"\x05"]}, ErrorCode.INVALID_REGISTRATION),
        ({"log_dirs": [directory(5), directory(5)]}, ErrorCode.INVALID_REGISTRATION),
        ({"log_dirs": [directory(1)]}, ErrorCode.INVALID_REGISTRATION),
        ({"features": []}, ErrorCode.INVALID_REGISTRATION),
        ({"listeners": []}, ErrorCode.INVALID_REGISTRATION),
        ({"listeners": [listener(" ", 1)]}, ErrorCode.INVALID_REGISTRATION),
        ({"listeners": [listener("h", 0)]}, ErrorCode.INVALID_REGISTRATION),
        ({"is_migrating_zk_broker": True}, ErrorCode.BROKER_ID_NOT_REGISTERED),
    ],
)
def test_v5_an_invalid_registration_is_refused(changes: dict[str, Any], code: int) -> None:
    cluster = Cluster(brokers=1)
    decision = cluster.register(2, **changes)
    assert (decision.records, decision.response.error_code) == ([], code)


def test_v5_a_broker_without_a_finalized_feature_level_is_refused() -> None:
    features = registration(1).features
    old = [feature.replace(max_supported_version=29) for feature in features]
    decision = Cluster().register(1, features=old)
    assert decision.response.error_code == ErrorCode.UNSUPPORTED_VERSION


@pytest.mark.parametrize(
    "changes", [{"listeners": [listener("h", 9002)]}, {"log_dirs": [directory(2)]}]
)
def test_v5_an_id_is_in_use_while_its_broker_has_a_session(changes: dict[str, Any]) -> None:
    """The second process has another address, or another directory."""
    cluster = Cluster(brokers=1)
    second = cluster.register(1, incarnation=2, **changes)
    assert second.response.error_code == ErrorCode.DUPLICATE_BROKER_REGISTRATION
    cluster.pass_time(SESSION_MS + 1)
    assert cluster.register(1, incarnation=2, **changes).response.error_code == 0
    assert cluster.committed.brokers[1].incarnation_id == numbered_id(1002)


@pytest.mark.parametrize("directories", [(1,), (1, 2), (2, 3)])
def test_v5_a_restarted_broker_registers_before_its_session_is_over(
    directories: tuple[int, ...],
) -> None:
    """It has a directory and the address of its former process, which must have ended.

    Other directories may have failed, or be new.
    """
    cluster = Cluster(brokers=0)
    first = directories[:1]
    cluster.register(1, log_dirs=[directory(1, number) for number in {*first, 7}])
    cluster.heartbeat(1)
    log_dirs = [directory(1, number) for number in directories]
    assert cluster.register(1, incarnation=2, log_dirs=log_dirs).response.error_code == 0
    assert cluster.committed.brokers[1].incarnation_id == numbered_id(1002)


def cluster_after_a_restart() -> tuple[Cluster, BrokerRegistrationRequest]:
    """Broker 1 was killed and runs again; a request of its former process is still on its way."""
    cluster = Cluster(brokers=2)
    late = registration(1, incarnation=2, replaced_broker_epoch=cluster.state.brokers[1].epoch)
    assert cluster.register(1, incarnation=3).response.error_code == 0
    cluster.heartbeat(1)
    return cluster, late


@pytest.mark.parametrize("session", ["valid", "ended by a shutdown", "expired"])
def test_v23_a_late_registration_of_a_former_process_changes_nothing(session: str) -> None:
    cluster, late = cluster_after_a_restart()
    if session == "ended by a shutdown":
        assert cluster.heartbeat(1, want_shut_down=True).response.should_shut_down
    elif session == "expired":
        cluster.pass_time(SESSION_MS + 1)
    before = cluster.committed.brokers[1]
    decision = cluster.ask(ApiKey.BROKER_REGISTRATION, late)
    assert decision.records == []
    assert decision.response.error_code == ErrorCode.DUPLICATE_BROKER_REGISTRATION
    assert cluster.committed.brokers[1] == before


def test_v23_a_late_registration_does_not_return_a_failed_directory() -> None:
    """It is one of the registered process, which has reported the directory since (V18)."""
    cluster = Cluster(brokers=2)
    late = registration(
        1,
        incarnation=3,
        replaced_broker_epoch=cluster.state.brokers[1].epoch,
        log_dirs=[directory(1), directory(1, 2)],
    )
    cluster.ask(ApiKey.BROKER_REGISTRATION, late)
    cluster.heartbeat(1)
    cluster.heartbeat(1, offline_log_dirs=[directory(1, 2)])
    before = cluster.committed.brokers[1]
    assert before.directories == (directory(1),)
    decision = cluster.ask(ApiKey.BROKER_REGISTRATION, late)
    assert (decision.records, cluster.committed.brokers[1]) == ([], before)
    assert (decision.response.error_code, decision.response.broker_epoch) == (0, before.epoch)


def test_v23_a_late_registration_does_not_return_an_unregistered_broker() -> None:
    cluster, late = cluster_after_a_restart()
    cluster.ask(ApiKey.UNREGISTER_BROKER, UnregisterBrokerRequest(broker_id=1))
    refused = cluster.ask(ApiKey.BROKER_REGISTRATION, late).response
    assert refused.error_code == ErrorCode.DUPLICATE_BROKER_REGISTRATION
    assert refused.broker_epoch == -1
    assert cluster.register(1, incarnation=4).response.error_code == 0


def test_v23_a_refused_registration_gets_the_epoch_that_it_has_to_name() -> None:
    """A process that is not late repeats its request at once."""
    cluster, late = cluster_after_a_restart()
    known = cluster.ask(ApiKey.BROKER_REGISTRATION, late).response.broker_epoch
    assert known == cluster.committed.brokers[1].epoch
    again = late.replace(replaced_broker_epoch=known)
    assert cluster.ask(ApiKey.BROKER_REGISTRATION, again).response.error_code == 0


def test_v23_a_broker_of_kafka_waits_for_the_end_of_the_session() -> None:
    """It does not name the epoch that it replaces, so a late request looks the same."""
    cluster, late = cluster_after_a_restart()
    kafkas = late.replace(replaced_broker_epoch=NOT_SENT)
    refused = cluster.ask(ApiKey.BROKER_REGISTRATION, kafkas).response
    assert refused.error_code == ErrorCode.DUPLICATE_BROKER_REGISTRATION
    cluster.pass_time(SESSION_MS + 1)
    assert cluster.ask(ApiKey.BROKER_REGISTRATION, kafkas).response.error_code == 0


def test_v5_the_same_incarnation_registers_again_with_its_epoch() -> None:
    cluster = Cluster(brokers=1)
    before = cluster.committed.brokers[1]
    cluster.register(1, rack="r")
    assert cluster.committed.brokers[1] == before.replace(rack="r")
    assert not before.fenced


def test_v5_a_broker_is_unfenced_once_it_has_caught_up() -> None:
    """C211."""
    cluster = Cluster()
    epoch = cluster.register(1).response.broker_epoch
    first = cluster.heartbeat(1, current_metadata_offset=epoch - 1)
    assert (first.records, first.response.is_caught_up, first.response.is_fenced) == (
        [],
        False,
        True,
    )
    second = cluster.heartbeat(1, current_metadata_offset=epoch)
    assert second.records == [
        BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=epoch, fenced=-1)
    ]
    assert (second.response.is_caught_up, second.response.is_fenced) == (True, False)


def test_a_heartbeat_of_a_previous_incarnation_is_refused() -> None:
    """C212."""
    cluster = Cluster(brokers=1)
    decision = cluster.heartbeat(1, broker_epoch=0)
    assert decision.response.error_code == ErrorCode.STALE_BROKER_EPOCH


def test_v2_an_expired_session_fences_and_moves_leaders_in_one_batch() -> None:
    """C198, C207."""
    cluster = Cluster(brokers=4)
    topic = cluster.create("t", (1, 2, 3), (2, 1, 3), (3, 2, 4))
    epoch = cluster.committed.brokers[1].epoch
    cluster.now_ms += SESSION_MS // 2
    cluster.heartbeat(2)
    cluster.heartbeat(3)
    cluster.heartbeat(4)
    assert cluster.pass_time(SESSION_MS // 2) == []
    assert cluster.controller.deadline() == cluster.now_ms + 1
    assert cluster.pass_time(1) == [
        PartitionChangeRecord(partition_id=0, topic_id=topic, isr=(2, 3), leader=2),
        PartitionChangeRecord(partition_id=1, topic_id=topic, isr=(2, 3)),
        BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=epoch, fenced=1),
    ]
    first = cluster.committed.partitions[topic, 0]
    assert (first.leader_epoch, first.partition_epoch) == (1, 1)


def test_v2_brokers_that_fail_together_leave_the_isrs_of_live_replicas() -> None:
    """V2, C209: each elected leader is alive; an ISR without live replicas keeps one member."""
    cluster = Cluster(brokers=4)
    topic = cluster.create("t", (1, 2, 3), (2, 1, 4))
    failed = cluster.create("u", (1, 2))
    cluster.now_ms += SESSION_MS // 2
    cluster.heartbeat(3)
    cluster.heartbeat(4)
    cluster.pass_time(SESSION_MS // 2 + 1)
    assert [broker.id for broker in cluster.committed.brokers.values() if broker.fenced] == [1, 2]
    partitions = [cluster.committed.partitions[topic, index] for index in (0, 1)]
    assert [(partition.leader, partition.isr) for partition in partitions] == [(3, (3,)), (4, (4,))]
    alone = cluster.committed.partitions[failed, 0]
    assert (alone.leader, len(alone.isr)) == (-1, 1)
    assert all(partition.leader_epoch > 0 for partition in (*partitions, alone))


def test_v2_refused_fencing_is_retried_a_session_later() -> None:
    """Without a session the broker would never be fenced, and would lead forever."""
    cluster = Cluster(brokers=1)
    cluster.now_ms += SESSION_MS + 1
    due = cluster.controller.poll(cluster.now, len(cluster.log))
    assert due is not None
    cluster.controller.proposal_failed(cluster.now)
    assert cluster.pass_time(SESSION_MS) == []
    assert cluster.pass_time(1) == due.records
    assert cluster.committed.brokers[1].fenced


def test_v2_proof_of_death_does_not_wait_for_the_session() -> None:
    cluster = Cluster(brokers=2)
    cluster.controller.note_broker_down(1)
    assert cluster.pass_time(0) != []
    assert cluster.committed.brokers[1].fenced
    assert not cluster.committed.brokers[2].fenced


def test_v2_the_last_isr_member_leads_again_when_it_returns() -> None:
    """C200, C210."""
    cluster = Cluster(brokers=2)
    topic = cluster.create("t", (1,))
    cluster.controller.note_broker_down(1)
    cluster.pass_time(0)
    alone = cluster.committed.partitions[topic, 0]
    assert (alone.leader, alone.isr, alone.leader_epoch) == (-1, (1,), 1)
    returned = cluster.heartbeat(1).records
    assert returned[1:] == [PartitionChangeRecord(partition_id=0, topic_id=topic, leader=1)]


def test_v3_controlled_shutdown_moves_leaders_first_and_waits() -> None:
    """C213."""
    cluster = Cluster(brokers=2)
    topic = cluster.create("t", (1, 2))
    cluster.heartbeat(2)
    decided_at = len(cluster.log)
    first = cluster.heartbeat(1, want_shut_down=True)
    assert first.records == [
        BrokerRegistrationChangeRecord(
            broker_id=1,
            broker_epoch=cluster.committed.brokers[1].epoch,
            in_controlled_shutdown=1,
        ),
        PartitionChangeRecord(partition_id=0, topic_id=topic, isr=(2,), leader=2),
    ]
    assert not first.response.should_shut_down
    second = cluster.heartbeat(1, want_shut_down=True)
    assert not second.response.should_shut_down  # the other broker has not replayed its election
    cluster.heartbeat(2, current_metadata_offset=decided_at)
    third = cluster.heartbeat(1, want_shut_down=True)
    assert (third.response.should_shut_down, third.response.is_fenced) == (True, True)
    registered_again = cluster.register(1, incarnation=2)
    assert registered_again.response.error_code == 0


def test_v3_v14_the_next_controller_goes_on_waiting() -> None:
    cluster = Cluster(brokers=2)
    cluster.create("t", (1, 2))
    decided_at = len(cluster.log)
    cluster.heartbeat(1, want_shut_down=True)
    cluster.controller.resign()
    cluster.append(cluster.controller.activate(cluster.bootstrap, cluster.now))
    assert not cluster.heartbeat(1, want_shut_down=True).response.should_shut_down
    cluster.heartbeat(2, current_metadata_offset=decided_at - 1)
    assert not cluster.heartbeat(1, want_shut_down=True).response.should_shut_down
    cluster.heartbeat(2)
    assert cluster.heartbeat(1, want_shut_down=True).response.should_shut_down


def test_a_broker_that_leads_nothing_may_stop_at_once() -> None:
    cluster = Cluster(brokers=2)
    assert cluster.heartbeat(1, want_shut_down=True).response.should_shut_down


def test_v3_a_broker_lost_during_shutdown_leads_only_after_a_restart() -> None:
    cluster = Cluster(brokers=1)
    topic = cluster.create("t", (1,))
    cluster.heartbeat(1, want_shut_down=True)
    cluster.controller.note_broker_down(1)
    cluster.pass_time(0)
    later_heartbeat = cluster.heartbeat(1)
    assert later_heartbeat.records == []
    assert later_heartbeat.response.is_fenced
    assert cluster.committed.partitions[topic, 0].leader == -1
    cluster.pass_time(SESSION_MS + 1)
    cluster.register(1, incarnation=2)
    cluster.heartbeat(1)
    assert cluster.committed.partitions[topic, 0].leader == 1


def test_v18_replicas_in_a_failed_directory_lose_leadership() -> None:
    """C215."""
    cluster = Cluster(brokers=2)
    topic = cluster.create("t", (1, 2))
    cluster.register(1, log_dirs=[directory(1), directory(1, 2)])
    decision = cluster.heartbeat(1, offline_log_dirs=[directory(1)])
    assert decision.records == [
        PartitionChangeRecord(partition_id=0, topic_id=topic, isr=(2,), leader=2),
        BrokerRegistrationChangeRecord(
            broker_id=1,
            broker_epoch=cluster.committed.brokers[1].epoch,
            log_dirs=(directory(1, 2),),
        ),
    ]


def test_v18_a_broker_without_any_directory_is_fenced() -> None:
    """Its directories stay in the registration: an empty list would mean no change."""
    cluster = Cluster(brokers=2)
    topic = cluster.create("t", (1, 2))
    decision = cluster.heartbeat(1, offline_log_dirs=[directory(1)])
    assert decision.response.is_fenced
    assert cluster.committed.partitions[topic, 0].leader == 2
    assert cluster.committed.brokers[1].directories == (directory(1),)
    repeated = cluster.heartbeat(1, offline_log_dirs=[directory(1)])
    assert repeated.response.is_fenced
    assert repeated.records == []


def test_a_broker_may_ask_to_be_fenced() -> None:
    """C206."""
    cluster = Cluster(brokers=2)
    topic = cluster.create("t", (1, 2))
    assert cluster.heartbeat(1, want_fence=True).response.is_fenced
    assert cluster.committed.partitions[topic, 0].leader == 2
    assert cluster.heartbeat(1, want_fence=True).records == []


def test_cordoned_directories_are_recorded_once() -> None:
    cluster = Cluster(brokers=1)
    epoch = cluster.committed.brokers[1].epoch
    assert cluster.heartbeat(1, cordoned_log_dirs=[directory(1)]).records == [
        BrokerRegistrationChangeRecord(
            broker_id=1, broker_epoch=epoch, cordoned_log_dirs=(directory(1),)
        )
    ]
    assert cluster.heartbeat(1, cordoned_log_dirs=[directory(1)]).records == []


def unwritable(cluster: Cluster, broker: int) -> list[bytes]:
    return [*cluster.committed.brokers[broker].unwritable]


def test_unwritable_directories_are_recorded_once() -> None:
    """Only directories of the broker; a new registration forgets them."""
    cluster = Cluster(brokers=1)
    epoch = cluster.committed.brokers[1].epoch
    reported = [directory(7), directory(1)]
    assert cluster.heartbeat(1, unwritable_log_dirs=reported).records == [
        BrokerRegistrationChangeRecord(
            broker_id=1, broker_epoch=epoch, unwritable_log_dirs=(directory(1),)
        )
    ]
    assert cluster.heartbeat(1, unwritable_log_dirs=reported).records == []
    assert cluster.heartbeat(1).records == [], "null is no change"
    assert unwritable(cluster, 1) == [directory(1)]
    cluster.heartbeat(1, unwritable_log_dirs=[])
    assert unwritable(cluster, 1) == []
    cluster.heartbeat(1, unwritable_log_dirs=reported)
    cluster.now_ms += 10 * SESSION_MS
    cluster.register(1, incarnation=2)
    assert unwritable(cluster, 1) == []


def test_an_unwritable_directory_waits_for_other_changes_of_a_heartbeat() -> None:
    """The broker is fenced; its next heartbeat has the report again."""
    cluster = Cluster(brokers=2)
    cluster.create("t", (1, 2))
    fields: dict[str, Any] = {"want_fence": True, "unwritable_log_dirs": [directory(1)]}
    cluster.heartbeat(1, **fields)
    assert unwritable(cluster, 1) == []
    cluster.heartbeat(1, **fields)
    assert unwritable(cluster, 1) == [directory(1)]


def test_a_fenced_broker_is_not_fenced_again() -> None:
    cluster = Cluster(brokers=1)
    cluster.register(2)
    [fenced] = cluster.pass_time(SESSION_MS + 1)
    assert isinstance(fenced, BrokerRegistrationChangeRecord)
    assert fenced.broker_id == 1
    assert cluster.controller.sessions.deadline() is None
    assert cluster.controller.sessions.get(2) is None


def test_an_unregistered_broker_is_removed() -> None:
    from kraftlog.wire.messages.unregister_broker import UnregisterBrokerRequest

    cluster = Cluster(brokers=2)
    topic = cluster.create("t", (1, 2))
    cluster.ask(ApiKey.UNREGISTER_BROKER, UnregisterBrokerRequest(broker_id=1))
    assert list(cluster.committed.brokers) == [2]
    assert cluster.committed.partitions[topic, 0].isr == (2,)
    repeated = cluster.ask(ApiKey.UNREGISTER_BROKER, UnregisterBrokerRequest(broker_id=1))
    assert repeated.response.error_code == ErrorCode.BROKER_ID_NOT_REGISTERED
