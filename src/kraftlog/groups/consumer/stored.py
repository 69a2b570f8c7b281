"""`StoredConsumerGroup`: the committed records of one consumer group.

The last value of each key, as a log after compaction has it. Everything else of a group is derived
from it and from the batches that are not committed yet.
"""

from __future__ import annotations

from kraftlog.value import TYPE_CHECKING
from kraftlog.wire.messages import consumer_group_records as messages

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kraftlog.wire.schema import Message

#: The classes of a consumer group's keys.
KEYS = (
    messages.ConsumerGroupMetadataKey,
    messages.ConsumerGroupPartitionMetadataKey,
    messages.ConsumerGroupMemberMetadataKey,
    messages.ConsumerGroupTargetAssignmentMetadataKey,
    messages.ConsumerGroupTargetAssignmentMemberKey,
    messages.ConsumerGroupCurrentMemberAssignmentKey,
    messages.ConsumerGroupRegularExpressionKey,
)


class StoredConsumerGroup:
    """The last value of each key; `replay` alone changes it."""

    __slots__ = ("_by_key",)

    def __init__(self) -> None:
        #: By the key's class and the name that it has besides the group's.
        self._by_key: dict[tuple[type[Message], str], Message] = {}

    def replay(self, key: Message, value: Message | None) -> None:
        name = type(key), name_in(key)
        if value is None:
            self._by_key.pop(name, None)
        else:
            self._by_key[name] = value

    @property
    def is_gone(self) -> bool:
        """Whether the log has no record of the group any more."""
        return not self._by_key

    def value(self, key_class: type[Message], name: str) -> Message | None:
        return self._by_key.get((key_class, name))

    def records(self) -> Iterator[tuple[type[Message], str, Message]]:
        """Each key's class, its name and the value."""
        for (key_class, name), value in self._by_key.items():
            yield key_class, name, value


def name_in(key: Message) -> str:
    """What a key names besides the group: a member, a regular expression, or nothing."""
    if isinstance(key, messages.ConsumerGroupRegularExpressionKey):
        return key.regular_expression
    member_id: str = getattr(key, "member_id", "")
    return member_id
