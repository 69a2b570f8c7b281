"""A quorum that has lost its majority is repaired from one survivor's directory."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kraftlog.errors import CorruptLogError
from kraftlog.logstate.voters import ReplicaKey, Voter, VoterHistory, VoterSet, voters_by_id
from kraftlog.node.quorum.batches import METADATA_LOG
from kraftlog.node.quorum.snapshots import snapshot_pieces
from kraftlog.raft.log import RaftLog
from kraftlog.raft.messages import MAX_EPOCH, Batch, ElectionState, LeaderChange, Proposed
from kraftlog.raft.repair import EPOCH_LEAP, RepairRefusedError, describe_repair, possible_losses
from kraftlog.runner.recovered_log import METADATA_CONFIG, newest_snapshot, recovered_log
from kraftlog.runner.repair import SurvivingDirectory
from kraftlog.storage import quorum_state
from kraftlog.storage.directory import LogDirectory
from kraftlog.storage.disk import write_whole
from kraftlog.storage.recovery import run
from kraftlog_simulator.files import MemoryFiles, PowerLost
from tests.raft.faulty_core_network import FaultyHost, FaultyNetwork
from tests.runner.surviving import CLUSTER, T0, batches_in, write_directory

if TYPE_CHECKING:
    from collections.abc import Sequence

THREE = VoterSet(tuple([Voter(ReplicaKey(i, bytes(15) + bytes([i]))) for i in (1, 2, 3)]))
ME = THREE.voters[2].key
ALONE = voters_by_id(3)
LOG = "data/__cluster_metadata-0"


def log_of(*values: str) -> list[Batch]:
    """Epoch 7 began at 0 with the voters; then each value took one offset."""
    first = LeaderChange(1, (1, 2, 3), (1, 2), THREE)
    batches = [Batch(0, 1, 7, 100, THREE, first)]
    return batches + [Batch(2 + i, 2 + i, 7, 70, None, value) for i, value in enumerate(values)]


def survivor_files(
    batches: Sequence[Batch] = (),
    epoch: int = 8,
    committed: int = 0,
) -> MemoryFiles:
    """The disk of voter 3 with its directory `data`; the voter followed 1."""
    files = MemoryFiles()
    state = ElectionState(epoch, 1)
    write_directory(files, "data", ME, batches or log_of("a", "b", "c"), state, committed=committed)
    files.write_back()
    return files


def recovered_state(
    files: MemoryFiles,
) -> tuple[RaftLog, list[Batch], quorum_state.QuorumStateData]:
    """The log, its batches and the election state, as a node would recover them at a start."""
    directory = LogDirectory(files, "data")
    log, _ = run(directory.open_log(METADATA_LOG, METADATA_CONFIG))
    snapshot = newest_snapshot(log, print)
    batches, stored = batches_in(log), quorum_state.load(files, LOG)
    directory.close()
    assert stored is not None
    return recovered_log(log, snapshot), batches, stored


def repair(files: MemoryFiles, accepted: str | None, voters: VoterSet = ALONE) -> None:
    survivor = SurvivingDirectory(files, "data")
    try:
        survivor.repair(voters, accepted, T0)
    finally:
        survivor.close()


# The survivor's state ------------------------------------------------------------------------


def test_the_survivor_is_read_from_log_and_election_state() -> None:
    survivor = SurvivingDirectory(survivor_files(committed=4), "data")
    state = survivor.state
    survivor.close()
    assert (state.me, state.cluster_id, state.election.epoch) == (ME, CLUSTER, 8)
    assert (state.start, state.end, state.last_epoch) == (0, 5, 7)
    assert (state.committed, state.voters, state.others) == (4, THREE, (1, 2))
    assert state.point == "5@7"
    text = "\n".join(describe_repair(state, ALONE))
    assert "current voters: 1, 2, 3; new voters: 3" in text
    assert (
        "records that voters 1, 2 committed after the end of this log, offset 5 (epoch 7)" in text
    )
    assert "1 records from offset 4 on" in text
    assert "If 2 of the current voters can be started" in text


def test_a_sole_voter_can_lose_nothing() -> None:
    alone = THREE.without_voter(1).without_voter(2)
    files = survivor_files([Batch(0, 1, 7, 100, alone, LeaderChange(3, (3,), (3,), alone))])
    survivor = SurvivingDirectory(files, "data")
    assert possible_losses(survivor.state) == []
    assert "may" not in "".join(describe_repair(survivor.state, ALONE))
    survivor.repair(ALONE, None, T0)
    survivor.close()


def test_without_voters_in_the_log_those_of_quorum_state_are_used() -> None:
    files = survivor_files([Batch(0, 0, 7, 100, None, "a")])
    stored = quorum_state.QuorumStateData(epoch=7, voter_ids=(1, 2, 3))
    quorum_state.store(files, LOG, stored)
    survivor = SurvivingDirectory(files, "data")
    assert survivor.state.others == (1, 2)
    survivor.close()
    quorum_state.store(files, LOG, stored.replace(voter_ids=()))
    survivor = SurvivingDirectory(files, "data")
    assert "unknown voters" in possible_losses(survivor.state)[0]
    survivor.close()


# Refusals ------------------------------------------------------------------------------------


@pytest.mark.parametrize("accepted", [None, "", "5@8", "4@7", "5"])
def test_without_the_exact_confirmation_nothing_is_written(accepted: str | None) -> None:
    files = survivor_files()
    before = recovered_state(files)
    with pytest.raises(RepairRefusedError, match="--accept-loss must be 5@7"):
        repair(files, accepted)
    after = recovered_state(files)
    assert (after[0].key(), after[1], after[2]) == (before[0].key(), before[1], before[2])


@pytest.mark.parametrize(
    ("voters", "why"),
    [
        (voters_by_id(1, 2), "otherwise its log would be lost"),
        (VoterSet((Voter(ReplicaKey(3, b"x" * 16)),)), "otherwise its log would be lost"),
        (VoterSet(), "none"),
        (VoterSet((Voter(ReplicaKey(3)), Voter(ReplicaKey(3)))), "duplicate id"),
        (voters_by_id(3, 4), "the new voters 4 need directory ids, as kraft.version is 1"),
    ],
)
def test_invalid_voters_are_refused(voters: VoterSet, why: str) -> None:
    with pytest.raises(RepairRefusedError, match=why):
        repair(survivor_files(), "5@7", voters)


def test_a_running_node_cannot_be_repaired() -> None:
    files = survivor_files()
    running = LogDirectory(files, "data")
    with pytest.raises(RepairRefusedError, match="stop the node"):
        SurvivingDirectory(files, "data")
    running.release()
    SurvivingDirectory(files, "data").close()


def test_a_directory_without_a_metadata_log_is_refused() -> None:
    files = survivor_files()
    directory = LogDirectory(files, "data")
    directory.delete(METADATA_LOG)
    directory.close()
    with pytest.raises(RepairRefusedError, match="not the directory of a voter"):
        SurvivingDirectory(files, "data")
    LogDirectory(files, "data").close()  # the refusal has released the directory


def test_q8_an_unrecoverable_log_is_not_repaired() -> None:
    """Corruption below the recovery point: only another replica can repair it."""
    files = survivor_files()
    segment = f"{LOG}/{0:020d}.log"
    fd = files.open(segment)
    files.pwritev(fd, [b"\xff" * 8], 70)
    files.close(fd)
    files.unlink("data/.kafka_cleanshutdown")
    with pytest.raises(CorruptLogError, match="had been flushed"):
        SurvivingDirectory(files, "data")


def test_q8_corruption_is_found_while_reading_the_voters() -> None:
    """After a clean shutdown the log is trusted; a voter set must not be guessed."""
    files = survivor_files()
    segment = f"{LOG}/{0:020d}.log"
    fd = files.open(segment)
    files.pwritev(fd, [b"\xff"], 70)
    files.close(fd)
    with pytest.raises(CorruptLogError, match="no valid batch at offset 0"):
        SurvivingDirectory(files, "data")


def test_q4_an_unreadable_election_state_prevents_the_repair() -> None:
    files = survivor_files()
    write_whole(files, f"{LOG}/quorum-state", b"{")
    with pytest.raises(CorruptLogError, match="could vote twice"):
        SurvivingDirectory(files, "data")


def test_a_log_that_ends_before_its_snapshot_is_not_repaired() -> None:
    files = survivor_files()
    content = b"".join(snapshot_pieces([], VoterSet(), 7, T0))
    write_whole(files, f"{LOG}/{9:020d}-{7:010d}.checkpoint", content)
    with pytest.raises(RepairRefusedError, match="before its snapshot at 9"):
        SurvivingDirectory(files, "data")


def test_an_empty_log_cannot_be_repaired() -> None:
    files = MemoryFiles()
    write_directory(files, "data", ME, [], ElectionState(1))
    with pytest.raises(RepairRefusedError, match="empty"):
        repair(files, "0@0")


def test_q2_the_last_epochs_cannot_be_skipped() -> None:
    with pytest.raises(RepairRefusedError, match="above the maximum"):
        repair(survivor_files(epoch=MAX_EPOCH - EPOCH_LEAP + 1), "5@7")


# What is written -----------------------------------------------------------------------------


def test_r1_the_new_voters_record_is_appended_after_all_records() -> None:
    """Q14: it begins a new epoch, which no other voter can lead."""
    files = survivor_files()
    repair(files, "5@7")
    log, batches, stored = recovered_state(files)
    assert (stored.epoch, stored.leader_id, stored.voted) == (8 + EPOCH_LEAP, -1, ME)
    assert [batch.payload for batch in batches] == ["control", "a", "b", "c", "control"]
    assert (log.end, log.last_epoch) == (7, 8 + EPOCH_LEAP)
    assert log.voter_set == VoterSet((Voter(ME),), cluster_id=CLUSTER)
    assert log.voters.entries[0] == (0, THREE)


def test_r12_removed_voters_stay_removed() -> None:
    """Unless the repair names them as voters."""
    removed_keys = ReplicaKey(4, b"4" * 16), ReplicaKey(5, b"5" * 16)
    first = THREE.replace(removed=removed_keys)
    files = survivor_files([Batch(0, 1, 7, 100, first, LeaderChange(1, (1, 2, 3), (1, 2), first))])
    repair(files, "2@7", VoterSet((Voter(ReplicaKey(3)), Voter(removed_keys[1]))))
    voter_set = recovered_state(files)[0].voter_set
    assert (voter_set.ids, voter_set.removed, voter_set.kraft_version) == (
        (3, 5),
        removed_keys[:1],
        1,
    )


def test_q8_a_torn_end_is_truncated_and_reported() -> None:
    files = survivor_files()
    segment = f"{LOG}/{0:020d}.log"
    fd = files.open(segment)
    files.pwritev(fd, [b"\0" * 30], files.size(fd))
    files.close(fd)
    files.unlink("data/.kafka_cleanshutdown")
    survivor = SurvivingDirectory(files, "data")
    assert "30 bytes truncated" in survivor.recovery[0]
    survivor.repair(ALONE, "5@7", T0)
    survivor.close()
    assert recovered_state(files)[0].end == 7


def test_without_voters_in_the_log_those_of_a_snapshot_are_used() -> None:
    """Q38: the log may start after their record."""
    files = survivor_files([Batch(0, 0, 7, 70, None, "a"), Batch(1, 1, 7, 70, None, "b")])
    snapshot = b"".join(snapshot_pieces([], THREE, 7, T0))
    write_whole(files, f"{LOG}/{1:020d}-{7:010d}.checkpoint", snapshot)
    survivor = SurvivingDirectory(files, "data")
    assert (survivor.state.voters, survivor.state.committed) == (THREE, 1)
    survivor.close()


def test_after_any_crash_the_repair_is_done_or_repeatable() -> None:
    """The confirmation is valid until the voters are written, which is one atomic step."""
    ends = set()
    for moment in range(200):
        files = survivor_files()
        files.stop_before = files.operations + moment
        try:
            repair(files, "5@7")
        except PowerLost:
            files.stop_before = None
            files.power_loss()
        else:
            break
        log, batches, stored = recovered_state(files)
        ends.add(log.end)
        assert [batch.payload for batch in batches][:4] == ["control", "a", "b", "c"]
        if log.end == 5:
            assert log.voter_set == THREE
            repair(files, "5@7")
            log, _, stored = recovered_state(files)
        assert log.end == 7
        assert log.voter_set.ids == (3,)
        assert stored.voted == ME
        assert stored.epoch == log.last_epoch
    else:
        raise AssertionError("each repair was stopped")
    assert ends == {5, 7}


# The loss of a majority ----------------------------------------------------------------------


def quorum_before_the_loss() -> FaultyNetwork:
    """Five voters; 3 has the whole log, and 4 lacks its end, as it was isolated for a while."""
    net = FaultyNetwork(1, 2, 3, 4, 5)
    net.pass_time(5000)
    for value in ("a", "b"):
        assert net.leader().propose(value, 1, 70, value, net.now) == 0
    net.pass_time(1000)
    net.isolate(4)
    if net.leader().me.id == 4:
        net.pass_time(10_000)
    assert net.leader().propose("c", 1, 70, "c", net.now) == 0
    net.pass_time(1000)
    net.heal()
    return net


def quorum_after_the_repair(files: MemoryFiles, me: int, *new_nodes: int) -> FaultyNetwork:
    """The repaired node and `new_nodes`, which have empty logs and know only the repaired node."""
    directory = LogDirectory(files, "data")
    log, _ = run(directory.open_log(METADATA_LOG, METADATA_CONFIG))
    stored = quorum_state.load(files, LOG)
    assert stored is not None
    net = FaultyNetwork()
    state = ElectionState(stored.epoch, stored.leader_id, stored.voted)
    host = FaultyHost(net, me, state, recovered_log(log, newest_snapshot(log, print)))
    host.batches = batches_in(log)
    net.hosts[me] = host
    directory.close()
    for node_id in new_nodes:
        empty = RaftLog(VoterHistory(voters_by_id(me)))
        net.hosts[node_id] = FaultyHost(net, node_id, ElectionState(), empty)
    host.core.announce_resignation(net.now)
    return net


@pytest.mark.parametrize("new_nodes", [(), (6, 7)], ids=["alone", "with new nodes"])
def test_a_repaired_quorum_elects_a_leader_and_keeps_its_records(
    new_nodes: tuple[int, ...],
) -> None:
    """1, 2 and 5 are lost; of 3 and 4 the one with the longer log is repaired."""
    net = quorum_before_the_loss()
    survivors = {}
    for node_id in (3, 4):
        files = MemoryFiles()
        host = net.faulty_host(node_id)
        write_directory(files, "data", host.core.me, host.batches, host.persisted)
        survivor = SurvivingDirectory(files, "data")
        survivors[survivor.state.last_epoch, survivor.state.end] = node_id, files
        survivor.close()
    best, files = survivors[max(survivors)]
    assert best == 3
    end = max(survivors)
    repair(files, f"{end[1]}@{end[0]}", voters_by_id(best, *new_nodes))
    after = quorum_after_the_repair(files, best, *new_nodes)
    after.pass_time(10_000)
    leader = after.leader()
    assert leader.me.id == best
    assert leader.log.voter_set.ids == (best, *new_nodes)
    assert leader.propose("d", 1, 70, "d", after.now) == 0
    after.pass_time(2000)
    for repaired_host in after.hosts.values():
        assert repaired_host.core.log.high_watermark == leader.log.end
        payloads = [batch.payload for batch in repaired_host.batches]
        values = [value for value in payloads if isinstance(value, str) and value != "control"]
        assert values == ["a", "b", "c", "d"]
    outcome = [
        effect.error for effect in after.hosts[best].other_effects if isinstance(effect, Proposed)
    ]
    assert outcome == [0]


def test_r8_a_returning_lost_voter_gets_no_vote() -> None:
    """The repair skipped all epochs that the lost voter may have begun unseen."""
    from kraftlog.raft.messages import Request, Vote

    files = survivor_files()
    repair(files, "5@7")
    net = quorum_after_the_repair(files, 3)
    core = net.core(3)
    returning = THREE.voters[0].key
    for pre_vote in (True, False):
        vote = Vote(CLUSTER, core.me, 50, returning, 49, 1000, pre_vote)
        core.handle(Request((1, 3, 1), vote), net.now)
    net.settle()
    assert [body.granted for _, body in net.replies] == [False, False]
    net.replies.clear()
    net.pass_time(5000)
    assert net.leader().me.id == 3
