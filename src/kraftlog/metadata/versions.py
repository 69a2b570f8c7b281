"""In which version each record is written: that of metadata.version 4.3, the one level we write."""

from __future__ import annotations

from kraftlog.value import TYPE_CHECKING
from kraftlog.wire.messages import metadata_records as records

if TYPE_CHECKING:
    from kraftlog.wire.schema import Message

#: 4.3-IV0. Brokers and controllers of other levels can't be told what we say.
METADATA_LEVEL = 30

_VERSIONS: dict[type[Message], int] = {
    records.RegisterBrokerRecord: 4,
    records.PartitionRecord: 2,
    records.PartitionChangeRecord: 2,
}


def record_version(record: Message) -> int:
    """The version to write a record in; changes of a registration in the lowest that holds them."""
    if isinstance(record, records.BrokerRegistrationChangeRecord):
        if record.cordoned_log_dirs is not None:
            return 3
        if record.log_dirs:
            return 2
        return 1 if record.in_controlled_shutdown else 0
    return _VERSIONS.get(type(record), 0)
