"""`python -m bench.hops`: the functions on the way of a request, from its frame to its response.

A function is on the way if it is on the stack when the request reaches a milestone; helpers that
return before that are not. Each is listed once, where it comes first. The host is a virtual one,
whose own functions are left out. docs/architecture.md quotes the numbers.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from tests.node.frame_client import FrameClient, creation
from tests.virtual_host import VirtualHost

from bench.node import batch, fetch, produce
from kraftlog.wire.apis import ApiKey

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import CodeType, FrameType

    from kraftlog.wire.schema import Message

SIMULATOR = "kraftlog_simulator"

#: The functions in which a request reaches a milestone, and what has happened then.
MILESTONES = {
    "node.handlers.forwarding.handle": "parsed",
    "node.produce.handler.handle": "parsed",
    "node.fetch.handler.handle": "parsed",
    "controller.topics.decide_create_topics": "decided",
    "node.quorum.proposal.Proposal.make_in_steps": "encoded",
    "controller.state.ControllerState.replay_in_steps": "applied",
    "raft.roles.leader.Leader.append": "proposed",
    "replication.partition.Partition.add": "appended",
    "storage.log.Log.append": "written",
    "raft.fetching.advance": "committed",
    "metadata.loader.MetadataLoader.replay_in_steps": "replayed",
    "runner.logs.Logs.locate": "located",
    f"{SIMULATOR}.virtual_connection.VirtualConnection.ready": "answered",
}


class Way:
    """The way of one request: the functions that are new at each milestone, in order."""

    def __init__(self) -> None:
        self.milestones: list[tuple[str, list[str]]] = []
        self._names: dict[CodeType, str] = {}
        self._seen: set[str] = set()

    @property
    def hops(self) -> int:
        return len(self._seen)

    def follow(self, frame: FrameType, event: str, _: Any) -> None:
        """The profile function of `sys.setprofile`."""
        milestone = MILESTONES.get(self._name(frame)) if event == "call" else None
        if milestone is None:
            return
        new = []
        caller: FrameType | None = frame
        while caller is not None:
            name = self._name(caller)
            if name and not name.startswith(SIMULATOR) and name not in self._seen:
                self._seen.add(name)
                new.append(name)
            caller = caller.f_back
        if new:
            self.milestones.append((milestone, new[::-1]))

    def _name(self, frame: FrameType) -> str:
        """The qualified name of a function of kraftlog; empty for others, and comprehensions."""
        code = frame.f_code
        name = self._names.get(code)
        if name is None:
            module = frame.f_globals.get("__name__", "")
            is_own = module.startswith(("kraftlog.", SIMULATOR)) and code.co_name[-5:] != "comp>"
            name = f"{module.removeprefix('kraftlog.')}.{code.co_qualname}" if is_own else ""
            self._names[code] = name
        return name


def ways() -> Iterator[tuple[str, Way]]:
    """The ways of requests to one node: a new topic, then records in it."""
    host = VirtualHost()
    client = FrameClient(host)
    yield "CreateTopics", way_of(client, ApiKey.CREATE_TOPICS, 7, creation({"demo": 1}))
    produced = produce(batch(100))
    yield "Produce, first", way_of(client, ApiKey.PRODUCE, 9, produced)
    yield "Produce, repeated", way_of(client, ApiKey.PRODUCE, 9, produced)
    yield "Fetch, first", way_of(client, ApiKey.FETCH, 12, fetch(0, 1))
    yield "Fetch, repeated", way_of(client, ApiKey.FETCH, 12, fetch(1, 1))


def way_of(client: FrameClient, api_key: int, version: int, request: Message) -> Way:
    way = Way()
    sys.setprofile(way.follow)
    try:
        client.send(api_key, version, request)
        client.host.settle()
    finally:
        sys.setprofile(None)
    assert client.take(), "the request has no response"
    return way


def main() -> None:
    for what, way in ways():
        print(f"{what}: {way.hops} functions")
        for milestone, names in way.milestones:
            for number, name in enumerate(names, 1):
                print(f"  {milestone if number == len(names) else '':<10}{name}")


if __name__ == "__main__":
    main()
