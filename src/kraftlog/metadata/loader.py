"""`MetadataLoader`: committed records change the image, and publishers hear what has changed.

Publishers stand in a list, as Kafka's MetadataPublishers do, and each hears of every change before
the next one is replayed. Whatever a node is because of the image, one of them makes of it.
"""

from __future__ import annotations

from kraftlog.errors import InternalError
from kraftlog.metadata.image import Image, ReplayError
from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from kraftlog.metadata.changes import Change
    from kraftlog.wire.schema import Message

#: What a record, a change of the image, and what follows from it cost, in microseconds.
A_RECORD_COSTS = 2
A_CHANGE_COSTS = 15


class MetadataPublisher:
    """Follows the image. `name` is for people: who could not follow."""

    name: str

    def changed(self, change: Change) -> None:
        """The image has just changed; more changes of the same batch may follow."""

    def reloaded(self, before: Image) -> None:
        """Another image has taken the place of this one, as a whole."""

    def published(self) -> Iterable[int]:
        """All records of a batch were replayed: act upon them in steps; what each has cost."""
        return ()


class MetadataLoader:
    """`image` is what all records so far add up to. Nobody else replays committed records."""

    def __init__(self) -> None:
        self.image = Image()
        #: In the order in which they hear.
        self.publishers: list[MetadataPublisher] = []

    def replaying(self, records: Iterable[Message]) -> Iterator[int]:
        """Replay committed records in steps.

        Raises ReplayError, with the record, whatever goes wrong: the image is not to be used then.
        """
        record: Message | None = None
        publisher: MetadataPublisher | None = None
        image, publishers = self.image, self.publishers
        try:
            for record in records:
                for change in image.changes_of(record):
                    for publisher in publishers:
                        publisher.changed(change)
                    publisher = None
                    yield A_CHANGE_COSTS
                yield A_RECORD_COSTS
            for change in image.publish():
                for publisher in publishers:
                    publisher.changed(change)
            for publisher in publishers:
                yield from publisher.published()
        except ReplayError:
            raise
        except Exception as error:
            who = "" if publisher is None else f"the {publisher.name} "
            what = str(InternalError(f"{who}following {record!r:.1000}", error))
            raise ReplayError(what, record) from error

    def reload(self, records: Iterable[Message]) -> None:
        """Begin with an image of these records, in the place of the one there was."""
        before, self.image = self.image, Image()
        for record in records:
            self.image.replay(record)
        for publisher in self.publishers:
            publisher.reloaded(before)
        for publisher in self.publishers:
            for _ in publisher.published():
                pass
