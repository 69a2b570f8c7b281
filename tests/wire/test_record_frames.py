"""The frames of stored records: known and unknown types and versions."""

from __future__ import annotations

from random import Random

import pytest

from kraftlog.errors import ProtocolError
from kraftlog.types import ControlType
from kraftlog.wire import record_frames
from kraftlog.wire.codec import decode, encode
from kraftlog.wire.explain import read_slowly
from kraftlog.wire.messages import (
    consumer_group_records,
    control_records,
    group_records,
    metadata_records,
    share_group_records,
    streams_group_records,
    transaction_records,
)
from kraftlog.wire.messages.consumer_group_records import (
    ClassicMemberMetadata,
    ConsumerGroupMemberMetadataValue,
)
from kraftlog.wire.messages.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
)
from kraftlog.wire.record_frames import (
    CONTROL_TYPES,
    METADATA_TYPES,
    OFFSETS_LOG,
    TRANSACTION_LOG,
    CoordinatorLog,
    UnknownRecordError,
    decode_consumer_protocol,
    decode_control,
    decode_metadata,
    decode_versioned,
    encode_control,
    encode_metadata,
    encode_versioned,
    metadata_class,
    metadata_type,
)
from kraftlog.wire.schema import Message
from tests.wire.samples import Sampler, all_messages, plain, versions_of

COORDINATOR_MODULES = [
    group_records,
    consumer_group_records,
    share_group_records,
    streams_group_records,
    transaction_records,
]


def sample(cls: type[Message], version: int) -> Message:
    message: Message = Sampler(Random(f"{cls.__name__}{version}"), own_tags=True).message(
        cls, version
    )
    return message


def classes_in(*modules: object) -> set[type[Message]]:
    names = {getattr(module, "__name__", "") for module in modules}
    return {cls for cls in all_messages() if cls.__module__ in names}


@pytest.mark.parametrize("number", METADATA_TYPES)
def test_metadata_records_round_trip(number: int) -> None:
    cls = metadata_class(number)
    assert metadata_type(cls) == number
    for version in versions_of(cls):
        message = sample(cls, version)
        raw = encode_metadata(message, version)
        assert raw[:3] == bytes((1, number, version))
        for buffer in (raw, memoryview(raw)):
            read, read_version = decode_metadata(buffer)
            assert (plain(read), read_version) == (plain(message), version)


def test_every_record_class_has_a_type() -> None:
    assert {metadata_class(n) for n in METADATA_TYPES} == classes_in(metadata_records)
    logs = (OFFSETS_LOG, TRANSACTION_LOG)
    coordinator_classes = {log.key_class(n) for log in logs for n in log.types}
    coordinator_classes |= {log.value_class(n) for log in logs for n in log.types}
    assert coordinator_classes == classes_in(*COORDINATOR_MODULES)
    control = {decode_control(*control_sample(kind))[1].__class__ for kind in CONTROL_TYPES}
    schema = {control_records.ControlRecordTypeSchema}  # the key, which has no type
    assert control | schema == classes_in(control_records)


@pytest.mark.parametrize(
    ("raw", "error_text", "unknown"),
    [
        (b"", "frame version at byte 0", False),
        (b"\x02\x02\0", "frame version 2", True),
        (b"\x01\x06\0", "no metadata record has type 6", True),
        (b"\x01\xff\xff\x03\0", "no metadata record has type 65535", True),
        (b"\x01\x02", "version at byte 2", False),
        (b"\x01\x02\xff\xff\xff\xff\x7f", "varint beyond 32 bits", False),
        (b"\x01\x02\1\2t", "TopicRecord has versions 0 to 0, not 1", True),
        (b"\x01\x02\0\2", "TopicRecord v0: name at byte 1", False),
    ],
)
def test_invalid_metadata_records_are_refused(raw: bytes, error_text: str, unknown: bool) -> None:
    with pytest.raises(ProtocolError, match=error_text) as caught:
        decode_metadata(raw)
    assert isinstance(caught.value, UnknownRecordError) == unknown


@pytest.mark.parametrize("log", [OFFSETS_LOG, TRANSACTION_LOG])
def test_coordinators_records_round_trip(log: CoordinatorLog) -> None:
    for number in log.types:
        key = sample(log.key_class(number), 0)
        raw = log.encode_key(key)
        assert raw[:2] == number.to_bytes(2, "big")
        read_number, read = log.decode_key(memoryview(raw))
        assert (read_number, plain(read)) == (number, plain(key))
        cls = log.value_class(number)
        for version in versions_of(cls):
            value = sample(cls, version)
            decoded = log.decode_value(number, encode_versioned(value, version))
            assert plain(decoded) == plain(value)
        assert log.decode_value(number, None) is None


def test_a_committed_offset_has_kafkas_bytes() -> None:
    key = group_records.OffsetCommitKey(group="g", topic="t", partition=3)
    assert OFFSETS_LOG.encode_key(key) == b"\0\1\0\1g\0\1t\0\0\0\3"
    value = group_records.OffsetCommitValue(
        offset=7, leader_epoch=1, metadata="m", commit_timestamp=9
    )
    raw = bytes.fromhex("0003 0000000000000007 00000001 00016d 0000000000000009")
    assert encode_versioned(value, 3) == raw
    assert decode_versioned(group_records.OffsetCommitValue, raw) == value


