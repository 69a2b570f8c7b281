"""The assignors that every node has, by Kafka's names."""

from __future__ import annotations

from kraftlog.groups.assignors.range_assignor import assign_ranges
from kraftlog.groups.assignors.uniform import assign_uniformly
from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from kraftlog.groups.assignors.interface import Assignor

#: The default of group.consumer.assignors: the first is that of members that name none.
BUILTIN_ASSIGNORS: dict[str, Assignor] = {"uniform": assign_uniformly, "range": assign_ranges}
