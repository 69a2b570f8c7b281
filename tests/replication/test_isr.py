"""V8: replicas leave and join the ISR, and the outcomes of proposals to the controller."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from kraftlog.errors import ErrorCode
from kraftlog.replication.isr import LONGEST_RETRY_MS, RETRY_MS
from kraftlog.wire.messages import metadata_records as records
from tests.replication.broker import MAX_LAG_MS, MAX_WAIT_MS, TOPIC_ID
from tests.replication.cluster import Cluster, topic_records

#: Half of the longest lag: how often lagging followers are checked.
CHECK_MS = MAX_LAG_MS // 2
#: Longer than any backoff of a fetcher.
LONG_MS = 2_000
DIRECTORY, OTHER_DIRECTORY = b"d" * 16, b"e" * 16


def settled_cluster(
    isr: tuple[int, ...] = (1, 2, 3), min_isr: int = 1, max_lag_bytes: int = -1
) -> Cluster:
    """Three equal replicas with broker 1 as leader; AlterPartition requests get no response yet."""
    logs = {1: "1:a", 2: "1:a", 3: "1:a"}
    cluster = Cluster(logs, isr=isr, min_isr=min_isr, max_lag_bytes=max_lag_bytes)
    cluster.settle()
    cluster.pass_ms(MAX_WAIT_MS)
    return cluster


def pass_checks(cluster: Cluster, total_ms: int) -> None:
    """Let time pass in steps of the longest fetch wait, so that followers fetch in between."""
    for _ in range(total_ms // MAX_WAIT_MS):
        cluster.pass_ms(MAX_WAIT_MS)


# Leaving -----------------------------------------------------------------------------------------


def test_v8_follower_at_the_end_never_leaves() -> None:
    """V8, C166: without new records it has caught up, even if it does not fetch."""
    cluster = settled_cluster()
    cluster.isolate(3)
    pass_checks(cluster, 4 * MAX_LAG_MS)
    assert cluster[1].proposed == []


def test_v8_follower_leaves_after_the_longest_lag() -> None:
    """V8, C168: not before replica.lag.time.max.ms, and within half of it after that."""
    cluster = settled_cluster()
    cluster.isolate(3)
    cluster[1].produce("b")
    pass_checks(cluster, MAX_LAG_MS)
    assert cluster[1].proposed == []
    pass_checks(cluster, CHECK_MS + MAX_WAIT_MS)
    assert cluster[1].proposed == [(1, 2)]


def test_v8_a_write_schedules_the_check_of_the_lag_and_a_proposal() -> None:
    """V8: a write sets the deadline of the next check; without unfetched records there is none."""
    cluster = settled_cluster()
    cluster.isolate(3)
    leader = cluster[1]
    manager = leader.replica_manager
    assert manager.in_sync_replicas.deadline() is None
    leader.poll_deadlines.clear()
    leader.produce("b")
    cluster.settle()
    assert leader.poll_deadlines == [manager.in_sync_replicas.deadline()]
    pass_checks(cluster, MAX_LAG_MS + CHECK_MS + MAX_WAIT_MS)
    assert leader.poll_deadlines[-1] == 0, "without a response, the proposal has a deadline too"


def test_v8_lag_begins_with_the_record_that_is_missing() -> None:
    """V8: time without new records is no lag."""
    cluster = settled_cluster()
    cluster.isolate(3)
    pass_checks(cluster, 3 * MAX_LAG_MS)
    cluster[1].produce("b")
    pass_checks(cluster, MAX_LAG_MS)
    assert cluster[1].proposed == []


def test_v8_lag_begins_with_the_missing_record_beside_a_dead_follower() -> None:
    """V8: a follower at the log's end is not lagging because another follower is."""
    cluster = settled_cluster()
    cluster.isolate(3)
    cluster[1].produce("b")
    pass_checks(cluster, MAX_LAG_MS + CHECK_MS + MAX_WAIT_MS)
    cluster.accept(1)
    pass_checks(cluster, 3 * MAX_LAG_MS)
    cluster.isolate(2)
    cluster[1].produce("c")
    pass_checks(cluster, MAX_LAG_MS - MAX_WAIT_MS)
    assert cluster[1].proposed == []
    pass_checks(cluster, CHECK_MS + 2 * MAX_WAIT_MS)
    assert cluster[1].proposed == [(1,)]


