"""The leader's view of a partition's followers: their log ends, and who has caught up (V7, V8)."""

from __future__ import annotations

from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable

#: An offset or broker epoch before the follower's first fetch in this leader epoch.
UNKNOWN = -1
#: Instead of a time: the follower has not fetched, or not caught up, in this leader epoch.
LONG_AGO_MS = -(1 << 62)


class Follower:
    """One follower, as of its last fetch in this leader epoch."""

    __slots__ = (
        "broker_epoch",
        "broker_id",
        "caught_up_bytes",
        "caught_up_ms",
        "end",
        "fetched_bytes",
        "fetched_ms",
        "leader_end",
        "start",
    )

    def __init__(self, broker_id: int, caught_up_ms: int, leader_bytes: int) -> None:
        self.broker_id = broker_id
        self.broker_epoch = UNKNOWN
        self.start = self.end = UNKNOWN
        #: When it fetched last, and the leader's log end and written bytes at that time.
        self.fetched_ms = LONG_AGO_MS
        self.leader_end = 0
        self.fetched_bytes = leader_bytes
        #: The last time at which it had everything that the leader had, as time and as bytes.
        self.caught_up_ms = caught_up_ms
        self.caught_up_bytes = leader_bytes

    def fetched(
        self,
        broker_epoch: int,
        end: int,
        start: int,
        leader_end: int,
        leader_bytes: int,
        now_ms: int,
    ) -> None:
        """Note the position of a fetch.

        A follower counts as caught up when it reaches the end as of its previous fetch: under load
        it never reaches the present one. One that was at the end begins to lag if its position
        falls: its log was cut, or this is a late fetch on a former connection (V23).
        """
        if end >= leader_end:
            self.caught_up_ms, self.caught_up_bytes = now_ms, leader_bytes
        elif self.end != UNKNOWN and end >= self.leader_end:
            self.caught_up_ms = max(self.caught_up_ms, self.fetched_ms)
            self.caught_up_bytes = max(self.caught_up_bytes, self.fetched_bytes)
        elif self.end == leader_end:
            self.caught_up_ms, self.caught_up_bytes = now_ms, leader_bytes
        self.broker_epoch, self.end, self.start = broker_epoch, end, start
        self.fetched_ms, self.leader_end, self.fetched_bytes = now_ms, leader_end, leader_bytes

    def keeps_up(self, leader_end: int, now_ms: int, max_lag_ms: int) -> bool:
        return self.end == leader_end or now_ms - self.caught_up_ms <= max_lag_ms


class Followers:
    """All followers of a partition that this broker leads, in one leader epoch."""

    __slots__ = ("by_broker", "epoch_start")

    def __init__(self, epoch_start: int) -> None:
        #: The log end offset at which this leader epoch began.
        self.epoch_start = epoch_start
        self.by_broker: dict[int, Follower] = {}

    def assign(
        self, brokers: Iterable[int], isr: Collection[int], leader_bytes: int, now_ms: int
    ) -> None:
        """Set the followers, keeping earlier ones; a new one in the ISR counts as caught up now."""
        previous, self.by_broker = self.by_broker, {}
        for broker in brokers:
            follower = previous.get(broker)
            if follower is None:
                caught_up_ms = now_ms if broker in isr else LONG_AGO_MS
                follower = Follower(broker, caught_up_ms, leader_bytes)
            self.by_broker[broker] = follower

    def started_to_lag(self, former_end: int, former_bytes: int, now_ms: int) -> None:
        """The leader's end has moved: followers that were at its former end lag from now on."""
        for follower in self.by_broker.values():
            if follower.end == former_end:
                follower.caught_up_ms, follower.caught_up_bytes = now_ms, former_bytes

    def all_at(self, end: int) -> bool:
        for follower in self.by_broker.values():  # noqa: SIM110 - half the cost of `all`, at each fetch
            if follower.end != end:
                return False
        return True

    def lagging(
        self, isr: Iterable[int], end: int, now_ms: int, limit_ms: Callable[[int], int]
    ) -> list[int]:
        """The members of the ISR that have not caught up for too long, each with its limit (V8)."""
        lagging = []
        for broker in isr:
            follower = self.by_broker.get(broker)
            if follower is not None and not follower.keeps_up(end, now_ms, limit_ms(broker)):
                lagging.append(broker)
        return lagging

    def too_far_behind(self, isr: Iterable[int], leader_bytes: int, max_bytes: int) -> list[int]:
        """The members of the ISR that lack more than `max_bytes` of the leader's log (V8)."""
        return [
            broker
            for broker in isr
            if (follower := self.by_broker.get(broker)) is not None
            and leader_bytes - follower.caught_up_bytes > max_bytes
        ]
