"""`Part`: what a node is made of."""

from __future__ import annotations

from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection
    from typing import Any

    from kraftlog.types import Now


class Part:
    """A part of a node, which calls each door of all its parts, in the order in which it has them.

    A part opens the doors that it needs. Those that follow the metadata are publishers, too
    (`MetadataPublisher`).
    """

    #: What `poll` does, in a log line. Then an exception in it is logged, and `postpone` called;
    #: without a text, an exception ends the node.
    task = ""
    #: The channels on which it sends requests: it gets their outcomes.
    channels: Collection[str] = ()

    def poll(self, now: Now) -> None:
        """Do what is due."""

    def deadline(self) -> int | None:
        """When `poll` is due next, in monotonic milliseconds."""
        return None

    def postpone(self, now: Now) -> None:
        """`poll` has raised: try again later."""

    def request_ended(self, report: Any, now: Now) -> None:
        """A request on one of its channels has a response, or none."""

    def peer_down(self, report: Any, now: Now) -> None:
        """A connection to a node, of any channel, was refused."""

    def leader_changed(self, leader_id: int, epoch: int, now: Now) -> None:
        """The quorum has a new leader, or none (-1)."""

    def controller_began(self, now: Now) -> None:
        """This node's controller is active."""

    def send_soon(self) -> None:
        """The leader has changed: send the next request at once."""
