"""The port of the replica manager and its parts to their node."""

from __future__ import annotations

from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from kraftlog.config.layers import ConfigLayers
    from kraftlog.effects import SendRequest
    from kraftlog.ports.logs import LogReader
    from kraftlog.types import Now
    from kraftlog.wire.schema import Message


class ReplicatingNode:
    """What the replica manager and its parts need of their node.

    A base class, not a Protocol: a double in a test has the methods that its test needs, and any
    other raises.
    """

    logs: LogReader
    #: When the current turn began.
    now: Now
    #: Gives the settings of this broker and of all brokers.
    config_layers: Callable[[], ConfigLayers]

    def emit(self, effect: Any) -> None:
        """Have the host carry out an effect."""
        raise NotImplementedError

    def send_fetch(self, effect: SendRequest) -> None:
        """`emit` for a follower's fetch, which changes no deadline."""
        raise NotImplementedError

    def poll_by(self, due_ms: int) -> None:
        """Have the replica manager polled at this time at the latest."""
        raise NotImplementedError

    def wait_for_ms(self, operation: Any, timeout_ms: int) -> None:
        """Call `operation.expire` after this time, unless it is done before."""
        raise NotImplementedError

    def fail(self, pending: Any, error: Exception) -> None:
        """Fail a pending response after an internal error."""
        raise NotImplementedError

    def broker_epoch(self) -> int:
        """The epoch of this broker's registration; -1: none."""
        raise NotImplementedError

    def is_registered(self) -> bool:
        """Whether the image has this process under the broker's id."""
        raise NotImplementedError

    def send_to_controller(
        self,
        api_key: int,
        version: int,
        request: Message,
        on_done: Callable[[Any, Now], None],
        now: Now,
    ) -> None:
        """`ControllerChannel.send`."""
        raise NotImplementedError
