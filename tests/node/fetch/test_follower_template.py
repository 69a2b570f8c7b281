"""Repeated fetches of a follower get the ordinary responses, and count as the same progress.

Two nodes lead the same partitions and get the same requests; one of them has no request templates,
and reads its partitions by the ordinary code.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from kraftlog.node.fetch import reading as ordinary
from kraftlog.node.fetch.follower_read import read_changed
from kraftlog.node.fetch.follower_template import REPLICA_STATE_SINCE
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
from kraftlog.wire.messages.metadata_records import (
    BrokerEndpoint,
    PartitionChangeRecord,
    RegisterBrokerRecord,
    UnfenceBrokerRecord,
)
from kraftlog_simulator.virtual_connection import VirtualConnection
from tests.node.fetch.test_consumer_template import sessions_of
from tests.node.produce.test_template import (
    ConnectionWithoutTemplates,
    Side,
    frame,
    served_by_templates,
)
from tests.node.test_log_ends import delete_request
from tests.node.test_requests import batch

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kraftlog.wire.schema import Message

API = APIS[ApiKey.FETCH]
FOLLOWER, EPOCH = 2, 1_000
#: The partitions of both brokers, which are all that exist.
FOLLOWED = (("demo", 0), ("demo", 1), ("other", 0))


class LeaderSide(Side):
    """A leader, its producer on the first connection, its follower on the second."""

    def __init__(self, kind: type[VirtualConnection], *, selects_by_rack: bool = False) -> None:
        super().__init__(kind)

        self.leader_epoch = 0
        self.correlation_id = 0
        node = self.host.node
        node.replica_manager.selects_by_rack = selects_by_rack
        node.replica_manager.delayed_fetches._wakes_followers = selects_by_rack
        both = {"isr": (1, FOLLOWER), "replicas": (1, FOLLOWER)}
        self.register(EPOCH)
        self.change_partitions(**both)
        self.session = 0, 0
        self.version = API.last

    def replay(self, *records: Message) -> None:
        self.host.node.replay(records, self.host.node.quorum.applied)

    def register(self, epoch: int) -> None:
        """Register a process of the follower's broker."""
        endpoint = BrokerEndpoint(name="PLAINTEXT", host="b", port=9, security_protocol=0)
        registration = RegisterBrokerRecord(
            broker_id=FOLLOWER,
            incarnation_id=b"i" * 16,
            broker_epoch=epoch,
            end_points=[endpoint],
            features=(),
            fenced=False,
            rack=None,
        )
        self.replay(registration, UnfenceBrokerRecord(id=FOLLOWER, epoch=epoch))

    def change_partitions(self, **fields: Any) -> None:
        ids = self.host.node.image.topic_ids
        self.replay(
            *[
                PartitionChangeRecord(partition_id=index, topic_id=ids[topic], **fields)
                for topic, index in FOLLOWED
            ]
        )

    def elect(self) -> None:
        """Elect the same leader in a new epoch."""
        self.leader_epoch += 1
        self.change_partitions(leader=1)

    def end_of(self, log: tuple[str, int]) -> int:
        return self.host.node.replica_manager.by_log[log].end

    def fetch(
        self,
        logs: Sequence[tuple[str, int]],
        *,
        lag: int = 0,
        epoch: int = 0,
        last_epoch: int = 0,
        skip: int = 0,
        tagged: bool = False,
        forgotten: bool = False,
        **fields: Any,
    ) -> None:
        """Fetch partitions from their log ends, or from `lag` records before them.

        `epoch`, `last_epoch` and `skip` are added to the correct leader epoch, last fetched epoch
        and session epoch. With `tagged` the request has directory ids, as tagged fields; with
        `forgotten` it removes a partition from the session.
        """
        ids = self.host.node.image.topic_ids
        topics: dict[str, list[FetchPartition]] = {}
        for log in logs:
            part = FetchPartition(
                partition=log[1],
                fetch_offset=self.end_of(log) - lag,
                current_leader_epoch=self.leader_epoch + epoch,
                last_fetched_epoch=self.leader_epoch + last_epoch,
                log_start_offset=0,
                partition_max_bytes=fields.get("part_max_bytes", 1000),
            )
            if tagged:
                part.replica_directory_id = b"d" * 16
            topics.setdefault(log[0], []).append(part)
        forgotten_topics = [ForgottenTopic(topic_id=ids["other"], partitions=(0,))]
        limits: dict[str, Any] = {"max_wait_ms": 50, "min_bytes": 1}
        limits |= {key: fields[key] for key in limits.keys() | {"max_bytes"} if key in fields}
        broker_epoch = fields.get("broker_epoch", EPOCH)
        request = FetchRequest(
            replica_state=ReplicaState(replica_id=FOLLOWER, replica_epoch=broker_epoch),
            **limits,
            session_id=self.session[0],
            session_epoch=self.session[1] + skip,
            topics=[FetchTopic(topic_id=ids[name], partitions=it) for name, it in topics.items()],
            forgotten_topics_data=forgotten_topics if forgotten else (),
        )
        self.correlation_id += 1
        pieces = request_frame(API, self.version, self.correlation_id, "kraftlog", request)
        self.send(1, b"".join(pieces))
        if not skip:
            self.session = self.session[0], self.session[1] + 1

    def begin_session(self) -> None:
        self.pass_ms(60)  # a waiting fetch times out first
        self.session = 0, 0
        before = len(self.responses)
        self.fetch(FOLLOWED, max_wait_ms=0)
        self.turn()
        answer = decode(FetchResponse, self.version, b"".join(self.responses[before + 1 :])[9:])
        self.session = answer.session_id, 1

    def pass_ms(self, ms: int) -> None:
        now = self.host.now
        self.host.now = Now(now.monotonic_ms + ms, now.wall_ms + ms)
        self.turn()

    def progress(self) -> Any:
        """The leader's state of its follower, high watermarks and ISRs."""
        progress = []
        for log in FOLLOWED:
            partition = self.host.node.replica_manager.by_log[log]
            followers = partition.followers
            assert followers is not None
            follower = followers.by_broker[FOLLOWER]
            fields = [getattr(follower, name) for name in follower.__slots__]
            progress.append((fields, partition.high_watermark, partition.isr))
        return progress


