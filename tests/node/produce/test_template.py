"""Repeated requests get the ordinary responses, byte for byte, and have the same effects.

Two nodes get the same requests; one of them uses request templates, the other has none.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kraftlog.config.keys import TOPIC
from kraftlog.errors import ProtocolError
from kraftlog.node.templates.request_templates import (
    LONGEST_PREFIX,
    MAX_LEARNT,
    MAX_PREFIX_LENGTHS,
    MAX_TEMPLATES,
    RequestTemplates,
)
from kraftlog.records.builder import encode_record
from kraftlog.records.capacity import MOST_RECORDS
from kraftlog.records.compression import compress
from kraftlog.records.crc import crc32c
from kraftlog.records.header import CRC_START, HEADER
from kraftlog.types import Now
from kraftlog.wire.apis import APIS, ApiKey
from kraftlog.wire.frames import request_frame
from kraftlog.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from kraftlog.wire.messages.metadata_records import PartitionChangeRecord
from kraftlog.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kraftlog_simulator.virtual_connection import VirtualConnection
from tests.node.frame_client import FrameClient, ask_settled, create_topics, set_config
from tests.node.test_log_ends import delete_records, delete_request
from tests.node.test_producers import idempotent_batch
from tests.node.test_requests import batch
from tests.virtual_host import VirtualHost

if TYPE_CHECKING:
    from collections.abc import Sequence

NOW_MS = 1000
API = APIS[ApiKey.PRODUCE]


class ConnectionWithoutTemplates(VirtualConnection):
    """A connection without request templates."""

    @property
    def request_templates(self) -> RequestTemplates | None:
        return None

    @request_templates.setter
    def request_templates(self, _: RequestTemplates | None) -> None:
        """Keep no templates."""


class Side:
    """One of two nodes, with two connections of the same kind."""

    def __init__(self, kind: type[VirtualConnection]) -> None:
        self.host = VirtualHost()
        create_topics(self.host, {"demo": 2, "other": 1})
        self.host.now = Now(self.host.now.monotonic_ms, NOW_MS)
        self.connections = [kind(), kind()]
        self.responses: list[bytes] = []

    def send(self, connection: int, frame: bytes) -> None:
        self.host.send(self.connections[connection], frame)

    def turn(self, *, full: bool = False) -> None:
        """Run turns until the node is idle; with `full`, the disk has no space meanwhile."""
        files = self.host.files
        if full:
            files.capacity_bytes = files.used_bytes() + 5
        self.host.turn()
        files.capacity_bytes = None
        self.take()

    def one_turn(self, *, disk: bool = False) -> None:
        """Run one turn; with `disk`, report the results of flushes before it."""
        if disk:
            self.host.deliver()
        self.host.one_turn()
        self.take()

    def take(self) -> None:
        self.responses += [connection.take() for connection in self.connections]

    def state(self) -> Any:
        """All state that requests can change."""
        node = self.host.node
        logs = self.host.runner.directory.logs
        return (
            self.host.log_lines,
            node.counts.requests,
            {
                name: vars_of(counts)
                for name, counts in node.replica_manager.topic_stats.topics.items()
            },
            {
                log: (
                    partition.start,
                    partition.end,
                    partition.high_watermark,
                    partition.online,
                    None if partition.producers is None else partition.producers.entries,
                    logs[log].producers.entries if log in logs else None,
                )
                for log, partition in node.replica_manager.by_log.items()
            },
            {
                name: self.host.files.pread(fd, 1 << 20, 0)
                for name in all_logs(self.host)
                for fd in [self.host.files.open(name)]
            },
        )


def vars_of(counts: Any) -> list[int]:
    return [getattr(counts, name) for name in counts.__slots__]


def all_logs(host: VirtualHost) -> list[str]:
    logs = host.runner.directory.logs
    return [
        segment.log.path
        for name in sorted(logs)
        if not name[0].startswith("__")
        for segment in logs[name].segments
    ]


def frame(
    raw: bytes | None,
    version: int = 9,
    acks: int = 1,
    index: int = 0,
    number: int = 1,
    topic: str = "demo",
    host: VirtualHost | None = None,
    also: Sequence[PartitionProduceData] = (),
    client: str = "client",
) -> bytes:
    """A Produce frame with this batch for a partition, and `also` these partitions.

    `number` is the correlation id; the host knows the topic id, which versions from 13 on need.
    """
    topic_id = host.node.image.topic_ids.get(topic, bytes(16)) if host is not None else bytes(16)
    parts = [PartitionProduceData(index=index, records=raw), *also]
    topics = [TopicProduceData(name=topic, topic_id=topic_id, partition_data=parts)]
    request = ProduceRequest(acks=acks, timeout_ms=1000, topic_data=topics)
    return b"".join(request_frame(API, version, number, client, request))


def with_header_field(raw: bytes, field: int, value: int, *, sign: bool) -> bytes:
    """A batch with another value of a header field, with or without a matching checksum."""
    fields = list(HEADER.unpack_from(raw))
    fields[field] = value
    head = HEADER.pack(*fields)
    new = bytearray(head + raw[HEADER.size :])
    if sign:
        struct.pack_into(">I", new, CRC_START - 4, crc32c(bytes(new[CRC_START:])))
    return bytes(new)


PLAIN = batch(b"a", b"b")
#: Timestamps within and outside the limits of the topic settings below.
TIMES = st.sampled_from([-1, 0, 400, NOW_MS, 2 * NOW_MS, 4_000_000])
#: Values that header fields get in `ALTERED_BATCHES`.
NUMBERS = (-(2**15), -1, 0, 1, 2, 3, 4, 5, 8, 16, 32, 64, 999, 2**14)
#: Positions of fields in `HEADER`.
LENGTH, MAGIC_FIELD, CRC = 1, 3, 4
ALTERED_BATCHES = [
    with_header_field(raw, field, value, sign=sign)
    for raw in (PLAIN, idempotent_batch(0), idempotent_batch(1))
    for field in range(13)
    if field != CRC
    for value in NUMBERS
    for sign in (True, False)
    if not (field == LENGTH and sign) and not (field == MAGIC_FIELD and not -128 <= value < 128)
]


def batch_with_false_header(codec: int, records: bytes, count: int) -> bytes:
    """A batch of these encoded records, whose header has this codec and count, true or false."""
    fields = (0, 49 + len(records), -1, 2, 0, codec, count - 1, 1000, 1000, -1, -1, -1, count)
    raw = bytearray(HEADER.pack(*fields) + records)
    struct.pack_into(">I", raw, CRC_START - 4, crc32c(memoryview(raw)[CRC_START:]))
    return bytes(raw)


RECORD = encode_record(0, 0, None, b"v")
#: Batches with false counts, and with another codec than that of their records.
FALSE_HEADERS = [
    batch_with_false_header(codec, compress(codec, RECORD * records), count)
    for count in (1, 9, 20, 2**20, MOST_RECORDS, MOST_RECORDS + 1, 2**31 - 1)
    for records in (1, 9)
    for codec in range(5)
] + [
    batch_with_false_header(claimed, compress(codec, RECORD), 1)
    for codec in range(5)
    for claimed in range(5)
]
BATCHES: st.SearchStrategy[bytes | None] = st.one_of(
    st.just(PLAIN),
    st.builds(lambda size, time: batch(b"x" * size, timestamp=time), st.integers(0, 300), TIMES),
    st.builds(
        idempotent_batch,
        st.integers(0, 4),
        st.integers(1, 2),
        epoch=st.integers(0, 1),
        timestamp=TIMES,
    ),
    st.sampled_from(ALTERED_BATCHES),
    st.sampled_from(FALSE_HEADERS),
    st.sampled_from([None, b"", PLAIN[:-1], PLAIN + b"x", PLAIN * 2, PLAIN[:40], PLAIN[:61]]),
)

#: Constant fields of the requests of up to three producers.
PRODUCERS = st.lists(
    st.fixed_dictionaries(
        {
            "version": st.sampled_from([3, 6, 7, 8, 9, 10, 12, 13]),
            "acks": st.sampled_from([1, 1, -1, 0, 2]),
            "index": st.sampled_from([0, 0, 1, 9]),
            "topic": st.sampled_from(["demo", "demo", "other", "none"]),
        }
    ),
    min_size=1,
    max_size=3,
)
#: Connection, producer, batch, and bytes after the request.
SEND = st.tuples(
    st.just("send"),
    st.integers(0, 1),
    st.integers(0, 2),
    BATCHES,
    st.sampled_from([b"", b"", b"", b"more"]),
)
SETTINGS = (
    ("message.timestamp.type", ("LogAppendTime", "CreateTime")),
    ("max.message.bytes", (150, 1_000_000)),
    ("message.timestamp.after.max.ms", (10, 3_600_000)),
    ("message.timestamp.before.max.ms", (10, 2**63 - 1)),
    ("compression.type", ("gzip", "producer")),
    ("cleanup.policy", ("compact", "delete")),
    ("segment.bytes", (1_048_576, 1 << 30)),
    ("flush.messages", (1, 2**63 - 1)),
    ("min.insync.replicas", (2, 1)),
)
CHANGE = st.sampled_from(SETTINGS).flatmap(
    lambda setting: st.tuples(st.just("set"), st.just(setting[0]), st.sampled_from(setting[1]))
)
STEPS = st.lists(
    st.one_of(
        SEND,
        SEND,
        SEND,
        st.tuples(st.just("turn"), st.sampled_from([False, False, True])),
        st.tuples(st.just("one turn"), st.booleans()),
        CHANGE,
        st.tuples(st.sampled_from(["recreate topic", "delete records"])),
        st.tuples(st.just("isr"), st.integers(0, 1), st.sampled_from([(1,), (1, 2)])),
        st.tuples(st.just("time"), st.sampled_from([1, 999, 1000])),
    ),
    min_size=3,
    max_size=20,
)


def run_step(side: Side, producers: list[Any], step: tuple[Any, ...], number: int) -> None:
    host = side.host
    if step[0] == "send":
        _, connection, producer, raw, extra = step
        sent = frame(raw, number=number, host=host, **producers[producer % len(producers)])
        if extra:
            sent = struct.pack(">i", len(sent) - 4 + len(extra)) + sent[4:] + extra
        side.send(connection, sent)
    elif step[0] == "turn":
        side.turn(full=step[1])
    elif step[0] == "one turn":
        side.one_turn(disk=step[1])
    elif step[0] == "set":
        set_config(host, TOPIC, "demo", step[1], step[2])
    elif step[0] == "isr":
        change = PartitionChangeRecord(
            partition_id=step[1],
            topic_id=host.node.image.topic_ids["demo"],
            replicas=(1, 2),
            isr=step[2],
        )
        host.node.replay([change], 100)
    elif step[0] == "time":
        host.pass_time(step[1])
        side.take()
    elif step[0] == "delete records":
        end = host.node.replica_manager.by_log["demo", 0].high_watermark
        if "delete" in host.node.topic_configs.of("demo").config.cleanup_policy:
            delete_records(host, end)
    else:
        state = [DeleteTopicState(name="demo")]
        ask_settled(
            host, ApiKey.DELETE_TOPICS, 6, DeleteTopicsRequest(topics=state, timeout_ms=1000)
        )
        create_topics(host, {"demo": 2})


@settings(max_examples=100)
@given(PRODUCERS, STEPS)
def test_a_repeated_request_gets_the_ordinary_response(
    producers: list[Any], steps: list[Any]
) -> None:
    """Responses, logs and metrics are equal, for any requests and events."""
    quick, slow = Side(VirtualConnection), Side(ConnectionWithoutTemplates)
    first_sends = [("send", c, p, PLAIN, b"") for c in range(2) for p in range(len(producers))]
    for number, step in enumerate([*first_sends, *steps]):
        for side in (quick, slow):
            run_step(side, producers, step, number)
    quick.turn()
    slow.turn()
    assert quick.responses == slow.responses
    assert quick.state() == slow.state()


@pytest.mark.parametrize("version", [6, 9, 13])
def test_any_batch_header_gets_the_ordinary_response(version: int) -> None:
    """Each header field with valid, wrong and impossible values."""
    quick, slow = Side(VirtualConnection), Side(ConnectionWithoutTemplates)
    for side in (quick, slow):
        for number, raw in enumerate(
            [PLAIN, idempotent_batch(0), *ALTERED_BATCHES, *FALSE_HEADERS]
        ):
            side.send(0, frame(raw, version, -1, number=number, host=side.host))
            if number % 8 == 0:
                side.turn()
        side.turn()
    assert quick.responses == slow.responses
    assert quick.state() == slow.state()


def served_by_templates(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """A list that gets, for each later request, whether a template served it."""
    served: list[bool] = []
    serve = RequestTemplates.serve

    def watched(*arguments: Any) -> bool:
        served.append(serve(*arguments))
        return served[-1]

    monkeypatch.setattr(RequestTemplates, "serve", watched)
    return served


def served_by_template_each(frames: Sequence[bytes], monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Send requests; return for each whether a template served it."""
    served = served_by_templates(monkeypatch)
    side = Side(VirtualConnection)
    for raw in frames:
        side.send(0, raw)
    side.turn()
    return [False, *served]  # the template is learnt from the first request


