"""Repeated fetches get the ordinary responses, with sessions and without.

Two nodes get the same requests; one of them uses request templates, the other has none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kraftlog.node.templates.request_templates import LONGEST_PREFIX
from kraftlog.types import Now
from kraftlog.wire.apis import APIS, ApiKey
from kraftlog.wire.codec import decode
from kraftlog.wire.frames import request_frame
from kraftlog.wire.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
    ReplicaState,
)
from kraftlog_simulator.virtual_connection import VirtualConnection
from tests.node.produce.test_template import (
    ConnectionWithoutTemplates,
    Side,
    frame,
    served_by_templates,
)
from tests.node.test_log_ends import delete_records
from tests.node.test_requests import batch

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.virtual_host import VirtualHost

API = APIS[ApiKey.FETCH]


def fetch_frame(
    host: VirtualHost,
    version: int,
    offsets: Sequence[tuple[int, int]],
    session: tuple[int, int] = (0, -1),
    topic: str = "demo",
    part_max_bytes: int = 1000,
    leader_epoch: int = -1,
    forgotten: Sequence[int] = (),
    number: int = 1,
    client: str = "client",
    **fields: Any,
) -> bytes:
    """A fetch; `offsets` are pairs of partition and offset, `session` is its id and epoch."""
    topic_id = host.node.image.topic_ids.get(topic, bytes(16))
    parts = [
        FetchPartition(
            partition=index,
            fetch_offset=offset,
            partition_max_bytes=part_max_bytes,
            current_leader_epoch=leader_epoch,
        )
        for index, offset in offsets
    ]
    forgotten_topics = [ForgottenTopic(topic=topic, topic_id=topic_id, partitions=forgotten)]
    limits: dict[str, Any] = {"max_wait_ms": 0, "min_bytes": 1, **fields}
    request = FetchRequest(
        session_id=session[0],
        session_epoch=session[1],
        topics=[FetchTopic(topic=topic, topic_id=topic_id, partitions=parts)] if parts else [],
        forgotten_topics_data=forgotten_topics if forgotten and version >= 7 else (),
        **limits,
    )
    return b"".join(request_frame(API, version, number, client, request))


class Reader:
    """A client of one of the nodes: its fetches, and its session if it uses one."""

    def __init__(
        self, side: Side, connection: int, fields: dict[str, Any], *, uses_session: bool
    ) -> None:
        self.side = side
        self.connection = connection
        self.fields = fields
        self.session = (0, -1)
        if uses_session and fields["version"] >= 7:
            self.ask(0, session=(0, 0), max_wait_ms=0)
            side.turn()
            version = fields["version"]
            head = 8 + API.response_header_version(version)
            answer = decode(FetchResponse, version, side.responses[connection - 2][head:])
            self.session = (answer.session_id, 1)

    def ask(self, offset: int, *, skip: int = 0, parts: int = 1, **fields: Any) -> None:
        host = self.side.host
        session = fields.pop("session", (self.session[0], self.session[1] + skip))
        offsets = [(0, offset), (1, 0)][:parts]
        raw = fetch_frame(host, offsets=offsets, session=session, **{**self.fields, **fields})
        self.side.send(self.connection, raw)
        if self.session[0] and not skip:
            self.session = (self.session[0], self.session[1] + 1)


READERS = st.lists(
    st.tuples(
        st.integers(0, 1),
        st.fixed_dictionaries(
            {
                "version": st.sampled_from([4, 7, 9, 11, 12, 13, 16, 18]),
                "part_max_bytes": st.sampled_from([0, 100, 1000]),
                "max_bytes": st.sampled_from([0, 150, 10_000]),
                "min_bytes": st.sampled_from([0, 1, 200]),
                "max_wait_ms": st.sampled_from([0, 0, 50]),
                "isolation_level": st.integers(0, 1),
                "leader_epoch": st.sampled_from([-1, -1, 0, 7]),
                "topic": st.sampled_from(["demo", "demo", "none"]),
            }
        ),
        st.booleans(),
    ),
    min_size=1,
    max_size=3,
)
ASK = st.tuples(
    st.just("ask"),
    st.integers(0, 2),
    st.integers(0, 9),  # offset
    st.sampled_from([0, 0, 0, 0, 1]),  # session epochs that are skipped
    st.sampled_from([1, 1, 1, 0, 2]),  # partitions
)
STEPS = st.lists(
    st.one_of(
        ASK,
        ASK,
        ASK,
        st.tuples(st.just("write"), st.integers(1, 3)),
        st.tuples(st.sampled_from(["turn", "wait", "delete", "forget"])),
    ),
    min_size=3,
    max_size=20,
)


def write(side: Side, count: int) -> None:
    for _ in range(count):
        side.send(0, frame(batch(b"x" * 50), acks=0))
    side.turn()


def run_step(side: Side, readers: list[Reader], step: tuple[Any, ...], number: int) -> None:
    if step[0] == "ask":
        _, reader_index, offset, skip, parts = step
        reader = readers[reader_index % len(readers)]
        reader.ask(offset, skip=skip, parts=parts, number=number)
    elif step[0] == "write":
        write(side, step[1])
    elif step[0] == "delete":
        delete_records(
            side.host, min(2, side.host.node.replica_manager.by_log["demo", 0].high_watermark)
        )
    elif step[0] == "forget":
        readers[0].ask(0, parts=0, forgotten=[0])
    else:
        if step[0] == "wait":
            now = side.host.now
            side.host.now = Now(now.monotonic_ms + 60, now.wall_ms + 60)
        side.turn()


def sessions_of(side: Side) -> Any:
    return [
        (session.id, session.epoch, session.used_ms, partitions_of_session(session))
        for session in side.host.node.fetch_sessions._sessions.values()
    ]


def partitions_of_session(session: Any) -> Any:
    return [
        (topic.topic, index, partition.request, partition.high_watermark, partition.start)
        for topic in session.topics.values()
        for index, partition in topic.by_index.items()
    ]


@settings(max_examples=100)
@given(READERS, STEPS)
def test_a_repeated_request_gets_the_ordinary_response(
    reader_fields: list[Any], steps: list[Any]
) -> None:
    """Responses, sessions and metrics are equal, for any requests and events."""
    sides = Side(VirtualConnection), Side(ConnectionWithoutTemplates)
    readers: list[list[Reader]] = []
    for side in sides:
        write(side, 4)
        readers.append(
            [
                Reader(side, c, fields, uses_session=uses_session)
                for c, fields, uses_session in reader_fields
            ]
        )
    first_fetches = [("ask", i, 0, 0, 1) for i in range(len(reader_fields))]
    for number, step in enumerate([*first_fetches, *steps]):
        for side, side_readers in zip(sides, readers, strict=True):
            run_step(side, side_readers, step, number)
            assert len(side.connections) == 2
    for side in sides:
        side.turn()
    quick, slow = sides
    assert quick.responses == slow.responses
    assert sessions_of(quick) == sessions_of(slow)
    assert quick.state() == slow.state()


@pytest.mark.parametrize("version", range(7, 19))
@pytest.mark.parametrize("uses_session", [False, True], ids=["no session", "session"])
def test_fetches_of_consumers_that_catch_up_use_templates(
    version: int, uses_session: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    side = Side(VirtualConnection)
    write(side, 5)
    reader = Reader(side, 1, {"version": version}, uses_session=uses_session)
    reader.ask(0)
    served = served_by_templates(monkeypatch)
    for offset in (1, 2, 3):
        reader.ask(offset)
    reader.ask(5)
    assert served == [True, True, True, False], "the handler serves a fetch at the log end"
    side.turn()
    assert side.responses[-1]


@pytest.mark.parametrize("version", [6, 12])
def test_unusual_requests_are_served_by_the_handler(
    version: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are about two partitions, or have a version without sessions."""
    side = Side(VirtualConnection)
    write(side, 5)
    reader = Reader(side, 1, {"version": version}, uses_session=False)
    parts = 1 if version == 6 else 2
    reader.ask(0, parts=parts)
    served = served_by_templates(monkeypatch)
    reader.ask(1, parts=parts)
    assert served == [False]


