"""The parts of a shard that consumer groups use; for type checkers alone."""

from __future__ import annotations

from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any, Protocol

    from kraftlog.groups.config import GroupConfig
    from kraftlog.groups.consumer.cluster_metadata import ClusterMetadata
    from kraftlog.groups.consumer.group import ConsumerGroup
    from kraftlog.groups.consumer.member import ConsumerMember
    from kraftlog.groups.consumer.settings import ConsumerGroupSettings
    from kraftlog.groups.consumer.stored import StoredConsumerGroup
    from kraftlog.groups.group import Group
    from kraftlog.groups.pending_writes import PendingWrites
    from kraftlog.groups.records import GroupRecord
    from kraftlog.groups.timers import Timers
    from kraftlog.types import Now

    class StoredRecords(Protocol):
        """The committed records of a shard."""

        @property
        def consumer_groups(self) -> dict[str, StoredConsumerGroup]: ...

    class Shard(Protocol):
        """The state of a shard, and the actions on its consumer groups."""

        @property
        def config(self) -> GroupConfig: ...
        @property
        def groups(self) -> dict[str, Group]: ...
        @property
        def consumer_groups(self) -> dict[str, ConsumerGroup]: ...
        @property
        def topics(self) -> ClusterMetadata: ...
        @property
        def durable(self) -> StoredRecords: ...
        @property
        def writes(self) -> PendingWrites: ...
        @property
        def timers(self) -> Timers: ...

        def new_member_id(self, prefix: str, /) -> str: ...
        def respond(self, pending: object, response: Any) -> None: ...
        def consumer_settings(self, group_id: str) -> ConsumerGroupSettings: ...
        def apply_to_consumer_group(self, group_id: str, record: GroupRecord) -> None: ...
        def rebuild_consumer_group(self, group_id: str, now: Now) -> None: ...
        def retire_classic_group(self, group_id: str, now: Now) -> None: ...
        def become_classic_group(
            self,
            group: ConsumerGroup,
            leaving: Sequence[ConsumerMember],
            joining: ConsumerMember | None,
            first_records: list[GroupRecord],
            rebalances: bool,
            now: Now,
            pending: object,
            response: Any,
            error_response: Callable[[int], Any] | None,
        ) -> None: ...