@pytest.fixture(autouse=True)
def _without_quick_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    """The side without templates reads all partitions by the ordinary code."""

    def read(reading: Any, node: Any) -> bool:
        is_ordinary = isinstance(reading._pending.connection, ConnectionWithoutTemplates)
        return not is_ordinary and read_changed(reading, node)

    monkeypatch.setattr(ordinary, "read_changed", read)


ANY_FETCH: st.SearchStrategy[Any] = st.tuples(
    st.just("fetch"),
    st.lists(st.sampled_from(FOLLOWED), unique=True, max_size=3),
    st.fixed_dictionaries(
        {},
        optional={
            "lag": st.sampled_from([0, 0, 1, 2, -1, 9]),
            "epoch": st.sampled_from([0, 0, 0, -1, 1]),
            "last_epoch": st.sampled_from([0, 0, 0, -1]),
            "skip": st.sampled_from([0, 0, 0, 1]),
            "broker_epoch": st.sampled_from([EPOCH, EPOCH, EPOCH - 1]),
            "tagged": st.booleans(),
            "forgotten": st.sampled_from([False, False, False, True]),
            "part_max_bytes": st.sampled_from([0, 100, 1000]),
            "max_bytes": st.sampled_from([0, 150, 10_000]),
            "max_wait_ms": st.sampled_from([0, 50]),
        },
    ),
)
PLAIN_FETCH: st.SearchStrategy[Any] = st.tuples(
    st.just("fetch"), st.lists(st.sampled_from(FOLLOWED), unique=True), st.just({})
)
WRITE = st.tuples(st.just("write"), st.sampled_from(FOLLOWED), st.sampled_from([0, 1, -1]))
ONE_WRITE = ("write", FOLLOWED[0], 0)
STEPS = st.lists(
    st.one_of(
        PLAIN_FETCH,
        PLAIN_FETCH,
        ANY_FETCH,
        WRITE,
        WRITE,
        st.tuples(st.sampled_from(["turn", "turn", "wait", "wait a little", "session"])),
        st.tuples(st.sampled_from(["delete", "elect", "shrink", "restore"])),
    ),
    min_size=4,
    max_size=25,
)


def run_step(side: LeaderSide, step: tuple[Any, ...]) -> None:
    if step[0] == "fetch":
        side.fetch(step[1], **step[2])
    elif step[0] == "write":
        (topic, index), acks = step[1:]
        side.send(0, frame(batch(b"x" * 50), topic=topic, index=index, acks=acks))
    elif step[0] == "session":
        side.begin_session()
    elif step[0] == "delete":
        pieces = request_frame(APIS[ApiKey.DELETE_RECORDS], 2, 7, "client", delete_request(1))
        side.send(0, b"".join(pieces))
    elif step[0] == "register":
        side.register(step[1])
    elif step[0] == "elect":
        side.elect()
    elif step[0] in {"shrink", "restore"}:
        side.change_partitions(isr=(1,) if step[0] == "shrink" else (1, FOLLOWER))
    else:
        side.pass_ms({"turn": 0, "wait a little": 6, "wait": 60}[step[0]])


