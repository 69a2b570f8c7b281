"""The frames of stored records: Kafka's types and versions around messages in logs.

- Metadata records: frame version, type and version as unsigned varints, then the message.
- Records of `__consumer_offsets` and `__transaction_state`: the key is a type (int16) and a
  message, the value a version (int16) and a message, or null as a tombstone.
- Consumer protocol: a version (int16) and a message.
- Control records: the key is a version and a type (both int16), the value a version and a message.

An unknown type or version raises `UnknownRecordError`, so that a reader may skip the record.
"""

from __future__ import annotations

import struct
from importlib import import_module

from kraftlog.errors import ProtocolError, UnwritableError
from kraftlog.types import ControlType
from kraftlog.value import TYPE_CHECKING, Value
from kraftlog.wire.codec import WRITER_ERRORS, decode, decode_part, encode
from kraftlog.wire.primitives import Malformed, rest_of_uvarint, uvarint

if TYPE_CHECKING:
    from typing import Any, TypeVar

    from kraftlog.types import Buffer
    from kraftlog.wire.schema import Message

    M = TypeVar("M", bound=Message)

METADATA_FRAME_VERSION = 1

#: The classes of `messages.metadata_records` by type.
METADATA_TYPES = {
    0: "RegisterBrokerRecord",
    1: "UnregisterBrokerRecord",
    2: "TopicRecord",
    3: "PartitionRecord",
    4: "ConfigRecord",
    5: "PartitionChangeRecord",
    7: "FenceBrokerRecord",
    8: "UnfenceBrokerRecord",
    9: "RemoveTopicRecord",
    10: "DelegationTokenRecord",
    11: "UserScramCredentialRecord",
    12: "FeatureLevelRecord",
    14: "ClientQuotaRecord",
    15: "ProducerIdsRecord",
    17: "BrokerRegistrationChangeRecord",
    18: "AccessControlEntryRecord",
    19: "RemoveAccessControlEntryRecord",
    20: "NoOpRecord",
    21: "ZkMigrationStateRecord",
    22: "RemoveUserScramCredentialRecord",
    23: "BeginTransactionRecord",
    24: "EndTransactionRecord",
    25: "AbortTransactionRecord",
    26: "RemoveDelegationTokenRecord",
    27: "RegisterControllerRecord",
    28: "ClearElrRecord",
    29: "UnregisterControllerRecord",
}

#: By type: the module and the name of the classes `<name>Key` and `<name>Value`.
OFFSETS_TYPES = {
    0: ("group_records", "LegacyOffsetCommit"),
    1: ("group_records", "OffsetCommit"),
    2: ("group_records", "GroupMetadata"),
    3: ("consumer_group_records", "ConsumerGroupMetadata"),
    4: ("consumer_group_records", "ConsumerGroupPartitionMetadata"),
    5: ("consumer_group_records", "ConsumerGroupMemberMetadata"),
    6: ("consumer_group_records", "ConsumerGroupTargetAssignmentMetadata"),
    7: ("consumer_group_records", "ConsumerGroupTargetAssignmentMember"),
    8: ("consumer_group_records", "ConsumerGroupCurrentMemberAssignment"),
    10: ("share_group_records", "ShareGroupMemberMetadata"),
    11: ("share_group_records", "ShareGroupMetadata"),
    12: ("share_group_records", "ShareGroupTargetAssignmentMetadata"),
    13: ("share_group_records", "ShareGroupTargetAssignmentMember"),
    14: ("share_group_records", "ShareGroupCurrentMemberAssignment"),
    15: ("share_group_records", "ShareGroupStatePartitionMetadata"),
    16: ("consumer_group_records", "ConsumerGroupRegularExpression"),
    17: ("streams_group_records", "StreamsGroupMetadata"),
    19: ("streams_group_records", "StreamsGroupMemberMetadata"),
    20: ("streams_group_records", "StreamsGroupTargetAssignmentMetadata"),
    21: ("streams_group_records", "StreamsGroupTargetAssignmentMember"),
    22: ("streams_group_records", "StreamsGroupCurrentMemberAssignment"),
    23: ("streams_group_records", "StreamsGroupTopology"),
}
TRANSACTION_TYPES = {0: ("transaction_records", "TransactionLog")}


