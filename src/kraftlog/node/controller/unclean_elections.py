"""`UncleanElections`: counts elections of leaders from outside the ISR and the ELR."""

from __future__ import annotations

from kraftlog.metadata.changes import PartitionChanged
from kraftlog.metadata.loader import MetadataPublisher
from kraftlog.metadata.values import NO_LEADER
from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from kraftlog.metadata.changes import Change
    from kraftlog.node.controller.active_controller import ActiveController
    from kraftlog.node.counts import Counts


class UncleanElections(MetadataPublisher):
    """Counts while this node is the active controller."""

    name = "count of unclean elections"

    def __init__(self, counts: Counts, active_controller: ActiveController) -> None:
        self._counts = counts
        self._active_controller = active_controller

    def changed(self, change: Change) -> None:
        if not isinstance(change, PartitionChanged) or not self._active_controller.is_active:
            return
        before, after = change.before, change.after
        if before is None or after is None:
            return
        if NO_LEADER != after.leader != before.leader:
            is_clean = after.leader in before.isr or after.leader in before.elr
            self._counts.unclean_elections += not is_clean