@settings(max_examples=100, phases=[Phase.reuse, Phase.generate])
@given(st.booleans(), STEPS)
def test_v13_a_repeated_fetch_gets_the_ordinary_response(
    selects_by_rack: bool, steps: list[tuple[Any, ...]]
) -> None:
    """V13: responses, sessions, positions and metrics are equal, for any requests and events."""
    sides = [
        LeaderSide(kind, selects_by_rack=selects_by_rack)
        for kind in (VirtualConnection, ConnectionWithoutTemplates)
    ]
    quick, slow = sides
    start = [("session",), ("fetch", FOLLOWED, {"max_wait_ms": 0}), ("turn",)]
    for step in [*start, *steps, ("turn",), ("wait",)]:
        for side in sides:
            run_step(side, step)
        assert quick.progress() == slow.progress()
    for side in sides:
        side.turn()
    assert quick.responses == slow.responses
    assert sessions_of(quick) == sessions_of(slow)
    assert quick.state() == slow.state()


@pytest.mark.parametrize(
    "steps",
    [
        [("elect",), ONE_WRITE, ("turn",), ("fetch", FOLLOWED, {"last_epoch": -1})],
        [("register", EPOCH + 1), ("fetch", FOLLOWED, {})],
        [("fetch", FOLLOWED, {"min_bytes": 1000}), ONE_WRITE, ("turn",), ONE_WRITE, ("turn",)],
    ],
    ids=["other records in that epoch", "former process", "too few bytes"],
)
def test_v13_a_repeated_fetch_that_is_unusual_gets_the_ordinary_response(
    steps: list[tuple[Any, ...]],
) -> None:
    """V13: also if its bytes match the template of the usual fetches."""
    sides = [LeaderSide(kind) for kind in (VirtualConnection, ConnectionWithoutTemplates)]
    fields = {"min_bytes": 1000} if len(steps) > 4 else {}
    usual = [("session",), ("fetch", FOLLOWED, fields), ("wait",), ("fetch", FOLLOWED, fields)]
    for step in [*usual, ("wait",), *steps, ("wait",)]:
        for side in sides:
            run_step(side, step)
    quick, slow = sides
    assert quick.progress() == slow.progress()
    assert quick.responses == slow.responses
    assert sessions_of(quick) == sessions_of(slow)
    assert quick.state() == slow.state()


def test_v13_a_request_without_tags_clears_those_of_the_previous_one() -> None:
    """V13: the session has the fields of the latest request."""
    side = LeaderSide(VirtualConnection)
    run_step(side, ("session",))
    for fields in ({}, {"tagged": True}, {}):
        side.fetch(FOLLOWED, **fields)
        side.pass_ms(60)
    [session] = side.host.node.fetch_sessions._sessions.values()
    topics = session.topics.values()
    requests = [each.request for topic in topics for each in topic.by_index.values()]
    assert requests == [
        FetchPartition(
            partition=part.partition,
            current_leader_epoch=0,
            fetch_offset=0,
            last_fetched_epoch=0,
            log_start_offset=0,
            partition_max_bytes=1000,
        )
        for part in requests
    ]


@pytest.mark.parametrize("version", range(REPLICA_STATE_SINCE, API.last + 1))
def test_v13_fetches_of_followers_use_templates(
    version: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """V13: fetches that wait, and fetches that find records, of any number of partitions."""
    side = LeaderSide(VirtualConnection)
    side.version = version
    side.begin_session()
    side.fetch(FOLLOWED)
    side.pass_ms(60)
    served = served_by_templates(monkeypatch)
    for logs in (FOLLOWED[:1], FOLLOWED, FOLLOWED[:2], FOLLOWED[:1]):
        side.fetch(logs)
        assert side.host.node.delayed_operations.deadline() is not None
        side.send(0, frame(batch(b"x"), topic="demo", acks=0))
        side.turn()
    assert served == [True] * 7, "all but the first Produce, from which its template is learnt"


def test_v13_an_error_within_a_repeated_fetch_ends_the_session(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """V13: the session may be partly updated, so the follower must begin another one."""
    side = LeaderSide(VirtualConnection)
    side.begin_session()
    side.fetch(FOLLOWED)
    side.pass_ms(60)
    in_sync = side.host.node.replica_manager.in_sync_replicas
    monkeypatch.setattr(in_sync, "fetched", lambda *_: 1 // 0)
    with pytest.raises(Exception, match="by its template"):
        side.fetch(FOLLOWED)
    assert side.host.node.fetch_sessions.get(side.session[0]) is None
