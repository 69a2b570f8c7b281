"""After any joins, leaves and failures, the remaining members share the group.

Members join, leave, fail and return as static members; batches are committed late or fail; the
group's partition moves. At every step the counts of a group match its members, and its durable
state is that of a replay of the log. At the end the group is Stable, with one leader, and all
remaining members are in the same generation.
"""

from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from kraftlog.errors import ErrorCode
from kraftlog.groups.group import Group
from kraftlog.groups.states import GroupState
from tests.groups.clients import Client
from tests.groups.shard_harness import ShardHarness

#: More clients would make runs longer, and lead to no new situations.
MAX_CLIENTS = 6
#: Within this many seconds all sessions, rebalances and joins of new members have timed out.
SETTLING_S = 120

client_numbers = st.integers(0, MAX_CLIENTS - 1)


class GroupMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.harness = ShardHarness(
            commits_at_once=False,
            initial_rebalance_delay_ms=3000,
            offsets_retention_ms=60_000,
            offsets_retention_check_interval_ms=20_000,
            new_member_join_timeout_ms=30_000,
        )
        self.clients: list[Client] = []

    @precondition(lambda self: len(self.clients) < MAX_CLIENTS)
    @rule(instance=st.sampled_from([None, None, "i", "j"]), topic=st.sampled_from("tu"))
    def add_client(self, instance: str | None, topic: str) -> None:
        self.clients.append(Client(self.harness, instance, (topic,)))

    @rule(number=client_numbers, times=st.integers(1, 4))
    def step_client(self, number: int, times: int) -> None:
        for client in self.clients[number : number + 1]:
            for _ in range(times):
                client.step()

    @rule(seconds=st.sampled_from([1, 2, 4, 8, 16]))
    def run_undisturbed(self, seconds: int) -> None:
        """All clients step and all batches are committed, for some seconds."""
        for _ in range(seconds):
            for client in self.clients:
                client.step()
            self.harness.commit()
            self.harness.advance(1000)

    @rule(number=client_numbers)
    def leave(self, number: int) -> None:
        for client in self.clients[number : number + 1]:
            client.leave()
            self.clients.remove(client)

    @rule(number=client_numbers)
    def drop_client(self, number: int) -> None:
        del self.clients[number : number + 1]

    @rule(number=client_numbers)
    def restart(self, number: int) -> None:
        for client in self.clients[number : number + 1]:
            restarted = Client(self.harness, client.instance, ("t",))
            restarted.protocols = client.protocols
            self.clients[number] = restarted

    @rule(number=client_numbers, offset=st.integers(0, 100))
    def commit_offset(self, number: int, offset: int) -> None:
        for client in self.clients[number : number + 1]:
            client.commit(offset)

    @rule(offset=st.integers(0, 100))
    def commit_without_member(self, offset: int) -> None:
        self.harness.commit_offsets({("v", 1): offset})

    @rule()
    def delete_group(self) -> None:
        self.harness.delete_groups("g")

    @rule()
    def delete_offset(self) -> None:
        self.harness.delete_offsets(("v", 1), ("t", 0))

    @rule(ms=st.sampled_from([1, 500, 3000, 8000, 25_000]))
    def pass_time(self, ms: int) -> None:
        self.harness.advance(ms)

    @rule(count=st.integers(1, 5))
    def commit_batches(self, count: int) -> None:
        self.harness.commit(count)

    @rule(
        count=st.integers(1, 3),
        error=st.sampled_from([ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.KAFKA_STORAGE_ERROR]),
    )
    def fail_batches(self, count: int, error: int) -> None:
        self.harness.fail(error, count)

    @rule()
    def move(self) -> None:
        self.harness.move()
        self.check_against_log()

    @invariant()
    def counts_are_right(self) -> None:
        for group in self.harness.shard.groups.values():
            check_consistency(group)

    @invariant()
    def durable_is_replayed(self) -> None:
        shard, replayed = self.harness.shard, self.harness.new_shard()
        replayed.replay_batch(self.harness.log)
        assert shard.durable.groups == replayed.durable.groups
        assert shard.durable.offsets.by_group == replayed.durable.offsets.by_group

    @invariant()
    def stable_groups_are_durable(self) -> None:
        if not self.harness.pending_writes:
            self.check_against_log()

    def check_against_log(self) -> None:
        for group in self.harness.shard.groups.values():
            value = self.harness.shard.durable.groups.get(group.group_id)
            if group.state == GroupState.STABLE:
                assert value is not None
                assert value.generation == group.generation
                assert {each.member_id: each.assignment for each in value.members} == {
                    each.member_id: each.assignment for each in group.members.values()
                }

    def teardown(self) -> None:
        """Without further faults all clients must end in one stable generation."""
        self.harness.commits_at_once = True
        self.harness.commit()
        instances = {client.instance for client in self.clients} - {None}
        self.clients = [client for client in self.clients if client.instance is None]
        # Clients with the same instance id would fence each other endlessly: one of them goes on.
        self.clients += [Client(self.harness, each, ("t",)) for each in sorted(instances, key=str)]
        for _ in range(SETTLING_S):
            for client in self.clients:
                client.step()
            self.harness.advance(1000)
            check_all(self.harness)
        self.check_all_share_the_group()

    def check_all_share_the_group(self) -> None:
        group = self.harness.shard.groups.get("g")
        if not self.clients:
            assert group is None or group.state == GroupState.EMPTY
            return
        assert group is not None
        assert group.state == GroupState.STABLE
        assert set(group.members) == {client.member_id for client in self.clients}
        assert group.leader in group.members
        for client in self.clients:
            assert not client.is_fenced
            assert client.generation == group.generation
            assert client.assignment
            assert client.assignment == group.members[client.member_id].assignment


