"""`FeatureLevels`: stops the node at a metadata.version that it does not know.

The records that such a level allows may be unknown, too, or mean something else.
"""

from __future__ import annotations

from kraftlog.metadata.changes import FeatureChanged
from kraftlog.metadata.loader import MetadataPublisher
from kraftlog.metadata.snapshot import METADATA_VERSION
from kraftlog.metadata.versions import METADATA_LEVELS
from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from kraftlog.metadata.changes import Change
    from kraftlog.metadata.image import Image
    from kraftlog.metadata.loader import MetadataLoader


class FeatureLevels(MetadataPublisher):
    """Raises UnsupportedLevelError, so that the node ends as at an unknown record.

    A lower level than the supported ones is no error here: the log of a cluster that was upgraded
    begins with it. A controller checks it when it becomes active, a broker when it is refused.
    """

    name = "feature levels"

    def __init__(self, metadata: MetadataLoader) -> None:
        self._metadata = metadata

    def changed(self, change: Change) -> None:
        if isinstance(change, FeatureChanged) and change.name == METADATA_VERSION:
            _check(change.level)

    def reloaded(self, before: Image) -> None:  # noqa: ARG002 - interface of publishers
        _check(self._metadata.image.features.get(METADATA_VERSION, 0))


def _check(level: int) -> None:
    if level > METADATA_LEVELS[1]:
        from kraftlog.metadata.unsupported_levels import refuse_newer_metadata

        refuse_newer_metadata(level)
