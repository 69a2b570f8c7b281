"""Subscriptions by regular expressions: resolved after the response, in slices, for all members."""

from __future__ import annotations

from typing import Any

import pytest

from kraftlog.errors import ErrorCode
from kraftlog.groups.consumer.regexes import MIN_INTERVAL_MS
from kraftlog.wire.messages import consumer_group_records as records
from tests.groups.consumer.consumer_harness import ConsumerHarness, T, assigned
from tests.groups.shard_harness import OK, WALL_MS


def joined(regex: str, **fields: Any) -> tuple[ConsumerHarness, int]:
    """A group with one member that has subscribed by an expression, and the member's epoch."""
    harness = ConsumerHarness()
    response = harness.enter("a", regex=regex, topics=[], **fields)
    assert (response.error_code, assigned(response)) == (OK, {})
    return harness, response.member_epoch


def topics_of(harness: ConsumerHarness, regex: str) -> frozenset[str]:
    return harness.group.resolved_regexes[regex].topics


def is_resolving(harness: ConsumerHarness) -> bool:
    return harness.group.is_resolving


def resolutions(harness: ConsumerHarness) -> list[Any]:
    """The values of the records of expressions, in their order."""
    of_regexes = records.ConsumerGroupRegularExpressionKey
    return [value for key, value in harness.written() if isinstance(key, of_regexes)]


def test_the_topics_come_with_the_next_epoch() -> None:
    harness, epoch = joined("t|u.*")
    assert topics_of(harness, "t|u.*") == {"t"}
    response = harness.beat("a", epoch)
    assert response.member_epoch == epoch + 1
    assert assigned(response) == {T: [0, 1, 2, 3, 4, 5]}
    assert resolutions(harness) == [
        records.ConsumerGroupRegularExpressionValue(
            topics=("t",), version=harness.metadata_offset, timestamp=WALL_MS
        )
    ]


def test_an_expression_of_another_member_counts_at_once() -> None:
    harness, epoch = joined("t")
    epoch = harness.beat("a", epoch).member_epoch
    response = harness.enter("b", regex="t", topics=[])
    assert response.member_epoch == epoch + 1
    assert harness.group.targets["b"] == {T: {3, 4, 5}}
    assert len(resolutions(harness)) == 1


@pytest.mark.parametrize("regex", ["(", "a**", "[z-a]"])
def test_an_expression_that_is_not_valid_changes_nothing(regex: str) -> None:
    harness = ConsumerHarness()
    response = harness.enter("a", regex=regex)
    assert response.error_code == ErrorCode.INVALID_REGULAR_EXPRESSION
    assert response.error_message.startswith(f"SubscribedTopicRegex `{regex}` is not a valid")
    assert harness.written() == []


def test_new_topics_are_found_with_a_heartbeat_ten_seconds_later() -> None:
    harness, epoch = joined("t.*")
    epoch = harness.beat("a", epoch).member_epoch
    created = harness.create_topic("two", 1)
    harness.advance(MIN_INTERVAL_MS)
    assert assigned(harness.beat("a", epoch)) is None
    assert topics_of(harness, "t.*") == {"t"}, "not more often"
    harness.advance(1)
    harness.beat("a", epoch)
    assert topics_of(harness, "t.*") == {"t", "two"}
    response = harness.beat("a", epoch)
    assert assigned(response) == {T: [0, 1, 2, 3, 4, 5], created: [0]}


def test_nothing_is_resolved_again_without_new_topics_before_the_interval() -> None:
    harness, epoch = joined("t")
    epoch = harness.beat("a", epoch).member_epoch
    for _ in range(20):
        harness.advance(30_000 - 1)
        harness.beat("a", epoch)
    assert len(resolutions(harness)) == 1
    harness.advance(30_000)
    response = harness.beat("a", epoch)
    assert len(resolutions(harness)) == 2
    assert response.member_epoch == epoch, "the topics are the same"


def test_topics_that_the_member_may_not_describe_are_left_out() -> None:
    harness, _ = joined("t|u", may_describe=lambda name: name != "t")
    assert topics_of(harness, "t|u") == set()


def test_many_topics_are_matched_in_slices() -> None:
    harness = ConsumerHarness()
    for number in range(2_000):
        harness.create_topic(f"many-{number}", 1)
    epoch = harness.enter("a", regex="many-.*", topics=[]).member_epoch
    assert is_resolving(harness)
    assert harness.enter("b", "t", group="h").error_code == OK, "others are served meanwhile"
    assert harness.beat("a", epoch).error_code == OK
    harness.advance(1_000)
    assert not is_resolving(harness)
    assert len(topics_of(harness, "many-.*")) == 2_000


def test_a_group_that_goes_meanwhile_gets_no_record() -> None:
    harness = ConsumerHarness()
    for number in range(2_000):
        harness.create_topic(f"many-{number}", 1)
    harness.enter("a", regex="many-.*", topics=[])
    harness.beat("a", -1)
    harness.advance(1_000)
    assert resolutions(harness) == [None], "the tombstone of its expression"


def test_a_member_that_drops_its_expression_gives_up_its_topics() -> None:
    harness, epoch = joined("t")
    epoch = harness.beat("a", epoch).member_epoch
    response = harness.beat("a", epoch, regex="", owned={T: range(6)})
    assert assigned(response) == {}
    assert resolutions(harness)[-1] is None
    assert harness.group.resolved_regexes == {}


def test_a_coordinator_that_loads_the_group_has_the_topics() -> None:
    harness, epoch = joined("t")
    harness.beat("a", epoch)
    loaded = harness.reloaded().consumer_groups["g"]
    assert loaded.resolved_regexes == harness.group.resolved_regexes
