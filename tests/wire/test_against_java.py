"""Every message that Kafka has, in every version, read and written by Kafka's own classes.

Bytes alone would not show two fields of one type in each other's place; the JSON that Kafka makes
of a message has them by name.
"""

from __future__ import annotations

from base64 import b64encode
from random import Random
from typing import TYPE_CHECKING, Any

from kraftlog.types import uuid_text
from kraftlog.wire.codec import encode
from kraftlog.wire.messages.vote import PartitionData
from tests.wire.samples import Sampler, all_messages, versions_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kraftlog.wire.schema import Field, Message
    from tests.interop.driver import Driver

ROUNDS = 6


def differences(ours: Message, java: dict[str, Any]) -> Iterator[str]:
    """Fields in Java's JSON that are not in our message, or say something else there."""
    fields = {field.name.replace("_", ""): field for field in type(ours)._schema}
    for name, theirs in java.items():
        field = fields.get(name.lower())
        if field is None:
            yield f"{name} is unknown"
        elif field.kind != "batches":  # which Java's JSON leaves out
            for problem in field_differences(field, getattr(ours, field.name), theirs):
                yield f"{name}: {problem}"


def field_differences(field: Field, ours: Any, theirs: Any) -> Iterator[str]:
    if ours is None or theirs is None:
        if ours is not theirs:
            yield f"{ours!r} is {theirs!r}"
    elif field.is_array and isinstance(ours, tuple):
        if len(ours) != len(theirs):
            yield f"{len(ours)} items are {len(theirs)}"
        for our_item, their_item in zip(ours, theirs, strict=False):
            yield from field_differences(field, our_item, their_item)
    elif field.struct is not None:
        yield from differences(ours, theirs)
    elif as_json(field, ours) != theirs:
        yield f"{ours!r} is {theirs!r}"


def as_json(field: Field, value: Any) -> Any:
    if field.kind == "uuid":
        return uuid_text(value)
    return b64encode(value).decode() if field.kind == "bytes" else value


def test_java_reads_what_we_write_and_writes_the_same(jvm: Driver) -> None:
    messages = [
        (Sampler(Random(f"{cls.__name__}{version}{n}")).message(cls, version), version)
        for cls in all_messages()
        for version in versions_of(cls)
        for n in range(ROUNDS)
    ]
    sent = [(type(m).__name__, version, encode(m, version)) for m, version in messages]
    for (message, _), item, read in zip(messages, sent, jvm.decode(sent), strict=True):
        assert not read.error, item
        assert (read.again, read.left) == (item[2], 0), item
        assert list(differences(message, read.json)) == [], item


def test_a_difference_is_noticed() -> None:
    values = {field.name: field.default for field in PartitionData._schema}
    ours = PartitionData(**{**values, "replica_id": 2, "last_offset": 6, "partition_index": 0})
    java = {"partitionIndex": 0, "replicaId": 1, "replicaDirectoryId": "A" * 22, "lastEpoch": 5}
    assert list(differences(ours, java)) == ["replicaId: 2 is 1", "lastEpoch is unknown"]
