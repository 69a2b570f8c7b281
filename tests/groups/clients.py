"""Clients of a group that follow the protocol, as real ones do: they act on each response."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kraftlog.errors import ErrorCode
from tests.groups.shard_harness import OK, subscription

if TYPE_CHECKING:
    from tests.groups.shard_harness import ShardHarness

#: Errors after which a client joins again with its member id.
REJOIN = {
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.REBALANCE_IN_PROGRESS,
}
#: Errors after which a client joins again as a new member.
REJOIN_AS_NEW = {ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION}


class Client:
    """A client that acts step by step; `assignment` is None while it is in no synced generation."""

    def __init__(
        self, harness: ShardHarness, instance: str | None, topics: tuple[str, ...]
    ) -> None:
        self.harness = harness
        self.instance = instance
        self.protocols = (("range", subscription(*topics)),)
        self.member_id = ""
        self.generation = -1
        self.assignment: bytes | None = None
        self.is_fenced = False
        self._pending: int | None = None
        self._request = ""

    @property
    def is_waiting(self) -> bool:
        """Whether its last request has no response yet."""
        return self._pending is not None and self._pending not in self.harness.responses

    def step(self) -> None:
        """Handle the response to the last request if there is one, or send the next request."""
        if self.is_fenced or self.is_waiting:
            return
        pending, self._pending = self._pending, None
        if pending is not None:
            response = self.harness.outcome(pending)
            if response.error_code:
                self._handle_error(response)
            elif self._request == "join":
                self._sync(response)
            else:
                self.assignment = response.assignment
        elif self.assignment is None:
            self._send_join()
        else:
            code = self.harness.heartbeat(self.member_id, self.generation, instance=self.instance)
            if code:
                self._leave_generation(code)

    def _send_join(self) -> None:
        self._request = "join"
        self._pending = self.harness.join(
            self.member_id, instance=self.instance, protocols=self.protocols
        )

    def _sync(self, response: Any) -> None:
        self.member_id = response.member_id
        self.generation = response.generation_id
        assignments = None
        if response.members and not response.skip_assignment:
            assert response.leader == self.member_id, "only the leader gets the members"
            assignments = {
                each.member_id: _assignment_of(each.member_id) for each in response.members
            }
        self._request = "sync"
        self._pending = self.harness.sync(
            self.member_id, self.generation, assignments, instance=self.instance
        )

    def _handle_error(self, response: Any) -> None:
        if response.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = response.member_id
        else:
            self._leave_generation(response.error_code)

    def _leave_generation(self, code: int) -> None:
        self.assignment = None
        if code in REJOIN_AS_NEW:
            self.member_id = ""
        elif code == ErrorCode.FENCED_INSTANCE_ID:
            self.is_fenced = True
        else:
            assert code in REJOIN, f"unexpected error {code}"

    def leave(self) -> None:
        if self.member_id:
            self.harness.leave((self.member_id, self.instance) if self.instance else self.member_id)

    def commit(self, offset: int) -> None:
        """Commit an offset; an error code that returns at once must be one of a correct client."""
        pending = self.harness.commit_offsets(
            {("t", 0): offset}, self.member_id, self.generation, instance=self.instance
        )
        if pending in self.harness.responses:
            [code] = [
                part.error_code
                for topic in self.harness.outcome(pending).topics
                for part in topic.partitions
            ]
            assert code in {
                OK,
                ErrorCode.FENCED_INSTANCE_ID,
                *REJOIN,
                *REJOIN_AS_NEW,
                ErrorCode.GROUP_ID_NOT_FOUND,
            }


def _assignment_of(member_id: str) -> bytes:
    return f"part of {member_id}".encode()
