"""Talks to a virtual host as a client does: in frames."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

from kraftlog.metadata.preconfigured import preconfigured_records
from kraftlog.node.node import NodeConfig
from kraftlog.simulator.host import VirtualHost
from kraftlog.wire.apis import APIS
from kraftlog.wire.codec import decode
from kraftlog.wire.frames import request_frame

if TYPE_CHECKING:
    from kraftlog.simulator.files import MemoryFiles
    from kraftlog.wire.schema import Message

CLUSTER_ID = "AAAAAAAAQACAAAAAAAAAAQ"


def make_host(files: MemoryFiles | None = None, **topics: int) -> VirtualHost:
    records = preconfigured_records(
        cluster_id=CLUSTER_ID, node_id=1, host="127.0.0.1", port=9092, topics=topics or {"demo": 1}
    )
    return VirtualHost(NodeConfig(1, CLUSTER_ID), records, files)


class Talker:
    """One connection. `ask` waits for nothing: what is not answered in this turn is None."""

    def __init__(self, host: VirtualHost) -> None:
        self.host = host
        self.connection = host.connect()
        self.asked: list[tuple[int, int]] = []

    def frame(self, api_key: int, version: int, request: Message) -> bytes:
        self.asked.append((api_key, version))
        return b"".join(request_frame(APIS[api_key], version, len(self.asked), "test", request))

    def send(self, api_key: int, version: int, request: Message) -> None:
        self.host.send(self.connection, self.frame(api_key, version, request))

    def take(self) -> list[Any]:
        """The answers that are there, decoded: (correlation id, message)."""
        raw = self.connection.take()
        answers = []
        while raw:
            (size, number) = struct.unpack_from(">ii", raw)
            api_key, version = self.asked[number - 1]
            api = APIS[api_key]
            body = raw[8 + api.response_header_version(version) : 4 + size]
            answers.append((number, decode(api.response(), version, body)))
            raw = raw[4 + size :]
        return answers

    def ask(self, api_key: int, version: int, request: Message) -> Any:
        self.send(api_key, version, request)
        self.host.turn()
        answers = self.take()
        return answers[-1][1] if answers else None