def test_v8_follower_leaves_when_it_lacks_too_many_bytes() -> None:
    """V8: replica.lag.max.bytes, at once and whatever the time."""
    cluster = settled_cluster(max_lag_bytes=150)
    cluster.isolate(3)
    cluster[1].produce("b")
    cluster.settle()
    cluster[1].produce("c")
    cluster.settle()
    assert cluster[1].proposed == []
    cluster[1].produce("d")
    cluster.settle()
    assert cluster[1].proposed == [(1, 2)]


def test_v8_all_slow_followers_leave_together() -> None:
    """C168."""
    cluster = settled_cluster()
    cluster.isolate(2)
    cluster.isolate(3)
    cluster[1].produce("b")
    pass_checks(cluster, MAX_LAG_MS + CHECK_MS + MAX_WAIT_MS)
    assert cluster[1].proposed == [(1,)]


def test_v8_follower_under_load_has_caught_up_with_its_previous_fetch() -> None:
    """V8, C167: always one batch behind, it has what the leader had when it fetched before."""
    cluster = settled_cluster()
    cluster[1].produce("b")
    for _ in range(3 * MAX_LAG_MS // 1000):
        # Each fetch of broker 3 arrives after another record.
        cluster.pass_ms(1000)
        cluster[1].produce("c")
        cluster.run_turns()
    assert cluster[1].proposed == []
    cluster.settle()
    assert cluster.logs()[2] == cluster.logs()[0]


def test_v8_follower_that_fetches_and_never_catches_up_leaves() -> None:
    """V8, C168: it fetches the same offset again and again, which is no progress."""
    cluster = settled_cluster()
    cluster[3].holds_writes = True
    cluster[1].produce("b")
    cluster.settle()
    pass_checks(cluster, MAX_LAG_MS + CHECK_MS + MAX_WAIT_MS)
    assert cluster[1].proposed == [(1, 2)]


def test_v8_new_leader_gives_its_followers_the_longest_lag() -> None:
    """V8: members that have not fetched since the election stay for replica.lag.time.max.ms.

    C169.
    """
    cluster = settled_cluster()
    cluster.isolate(1)
    cluster.elect(2, (1, 2, 3), unseen_by=(1,))
    pass_checks(cluster, MAX_LAG_MS)
    assert cluster[2].proposed == []
    pass_checks(cluster, CHECK_MS + MAX_WAIT_MS)
    assert cluster[2].proposed == [(2, 3)]


# Joining -----------------------------------------------------------------------------------------


def test_v8_follower_joins_at_the_high_watermark() -> None:
    """V8, C159: not below it; it need not have reached the leader's end."""
    cluster = Cluster({1: "1:abc", 2: "1:abc", 3: "1:a"}, isr=(1, 2), high_watermarks={1: 2})
    cluster.isolate(2)  # the high watermark stands
    cluster[3].holds_writes = True
    cluster.settle()
    assert (cluster[1].high_watermark, cluster[1].proposed) == (2, [])
    cluster[3].write()
    cluster.settle()
    assert cluster[1].proposed == [(1, 2, 3)]


def test_v8_kafka_7128_follower_joins_past_the_epochs_start_only() -> None:
    """V8, C160 (KAFKA-7128): a new leader's high watermark may lag, its epoch's start does not."""
    cluster = Cluster(
        {1: "1:abcd", 2: "1:abcd", 3: "1:ab"}, epoch=2, isr=(1, 2), high_watermarks={1: 1}
    )
    cluster.isolate(2)
    cluster[3].holds_writes = True
    cluster.settle()
    assert cluster[1].high_watermark == 1
    assert cluster[1].proposed == [], "offset 2 is above the high watermark, not the epoch's start"
    cluster[3].write()
    cluster.settle()
    assert cluster[1].proposed == [(1, 2, 3)]


def test_v8_fenced_follower_does_not_join_until_it_is_unfenced() -> None:
    """C162."""
    cluster = Cluster({1: "1:a", 2: "1:a", 3: "1:a"}, isr=(1, 2))
    cluster.fence(3)
    cluster.settle()
    assert cluster[1].proposed == []
    cluster.unfence(3)
    cluster.settle()
    assert cluster[1].proposed == [(1, 2, 3)]


def test_v8_follower_in_controlled_shutdown_does_not_join() -> None:
    """C163."""
    cluster = Cluster({1: "1:a", 2: "1:a", 3: "1:a"}, isr=(1, 2))
    cluster.commit(
        records.BrokerRegistrationChangeRecord(
            broker_id=3, broker_epoch=cluster[3].epoch, in_controlled_shutdown=1
        )
    )
    cluster.settle()
    pass_checks(cluster, MAX_LAG_MS)
    assert cluster[1].proposed == []


def directory_failure(cluster: Cluster, broker_id: int) -> list[Any]:
    """A controller's records for a failed log directory; the broker has another one."""
    return [
        records.PartitionChangeRecord(partition_id=0, topic_id=TOPIC_ID, isr=(1, 2)),
        records.BrokerRegistrationChangeRecord(
            broker_id=broker_id, broker_epoch=cluster[broker_id].epoch, log_dirs=(OTHER_DIRECTORY,)
        ),
    ]


def test_v18_a_follower_in_a_failed_directory_does_not_join() -> None:
    """V18: its last fetch reached the end, but the directory has failed since."""
    cluster = settled_cluster()
    directories = records.PartitionChangeRecord(
        partition_id=0, topic_id=TOPIC_ID, directories=(DIRECTORY,) * 3
    )
    cluster.commit(directories)
    cluster.commit(*directory_failure(cluster, 3))
    pass_checks(cluster, MAX_LAG_MS)
    assert cluster[1].proposed == []
    cluster.commit(
        records.PartitionChangeRecord(
            partition_id=0, topic_id=TOPIC_ID, directories=(DIRECTORY, DIRECTORY, OTHER_DIRECTORY)
        )
    )
    cluster.settle()
    assert cluster[1].proposed == [(1, 2, 3)], "it has the replica in another directory now"


def test_v2_a_broker_that_is_fenced_is_not_proposed_again() -> None:
    """V2, V8: the controller's batch has the smaller ISR first, and the fence after it."""
    cluster = settled_cluster()
    cluster.commit(
        records.PartitionChangeRecord(partition_id=0, topic_id=TOPIC_ID, isr=(1, 2)),
        records.FenceBrokerRecord(id=3, epoch=cluster[3].epoch),
    )
    cluster.settle()
    assert cluster[1].proposed == []


def test_v8_second_follower_to_catch_up_joins_by_the_next_proposal() -> None:
    """V8: a pending proposal stays as it was sent."""
    cluster = settled_cluster(isr=(1,))
    assert cluster[1].proposed == [(1, 2)]
    cluster.accept(1)
    cluster.settle()
    assert cluster[1].proposed == [(1, 2, 3)]
    cluster.accept(1)
    cluster.settle()
    assert (cluster[1].partition.isr, cluster[1].proposed) == ((1, 2, 3), [])


def test_v8_proposal_names_epochs_and_broker_epochs() -> None:
    """V1, V8: leader and partition epoch, and the broker epochs that were seen in fetches."""
    cluster = settled_cluster(isr=(1, 2))
    [(request, _)] = cluster[1].isr_requests
    assert (request.broker_id, request.broker_epoch) == (1, cluster[1].epoch)
    [part] = request.topics[0].partitions
    assert (part.leader_epoch, part.partition_epoch) == (1, 0)
    assert {member.broker_id: member.broker_epoch for member in part.new_isr_with_epochs} == {
        broker_id: cluster[broker_id].epoch for broker_id in (1, 2, 3)
    }


def test_v8_broker_epoch_of_a_member_that_never_fetched_is_unknown() -> None:
    cluster = Cluster({1: "1:a", 2: "1:a", 3: "1:a"}, isr=(1, 2))
    cluster.isolate(2)
    cluster.settle()
    [(request, _)] = cluster[1].isr_requests
    members = request.topics[0].partitions[0].new_isr_with_epochs
    assert {member.broker_id: member.broker_epoch for member in members}[2] == -1


def test_v8_change_without_an_election_keeps_the_epochs_start() -> None:
    """V8: else the follower would have to reach the log's present end.

    C161.
    """
    cluster = Cluster({1: "1:ab", 2: "1:ab", 3: "1:ab"}, isr=(1, 2))
    cluster.isolate(3)
    cluster.settle()
    cluster.isolate(2)  # the high watermark stands
    cluster[1].produce("cd")
    cluster.settle()
    assert (cluster[1].high_watermark, cluster[1].log.end) == (2, 4)
    cluster.set_isr((2, 1))
    cluster.reassign((3, 1, 2), (1, 2))
    cluster.heal()
    cluster[3].holds_writes = True
    cluster.pass_ms(LONG_MS)
    cluster.isolate(2)
    assert cluster[1].proposed == [(1, 2, 3)], "it fetches at the epoch's start"


# The controller's responses ----------------------------------------------------------------------


@pytest.mark.parametrize(
    "code", [ErrorCode.UNKNOWN_SERVER_ERROR, ErrorCode.NOT_CONTROLLER, ErrorCode.REQUEST_TIMED_OUT]
)
def test_v8_unknown_outcome_repeats_the_same_proposal(code: int) -> None:
    """V8, C171: it may have been committed; the proposal counts until the outcome is known."""
    cluster = settled_cluster(isr=(1, 2))
    [(first, _)] = cluster[1].isr_requests
    cluster.respond(1, code)
    assert cluster[1].partition.maximal_isr == (1, 2, 3)
    cluster.pass_ms(LONG_MS)
    [(second, _)] = cluster[1].isr_requests
    assert second == first


def test_v8_lost_response_repeats_the_same_proposal() -> None:
    """C171."""
    cluster = settled_cluster(isr=(1, 2))
    [(first, _)] = cluster[1].isr_requests
    cluster.lose_response(1)
    assert cluster[1].partition.maximal_isr == (1, 2, 3)
    cluster.pass_ms(LONG_MS)
    assert [request for request, _ in cluster[1].isr_requests] == [first]


def test_v8_kafka_14139_repeated_proposal_names_the_same_process() -> None:
    """V8 (KAFKA-14139): not the broker epoch of a later process, which has lost the records."""
    cluster = settled_cluster(isr=(1, 2))
    [(first, _)] = cluster[1].isr_requests
    cluster.lose_response(1)
    cluster.crash(3, keeps=0)
    cluster.restart(3)
    cluster.run_turns()
    cluster.serve(cluster.flight(3))
    cluster.advance(LONG_MS)
    cluster[1].turn()
    assert [request for request, _ in cluster[1].isr_requests] == [first]


def test_v8_failed_request_is_repeated() -> None:
    """V8, C171: a top-level error is no outcome of the proposal."""
    cluster = settled_cluster(isr=(1, 2))
    cluster.respond(1, top_level=ErrorCode.NOT_CONTROLLER)
    cluster.settle()
    assert not cluster[1].isr_requests, "not before the backoff is over"
    cluster.pass_ms(LONG_MS)
    assert cluster[1].proposed == [(1, 2, 3)]


def test_v8_repeated_proposal_keeps_its_members_while_others_lag() -> None:
    """V8: the first request may be committed, so it is repeated with the lagging member."""
    cluster = settled_cluster(isr=(1, 2))
    cluster.lose_response(1)
    cluster.isolate(2)
    cluster[1].produce("b")
    pass_checks(cluster, 2 * MAX_LAG_MS)
    assert cluster[1].proposed == [(1, 2, 3)]


def fail_proposals(cluster: Cluster, code: int, total_ms: int) -> list[int]:
    """Fail each proposal of broker 1 for a while; return the ms at which each was sent."""
    began_ms, times = cluster.now.monotonic_ms, []
    while cluster.now.monotonic_ms - began_ms < total_ms:
        if cluster[1].isr_requests:
            times.append(cluster.now.monotonic_ms - began_ms)
            cluster.respond(1, code)
        cluster.run_turns()
        cluster.advance(1)
    return times


def test_v8_proposal_without_an_outcome_is_repeated_with_backoff() -> None:
    """V8: after an error that leaves the outcome open, it is repeated with a growing backoff."""
    times = fail_proposals(settled_cluster(isr=(1, 2)), ErrorCode.UNKNOWN_SERVER_ERROR, 10_000)
    waits = [after - before for before, after in itertools.pairwise(times)]
    assert RETRY_MS <= waits[0] <= 2 * RETRY_MS
    assert all(LONGEST_RETRY_MS <= wait <= 2 * LONGEST_RETRY_MS for wait in waits[6:])
    assert len(set(waits[6:])) > 1, "with jitter"


def test_v8_proposal_that_a_response_does_not_name_is_repeated_later() -> None:
    cluster = settled_cluster(isr=(1, 2))
    cluster.respond(1, names_partitions=False)
    cluster.run_turns()
    assert cluster[1].isr_requests == []
    cluster.advance(2 * RETRY_MS)
    assert cluster[1].proposed == [(1, 2, 3)]


def test_v8_new_proposal_does_not_wait_for_those_without_an_outcome() -> None:
    cluster = settled_cluster(isr=(1, 2))
    *_, other = topic_records(TOPIC_ID, (1, 2, 3), (1, 2), 1, 1)
    other.partition_id = 1
    cluster.commit(other)
    fail_proposals(cluster, ErrorCode.UNKNOWN_SERVER_ERROR, 2_000)
    cluster.commit(
        records.PartitionChangeRecord(partition_id=1, topic_id=TOPIC_ID, isr=(1, 2, 3)),
        records.PartitionChangeRecord(partition_id=1, topic_id=TOPIC_ID, isr=(1, 2)),
    )
    cluster.settle()
    [(request, _)] = cluster[1].isr_requests
    assert [part.partition_index for part in request.topics[0].partitions] == [1]


@pytest.mark.parametrize("code", [ErrorCode.INELIGIBLE_REPLICA, ErrorCode.OPERATION_NOT_ATTEMPTED])
def test_v8_refused_proposal_no_longer_counts(code: int) -> None:
    """V8: the committed ISR holds again, and the join is tried again later."""
    cluster = settled_cluster(isr=(1, 2))
    cluster.respond(1, code)
    assert cluster[1].partition.maximal_isr == (1, 2)
    pass_checks(cluster, MAX_LAG_MS)
    assert cluster[1].proposed == [(1, 2, 3)]


def test_v24_refusal_because_of_a_fenced_broker_lets_others_join() -> None:
    """They may not fetch again soon: the fetch of a follower that has all records waits."""
    cluster = settled_cluster(isr=(1,))
    assert cluster[1].proposed == [(1, 2)]
    cluster.fence(2)
    cluster.respond(1, ErrorCode.INELIGIBLE_REPLICA)
    cluster.settle()
    assert cluster[1].proposed == [(1, 3)]
    cluster.respond(1, ErrorCode.INELIGIBLE_REPLICA)
    cluster.settle()
    assert cluster[1].proposed == [], "the same ISR is proposed later"


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.INVALID_UPDATE_VERSION,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.NEW_LEADER_ELECTED,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
    ],
)
def test_v8_outdated_proposal_is_not_repeated(code: int) -> None:
    """V8: the leader has newer metadata to replay; until then both ISRs count.

    C172.
    """
    cluster = settled_cluster(isr=(1, 2))
    cluster.respond(1, code)
    pass_checks(cluster, 2 * MAX_LAG_MS)
    assert cluster[1].proposed == []
    assert cluster[1].partition.maximal_isr == (1, 2, 3)
    cluster.set_isr((1, 2))
    cluster.settle()
    assert cluster[1].proposed == [(1, 2, 3)], "in the new partition epoch"


