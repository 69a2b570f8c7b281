"""Counts the Python calls of a node's turns, which are the same on every machine."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from kraftlog.wire.apis import BROKER, ApiKey
from kraftlog.wire.messages.api_versions import ApiVersionsRequest
from tests.node.frame_client import FrameClient

if TYPE_CHECKING:
    from collections.abc import Callable

    from kraftlog.wire.schema import Message
    from tests.virtual_host import VirtualHost

#: The most calls of a turn: about five milliseconds, at some 75 nanoseconds per call.
CALLS_OF_A_TURN = 66_000
#: More turns than any request of these tests takes.
MAX_TURNS = 20_000


def count_calls(work: Callable[[], Any]) -> int:
    """The number of function calls during `work`, including builtins."""
    count = 0

    def note(_: Any, event: str, __: Any) -> None:
        nonlocal count
        if event in {"call", "c_call"}:
            count += 1

    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(None)
    return count


class Turns:
    """Sends a request, runs turns until its response, and counts the function calls of each."""

    def __init__(
        self,
        host: VirtualHost,
        api_key: int,
        version: int,
        request: Message,
        listener: int = BROKER,
    ) -> None:
        self.calls: list[int] = []
        self.answer: Any = None
        #: The number of turns in which another client's request got its response.
        self.others_answered = 0
        client, other = FrameClient(host, listener), FrameClient(host)
        frame = client.frame(api_key, version, request)
        other_request = ApiVersionsRequest(
            client_software_name="other", client_software_version="1"
        )
        self.calls.append(count_calls(lambda: host.send(client.connection, frame)))
        for _ in range(MAX_TURNS):
            self.calls[-1] += count_calls(host.one_turn)
            answers = client.take()
            if answers:
                ((_, self.answer),) = answers
                return
            host.deliver()
            self.others_answered += other.ask(ApiKey.API_VERSIONS, 3, other_request) is not None
            self.calls.append(0)
        raise AssertionError("the request gets no response")

    @property
    def longest(self) -> int:
        """The number of calls of the longest turn."""
        return max(self.calls)
