"""`MetadataLoader`: replays committed records into the image and calls publishers.

Publishers are called in the order of their list, as in Kafka, for every change before the next
record is replayed. Whatever a node does when metadata changes, it does in a publisher.
"""

from __future__ import annotations

from kraftlog.errors import InternalError
from kraftlog.metadata.image import Image, ReplayError
from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from kraftlog.metadata.changes import Change
    from kraftlog.wire.schema import Message

#: Costs in microseconds: replaying a record, and publishing a change.
RECORD_COST = 2
CHANGE_COST = 15


class MetadataPublisher:
    """Acts on changes of the image. `name` is for log lines."""

    name: str

    def changed(self, change: Change) -> None:
        """The image has changed; more changes of the same batch may follow."""

    def reloaded(self, before: Image) -> None:
        """A snapshot has replaced the image."""

    def published(self) -> Iterable[int]:
        """All records of a batch are replayed: act on them in steps; yield the cost of each."""
        return ()


class MetadataLoader:
    """`image` is the state as of the last replayed record."""

    def __init__(self) -> None:
        self.image = Image()
        #: In calling order.
        self.publishers: list[MetadataPublisher] = []

    def replay_in_steps(self, records: Iterable[Message]) -> Iterator[int]:
        """Replay committed records in steps.

        Any exception becomes a ReplayError with the record; the image must not be used after it.
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
                    yield CHANGE_COST
                yield RECORD_COST
            for change in image.publish():
                for publisher in publishers:
                    publisher.changed(change)
            for publisher in publishers:
                yield from publisher.published()
        except ReplayError as error:
            error.record = error.record or record
            raise
        except Exception as error:
            from kraftlog.metadata.record_text import record_text

            who = "" if publisher is None else f"the {publisher.name} "
            what = str(InternalError(f"{who}following {record_text(record)}", error))
            raise ReplayError(what, record) from error

    def install(self, image: Image) -> None:
        """Replace the image with that of a snapshot."""
        before, self.image = self.image, image
        for publisher in self.publishers:
            publisher.reloaded(before)
        for publisher in self.publishers:
            for _ in publisher.published():
                pass
