"""The parts of a shard that the requests and timers of its groups use; for type checkers alone.

The shard imports the modules that handle these requests and timers, so they cannot import it.
"""

from __future__ import annotations

from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Protocol

    from kraftlog.groups.consumer.interfaces import Shard as ConsumerShard
    from kraftlog.groups.group import Group
    from kraftlog.groups.member import Member
    from kraftlog.groups.stored_state import StoredGroups
    from kraftlog.types import Now

    class Shard(ConsumerShard, Protocol):
        """The state of a shard, and the actions on its groups that several requests share."""

        @property
        def durable(self) -> StoredGroups: ...

        def new_group(self, group_id: str, now: Now) -> Group: ...
        def restart_session(
            self, group: Group, member: Member, within_ms: int, now: Now
        ) -> None: ...
        def remove_member(self, group: Group, member_id: str) -> Member | None: ...
        def fail_pending_requests(self, group: Group, code: int) -> None: ...
        def drop(self, group: Group) -> None: ...
        def adopt(self, group: Group) -> None: ...
        def drop_if_unused(self, group: Group) -> None: ...
