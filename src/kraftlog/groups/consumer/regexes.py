"""Regular expressions of subscriptions: when a group resolves them, and what comes of the result.

The coordinator resolves all expressions of a group together, so that the group rebalances once, and
in steps, as a cluster may have many topics: other requests are served meanwhile, and heartbeats are
answered without the result. It is a record per expression, for all members that have it, and the
group's next epoch if the topics are others.
"""

from __future__ import annotations

from kraftlog.errors import ErrorCode
from kraftlog.groups.consumer import records
from kraftlog.groups.consumer.refused import RefusedRequestError
from kraftlog.groups.consumer.writes import write
from kraftlog.groups.timers import Timer
from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from kraftlog.groups.consumer.group import ConsumerGroup
    from kraftlog.groups.consumer.interfaces import Shard
    from kraftlog.types import Now

    #: Whether the member may know of a topic.
    MayDescribe = Callable[[str], bool]

#: The expressions of a group are resolved at most this often, as by Kafka.
MIN_INTERVAL_MS = 10_000
#: What is done of a resolution in one turn, in microseconds.
SLICE_COST = 2_000
#: The cost of asking the authorizer about a topic.
ACCESS_COST = 5


def check(regex: str) -> None:
    """Refuse an expression that is not valid."""
    from kraftlog.groups.subscription_regex.pattern import TopicPattern
    from kraftlog.groups.subscription_regex.syntax import PatternError

    try:
        TopicPattern(regex)
    except PatternError as error:
        raise RefusedRequestError(
            ErrorCode.INVALID_REGULAR_EXPRESSION,
            f"SubscribedTopicRegex `{regex}` is not a valid regular expression: {error}.",
        ) from error


def resolve_if_due(
    shard: Shard, group: ConsumerGroup, may_describe: MayDescribe | None, now: Now
) -> None:
    """Begin to resolve a group's expressions, unless that goes on or was done a moment ago."""
    if not group.regex_counts or group.is_resolving:
        return
    resolved = [
        each for regex, each in group.resolved_regexes.items() if regex in group.regex_counts
    ]
    last_ms = max([each.timestamp for each in resolved], default=None)
    if last_ms is not None and now.wall_ms <= last_ms + MIN_INTERVAL_MS:
        return
    if (
        len(resolved) < len(group.regex_counts)
        or min([each.version for each in resolved]) < shard.topics.new_since
        or (last_ms or 0) + shard.config.regex_refresh_interval_ms <= now.wall_ms
    ):
        _Resolution(shard, group, may_describe).begin(now)


class _Resolution:
    """Resolves the expressions of a group, a slice per turn."""

    def __init__(
        self, shard: Shard, group: ConsumerGroup, may_describe: MayDescribe | None
    ) -> None:
        self._shard, self._group = shard, group
        self._may_describe = may_describe
        self._version = shard.topics.offset
        self._topics: dict[str, list[str]] = {}
        self._steps = self._resolve(sorted(group.regex_counts))
        self._timer = Timer(self._continue)

    def begin(self, now: Now) -> None:
        self._group.is_resolving = True
        self._continue(now)

    def _continue(self, now: Now) -> None:
        cost = 0
        for step in self._steps:
            cost += step
            if cost >= SLICE_COST:
                self._shard.timers.set(self._timer, now.monotonic_ms + 1)
                return
        self._group.is_resolving = False
        if self._shard.consumer_groups.get(self._group.group_id) is self._group:
            self._record(now)

    def _resolve(self, regexes: Sequence[str]) -> Iterator[int]:
        from kraftlog.groups.subscription_regex.pattern import TopicPattern

        for regex in regexes:
            names = self._shard.topics.names()
            found = yield from TopicPattern(regex).matching_in_steps(names)
            self._topics[regex] = [name for name in found if self._is_visible(name)]
            if self._may_describe is not None:
                yield ACCESS_COST * len(found)

    def _is_visible(self, name: str) -> bool:
        return self._may_describe is None or self._may_describe(name)

    def _record(self, now: Now) -> None:
        """Write what was found of the expressions that the group still has."""
        group, topics = self._group, self._shard.topics
        found = {
            regex: names for regex, names in self._topics.items() if regex in group.regex_counts
        }
        new_records = [
            records.resolved_regex(group.group_id, regex, names, self._version, now.wall_ms)
            for regex, names in found.items()
        ]
        before = {
            regex: resolved.topics
            for regex, resolved in group.resolved_regexes.items()
            if regex in group.regex_counts
        }
        after = before | {regex: frozenset(names) for regex, names in found.items()}
        has_changed = any(before.get(regex, frozenset()) != after[regex] for regex in after)
        subscribed = set(group.topic_counts).union(*after.values())
        metadata_hash = topics.hash_of(subscribed)
        if has_changed or metadata_hash != group.metadata_hash:
            epoch = group.epoch + 1
            new_records.append(records.group_epoch(group.group_id, epoch, metadata_hash))
        if new_records:
            write(self._shard, group, new_records, None, None, None, now)