@pytest.mark.parametrize(("length", "is_known"), [(300, True), (LONGEST_PREFIX, False)])
@pytest.mark.parametrize("name", ["client", "rack_id"])
def test_only_requests_within_the_longest_prefix_get_a_template(
    name: str, length: int, is_known: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The long name is the client id or another field."""
    side = Side(VirtualConnection)
    write(side, 5)
    reader = Reader(side, 1, {"version": 12, name: "x" * length}, uses_session=False)
    reader.ask(0)
    served = served_by_templates(monkeypatch)
    reader.ask(1)
    assert served == [is_known]


@pytest.mark.parametrize(
    ("version", "fields"),
    [
        (7, {"session": (77, -1)}),
        (12, {"replica_id": 2}),
        (17, {"replica_state": ReplicaState(replica_id=2)}),
    ],
    ids=["ends a session", "a follower before version 15", "a follower"],
)
def test_fetches_outside_a_session_or_ending_it_use_no_template(
    version: int, fields: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    side = Side(VirtualConnection)
    write(side, 5)
    raw = fetch_frame(side.host, version, [(0, 1)], **fields)
    side.send(1, raw)
    served = served_by_templates(monkeypatch)
    side.send(1, raw)
    assert served == [False]


@pytest.mark.parametrize(("epoch", "learnt"), [(0, 1), (7, 0)])
def test_a_fetch_with_a_wrong_leader_epoch_gets_no_template(epoch: int, learnt: int) -> None:
    """Otherwise each request would drop the template and learn it again."""
    side = Side(VirtualConnection)
    write(side, 5)
    for number in range(3):
        side.send(1, fetch_frame(side.host, 12, [(0, 1)], leader_epoch=epoch, number=number))
    templates = side.connections[1].request_templates
    assert templates is not None
    assert (len(templates._templates), templates._learnt) == (learnt, learnt)


def test_sessionless_fetches_get_a_template_for_each_partition(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The client fetches one partition after the other."""
    side = Side(VirtualConnection)
    write(side, 5)
    for _ in range(5):
        side.send(0, frame(batch(b"y"), acks=0, index=1))
    side.turn()
    served = served_by_templates(monkeypatch)
    for offset in range(4):
        for index in (0, 1):
            side.send(1, fetch_frame(side.host, 12, [(index, offset)]))
    # The very first request finds no templates and is not listed; the first of partition 1 is the
    # False.
    assert served == [False] + 6 * [True]


def test_fetches_use_templates_after_the_next_election(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    side = Side(VirtualConnection)
    write(side, 5)
    partition = side.host.node.replica_manager.by_log["demo", 0]
    reader = Reader(side, 1, {"version": 12}, uses_session=True)
    served: list[bool] = []
    for epoch in (0, 1):
        partition.lead(epoch)
        reader.ask(0, leader_epoch=epoch)
        served = served or served_by_templates(monkeypatch)
        for offset in (1, 2):
            reader.ask(offset, leader_epoch=epoch)
    assert served == [True, True, False, True, True]


def test_deleted_records_are_refused_on_the_fast_path() -> None:
    sides = Side(VirtualConnection), Side(ConnectionWithoutTemplates)
    for side in sides:
        write(side, 5)
        reader = Reader(side, 1, {"version": 12}, uses_session=True)
        reader.ask(0)
        reader.ask(1)
        delete_records(side.host, 2)
        for offset in (1, 2, 5, 6):
            reader.ask(offset)
        side.turn()
    quick, slow = sides
    assert quick.responses == slow.responses
    assert sessions_of(quick) == sessions_of(slow)
