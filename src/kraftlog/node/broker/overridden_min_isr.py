"""`OverriddenMinIsr`: logs that min.insync.replicas of the broker's file does not count.

With eligible leader replicas, the controller must know the minimum by which every leader commits
(V20). So the cluster has one value in the log, at first that of the active controller's file, and
the files of brokers do not count, as in Kafka (KIP-966). If only they have the value, each record
has fewer copies than its operator expects when it is acknowledged, so this is not silent.
"""

from __future__ import annotations

from kraftlog.config.keys import BROKER
from kraftlog.metadata.changes import ConfigChanged, FeatureChanged
from kraftlog.metadata.features import ELR_FEATURE
from kraftlog.metadata.loader import MetadataPublisher
from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from kraftlog.metadata.changes import Change
    from kraftlog.metadata.image import Image
    from kraftlog.metadata.loader import MetadataLoader

MIN_ISR = "min.insync.replicas"


class OverriddenMinIsr(MetadataPublisher):
    """Logs each value of the cluster that overrides the file's, once."""

    name = "check of min.insync.replicas"

    def __init__(
        self, file_value: str, metadata: MetadataLoader, log_line: Callable[[str], None]
    ) -> None:
        self._file_value = file_value
        self._metadata = metadata
        self._log_line = log_line
        self._may_differ = False
        #: The last value that was compared.
        self._compared: str | None = None

    def changed(self, change: Change) -> None:
        if isinstance(change, ConfigChanged):
            self._may_differ |= change.resource_type == BROKER and change.key == MIN_ISR
        elif isinstance(change, FeatureChanged):
            self._may_differ |= change.name == ELR_FEATURE

    def reloaded(self, before: Image) -> None:  # noqa: ARG002 - interface of publishers
        self._may_differ = True

    def published(self) -> Iterable[int]:
        if not self._may_differ:
            return ()
        self._may_differ = False
        image = self._metadata.image
        has_elr = image.features.get(ELR_FEATURE, 0) > 0
        value = image.config(BROKER, "").get(MIN_ISR) if has_elr else None
        if value not in (None, self._compared) and value != self._file_value:
            self._log_line(
                f"{MIN_ISR}={self._file_value} of this broker's file has no effect: with eligible "
                f"leader replicas the cluster's value counts, which is {value}. If it is not what "
                "you want: kraftlog configs --alter --entity-type brokers --entity-default "
                f"--add-config {MIN_ISR}={self._file_value}"
            )
        self._compared = value
        return ()
