"""The parts of a shard that the requests and timers of its groups use; for type checkers alone.

The shard imports the modules that handle these requests and timers, so they cannot import it.
"""

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
    from kraftlog.groups.group import Group
    from kraftlog.groups.member import Member
    from kraftlog.groups.pending_writes import PendingWrites
    from kraftlog.groups.records import GroupRecord
    from kraftlog.groups.stored_state import StoredGroups
    from kraftlog.groups.timers import Timers
    from kraftlog.types import Now

    class Shard(Protocol):
        """The state of a shard, and the actions on its groups that several requests share."""

        @property
        def config(self) -> GroupConfig: ...
        @property
        def groups(self) -> dict[str, Group]: ...
        @property
        def consumer_groups(self) -> dict[str, ConsumerGroup]: ...
        @property
        def topics(self) -> ClusterMetadata: ...
        @property
        def durable(self) -> StoredGroups: ...
        @property
        def writes(self) -> PendingWrites: ...
        @property
        def timers(self) -> Timers: ...

        def consumer_settings(self, group_id: str) -> ConsumerGroupSettings: ...
        def new_member_id(self, prefix: str, /) -> str: ...
        def respond(self, pending: object, response: Any) -> None: ...
        def new_group(self, group_id: str, now: Now) -> Group: ...
        def restart_session(
            self, group: Group, member: Member, within_ms: int, now: Now
        ) -> None: ...
        def remove_member(self, group: Group, member_id: str) -> Member | None: ...
        def fail_pending_requests(self, group: Group, code: int) -> None: ...
        def drop(self, group: Group) -> None: ...
        def adopt(self, group: Group) -> None: ...
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
        def apply_to_consumer_group(self, group_id: str, record: GroupRecord) -> None: ...
        def rebuild_consumer_group(self, group_id: str, now: Now) -> None: ...
        def drop_if_unused(self, group: Group) -> None: ...
