"""Compares every message in every version with Kafka's own class: bytes, names and values.

kio could misread a schema in the same way as we do; Kafka can't. The names in its JSON also show
that no two fields of equal width are swapped.
"""

from __future__ import annotations

from base64 import b64encode
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

from kraftlog.errors import ProtocolError
from kraftlog.types import uuid_text
from kraftlog.wire.apis import APIS
from kraftlog.wire.codec import decode, encode
from kraftlog.wire.explain import read_slowly
from kraftlog.wire.messages import control_records, metadata_records
from kraftlog.wire.messages.find_coordinator import FindCoordinatorRequest
from kraftlog.wire.messages.metadata import MetadataRequest
from kraftlog.wire.messages.offset_commit import OffsetCommitRequest
from kraftlog.wire.messages.produce import ProduceRequest
from kraftlog.wire.record_frames import (
    METADATA_TYPES,
    decode_metadata,
    encode_metadata,
    metadata_class,
)
from kraftlog.wire.schema import Field, Message
from kraftlog.wire.versioned_schema import VersionedSchema
from tests.wire.samples import Sampler, all_messages, has_our_tags, plain, versions_of
from tests.wire.test_own_apis import GOLDEN

if TYPE_CHECKING:
    from tests.interop.driver import DecodedMessage, Driver

ROUNDS = 4
OWN_MESSAGES = {
    cls for api in APIS.values() if api.key >= 1000 for cls in (api.request(), api.response())
}
KAFKA_MESSAGES = [cls for cls in all_messages() if cls not in OWN_MESSAGES]


def samples(cls: type[Message], version: int, own_tags: bool = False) -> list[Any]:
    sampler = Sampler(Random(f"{cls.__name__}{version}"), own_tags=own_tags)
    return [sampler.message(cls, version) for _ in range(ROUNDS)]


def as_json(message: Message, schema: VersionedSchema) -> dict[str, Any]:
    """The output of Kafka's JSON converters, with names in lower case without underscores."""
    fields = {}
    for field in type(message)._schema:
        value = getattr(message, field.name)
        if field.in_version(schema.version) and (field.tag < 0 or value != field.default):
            fields[field.name.replace("_", "")] = field_as_json(field, value, schema)
    return fields


def field_as_json(field: Field, value: Any, schema: VersionedSchema) -> Any:
    if value is None:
        return None
    if field.is_array:
        return [single_as_json(field, item, schema) for item in value]
    return single_as_json(field, value, schema)


def single_as_json(field: Field, value: Any, schema: VersionedSchema) -> Any:
    if field.struct is not None:
        return as_json(value, schema)
    if field.kind == "uuid":
        return uuid_text(value)
    if field.kind == "bytes":
        return b64encode(value).decode()
    return "" if field.kind == "batches" else value


def comparable(json: Any) -> Any:
    """Kafka's JSON with lower-case names; Kafka's converters leave every record set empty."""
    if isinstance(json, list):
        return [comparable(item) for item in json]
    if not isinstance(json, dict):
        return json
    return {name.lower(): comparable(value) for name, value in json.items()}


def check(
    result: DecodedMessage, cls: type[Message], version: int, message: Message, raw: bytes
) -> None:
    where = f"{cls.__name__} v{version}: {raw!r}"
    assert not result.error, where
    assert result.left == 0, where
    expected = as_json(message, VersionedSchema(cls, version))
    assert comparable(result.json) == expected, where
    assert result.encoded_again == raw, where


def test_kafka_decodes_and_encodes_the_same_bytes(jvm: Driver) -> None:
    cases = [
        (cls, version, message, encode(message, version))
        for cls in KAFKA_MESSAGES
        for version in versions_of(cls)
        for message in samples(cls, version)
    ]
    results = jvm.decode([(cls.__name__, version, raw) for cls, version, _, raw in cases])
    assert len(results) == len(cases)
    for result, (cls, version, message, raw) in zip(results, cases, strict=True):
        check(result, cls, version, message, raw)


def test_kafka_skips_our_tagged_fields(jvm: Driver) -> None:
    tagged = [cls for cls in KAFKA_MESSAGES if has_our_tags(cls)]
    assert {control_records.VotersRecord, metadata_records.PartitionChangeRecord} <= set(tagged)
    cases = [
        (cls, version, message, encode(message, version))
        for cls in tagged
        for version in versions_of(cls)
        if version >= cls._flexible
        for message in samples(cls, version, own_tags=True)
    ]
    results = jvm.decode([(cls.__name__, version, raw) for cls, version, _, raw in cases])
    for result, (cls, version, message, raw) in zip(results, cases, strict=True):
        assert (result.error, result.left, result.encoded_again) == ("", 0, raw), (
            f"{cls} v{version}"
        )
        assert plain(decode(cls, version, result.encoded_again)) == plain(message)