def test_v8_response_after_a_newer_partition_epoch_changes_nothing() -> None:
    """V8, C173: replay came before the response, and the next proposal is pending already."""
    cluster = settled_cluster(isr=(1,))
    assert cluster[1].proposed == [(1, 2)]
    cluster.set_isr((1, 2))
    assert cluster[1].partition.maximal_isr == (1, 2, 3), "the next proposal"
    cluster.respond(1, ErrorCode.INELIGIBLE_REPLICA)
    assert cluster[1].partition.maximal_isr == (1, 2, 3)
    cluster.settle()
    assert cluster[1].proposed == [(1, 2, 3)]


def test_v8_response_after_a_change_of_leader_changes_nothing() -> None:
    """V8, C173: neither the former leader nor the leader of a later epoch applies the response."""
    cluster = settled_cluster(isr=(1, 2))
    cluster.elect(2, (1, 2))
    cluster.respond(1)
    cluster.elect(1, (1, 2))
    cluster.settle()
    [(request, _)] = cluster[1].isr_requests
    assert request.topics[0].partitions[0].leader_epoch == 3


def test_v8_one_request_is_in_flight() -> None:
    """V8, C170: what is proposed meanwhile waits for the response."""
    cluster = settled_cluster(isr=(1, 2))
    cluster.elect(1, (1, 2))
    cluster.settle()
    assert len(cluster[1].isr_requests) == 1
    cluster.respond(1, ErrorCode.FENCED_LEADER_EPOCH)
    cluster.settle()
    [(request, _)] = cluster[1].isr_requests
    assert request.topics[0].partitions[0].leader_epoch == 2


