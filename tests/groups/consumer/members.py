"""Members that follow the consumer protocol, as real ones do: they act on each response."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kraftlog.errors import ErrorCode
from tests.groups.consumer.consumer_harness import assigned

if TYPE_CHECKING:
    from kraftlog.types import Uuid
    from tests.groups.consumer.consumer_harness import ConsumerHarness

#: Errors after which a member sends its heartbeat again.
RETRY = {ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR}
#: Errors after which it gives up its partitions and joins again.
REJOIN = {
    ErrorCode.FENCED_MEMBER_EPOCH,
    ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.GROUP_ID_NOT_FOUND,
}


class Member:
    """A member; `owned` is what it reads now, `told` the assignment that it was given last."""

    def __init__(
        self, harness: ConsumerHarness, name: str, instance: str | None, topics: tuple[str, ...]
    ) -> None:
        self.harness, self.name, self.instance = harness, name, instance
        self.topics = topics
        self.epoch = 0
        self.owned: dict[Uuid, set[int]] = {}
        self.told: dict[Uuid, set[int]] = {}
        self.is_fenced = False
        self._wants_topics_sent = False
        self._must_report = False
        self._pending: int | None = None

    @property
    def is_waiting(self) -> bool:
        return self._pending is not None and self._pending not in self.harness.responses

    def step(self) -> None:
        """Handle the response to the last heartbeat, or send the next one."""
        if self.is_fenced or self.is_waiting:
            return
        pending, self._pending = self._pending, None
        if pending is None:
            self._send()
        else:
            self._handle(self.harness.outcome(pending))

    def subscribe(self, topics: tuple[str, ...]) -> None:
        self.topics = topics
        self._wants_topics_sent = True

    def _send(self) -> None:
        if self.epoch == 0:
            self._pending = self.harness.send_join(
                self.name, instance=self.instance, topics=self.topics
            )
        elif self._wants_topics_sent:
            self._wants_topics_sent = False
            self._pending = self._beat(topics=self.topics)
        else:
            self._pending = self._beat()
        self._must_report = False

    def _beat(self, **fields: Any) -> int:
        owned = {topic: sorted(indexes) for topic, indexes in self.owned.items()}
        if self._must_report or fields:
            fields["owned"] = owned
        return self.harness.send(self.name, self.epoch, instance=self.instance, **fields)

    def _handle(self, response: Any) -> None:
        code = response.error_code
        if code in RETRY:
            # It does not know whether the heartbeat counted, and says all again.
            self._must_report = True
            self._wants_topics_sent = True
        elif code in REJOIN:
            self._abandon()
        elif code in {ErrorCode.FENCED_INSTANCE_ID, ErrorCode.UNRELEASED_INSTANCE_ID}:
            self._abandon()
            self.is_fenced = True
        else:
            assert not code, f"unexpected error {code}: {response.error_message}"
            self.epoch = response.member_epoch
            told = assigned(response)
            if told is not None:
                self.told = {topic: set(indexes) for topic, indexes in told.items()}
                # It revokes first, says so with the next heartbeat, and takes the rest.
                self.owned = {topic: set(indexes) for topic, indexes in self.told.items()}
                self._must_report = True

    def _abandon(self) -> None:
        self.epoch = 0
        self.owned, self.told = {}, {}
        self._must_report = self._wants_topics_sent = False

    def leave(self, epoch: int = -1) -> None:
        """Stop reading and leave, without waiting for the response."""
        self._abandon()
        self.harness.send(self.name, epoch, instance=self.instance)

    @property
    def partitions(self) -> list[tuple[Uuid, int]]:
        return [(topic, index) for topic, indexes in self.owned.items() for index in indexes]
