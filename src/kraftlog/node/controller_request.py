"""A request to a controller, from the channel to its response."""

from __future__ import annotations

from kraftlog.node.error_responses import error_response
from kraftlog.value import TYPE_CHECKING, Value

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from kraftlog.node.pending_response import PendingResponse
    from kraftlog.quotas.mutation_quota import Mutations
    from kraftlog.types import Now
    from kraftlog.wire.schema import Message

    #: Called with the response, or with None if there is no controller or the outcome is unknown.
    OnDone = Callable[[Any, Now], None]

RESPONSE_TASK = "handling a response of the controller"


class ForwardedClient(Value):
    """The client of a request whose decision depends on it."""

    principal: str
    host: str
    client_id: str | None
    #: Whether it has logged in by a delegation token.
    is_by_token: bool = False

    @classmethod
    def of(cls, pending: PendingResponse) -> ForwardedClient:
        """Who waits for a response."""
        return cls(*pending.client(), pending.client_id, pending.is_by_token)

    @property
    def user_and_client_id(self) -> tuple[str, str]:
        return self.principal.partition(":")[2], self.client_id or ""


class ControllerRequest:
    """A request to a controller, here or on another node, until it has its response."""

    __slots__ = ("_attempt", "_on_done", "api_key", "client", "message", "mutations", "version")

    def __init__(
        self,
        api_key: int,
        version: int,
        message: Message,
        on_done: OnDone,
        attempt: Callable[..., bool],
        client: ForwardedClient | None = None,
    ) -> None:
        """`client`: if the decision depends on it."""
        self.api_key = api_key
        self.version = version
        self.message = message
        self._on_done = on_done
        self._attempt = attempt
        self.client = client
        #: What the quota of the client has permitted, once that is decided.
        self.mutations: Mutations | None = None

    @property
    def principal(self) -> str:
        """The principal of the client, if the decision depends on it."""
        return "" if self.client is None else self.client.principal

    def respond(self, response: Any, now: Now) -> None:
        """Call back; a callback that raises is called again with None, as after a timeout."""
        if self.mutations is not None and response is not None:
            response.throttle_time_ms = self.mutations.throttle(now.monotonic_ms)
        done = self._attempt(RESPONSE_TASK, self._on_done, response, now)
        if not done and response is not None:
            self._attempt(RESPONSE_TASK, self._on_done, None, now)

    def refuse(self, code: int, now: Now) -> None:
        """Respond with an error code."""
        self.respond(error_response(self.api_key, self.version, self.message, code), now)
