"""The feature levels that kraftlog supports.

Those of Kafka's releases are in `releases`.
"""

from __future__ import annotations

from kraftlog.metadata.snapshot import METADATA_VERSION
from kraftlog.metadata.versions import METADATA_LEVEL

KRAFT_VERSION = "kraft.version"
ELR_FEATURE = "eligible.leader.replicas.version"

#: Lowest and highest level that brokers and controllers support.
OFFERED = {
    METADATA_VERSION: (METADATA_LEVEL, METADATA_LEVEL),
    KRAFT_VERSION: (0, 1),
    ELR_FEATURE: (0, 1),
}
#: A cluster may be formatted for these, as Kafka's are; they stay at the level of "not there" until
#: brokers offer them.
NOT_OFFERED_YET = {"group.version": (0, 1), "transaction.version": (0, 2)}
#: The levels that records may set; how voters are known is agreed on by the voters themselves.
SET_BY_RECORDS = {
    name: levels for name, levels in {**OFFERED, **NOT_OFFERED_YET}.items() if name != KRAFT_VERSION
}
