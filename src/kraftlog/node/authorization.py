"""The authorizer of a node follows the ACLs of the metadata log."""

from __future__ import annotations

from kraftlog.metadata.changes import AclChanged
from kraftlog.metadata.loader import MetadataPublisher
from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from kraftlog.authorization.authorizer import Authorizer
    from kraftlog.metadata.changes import Change
    from kraftlog.metadata.image import Image
    from kraftlog.metadata.loader import MetadataLoader


class AclPublisher(MetadataPublisher):
    """Passes committed ACLs to the authorizer, on brokers and controllers alike."""

    name = "authorizer"

    def __init__(self, authorizer: Authorizer, metadata: MetadataLoader) -> None:
        self._authorizer = authorizer
        self._metadata = metadata

    def changed(self, change: Change) -> None:
        if isinstance(change, AclChanged):
            if change.before is not None:
                self._authorizer.remove(change.before)
            if change.after is not None:
                self._authorizer.add(change.after)

    def reloaded(self, before: Image) -> None:  # noqa: ARG002 - interface of publishers
        self._authorizer.replace(self._metadata.image.acls.values())
