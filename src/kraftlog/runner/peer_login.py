"""How a node logs in at its peers: after ApiVersions, before any other request."""

from __future__ import annotations

from kraftlog.errors import AuthenticationError, error_name
from kraftlog.node.channels import PROBE_CHANNEL, goes_to_brokers
from kraftlog.sasl import initiate
from kraftlog.sasl.initiate import LOGIN_SHARE
from kraftlog.sasl.scram import MAX_STORED_ITERATIONS
from kraftlog.value import TYPE_CHECKING
from kraftlog.wire.apis import ApiKey
from kraftlog.wire.messages.sasl_authenticate import SaslAuthenticateRequest
from kraftlog.wire.messages.sasl_handshake import SaslHandshakeRequest

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from kraftlog.config.sasl import SaslLogin
    from kraftlog.sasl.initiate import Exchange
    from kraftlog.wire.schema import Message


class PeerLogins:
    """This node's logins at brokers and at controllers; None where they need none."""

    def __init__(
        self,
        at_brokers: SaslLogin | None,
        at_controllers: SaslLogin | None,
        new_nonce: Callable[[], str],
    ) -> None:
        self._at_brokers = at_brokers
        self._at_controllers = at_controllers
        self._new_nonce = new_nonce

    def begin(self, channel: str) -> PeerLogin | None:
        """The login on a new connection of a channel; None: none is needed."""
        if channel == PROBE_CHANNEL:  # it asks for ApiVersions alone
            return None
        login = self._at_brokers if goes_to_brokers(channel) else self._at_controllers
        return None if login is None else PeerLogin(login, self._new_nonce())


class PeerLogin:
    """One login: which request comes next, given the response to the one before."""

    def __init__(self, login: SaslLogin, nonce: str) -> None:
        self._mechanism = login.mechanism
        self._exchange: Exchange = (
            initiate.scram(
                login.mechanism,
                login.username,
                login.password,
                nonce,
                # A false broker must not keep this node busy: no true one stores more.
                MAX_STORED_ITERATIONS,
            )
            if login.mechanism.startswith("SCRAM")
            else initiate.plain(login.username, login.password)
        )
        #: The API whose response is awaited.
        self.api_key = ApiKey.SASL_HANDSHAKE
        #: After how long the connection is replaced, as the login ends; 0: never.
        self.holds_ms = 0

    def first(self) -> Message:
        return SaslHandshakeRequest(mechanism=self._mechanism)

    def next(self, response: Any) -> Message | None:
        """The next request; None: it is logged in. Raises AuthenticationError if it cannot be."""
        if self.api_key == ApiKey.SASL_HANDSHAKE:
            if response.error_code:
                raise AuthenticationError(f"it does not offer {self._mechanism}")
            self.api_key = ApiKey.SASL_AUTHENTICATE
            return SaslAuthenticateRequest(auth_bytes=next(self._exchange))
        if response.error_code:
            raise AuthenticationError(response.error_message or error_name(response.error_code))
        self.holds_ms = int(response.session_lifetime_ms * LOGIN_SHARE)
        try:
            return SaslAuthenticateRequest(
                auth_bytes=self._exchange.send(bytes(response.auth_bytes))
            )
        except StopIteration:
            return None
