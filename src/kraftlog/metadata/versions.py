"""The levels of metadata.version that nodes support, and the version of each record type.

Records have the same versions at all these levels.
"""

from __future__ import annotations

from kraftlog.value import TYPE_CHECKING
from kraftlog.wire.messages import metadata_records as records

if TYPE_CHECKING:
    from kraftlog.wire.schema import Message

#: The lowest and the highest level: 4.3-IV0 and 4.4-IV2.
METADATA_LEVELS = (30, 33)

_VERSIONS: dict[type[Message], int] = {
    records.RegisterBrokerRecord: 4,
    records.PartitionRecord: 2,
    records.PartitionChangeRecord: 2,
}


def record_version(record: Message) -> int:
    """The version of a record; registration changes use the lowest version with their fields."""
    if isinstance(record, records.BrokerRegistrationChangeRecord):
        if record.cordoned_log_dirs is not None:
            return 3
        if record.log_dirs:
            return 2
        return 1 if record.in_controlled_shutdown else 0
    return _VERSIONS.get(type(record), 0)