# Broker epochs -----------------------------------------------------------------------------------


def test_v8_kafka_14139_fetch_of_a_former_process_does_not_count() -> None:
    """V8, C164 (KAFKA-14139): after a restart without records, only new fetches count."""
    cluster = settled_cluster()
    cluster[1].produce("bc")
    cluster.settle()
    assert cluster[1].high_watermark == 3
    cluster.lose(cluster.flight(3))
    cluster.advance(LONG_MS)
    cluster.run_turns()
    late_request = cluster.flight(3).effect
    cluster.crash(3, keeps=1)
    cluster.fence_out(3)
    cluster.restart(3)
    cluster.isolate(3)
    cluster[1].produce("d")
    cluster.settle()
    assert cluster.serve_late(late_request) == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert cluster[1].proposed == []
    cluster.heal()
    cluster.pass_ms(LONG_MS)
    assert cluster[1].proposed == [(1, 2, 3)]
    assert cluster.logs()[2] == cluster.logs()[0]


def test_v8_restarted_follower_keeps_no_end_of_its_former_process() -> None:
    """V8 (KAFKA-14139): the new registration alone forgets what the former process had fetched.

    C164.
    """
    cluster = settled_cluster()
    cluster[1].produce("bc")
    cluster.settle()
    cluster.crash(3, keeps=1)
    cluster.fence_out(3)
    cluster.register(3)
    cluster.settle()
    assert cluster[1].proposed == [], "only the former process had fetched up to the end"


def test_v8_fetch_before_the_registration_is_replayed_does_not_join() -> None:
    """V8: the leader learns of the new process by its fetch; it joins once replay shows it.

    C164.
    """
    cluster = settled_cluster()
    cluster.crash(3)
    cluster.fence_out(3)
    cluster.register(3, unseen_by=(1,))
    cluster.start(3)
    cluster.settle()
    assert cluster[1].proposed == []
    cluster[1].replay()
    cluster.settle()
    assert cluster[1].proposed == [(1, 2, 3)]
