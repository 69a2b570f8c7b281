"""Clients of a group as they really are: they follow the protocol, and what it tells them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kraftlog.errors import ErrorCode
from tests.groups.shard_harness import OK, subscription

if TYPE_CHECKING:
    from tests.groups.shard_harness import ShardHarness

#: On these a client tries again with the id it has.
RETRY = {
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.REBALANCE_IN_PROGRESS,
}
#: On these it begins again as somebody new.
BEGIN_AGAIN = {ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION}


class Client:
    """One step at a time; `assignment` is not None while it has its part of a generation."""

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
        self._waits: int | None = None
        self._for = ""

    @property
    def waits(self) -> bool:
        """Whether its last request is not answered yet."""
        return self._waits is not None and self._waits not in self.harness.answers

    def step(self) -> None:
        """Read the answer there is, or ask what is to be asked next."""
        if self.is_fenced or self.waits:
            return
        slot, self._waits = self._waits, None
        if slot is not None:
            answer = self.harness.outcome(slot)
            if answer.error_code:
                self._refused(answer)
            elif self._for == "join":
                self._joined(answer)
            else:
                self.assignment = answer.assignment
        elif self.assignment is None:
            self._ask_to_join()
        else:
            code = self.harness.heartbeat(self.member_id, self.generation, instance=self.instance)
            if code:
                self._lost(code)

    def _ask_to_join(self) -> None:
        self._for = "join"
        self._waits = self.harness.join(
            self.member_id, instance=self.instance, protocols=self.protocols
        )

    def _joined(self, answer: Any) -> None:
        self.member_id = answer.member_id
        self.generation = answer.generation_id
        assignments = None
        if answer.members and not answer.skip_assignment:
            assert answer.leader == self.member_id, "only a leader is told who the members are"
            assignments = {each.member_id: _part(each.member_id) for each in answer.members}
        self._for = "sync"
        self._waits = self.harness.sync(
            self.member_id, self.generation, assignments, instance=self.instance
        )

    def _refused(self, answer: Any) -> None:
        if answer.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = answer.member_id
        else:
            self._lost(answer.error_code)

    def _lost(self, code: int) -> None:
        self.assignment = None
        if code in BEGIN_AGAIN:
            self.member_id = ""
        elif code == ErrorCode.FENCED_INSTANCE_ID:
            self.is_fenced = True
        else:
            assert code in RETRY, f"told {code}"

    def leave(self) -> None:
        if self.member_id:
            self.harness.leave((self.member_id, self.instance) if self.instance else self.member_id)

    def commit(self, offset: int) -> None:
        """Commit for its own part; what it is told must fit to what it knows."""
        slot = self.harness.commit_offsets(
            {("t", 0): offset}, self.member_id, self.generation, instance=self.instance
        )
        if slot in self.harness.answers:
            [code] = [
                part.error_code for t in self.harness.outcome(slot).topics for part in t.partitions
            ]
            assert code in {
                OK,
                ErrorCode.FENCED_INSTANCE_ID,
                *RETRY,
                *BEGIN_AGAIN,
                ErrorCode.GROUP_ID_NOT_FOUND,
            }


def _part(member_id: str) -> bytes:
    return f"part of {member_id}".encode()
