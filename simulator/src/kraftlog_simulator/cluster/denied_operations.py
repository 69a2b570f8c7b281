"""The invariant of access control: what a stranger was denied has no effect, whatever is killed."""

from __future__ import annotations

from kraftlog.value import TYPE_CHECKING
from kraftlog_simulator.cluster.access_administrator import ACL
from kraftlog_simulator.cluster.invariants import ClusterInvariant
from kraftlog_simulator.cluster.stranger import MARK

if TYPE_CHECKING:
    from typing import Any

    from kraftlog.metadata.image import Image
    from kraftlog_simulator.cluster.node import ClusterNode


class DeniedHasNoEffect(ClusterInvariant):
    """Nothing that was denied is in the metadata, and no ACL but that of the administrator."""

    name = "what is denied has no effect"

    def on_turn(self, node: ClusterNode) -> None:
        stranger = self.world.stranger
        if stranger is not None and node.core is not None and node.node.image.acls:
            stranger.must_be_denied.clear()  # this node allows what arrives from now on

    def on_image(self, image: Image) -> None:
        stranger = self.world.stranger
        if stranger is None:
            return
        denied = stranger.denied | stranger.must_be_denied
        names = {topic.name for topic in image.topics.values()}
        if not names.isdisjoint(denied):
            self.fail(f"{sorted(names & denied)} exist")
        for acl in image.acls.values():
            if _subject(acl) != ACL:
                self.fail(f"{acl}, which nobody has allowed")
        for (_, name), configs in image.configs.items():
            if str(MARK) in configs.values():
                self.fail(f"{name} has a config that was denied")


def _subject(acl: Any) -> tuple[Any, ...]:
    return (
        acl.resource_type,
        acl.resource_name,
        acl.pattern_type,
        acl.operation,
        acl.permission_type,
    )
