"""Random groups get the assignments of Kafka's own assignors, round after round."""

from __future__ import annotations

import hashlib
import json
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

from kraftlog.types import uuid_text
from tests.groups.assignors.random_groups import RandomGroup, Round

if TYPE_CHECKING:
    from kraftlog.groups.assignors.interface import Assignments
    from tests.interop.driver import Driver

GROUPS = 200
ROUNDS = 8
#: The first groups, whose assignments by Kafka are recorded for machines without Java.
RECORDED_GROUPS = 40
RECORDED = {
    ("uniform", True): "72fef5bd5bdcb9d7",
    ("uniform", False): "7e0a98c4772e2c9a",
    ("range", True): "a0d801f5c53d552e",
    ("range", False): "1fa8c1521f13a8c7",
}


def as_json(result: Assignments) -> dict[str, Any]:
    """The assignments as the oracle prints them, without members that get nothing."""
    return {
        name: {uuid_text(topic): sorted(partitions) for topic, partitions in assignment.items()}
        for name, assignment in result.items()
        if assignment
    }


def kafkas_answers(jvm: Driver, rounds: list[Round]) -> list[Any]:
    stdin = json.dumps([one.as_json() for one in rounds]).encode()
    answers = json.loads(jvm.tool("AssignorOracle", stdin=stdin).ok().stdout)
    return [
        answer
        if isinstance(answer, str)
        else {name: topics for name, topics in answer.items() if topics}
        for answer in answers
    ]


def digest(answers: list[Any]) -> str:
    return hashlib.sha256(json.dumps(answers, sort_keys=True).encode()).hexdigest()[:16]


def random_rounds(
    assignor: str, homogeneous: bool, groups: int, members: int = 12, partitions: int = 24
) -> list[Round]:
    return [
        one
        for seed in range(groups)
        for one in RandomGroup(Random(seed), homogeneous, assignor, members, partitions).run(ROUNDS)
    ]


KINDS = pytest.mark.parametrize(
    ("assignor", "homogeneous"),
    RECORDED,
    ids=[f"{name}-{'homo' if same else 'hetero'}geneous" for name, same in RECORDED],
)


@KINDS
def test_assignments_equal_those_that_kafka_was_recorded_with(
    assignor: str, homogeneous: bool
) -> None:
    rounds = random_rounds(assignor, homogeneous, RECORDED_GROUPS)
    assert digest([as_json(one.result) for one in rounds]) == RECORDED[assignor, homogeneous]


@pytest.mark.interop
@pytest.mark.parametrize("size", ["small", "large"])
@KINDS
def test_assignments_equal_kafkas(assignor: str, homogeneous: bool, size: str, jvm: Driver) -> None:
    if size == "small":
        rounds = random_rounds(assignor, homogeneous, GROUPS)
    else:
        rounds = random_rounds(assignor, homogeneous, GROUPS // 6, members=90, partitions=300)
    answers = kafkas_answers(jvm, rounds)
    wrong = [
        (index, one, answer)
        for index, (one, answer) in enumerate(zip(rounds, answers, strict=True))
        if as_json(one.result) != answer
    ]
    assert wrong[:1] == [], f"{len(wrong)} of {len(rounds)}"
    if size == "small":
        recorded = answers[: RECORDED_GROUPS * ROUNDS]
        assert digest(recorded) == RECORDED[assignor, homogeneous]


@pytest.mark.interop
def test_buckets_with_many_partitions_are_emptied_as_in_kafka(jvm: Driver) -> None:
    """A topic dealt among 16 or 32 members leaves each with partitions of one or two buckets."""
    rounds = []
    for seed in range(200):
        rng = Random(seed)
        group = RandomGroup(rng, homogeneous=True, assignor="uniform", max_members=90)
        stride = rng.choice((8, 16, 32))
        topic = rng.randbytes(16)
        group.partition_counts = {topic: 16 * stride}
        group.subscribe_all(frozenset({topic}))
        for first, (name, member) in enumerate(list(group.members.items())[:stride]):
            owned = frozenset(range(first, rng.randint(1, 16) * stride, stride))
            group.members[name] = member.replace(owned={topic: owned} if owned else {})
        rounds += group.run(1)
    answers = kafkas_answers(jvm, rounds)
    assert [as_json(one.result) for one in rounds] == answers