@pytest.mark.parametrize("version", range(3, 14))
@pytest.mark.parametrize("acks", [0, 1, -1])
def test_produce_requests_of_every_version_use_templates(
    version: int, acks: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Batches of all sizes, also of idempotent producers."""
    batches = [
        PLAIN,
        PLAIN,
        batch(b"x" * 200),
        batch(b"x" * 17_000),
        idempotent_batch(0),
        idempotent_batch(1),
    ]
    host = Side(VirtualConnection).host  # topic ids are the same on every virtual host
    frames = [frame(raw, version, acks, host=host) for raw in batches]
    assert served_by_template_each(frames, monkeypatch) == [False] + 5 * [True]


def test_a_producer_gets_a_template_for_each_partition(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    frames = [frame(PLAIN, index=i % 2) for i in range(6)]
    assert served_by_template_each(frames, monkeypatch) == 2 * [False] + 4 * [True]


@pytest.mark.parametrize(
    "unusual",
    [
        frame(PLAIN, also=[PartitionProduceData(index=1, records=PLAIN)]),
        frame(PLAIN[:-1]),
        frame(idempotent_batch(5)),
        frame(PLAIN, topic="none"),
        frame(PLAIN, acks=3),
    ],
    ids=["two partitions", "cut off", "a gap", "no topic", "no such acks"],
)
def test_unusual_requests_are_served_by_the_handler(
    unusual: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    frames = [frame(idempotent_batch(0)), unusual, unusual, frame(PLAIN)]
    assert served_by_template_each(frames, monkeypatch) == [False, False, False, True]


def test_only_adjacent_responses_are_joined(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two connections and two partitions alternate: the responses stay in order."""
    side = Side(VirtualConnection)
    for number in range(12):
        side.send(number % 2, frame(PLAIN, index=number // 3 % 2, number=number))
    side.turn()
    for connection, raw in enumerate(side.responses):
        numbers = []
        while raw:
            size, number = struct.unpack_from(">ii", raw)
            numbers.append(number)
            raw = raw[4 + size :]
        assert numbers == [number for number in range(12) if number % 2 == connection]


@pytest.mark.parametrize("is_delayed", [False, True], ids=["a turn each", "two turns each"])
def test_only_responses_that_wait_for_the_same_write_are_joined(is_delayed: bool) -> None:
    """Requests arrive while the disk is busy: each is answered after its own flush."""
    sides = [Side(kind) for kind in KINDS]
    for side in sides:
        set_config(side.host, TOPIC, "demo", "flush.messages", 1)
        for number in range(12):
            side.send(0, frame(PLAIN, number=number))
            side.one_turn(disk=not is_delayed or number % 2 == 0)
    assert sides[0].responses == sides[1].responses
    assert sum(map(bool, sides[0].responses)) > 4


def test_only_outdated_templates_are_dropped() -> None:
    """The config of one topic changes more often than a connection may learn a template again."""
    side = Side(VirtualConnection)
    templates = learnt_by(side, frame(PLAIN), frame(PLAIN, topic="other"))
    learnt = set(templates._templates)
    for change in range(MAX_LEARNT + 1):
        partition = side.host.node.replica_manager.by_log["demo", 0]
        partition.append_config = partition.append_config.replace(min_insync_replicas=change)
        side.send(0, frame(PLAIN))
        assert set(templates._templates) == learnt


def learnt_by(side: Side, *frames: bytes) -> RequestTemplates:
    """Send requests on the first connection; return its templates."""
    for raw in frames:
        side.send(0, raw)
    templates = side.connections[0].request_templates
    assert templates is not None
    return templates


def test_unused_templates_make_room_for_new_ones() -> None:
    """Stale templates are dropped, even if no request uses them any more."""
    templates = RequestTemplates()
    for number in range(3 * MAX_LEARNT):
        stub = NamedTemplate(number)
        templates.learn(stub)
        assert templates._templates[stub.head, stub.prefix] is stub
        stub.is_stale = number % MAX_TEMPLATES > 0
    assert len(templates._templates) <= MAX_TEMPLATES


def test_a_connection_without_matching_requests_stops_learning() -> None:
    """Its requests have unknown tagged fields, which kraftlog would not encode."""
    side = Side(VirtualConnection)
    raw = frame(PLAIN)
    tagged = struct.pack(">i", len(raw) - 4 + 3) + raw[4:-1] + b"\x01\x63\x01x"
    templates = learnt_by(side, *(MAX_LEARNT + 10) * [tagged])
    assert (templates._learnt, templates._templates) == (MAX_LEARNT, {})


def test_the_number_of_templates_is_limited() -> None:
    templates = RequestTemplates()
    for number in range(2 * MAX_TEMPLATES):
        templates.learn(NamedTemplate(number))
    assert len(templates._templates) == MAX_TEMPLATES


def test_refused_requests_do_not_count_as_learnt() -> None:
    """A refused client retries, and is served from a template once the partition is online."""
    side = Side(VirtualConnection)
    raw = frame(PLAIN, index=1)
    templates = learnt_by(side, raw)
    side.host.node.replica_manager.by_log["demo", 1].online = False
    learnt_by(side, *10 * [raw])
    assert (templates._learnt, templates._templates) == (0, {})
    side.host.node.replica_manager.by_log["demo", 1].online = True
    assert learnt_by(side, raw)._templates


@pytest.mark.parametrize(("length", "is_known"), [(400, True), (LONGEST_PREFIX, False)])
def test_requests_with_long_names_get_no_template(
    length: int, is_known: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    frames = 2 * [frame(PLAIN, client="x" * length)]
    assert served_by_template_each(frames, monkeypatch) == [False, is_known]


def test_the_number_of_request_lengths_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    """A connection tries each known length for every later request, so it keeps only a few."""
    frames = 2 * [frame(PLAIN, client="x" * length) for length in range(2 * MAX_PREFIX_LENGTHS)]
    repeated = served_by_template_each(frames, monkeypatch)[len(frames) // 2 :]
    assert repeated == MAX_PREFIX_LENGTHS * [True] + MAX_PREFIX_LENGTHS * [False]


class NamedTemplate:
    """A template that differs from others only by its prefix."""

    def __init__(self, number: int) -> None:
        self.head = 9
        self.prefix = b"%d" % number
        self.is_stale = False
        self.node: Any = None
        self.partition: Any = None

    def serve(self, *_: Any) -> bool:
        return False


KINDS = (VirtualConnection, ConnectionWithoutTemplates)
#: Batches to which each config applies differently.
CONFIGURED_BATCHES = [
    PLAIN,
    batch(b"x" * 300),
    *[batch(b"x", timestamp=time) for time in (400, 2 * NOW_MS)],
]
EACH_SETTING = [(key, value) for key, values in SETTINGS for value in values]


@pytest.mark.parametrize("is_delayed", [False, True], ids=["before", "after"])
@pytest.mark.parametrize(("key", "value"), EACH_SETTING)
def test_a_config_change_applies_to_repeated_requests(
    key: str, value: object, is_delayed: bool
) -> None:
    """No matter whether the config changes before or after the template is learnt."""
    sides = [Side(kind) for kind in KINDS]
    for side in sides:
        if is_delayed:
            side.send(0, frame(PLAIN))
        set_config(side.host, TOPIC, "demo", key, value)
        for number, raw in enumerate(CONFIGURED_BATCHES + CONFIGURED_BATCHES):
            side.send(0, frame(raw, number=number))
        side.turn()
    assert sides[0].responses == sides[1].responses
    assert sides[0].state() == sides[1].state()


def test_a_deleted_topic_accepts_no_repeated_request() -> None:
    sides = [Side(kind) for kind in KINDS]
    for side in sides:
        side.send(0, frame(PLAIN))
        state = [DeleteTopicState(name="demo")]
        request = DeleteTopicsRequest(topics=state, timeout_ms=1000)
        ask_settled(side.host, ApiKey.DELETE_TOPICS, 6, request)
        side.send(0, frame(PLAIN, number=2))
        side.turn()
    assert sides[0].responses == sides[1].responses
    assert sides[0].state() == sides[1].state()


def test_each_response_has_the_log_start_at_its_request() -> None:
    """Records are deleted between two requests of one turn."""
    sides = [Side(kind) for kind in KINDS]
    for side in sides:
        for number in range(2):
            side.send(0, frame(PLAIN, number=number))
            side.turn()
        side.send(0, frame(PLAIN, number=2))
        FrameClient(side.host).send(ApiKey.DELETE_RECORDS, 2, delete_request(2))
        side.send(0, frame(PLAIN, number=3))
        side.turn()
    assert sides[0].responses == sides[1].responses


def test_bytes_after_the_batch_are_checked() -> None:
    """A count of tagged fields that are missing makes the request malformed."""
    for kind in KINDS:
        side = Side(kind)
        side.send(0, frame(PLAIN))
        with pytest.raises(ProtocolError):
            side.send(0, frame(PLAIN)[:-1] + b"\x01")