@pytest.mark.parametrize(
    ("raw", "error_text", "unknown"),
    [
        (b"\0", "2 bytes wanted, 1 left in type", False),
        (b"\0\x09", "no record has type 9", True),
        (b"\xff\xff", "no record has type -1", True),
        (b"\0\2\0\5ab", "GroupMetadataKey v0: group", False),
    ],
)
def test_invalid_coordinator_keys_are_refused(raw: bytes, error_text: str, unknown: bool) -> None:
    with pytest.raises(ProtocolError, match=error_text) as caught:
        OFFSETS_LOG.decode_key(raw)
    assert isinstance(caught.value, UnknownRecordError) == unknown


def test_a_value_of_a_later_version_is_unknown() -> None:
    with pytest.raises(UnknownRecordError, match="OffsetCommitValue has versions 0 to 4, not 5"):
        OFFSETS_LOG.decode_value(1, b"\0\5\0\0")
    with pytest.raises(ProtocolError, match="2 bytes wanted, 0 left in version"):
        OFFSETS_LOG.decode_value(1, b"")


@pytest.mark.parametrize("cls", [ConsumerProtocolSubscription, ConsumerProtocolAssignment])
def test_consumer_protocol_round_trips_and_skips_later_fields(cls: type[Message]) -> None:
    for version in versions_of(cls):
        message = sample(cls, version)
        raw = encode_versioned(message, version)
        assert plain(decode_consumer_protocol(cls, raw)) == plain(message)
    newest = sample(cls, 3)
    later = b"\0\x09" + encode(newest, 3) + b"what a later version adds"
    assert plain(decode_consumer_protocol(cls, later)) == plain(newest)
    with pytest.raises(UnknownRecordError, match="not -1"):
        decode_consumer_protocol(cls, b"\xff\xff")


def control_sample(kind: int) -> tuple[bytes, bytes]:
    cls = record_frames.message_class("control_records", CONTROL_TYPES[kind])
    message = sample(cls, 0)
    if kind > ControlType.COMMIT:
        message = message.replace(version=0)
    key, value = encode_control(kind, message)
    read_kind, read = decode_control(memoryview(key), memoryview(value))
    assert (read_kind, plain(read)) == (kind, plain(message))
    return key, value


@pytest.mark.parametrize("kind", CONTROL_TYPES)
def test_control_records_round_trip(kind: int) -> None:
    key, value = control_sample(kind)
    schema = control_records.ControlRecordTypeSchema(type=kind)
    assert key == encode_versioned(schema, 0)
    assert value[:2] == b"\0\0"


def test_the_version_field_of_a_control_record_is_its_version() -> None:
    voter = control_records.Voter(voter_id=1, voter_directory_id=b"d" * 16)
    message = control_records.LeaderChangeMessage(
        version=1, leader_id=1, voters=(voter,), granting_voters=()
    )
    _, value = encode_control(ControlType.LEADER_CHANGE, message)
    assert value == b"\0\1\0\0\0\1\2\0\0\0\1" + b"d" * 16 + b"\0\1\0"
    assert decode_control(b"\0\0\0\2", value) == (2, message)


@pytest.mark.parametrize(
    ("key", "value", "error_text"),
    [
        (b"\0\0\0", b"", "2 bytes wanted, 1 left in type"),
        (b"\0\0\0\7", b"", "no control record has type 7"),
        (b"\0\0\0\1", b"\0\1\0\0\0\0", "EndTxnMarker has versions 0 to 0, not 1"),
        (b"\0\0\0\6", b"\0\1\1\0", "VotersRecord has versions 0 to 0, not 1"),
        (b"\0\0\0\6", b"\0", "2 bytes wanted, 1 left in version"),
    ],
)
def test_invalid_control_records_are_refused(key: bytes, value: bytes, error_text: str) -> None:
    with pytest.raises(ProtocolError, match=error_text):
        decode_control(key, value)


def test_a_null_struct_in_a_tagged_field_is_encoded_as_0() -> None:
    """The bytes are those of Kafka 4.3.1; a missing struct is the default, not null."""
    member = ConsumerGroupMemberMetadataValue(
        instance_id=None,
        rack_id=None,
        client_id="a",
        client_host="h",
        subscribed_topic_names=(),
        subscribed_topic_regex=None,
        rebalance_timeout_ms=1,
        server_assignor=None,
        classic_member_metadata=None,
    )
    classic = ClassicMemberMetadata(session_timeout_ms=7, supported_protocols=())
    empty = classic.replace(session_timeout_ms=0)
    front = "00000261026801000000000100"
    for metadata, tail in ((None, "01000100"), (classic, "01000701000000070100"), (empty, "00")):
        message = member.replace(classic_member_metadata=metadata)
        raw = encode(message, 0)
        assert raw.hex() == front + tail
        assert decode(ConsumerGroupMemberMetadataValue, 0, raw) == message
        assert read_slowly(ConsumerGroupMemberMetadataValue, 0, raw)[0] == message