CONTROL_TYPES = {
    ControlType.ABORT: "EndTxnMarker",
    ControlType.COMMIT: "EndTxnMarker",
    ControlType.LEADER_CHANGE: "LeaderChangeMessage",
    ControlType.SNAPSHOT_HEADER: "SnapshotHeaderRecord",
    ControlType.SNAPSHOT_FOOTER: "SnapshotFooterRecord",
    ControlType.KRAFT_VERSION: "KRaftVersionRecord",
    ControlType.KRAFT_VOTERS: "VotersRecord",
}


class UnknownRecordError(ProtocolError):
    """The type of a record, or its version, is unknown."""


def message_class(module: str, name: str) -> type[Message]:
    """A class of `wire.messages`, imported on first use."""
    messages: Any = import_module(f"kraftlog.wire.messages.{module}")
    cls: type[Message] = getattr(messages, name)
    return cls


# The metadata log --------------------------------------------------------------------------------

_metadata_classes: dict[int, type[Message]] = {}
_metadata_types: dict[type[Message], int] = {}


def metadata_class(record_type: int) -> type[Message]:
    """The class of a record type; the first call looks up the classes of all types."""
    if not _metadata_classes:
        for each, name in METADATA_TYPES.items():
            cls = message_class("metadata_records", name)
            _metadata_classes[each] = cls
            _metadata_types[cls] = each
    found = _metadata_classes.get(record_type)
    if found is None:
        what = f"no metadata record has type {record_type}"
        raise UnknownRecordError(what, field="type", position=1)
    return found


def metadata_type(cls: type[Message]) -> int:
    """The type of a metadata record's class."""
    if not _metadata_types:
        metadata_class(0)
    return _metadata_types[cls]


def encode_metadata(record: Message, version: int) -> bytes:
    """Encode a metadata record with its frame, as the value of a log record."""
    record_type = metadata_type(type(record))
    head = bytes((METADATA_FRAME_VERSION, record_type)) + uvarint(version)
    return head + encode(record, version)


def decode_metadata(value: Buffer) -> tuple[Message, int]:
    """Decode a metadata record; return it and its version."""
    raw = bytes(value)
    frame, pos = _uvarint(raw, 0, "frame version")
    if frame != METADATA_FRAME_VERSION:
        raise UnknownRecordError(f"frame version {frame}", field="frame version", position=0)
    record_type, pos = _uvarint(raw, pos, "type")
    version, pos = _uvarint(raw, pos, "version")
    cls = metadata_class(record_type)
    _check_version(cls, version, pos)
    return decode(cls, version, raw, pos), version


def metadata_read_back(record: Message, version: int) -> tuple[bytes, Message]:
    """Encode a record and decode it again; raise UnwritableError if the result differs."""
    name = type(record).__name__
    try:
        value = encode_metadata(record, version)
        decoded = decode_metadata(value)[0]
    except (*WRITER_ERRORS, ProtocolError) as error:
        raise UnwritableError(f"{name} v{version}: {error}") from error
    _check_same(record, decoded)
    return value, decoded


def _check_same(expected: Message | None, decoded: Message | None) -> None:
    if decoded != expected and not is_same(expected, decoded):
        raise UnwritableError(f"{expected!r:.2000} is read back as {decoded!r:.2000}")


def is_same(first: Any, second: Any) -> bool:
    """Whether two values are equal; arrays may be tuples or lists."""
    if isinstance(first, (list, tuple)) and isinstance(second, (list, tuple)):
        return len(first) == len(second) and all(map(is_same, first, second))
    if isinstance(first, Value) and type(first) is type(second):
        return all(is_same(getattr(first, name), getattr(second, name)) for name in first._fields)
    return bool(first == second)


def _uvarint(raw: bytes, pos: int, field: str) -> tuple[int, int]:
    try:
        value = raw[pos]
        return (value, pos + 1) if value < 0x80 else rest_of_uvarint(raw, pos + 1, value)
    except (IndexError, Malformed) as error:
        raise ProtocolError(str(error), field=field, position=pos) from None


def _check_version(cls: type[Message], version: int, pos: int) -> None:
    first, last = cls._versions
    if not first <= version <= last:
        raise UnknownRecordError(
            f"{cls.__name__} has versions {first} to {last}, not {version}",
            field="version",
            position=pos,
        )


# Coordinators' records ---------------------------------------------------------------------------


