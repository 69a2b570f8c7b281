"""Traffic counters of the topics on this broker, as plain integers."""

from __future__ import annotations


class TopicCounts:
    """Counters of one topic, shared by its partitions on this broker; they never decrease."""

    __slots__ = (
        "bytes_in",
        "bytes_out",
        "failed_fetches",
        "failed_produces",
        "fetches",
        "messages_in",
        "produces",
    )

    def __init__(self) -> None:
        self.messages_in = 0
        self.bytes_in = 0
        self.bytes_out = 0
        #: Requests, counted once per partition that they name, and how many of them failed.
        self.produces = 0
        self.failed_produces = 0
        self.fetches = 0
        self.failed_fetches = 0

    def add(self, other: TopicCounts) -> None:
        for name in self.__slots__:
            setattr(self, name, getattr(self, name) + getattr(other, name))


class BrokerTopicStats:
    """The counters of every topic with a partition on this broker."""

    def __init__(self) -> None:
        self.topics: dict[str, TopicCounts] = {}
        #: Counts of deleted topics, so that the totals over all topics never decrease.
        self._deleted_topics = TopicCounts()

    def of_topic(self, topic: str) -> TopicCounts:
        counts = self.topics.get(topic)
        if counts is None:
            counts = self.topics[topic] = TopicCounts()
        return counts

    def forget_topic(self, topic: str) -> None:
        counts = self.topics.pop(topic, None)
        if counts is not None:
            self._deleted_topics.add(counts)

    def of_all_topics(self) -> TopicCounts:
        total = TopicCounts()
        total.add(self._deleted_topics)
        for counts in self.topics.values():
            total.add(counts)
        return total