def test_kafka_reads_our_framed_metadata_records(jvm: Driver) -> None:
    cases = [
        (number, version, message, encode_metadata(message, version))
        for number in METADATA_TYPES
        for version in versions_of(metadata_class(number))
        for message in samples(metadata_class(number), version, own_tags=True)
    ]
    results = jvm.decode([("metadata", 0, raw) for _, _, _, raw in cases])
    for result, (number, version, message, raw) in zip(results, cases, strict=True):
        assert (result.error, result.left, result.encoded_again) == ("", 0, raw)
        assert (result.json["apiKey"], result.json["version"]) == (number, version)
        read, read_version = decode_metadata(result.encoded_again)
        assert (plain(read), read_version) == (plain(message), version)


#: Valid and invalid UTF-8: lone surrogates, truncated, overlong, beyond Unicode.
PIECES = (
    *(b"a", "ä".encode(), "€".encode(), "😀".encode(), b"\xff", b"\x80", b"\xc0\x80"),
    *(b"\xe2", b"\xe2\x82", b"\xe0\x80\x80", b"\xed\xa0", b"\xed\xa0\x80", b"\xed\xbf\xbf"),
    *(b"\xed", b"\xed\x9f", b"\xf0\x9f", b"\xf0\x9f\x98", b"\xf0\x80\x80\x80"),
    *(b"\xf4\x90\x80\x80", b"\xf5\x80\x80\x80", b"\xf8\x88\x80\x80\x80"),
)


def test_invalid_utf8_is_decoded_as_in_java(jvm: Driver) -> None:
    random = Random(1)
    texts = [b"".join(random.choices(PIECES, k=random.randrange(1, 6))) for _ in range(2000)]
    texts += [random.randbytes(random.randrange(1, 9)) for _ in range(2000)]
    cases = [len(text).to_bytes(2, "big") + text for text in texts]
    results = jvm.decode([("FindCoordinatorRequest", 0, raw) for raw in cases])
    for result, raw in zip(results, cases, strict=True):
        assert decode(FindCoordinatorRequest, 0, raw).key == result.json["key"], raw


NEGATIVE_LENGTHS: dict[str, tuple[type[Message], int, bytes]] = {
    "an array": (MetadataRequest, 1, b"\xff\xff\xff\xfe"),
    "a compact array": (MetadataRequest, 9, b"\xff\xff\xff\xff\x0f\1\0\0\0"),
    "a compact array of the lowest length": (MetadataRequest, 9, b"\x81\x80\x80\x80\x08\1\0\0\0"),
    "a compact array whose length overflows": (MetadataRequest, 9, b"\x80\x80\x80\x80\x08\1\0\0\0"),
    "an array that may not be null": (MetadataRequest, 0, b"\xff\xff\xff\xfe"),
    "a string": (OffsetCommitRequest, 7, b"\0\1g\0\0\0\1\0\1m\xff\xfe\0\0\0\0"),
    "a compact string": (OffsetCommitRequest, 8, b"\2g\0\0\0\1\2m\xfe\xff\xff\xff\x0f\1\0"),
    "a string that may not be null": (FindCoordinatorRequest, 0, b"\xff\xfe"),
    "batches": (
        ProduceRequest,
        3,
        b"\xff\xf0\0\1\0\0\0\0\0\0\0\1\0\1t\0\0\0\1\0\0\0\0\xff\xff\xff\xfe",
    ),
}


@pytest.mark.parametrize("name", NEGATIVE_LENGTHS)
def test_negative_lengths_are_null_or_refused_as_in_kafka(name: str, jvm: Driver) -> None:
    cls, version, raw = NEGATIVE_LENGTHS[name]
    (result,) = jvm.decode([(cls.__name__, version, raw)])
    if result.error:
        with pytest.raises(ProtocolError):
            decode(cls, version, raw)
        return
    message: Message = decode(cls, version, raw)
    slow, _ = read_slowly(cls, version, raw)
    assert plain(slow) == plain(message)
    assert as_json(message, VersionedSchema(cls, version)) == comparable(result.json)


def test_every_message_of_kafka_is_compared() -> None:
    """Our own APIs are compared with literal bytes instead."""
    with_literal_bytes = {cls for cls, _, _ in GOLDEN}
    assert with_literal_bytes == OWN_MESSAGES, (
        f"GOLDEN of tests/wire/test_own_apis.py: {with_literal_bytes ^ OWN_MESSAGES}"
    )
    assert set(KAFKA_MESSAGES) | OWN_MESSAGES == set(all_messages())
    assert not set(KAFKA_MESSAGES) & OWN_MESSAGES
