"""The administrator of topics: creates them at any broker, and retries until they are there."""

from __future__ import annotations

from kraftlog.errors import RETRIABLE, ErrorCode
from kraftlog.simulator.cluster.clients import RETRY_MS, Client
from kraftlog.simulator.violation import Violation
from kraftlog.value import TYPE_CHECKING
from kraftlog.wire.apis import ApiKey
from kraftlog.wire.messages import create_topics as creates

if TYPE_CHECKING:
    from typing import Any

    from kraftlog.types import Now

REQUEST_MS = 2000


class TopicAdministrator(Client):
    """`wanted` are the topics that do not exist yet."""

    wanted: dict[str, int]
    _is_asking = False
    _retry_ms = 0

    def begin(self) -> None:
        partitions = self.world.setting.partitions
        self.wanted = {f"topic-{number}": count for number, count in enumerate(partitions)}
        self.look_around()

    def deadline(self) -> int | None:
        return self._retry_ms if self.wanted and not self._is_asking else None

    def work(self, now: Now) -> None:
        if self._is_asking or not self.wanted or self._retry_ms > now.monotonic_ms:
            return
        setting = self.world.setting
        configs = {"min.insync.replicas": setting.min_insync}
        if setting.flushes:
            configs["flush.messages"] = 1
        request = creates.CreateTopicsRequest(
            topics=[
                creates.CreatableTopic(
                    name=name,
                    num_partitions=count,
                    replication_factor=setting.replication,
                    assignments=[],
                    configs=[
                        creates.CreatableTopicConfig(name=key, value=str(value))
                        for key, value in configs.items()
                    ],
                )
                for name, count in self.wanted.items()
            ],
            timeout_ms=REQUEST_MS,
        )
        self._is_asking = True
        self.ask(self.some_broker(), ApiKey.CREATE_TOPICS, request, REQUEST_MS, self._answered)

    def _answered(self, response: Any, now: Now) -> None:
        self._is_asking = False
        self._retry_ms = now.monotonic_ms + RETRY_MS
        for topic in response.topics if response is not None else ():
            code = topic.error_code
            if not code:
                self._is_there(topic.name, topic.topic_id)
            elif code == ErrorCode.TOPIC_ALREADY_EXISTS:
                found = self.world.image.topic_named(topic.name)
                if found is not None:
                    self._is_there(topic.name, found.id)
            elif code not in RETRIABLE and code != ErrorCode.INVALID_REPLICATION_FACTOR:
                raise Violation("administrator", f"{topic.name}: {code} {topic.error_message}")

    def _is_there(self, name: str, topic_id: bytes) -> None:
        count = self.wanted.pop(name, 0)
        self.world.keys += [(topic_id, index) for index in range(count)]
        self.world.progress += 1
