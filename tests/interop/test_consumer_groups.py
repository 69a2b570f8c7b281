"""The same requests about consumer groups to Kafka and to a node: equal responses, one by one."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Any

import pytest

from kraftlog.client.deadline import Deadline
from kraftlog.types import NULL_UUID
from kraftlog.wire.apis import ApiKey
from kraftlog.wire.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from kraftlog.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kraftlog.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from kraftlog.wire.messages.find_coordinator import FindCoordinatorRequest
from tests.interop.consumer_group_client import LAST, UNSAID, GroupClient
from tests.server.node_process import NodeProcess, create_topics
from tests.time_limit import LIMIT_S

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from kraftlog.wire.schema import Message

TOPICS = {"one": 4, "two": 3, "six": 6}
#: In `standalone_kafka`, too: a target assignment for each epoch, whatever time has passed.
EACH_EPOCH = "group.consumer.assignment.interval.ms=0"


@pytest.fixture(scope="module")
def addresses(kafka: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    """The addresses of a Kafka broker and of a node, each with the topics and a coordinator."""
    folder: Path = tmp_path_factory.mktemp("groups")
    node = NodeProcess(
        str(folder / "data"),
        "--override",
        EACH_EPOCH,
        errors=str(folder / "errors.txt"),
        topics={},
    )
    try:
        for address in (kafka, node.address):
            create_topics(int(address.rpartition(":")[2]), TOPICS)
            wait_for_coordinator(address)
        yield kafka, node.address
        assert node.logged_errors() == []
    finally:
        node.kill_if_running()


def wait_for_coordinator(address: str) -> None:
    deadline = Deadline(LIMIT_S)
    client = GroupClient(address, "probe")
    request = FindCoordinatorRequest(coordinator_keys=["probe"], key_type=0)
    while client.send(ApiKey.FIND_COORDINATOR, 4, request).coordinators[0].error_code:
        assert not deadline.is_over
        deadline.pause(0.05)
    while client.heartbeat("probe", -1)["code"] in {14, 15, 16}:
        assert not deadline.is_over
        deadline.pause(0.05)
    client.close()


class Both:
    """The same group on both brokers: each call goes to both, and both results must be equal."""

    def __init__(self, addresses: tuple[str, str], group_id: str) -> None:
        self.clients = [GroupClient(each, group_id) for each in addresses]
        for client in self.clients:
            client.learn_topics(*TOPICS)
        self.steps: list[str] = []

    def __getattr__(self, name: str) -> Callable[..., Any]:
        def call(*arguments: Any, **fields: Any) -> Any:
            self.steps.append(f"{name}{arguments}{fields}")
            theirs, ours = [getattr(each, name)(*arguments, **fields) for each in self.clients]
            story = "\n".join(self.steps)
            assert ours == theirs, f"after\n{story}"
            return theirs

        return call

    @property
    def kafka(self) -> GroupClient:
        return self.clients[0]


@pytest.fixture
def both(addresses: tuple[str, str], request: pytest.FixtureRequest) -> Iterator[Both]:
    made = Both(addresses, request.node.name)
    yield made
    for client in made.clients:
        client.close()


def test_a_second_member_gets_what_the_first_revokes(both: Both) -> None:
    assert both.join("a", ["six"])["assignment"] == {"six": [0, 1, 2, 3, 4, 5]}
    both.describe()
    both.join("b", ["six"])
    both.describe()
    assert both.heartbeat("a", owned=LAST)["assignment"] == {"six": [0, 1, 2]}
    both.heartbeat("b")
    both.describe()
    both.listed()
    both.heartbeat("a", owned={"six": [0, 1, 2]})
    both.heartbeat("a", owned={"six": [0, 1, 2]})
    assert both.heartbeat("b")["assignment"] == {"six": [3, 4, 5]}
    both.describe()
    assert both.listed(types=["Consumer"]) == [("consumer", "Stable", "consumer")]
    both.listed(types=["classic"])
    both.listed(states=["stable"])
    both.heartbeat("a", -1)
    both.heartbeat("b")
    both.describe()
    both.heartbeat("b", -1)
    both.describe()
    both.listed(states=["EMPTY"])
    assert both.delete() == 0
    both.describe()


def test_an_expression_is_resolved_after_the_response(both: Both) -> None:
    assert both.join("a", None, regex="(one|s.x)")["assignment"] == {}
    assert both.settled("a")["assignment"] == {"one": [0, 1, 2, 3], "six": [0, 1, 2, 3, 4, 5]}
    both.describe()
    both.join("b", ["two"], regex="(one|s.x)")
    both.describe()
    both.heartbeat("a", owned=LAST)
    both.heartbeat("a", owned=both.kafka.assigned["a"])
    both.heartbeat("a", regex="")
    both.describe()
    both.heartbeat("b", -1)
    both.describe()
    both.heartbeat("a", -1)
    both.describe()


@pytest.mark.parametrize("regex", ["(", "a**", "[z-a]", "\\8", "(?P<n>a", "a{1001}", "(?=a)"])
def test_an_expression_that_is_not_valid_is_refused(both: Both, regex: str) -> None:
    assert both.join("a", [], regex=regex)["code"]
    both.describe()


def test_requests_that_are_wrong_in_themselves(both: Both) -> None:
    both.heartbeat("", 0)
    both.heartbeat(" ", 1)
    both.heartbeat("a", 1, instance="")
    both.heartbeat("a", 1, rack="\t")
    both.heartbeat("a", 0)
    both.heartbeat("a", 0, rebalance_ms=5)
    both.heartbeat("a", 0, rebalance_ms=5, owned={"one": [1]})
    both.heartbeat("a", 0, rebalance_ms=5, owned={})
    both.heartbeat("a", -2)
    both.heartbeat("a", -3)
    both.heartbeat("a", 0, rebalance_ms=5, owned={}, topics=[], assignor="none")
    both.heartbeat("a", 5)
    both.heartbeat("a", -1)
    both.heartbeat("a", 5, instance="i")
    both.heartbeat("a", -2, instance="i")
    both.describe()
    both.join("a", ["one"])
    both.heartbeat("nobody", 5)
    both.heartbeat("nobody", -1)
    both.heartbeat("a", 5, instance="i")
    both.heartbeat("a", -2, instance="i")
    both.heartbeat("a", 99)
    both.heartbeat("a", 1)


def test_a_member_that_missed_a_response_goes_on(both: Both) -> None:
    first = both.join("a", ["six"])["epoch"]
    both.join("b", ["six"])
    both.heartbeat("a", owned=LAST)
    second = both.heartbeat("a", owned={"six": [0, 1, 2]})["epoch"]
    assert second > first
    both.heartbeat("a", first, owned={"six": [0, 1, 2]})
    both.heartbeat("a", first, owned={"six": [0]})
    both.heartbeat("a", first)
    both.heartbeat("a", first, owned={"six": [5]})
    both.heartbeat("a", second + 1, owned={})
    both.heartbeat("a", 0, topics=["six"], owned={}, rebalance_ms=5)


def test_static_members_come_back_to_their_partitions(both: Both) -> None:
    both.join("a", ["six"], instance="i")
    both.join("b", ["six"])
    both.heartbeat("a", owned=LAST, instance="i")
    both.heartbeat("a", owned=LAST, instance="i")
    both.heartbeat("b")
    both.join("c", ["six"], instance="i")
    both.heartbeat("c", 1, instance="i")
    both.heartbeat("a", -2, instance="i")
    both.describe()
    both.heartbeat("b")
    both.heartbeat("a", -2, instance="i")
    both.join("c", ["six"], instance="i")
    both.describe()
    both.heartbeat("a", instance="i")
    both.heartbeat("c", instance="i", owned=LAST)
    both.heartbeat("c", -1, instance="i")
    both.heartbeat("b")
    both.describe()


def test_commits_and_fetches_need_the_members_epoch(both: Both) -> None:
    both.fetch("a", 1)
    both.fetch(None, -1)
    both.commit("a", 3, ("six", 0))
    both.join("a", ["six"])
    epoch = both.kafka.epochs["a"]
    both.commit("a", epoch, ("six", 0))
    both.commit("a", epoch, ("six", 1), version=9)
    both.commit("a", epoch, ("six", 1), version=8)
    both.commit("a", epoch - 1, ("six", 0))
    both.commit("a", epoch + 1, ("six", 0))
    both.commit("a", epoch, ("one", 0))
    both.commit("", -1, ("six", 0))
    both.commit("b", epoch, ("six", 0))
    both.join("b", ["six"])
    both.heartbeat("a", owned=LAST)
    both.commit("a", epoch, ("six", 5))
    both.heartbeat("a", owned=LAST)
    both.commit("a", epoch, ("six", 5))
    both.commit("a", epoch, ("six", 0))
    both.commit("a", epoch, ("six", 0), ("six", 5))
    for version in (8, 9):
        both.fetch("a", epoch, version=version)
        both.fetch("a", both.kafka.epochs["a"], version=version)
        both.fetch("b", 0, version=version)
        both.fetch("nobody", 1, version=version)
        both.fetch(None, -1, version=version)
    both.heartbeat("a", -1)
    both.heartbeat("b", -1)
    both.commit("", -1, ("one", 0))
    both.fetch(None, -1)
    both.delete()
    both.fetch(None, -1)


def test_an_administrator_removes_members_and_groups(both: Both) -> None:
    both.remove(("a", None))
    both.join("a", ["six"])
    both.join("b", ["six"], instance="i")
    both.join("c", ["six"], instance="j")
    assert both.delete() == 68
    both.describe_as_classic()
    both.describe_as_classic(5)
    both.remove(("nobody", None), ("", "i"), ("x", "j"), ("", "none"), ("a", None), ("a", None))
    both.describe()
    both.remove(("c", "j"))
    both.describe()
    both.delete()
    both.remove(("a", None))


def test_empty_groups_change_their_kind(both: Both) -> None:
    both.commit("", -1, ("one", 0))
    both.listed()
    both.describe()
    both.join("a", ["one"])
    both.listed()
    both.describe_as_classic()
    both.fetch(None, -1)
    both.heartbeat("a", -1)
    both.join_as_classic("unknown")
    assert both.join_as_classic() == 79
    both.commit("", -1, ("one", 1))  # lists have what is committed
    both.listed()
    both.describe()
    both.fetch(None, -1)
    both.heartbeat("a", 1)
    both.heartbeat("a", -1)
    both.join("b", ["two"])
    both.listed()
    both.describe()


def test_topics_that_come_grow_and_go_are_reassigned(both: Both) -> None:
    """Deletion and creation again under the same name included; each coordinator in its time."""
    name = "changing"
    both.join("a", [name])
    both.describe()
    for change in ("create", "grow", "delete", "create", "delete"):
        before = both.describe()
        for client in both.clients:
            change_topic(client, name, change)
            heartbeat_until_assigned(client, "a", before["epoch"])
        both.describe()


def change_topic(client: GroupClient, name: str, change: str) -> None:
    if change == "create":
        request: Message = CreateTopicsRequest(
            topics=[
                CreatableTopic(
                    name=name, num_partitions=2, replication_factor=1, assignments=(), configs=()
                )
            ]
        )
        response = client.send(ApiKey.CREATE_TOPICS, 7, request)
        assert response.topics[0].error_code == 0
        client.topic_ids[name] = response.topics[0].topic_id
    elif change == "grow":
        grown = CreatePartitionsTopic(name=name, count=5, assignments=None)
        request = CreatePartitionsRequest(topics=[grown], timeout_ms=30_000, validate_only=False)
        assert client.send(ApiKey.CREATE_PARTITIONS, 3, request).results[0].error_code == 0
    else:
        request = DeleteTopicsRequest(
            topics=[DeleteTopicState(name=name, topic_id=NULL_UUID)], timeout_ms=30_000
        )
        assert client.send(ApiKey.DELETE_TOPICS, 6, request).responses[0].error_code == 0


def heartbeat_until_assigned(client: GroupClient, member: str, epoch: int) -> None:
    """Send heartbeats until the member has the assignment of a later epoch."""
    deadline = Deadline(LIMIT_S)
    while client.describe()["state"] != "Stable" or client.epochs[member] <= epoch:
        assert not deadline.is_over
        client.heartbeat(member, owned=LAST)
        deadline.pause(0.01)


# Groups that change their protocol -------------------------------------------------------------


#: A member whose id comes after those that brokers make: assignors sort members by their ids.
LATE = "~a"


def make_classic_group(both: Both) -> None:
    """One member of the classic protocol has all partitions of `six`."""
    both.classic_join("p", ["six"])
    assert both.classic_join("p", ["six"])[0] == 0
    assert both.classic_sync("p", {"p": {"six": range(6)}}) == (0, {"six": [0, 1, 2, 3, 4, 5]})
    assert both.classic_commit("p", ("six", 0)) == [(0, 0)]


def test_a_classic_group_is_upgraded_and_back_under_its_members(both: Both) -> None:
    make_classic_group(both)
    assert both.join(LATE, ["six"])["assignment"] == {}
    both.listed()
    both.describe()
    both.described_as_classic()
    both.fetch(None, -1)
    assert both.classic_commit("p", ("six", 5)) == [(5, 0)]
    assert both.classic_beat("p") == 27
    both.classic_sync("p")
    both.classic_join("p", ["six"])
    both.describe()
    both.classic_beat("p")
    assert both.classic_sync("p")[0] == 0
    both.describe()
    both.classic_beat("p")
    both.heartbeat(LATE, owned=LAST)
    both.classic_join("p", ["six"])
    both.classic_sync("p")
    both.heartbeat(LATE, owned=LAST)
    both.describe()
    both.classic_commit("p", ("six", 0))
    both.classic_commit("p", ("six", 5))
    both.classic_beat("p")
    both.classic_beat("p", generation=1)
    both.classic_sync("p", generation=1)
    both.heartbeat(LATE, -1)
    both.listed()
    both.describe()
    both.described_as_classic()
    both.classic_beat("p")
    both.classic_join("p", ["six"])
    both.described_as_classic()
    both.classic_sync("p", {"p": {"six": range(6)}})
    both.described_as_classic()
    both.fetch(None, -1)
    both.classic_leave("p")
    both.listed()


def test_classic_members_join_a_consumer_group_and_leave_it(both: Both) -> None:
    both.join(LATE, ["six"])
    assert both.classic_join("p", ["six"])[0] == 79
    both.describe()
    both.classic_join("p", ["six"])
    both.describe()
    both.classic_sync("p")
    both.classic_join("q", ["one", "six"], instance="j")
    both.classic_join("q", ["one", "six"], instance="j")
    both.classic_beat("p")
    both.heartbeat(LATE, owned=LAST)
    both.heartbeat(LATE, owned={"six": [0, 1]})
    both.classic_beat("p")
    for name, instance in (("p", None), ("q", "j")):
        both.classic_join(name, ["one", "six"], instance=instance)
        both.classic_sync(name, instance=instance)
    both.heartbeat(LATE, owned=LAST)
    both.describe()
    both.remove(("", "j"))
    both.describe()
    both.classic_beat("p")
    both.remove((LATE, None))
    both.listed()
    both.described_as_classic()


def test_a_static_member_changes_its_protocol_and_back(both: Both) -> None:
    both.classic_join("p", ["six"], instance="i")
    both.classic_sync("p", {"p": {"six": range(6)}}, instance="i")
    both.join(LATE, ["six"], instance="i")
    both.describe()
    both.listed()
    both.classic_beat("p", instance="i")
    both.heartbeat(LATE, owned=LAST, instance="i")
    both.heartbeat(LATE, -2, instance="i")
    both.classic_join("q", ["six"], instance="i")
    both.listed()
    both.described_as_classic()
    both.classic_sync("q", instance="i")
    both.classic_beat("q", instance="i")


class Script:
    """Random members that mostly behave, sometimes with wrong epochs and partitions."""

    def __init__(self, both: Both, rng: Random) -> None:
        self._both, self._rng = both, rng
        #: Of all member ids: see LATE.
        self.prefix = ""

    def step(self) -> None:
        rng = self._rng
        member, instance = rng.choice(
            [("a", None), ("b", None), ("c", None), ("s", "i"), ("t", "i"), ("u", "j")]
        )
        member = self.prefix + member
        known = self._both.kafka.epochs.get(member, 0)
        roll = rng.random()
        if roll < 0.2 or known <= 0:
            topics = rng.sample(sorted(TOPICS), rng.randint(0, 3))
            self._both.join(member, topics, instance=instance, rack=rng.choice([None, "r"]))
        elif roll < 0.6:
            self._both.heartbeat(member, owned=rng.choice([LAST, LAST, UNSAID]), instance=instance)
        elif roll < 0.7:
            topics = rng.sample(sorted(TOPICS), rng.randint(0, 3))
            self._both.heartbeat(member, topics=topics, owned=LAST, instance=instance)
        elif roll < 0.8:
            epoch = known + rng.choice([-2, -1, 1])
            owned = rng.choice([LAST, UNSAID, {}, {"one": [0]}])
            self._both.heartbeat(member, max(epoch, 1), owned=owned, instance=instance)
        elif roll < 0.87:
            self._both.heartbeat(
                member, -2 if instance and rng.random() < 0.6 else -1, instance=instance
            )
        elif roll < 0.95:
            parts = [(name, rng.randrange(TOPICS[name])) for name in rng.sample(sorted(TOPICS), 2)]
            self._both.commit(member, known + rng.choice([-1, 0, 0, 1]), *parts)
        else:
            self._both.fetch(member, known + rng.choice([-1, 0, 0]))


class MixedScript(Script):
    """A member of the classic protocol among those of the other; it is never one of several."""

    def step(self) -> None:
        both, rng = self._both, self._rng
        roll = rng.random()
        if roll < 0.6:
            super().step()
        elif roll < 0.75 or "p" not in both.kafka.ids or "p" not in both.kafka.epochs:
            both.classic_join("p", rng.sample(sorted(TOPICS), rng.randint(1, 3)))
        elif roll < 0.82:
            both.classic_sync("p", {"p": {"one": range(4)}})
        elif roll < 0.9:
            both.classic_beat("p", generation=both.kafka.epochs["p"] - rng.choice([0, 0, 0, 1]))
        elif roll < 0.97:
            both.classic_commit("p", ("one", rng.randrange(4)))
        else:
            both.classic_leave("p")
        if rng.random() < 0.1:
            both.described_as_classic()


@pytest.mark.parametrize("seed", range(12))
def test_random_members_of_both_protocols_get_equal_responses(both: Both, seed: int) -> None:
    script = MixedScript(both, Random(seed))
    script.prefix = "~"
    for number in range(120):
        script.step()
        if number % 10 == 0:
            both.describe()
            both.listed()


@pytest.mark.parametrize("seed", range(12))
def test_random_members_get_equal_responses(both: Both, seed: int) -> None:
    script = Script(both, Random(seed))
    for number in range(120):
        script.step()
        if number % 10 == 0:
            both.describe()
            both.listed()
