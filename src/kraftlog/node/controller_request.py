"""A request to a controller, from the channel to its response."""

from __future__ import annotations

from kraftlog.node.error_responses import error_response
from kraftlog.value import TYPE_CHECKING, Value

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from kraftlog.types import Now
    from kraftlog.wire.schema import Message

    #: Called with the response, or with None if there is no controller or the outcome is unknown.
    OnDone = Callable[[Any, Now], None]

RESPONSE_TASK = "handling a response of the controller"


class ForwardedClient(Value):
    """A client whose request a decision depends on who it is."""

    principal: str
    host: str
    #: Whether it has logged in by a delegation token.
    is_by_token: bool


class ControllerRequest:
    """A request to a controller, here or on another node, until it has its response."""

    __slots__ = ("_attempt", "_on_done", "api_key", "message", "principal", "version")

    def __init__(
        self,
        api_key: int,
        version: int,
        message: Message,
        on_done: OnDone,
        attempt: Callable[..., bool],
        principal: str = "",
    ) -> None:
        """`principal`: who asks, if the decision depends on it."""
        self.api_key = api_key
        self.version = version
        self.message = message
        self.principal = principal
        self._on_done = on_done
        self._attempt = attempt

    def respond(self, response: Any, now: Now) -> None:
        """Call back; a callback that raises is called again with None, as after a timeout."""
        done = self._attempt(RESPONSE_TASK, self._on_done, response, now)
        if not done and response is not None:
            self._attempt(RESPONSE_TASK, self._on_done, None, now)

    def refuse(self, code: int, now: Now) -> None:
        """Respond with an error code."""
        self.respond(error_response(self.api_key, self.version, self.message, code), now)
