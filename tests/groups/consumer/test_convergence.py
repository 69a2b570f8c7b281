"""After any joins, leaves, failures and moves, the members share the topics, each partition once.

Members of both protocols join, leave, change what they want, pause and return; batches are
committed late or fail; the group's partition moves, topics come and go. At every step the group is
what its log and its pending batches make it, and no partition is read by two members that hear
from their coordinator. At the end the group is Stable, and all partitions have a reader.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from kraftlog.groups.consumer.group import ConsumerGroup
from kraftlog.groups.consumer.states import ConsumerGroupState
from kraftlog.groups.consumer.stored import KEYS
from kraftlog.groups.states import GroupState
from tests.groups.consumer.classic_member import ClassicMember
from tests.groups.consumer.consumer_harness import ConsumerHarness, described
from tests.groups.consumer.members import Member

if TYPE_CHECKING:
    from kraftlog.types import Uuid

MAX_MEMBERS = 5
#: Within this time all sessions and revocations are over.
SETTLING_S = 150
numbers = st.integers(0, MAX_MEMBERS - 1)
topic_choices = st.sampled_from([("t",), ("u",), ("t", "u"), ("missing", "t")])


class ConsumerGroupMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.harness = ConsumerHarness(consumer_assignment_interval_ms=1_000)
        self.harness.create_topic("u", 2)
        self.harness.commits_at_once = False
        self.members: list[Member | ClassicMember] = []
        self.names = 0

    def _next_name(self) -> str:
        self.names += 1
        return f"m{self.names}"

    @initialize(kinds=st.lists(st.booleans(), min_size=1, max_size=3))
    def begin(self, kinds: list[bool]) -> None:
        """Members of both protocols, in any order."""
        for is_classic in kinds:
            if is_classic:
                self.add_classic_member(topics=("t", "u"))
            else:
                self.add_member(instance=None, topics=("t", "u"))
            self._second()

    @precondition(lambda self: len(self.members) < MAX_MEMBERS)
    @rule(instance=st.sampled_from([None, None, "i", "j"]), topics=topic_choices)
    def add_member(self, instance: str | None, topics: tuple[str, ...]) -> None:
        self.members.append(Member(self.harness, self._next_name(), instance, topics))

    @precondition(lambda self: len(self.members) < MAX_MEMBERS)
    @rule(topics=topic_choices)
    def add_classic_member(self, topics: tuple[str, ...]) -> None:
        self.members.append(ClassicMember(self.harness, topics))

    @rule(number=numbers, times=st.integers(1, 4))
    def step_member(self, number: int, times: int) -> None:
        for member in self.members[number : number + 1]:
            for _ in range(times):
                member.step()
                self.no_partition_has_two_readers()

    @rule(seconds=st.sampled_from([1, 2, 4, 8, 16]))
    def run_undisturbed(self, seconds: int) -> None:
        for _ in range(seconds):
            self._second()

    def _second(self) -> None:
        for _ in range(2):
            for member in self.members:
                member.step()
                self.no_partition_has_two_readers()
            self.harness.commit()
        self.harness.advance(1_000)

    @rule(number=numbers, topics=topic_choices)
    def subscribe(self, number: int, topics: tuple[str, ...]) -> None:
        for member in self.members[number : number + 1]:
            member.subscribe(topics)

    @rule(number=numbers)
    def leave(self, number: int) -> None:
        for member in self.members[number : number + 1]:
            member.leave()
            self.members.remove(member)

    @rule()
    def leave_the_consumer_protocol(self) -> None:
        """All its members leave; those of the classic protocol stay."""
        for member in [each for each in self.members if isinstance(each, Member)]:
            member.leave()
            self.members.remove(member)

    @rule(number=numbers)
    def restart_static_member(self, number: int) -> None:
        for member in self.members[number : number + 1]:
            if isinstance(member, Member) and member.instance is not None:
                member.leave(-2)
                self.members[number] = Member(
                    self.harness, self._next_name(), member.instance, member.topics
                )

    @rule(number=numbers)
    def drop_member(self, number: int) -> None:
        """The member dies without a word."""
        del self.members[number : number + 1]

    @rule(count=st.integers(1, 3))
    def commit(self, count: int) -> None:
        self.harness.commit(count)

    @rule(count=st.integers(1, 3))
    def fail(self, count: int) -> None:
        """All batches fail that are pending from one on, as when a disk or leadership is lost."""
        self.harness.commit(len(self.harness.pending_writes) - count)
        self.harness.fail()

    @rule()
    def move(self) -> None:
        self.harness.move()

    @rule()
    def change_topics(self) -> None:
        if "u" in self.harness.image.topic_ids:
            self.harness.delete_topic("u")
        else:
            self.harness.create_topic("u", 3)

    @rule(ms=st.sampled_from([500, 5_000, 20_000]))
    def advance(self, ms: int) -> None:
        self.harness.advance(ms)

    # Rules ---------------------------------------------------------------------------------------

    @invariant()
    def the_group_is_what_its_records_make_it(self) -> None:
        shard = self.harness.shard
        rebuilt = ConsumerGroup("g")
        stored = shard.durable.consumer_groups.get("g")
        if stored is not None:
            rebuilt.load(stored)
        for record in shard.writes.records_of_group("g"):
            if isinstance(record.key, KEYS):
                rebuilt.apply(record.key, record.value)
        group = shard.consumer_groups.get("g", ConsumerGroup("g"))
        assert described(group) == described(rebuilt)

    @invariant()
    def the_owners_are_those_of_the_members(self) -> None:
        group = self.harness.shard.consumer_groups.get("g")
        if group is None:
            return
        owners: dict[Uuid, dict[int, str]] = {}
        for member in group.members.values():
            for assignment in (member.assigned, member.revoking):
                for topic, indexes in assignment.items():
                    for index in indexes:
                        assert index not in owners.setdefault(topic, {}), "two owners"
                        owners[topic][index] = member.member_id
        assert {topic: found for topic, found in owners.items() if found} == group.owners

    @invariant()
    def no_partition_has_two_readers(self) -> None:
        """Of those whose sessions cannot have ended without their knowing."""
        shard = self.harness.shard
        group = shard.consumer_groups.get("g") or shard.groups.get("g")
        known = () if group is None else group.members
        reading = [
            partition
            for member in self.members
            if member.name in known
            for partition in member.partitions
        ]
        assert len(reading) == len(set(reading))

    def teardown(self) -> None:
        for _ in range(SETTLING_S):
            self._second()
        shard = self.harness.shard
        group = shard.consumer_groups.get("g") or shard.groups.get("g")
        readers = [member for member in self.members if not member.is_fenced]
        if not readers:
            assert group is None or not group.members
            return
        assert group is not None
        assert group.state == ConsumerGroupState.STABLE == GroupState.STABLE
        speaks = {isinstance(member, Member) for member in readers}
        assert isinstance(group, ConsumerGroup) == (True in speaks)
        assert sorted(group.members) == sorted(member.name for member in readers)
        image = self.harness.image
        wanted = {
            (image.topic_ids[name], index)
            for member in readers
            for name in member.topics
            if name in image.topic_ids
            for index in range(image.topics[image.topic_ids[name]].partition_count)
        }
        reading = [partition for member in readers for partition in member.partitions]
        assert sorted(reading) == sorted(wanted)


TestConvergence = ConsumerGroupMachine.TestCase
TestConvergence.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