def check_all(harness: ShardHarness) -> None:
    for group in harness.shard.groups.values():
        check_consistency(group)


def check_consistency(group: Group) -> None:
    """The counts and indexes of a group agree with its members."""
    members = list(group.members.values())
    assert group.joining_count == sum(member.joining is not None for member in members)
    support: dict[str, int] = {}
    for member in members:
        for name, _ in member.protocols:
            support[name] = support.get(name, 0) + 1
    assert group.supporter_counts == support
    assert group.static_members == {m.instance_id: m.member_id for m in members if m.instance_id}
    assert all(key == member.member_id for key, member in group.members.items())
    assert (group.leader is None) == (not members)
    assert group.leader is None or group.leader in group.members
    assert set(group.pending_syncs) <= set(group.members)
    assert not set(group.pending_joins) & set(group.members)
    if group.state in {GroupState.COMPLETING, GroupState.STABLE}:
        assert members
        assert all(group.supporter_counts[group.protocol or ""] == len(members) for _ in members)
    if group.state in {GroupState.EMPTY, GroupState.DEAD}:
        assert not members
    if group.state != GroupState.COMPLETING:
        assert not any(member.syncing is not None for member in members)
    if group.state == GroupState.PREPARING:
        assert group.join_timer.at is not None
    # Each member has a session timer, or a pending request, which ends by another timer.
    for member in members:
        assert member.session is not None
        assert member.has_pending_request or member.session.at is not None


TestGroups = GroupMachine.TestCase
TestGroups.settings = settings(max_examples=60, stateful_step_count=40)


@pytest.mark.parametrize(
    "inconsistency", ["joining", "support", "static", "leader", "session", "syncing"]
)
def test_the_check_fails_for_every_kind_of_inconsistency(inconsistency: str) -> None:
    harness = ShardHarness()
    ids = harness.make_stable_group(2)
    group = harness.shard.groups["g"]
    check_consistency(group)
    member = group.members[ids[0]]
    if inconsistency == "joining":
        group.joining_count = 1
    elif inconsistency == "support":
        group.supporter_counts["other"] = 1
    elif inconsistency == "static":
        group.static_members["i"] = ids[0]
    elif inconsistency == "leader":
        group.leader = None
    elif inconsistency == "session":
        harness.shard.timers.cancel(member.session)  # type: ignore[arg-type]  # it has one
    else:
        member.syncing = 1
    with pytest.raises(AssertionError):
        check_consistency(group)