class CoordinatorLog:
    """Encodes and decodes keys and values of one of the coordinators' two topics."""

    def __init__(self, types: dict[int, tuple[str, str]]) -> None:
        self.types = types
        self._type_by_key_class = {f"{stem}Key": each for each, (_, stem) in types.items()}
        #: A cache of the classes, because a partition is loaded record by record.
        self._classes: dict[tuple[int, str], type[Message]] = {}

    def key_class(self, record_type: int) -> type[Message]:
        return self._class(record_type, "Key")

    def value_class(self, record_type: int) -> type[Message]:
        return self._class(record_type, "Value")

    def _class(self, record_type: int, which: str) -> type[Message]:
        found = self._classes.get((record_type, which))
        if found is not None:
            return found
        if record_type not in self.types:
            raise UnknownRecordError(f"no record has type {record_type}", field="type", position=0)
        module, stem = self.types[record_type]
        found = self._classes[record_type, which] = message_class(module, stem + which)
        return found

    def encode_key(self, key: Message) -> bytes:
        return struct.pack(">h", self._type_by_key_class[type(key).__name__]) + encode(key, 0)

    def decode_key(self, raw: Buffer) -> tuple[int, Message]:
        """Decode a key; return its type and the key."""
        record_type = _int16(raw, 0, "type")
        return record_type, decode(self.key_class(record_type), 0, raw, 2)

    def read_back(
        self, key: Message, value: Message | None, version: int
    ) -> tuple[bytes, bytes | None]:
        """Encode a key and its value; raise UnwritableError if decoding does not restore them."""
        try:
            raw_key = self.encode_key(key)
            _check_same(key, decode(type(key), 0, raw_key, 2))
            if value is None:
                return raw_key, None
            raw_value = encode_versioned(value, version)
            _check_same(value, decode(type(value), version, raw_value, 2))
        except (*WRITER_ERRORS, ProtocolError) as error:
            raise UnwritableError(f"{type(key).__name__}: {error}") from error
        return raw_key, raw_value

    def decode_value(self, record_type: int, raw: Buffer | None) -> Message | None:
        """Decode the value of a key of this type; None for a tombstone."""
        return None if raw is None else decode_versioned(self.value_class(record_type), raw)


OFFSETS_LOG = CoordinatorLog(OFFSETS_TYPES)
TRANSACTION_LOG = CoordinatorLog(TRANSACTION_TYPES)


def encode_versioned(message: Message, version: int) -> bytes:
    """Encode version and message, as in coordinators' values and the consumer protocol."""
    return struct.pack(">h", version) + encode(message, version)


def decode_versioned(cls: type[M], raw: Buffer) -> M:
    version = _int16(raw, 0, "version")
    _check_version(cls, version, 0)
    return decode(cls, version, raw, 2)


def decode_consumer_protocol(cls: type[M], raw: Buffer) -> M:
    """Decode as Kafka's consumers do: a version beyond the latest is decoded as the latest."""
    version = _int16(raw, 0, "version")
    if version < 0:
        _check_version(cls, version, 0)
    return decode_part(cls, min(version, cls._versions[1]), raw, 2)[0]


def _int16(raw: Buffer, pos: int, field: str) -> int:
    if len(raw) < pos + 2:
        left = max(len(raw) - pos, 0)
        raise ProtocolError(f"2 bytes wanted, {left} left", field=field, position=pos)
    number: int = struct.unpack_from(">h", raw, pos)[0]
    return number


# Control records ---------------------------------------------------------------------------------


def encode_control(control_type: int, message: Message) -> tuple[bytes, bytes]:
    """Encode key and value of a control record; a message's `version` field gives its version."""
    key = struct.pack(">hh", 0, control_type)
    version: int = getattr(message, "version", -1)
    return key, encode_versioned(message, 0) if version < 0 else encode(message, version)


def decode_control(key: Buffer, value: Buffer) -> tuple[int, Message]:
    """Decode the type and the value of a control record."""
    control_type = _int16(key, 2, "type")
    if control_type not in CONTROL_TYPES:
        what = f"no control record has type {control_type}"
        raise UnknownRecordError(what, field="type", position=2)
    cls = message_class("control_records", CONTROL_TYPES[control_type])
    version = _int16(value, 0, "version")
    _check_version(cls, version, 0)
    # From LEADER_CHANGE on, the version is a field of the message.
    start = 2 if control_type <= ControlType.COMMIT else 0
    return control_type, decode(cls, version, value, start)
