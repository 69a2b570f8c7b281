"""The feature levels that kraftlog supports.

Those of Kafka's releases are in `releases`.
"""

from __future__ import annotations

from kraftlog.metadata.snapshot import METADATA_VERSION
from kraftlog.metadata.versions import METADATA_LEVELS

KRAFT_VERSION = "kraft.version"
GROUP_VERSION = "group.version"
ELR_FEATURE = "eligible.leader.replicas.version"

#: Lowest and highest level that brokers and controllers support.
OFFERED = {
    METADATA_VERSION: METADATA_LEVELS,
    KRAFT_VERSION: (0, 1),
    ELR_FEATURE: (0, 1),
    GROUP_VERSION: (0, 1),
}
#: Formatting accepts these features, as in Kafka; their level stays 0 until brokers support them.
NOT_OFFERED_YET = {"transaction.version": (0, 2)}
#: The features that metadata records set; kraft.version is set by a control record of the quorum.
SET_BY_RECORDS = {
    name: levels for name, levels in {**OFFERED, **NOT_OFFERED_YET}.items() if name != KRAFT_VERSION
}
