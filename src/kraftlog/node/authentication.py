"""Clients of a listener with SASL authenticate themselves before anything else is served.

The host has an `Authenticator` of each such connection serve its frames (`gate`) until the client
has logged in, and again once its session has ended. So connections of other listeners pay nothing.
"""

from __future__ import annotations

from kraftlog.config.endpoints import WITH_SASL
from kraftlog.config.sasl import sasl_listener
from kraftlog.effects import printable
from kraftlog.errors import ErrorCode, ProtocolError
from kraftlog.node.pending_response import PendingResponse
from kraftlog.sasl import accept
from kraftlog.sasl.accept import LoginRefusedError, RefusingToken
from kraftlog.sasl.delegation_tokens import (
    TokenCredential,
    end_of,
    is_expired,
    token_keys,
    user_of,
)
from kraftlog.sasl.jwt import TokenError, UnknownKeyError, check_token
from kraftlog.sasl.scram import NUMBERS
from kraftlog.value import TYPE_CHECKING
from kraftlog.wire import codec
from kraftlog.wire.apis import APIS, ApiKey
from kraftlog.wire.frames import read_request_head
from kraftlog.wire.messages.api_versions import ApiVersionsResponse
from kraftlog.wire.messages.sasl_authenticate import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
)
from kraftlog.wire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse

if TYPE_CHECKING:
    from typing import Any, Protocol

    from kraftlog.config.sasl import SaslListener
    from kraftlog.node.node import Node
    from kraftlog.sasl.accept import Exchange
    from kraftlog.sasl.jwt import Jwk, Token
    from kraftlog.sasl.scram import ScramCredential, ScramKeys
    from kraftlog.types import Buffer, Now
    from kraftlog.wire.frames import RequestHead

    class TokenKeySource(Protocol):
        """The keys that sign the tokens of a listener; the host reads and renews them."""

        def current(self) -> tuple[Jwk, ...]:
            """The newest keys; none if they could not be read yet."""

        def renew(self) -> None:
            """Fetch them soon, because a token names another one."""


#: Refused logins are logged at most this often.
LOG_INTERVAL_MS = 1000
#: A client has this long to log in, and its requests are no larger before, whatever the settings
#: allow: PLAIN and SCRAM need less, and what waits here takes memory from those who have logged in.
LOGIN_MS, MAX_RECEIVE = 10_000, 64 << 10
#: The most keys of delegation tokens that are kept, for further logins.
KEPT_TOKEN_KEYS = 10_000
#: Why a connection is closed that asks for something else first.
NOT_LOGGED_IN = "its client has not logged in"


class AuthenticationCounts:
    """Logins of a listener since the start."""

    def __init__(self) -> None:
        self.successful = self.failed = 0
        self.renewed = self.failed_renewals = 0
        #: Connections closed because their session was over.
        self.expired = 0


class Authentication:
    """What the connections of a node have in common."""

    def __init__(self, node: Node) -> None:
        self.node = node
        settings = node.config.settings
        self.listeners = {
            each.name: sasl_listener(settings, each.name)
            for each in settings.listeners
            if each.protocol in WITH_SASL
        }
        self.counts = {name: AuthenticationCounts() for name in self.listeners}
        #: By listener; from the host.
        self.token_keys: dict[str, TokenKeySource] = {}
        self._secret = b""
        #: By mechanism and token id. They never change, and take milliseconds to compute.
        self._keys_of_tokens: dict[tuple[str, str], ScramKeys] = {}
        self._log_from_ms = 0
        self._unlogged = 0

    def accept(self, connection: Any) -> None:
        """Have the client of a new connection authenticate itself if its listener wants that."""
        listener = self.listeners.get(connection.listener_name)
        if listener is not None:
            Authenticator(self, listener, connection)

    def exchange(self, mechanism: str, name: str) -> Exchange:
        """What a client and this node say to each other on a listener."""
        listener = self.listeners[name]
        if mechanism == accept.PLAIN:
            return accept.plain(listener.users)
        if mechanism == accept.OAUTHBEARER:
            return accept.oauthbearer(lambda text: self._check_token(text, name))
        rng = self.node.config.rng
        if not self._secret:
            self._secret = rng.getrandbits(256).to_bytes(32, "big")

        def credential_of(user: str) -> ScramCredential | None:
            return self.node.image.scram.get((NUMBERS[mechanism], user))

        def token_of(token_id: str, salt: bytes) -> TokenCredential | None:
            return self._token_credential(mechanism, token_id, salt)

        nonce = f"{rng.getrandbits(192):048x}"
        return accept.scram(mechanism, credential_of, nonce, self._secret, token_of)

    def _token_credential(
        self, mechanism: str, token_id: str, salt: bytes
    ) -> TokenCredential | None:
        """What logs in by a delegation token; None if there is none, or it has expired."""
        config, token = self.node.delegation_tokens, self.node.image.tokens.get(token_id)
        if config is None or token is None:
            return None
        user = user_of(token.owner)
        end_ms = end_of(token)
        if user is None or is_expired(end_ms, self.node.now.wall_ms):
            return None
        keys = self._keys_of_tokens.get((mechanism, token_id))
        if keys is None:
            if len(self._keys_of_tokens) >= KEPT_TOKEN_KEYS:
                del self._keys_of_tokens[next(iter(self._keys_of_tokens))]
            keys = token_keys(mechanism, config.secret, token_id, salt)
            self._keys_of_tokens[mechanism, token_id] = keys
        return TokenCredential(user, keys, end_ms)

    def _check_token(self, text: str, name: str) -> Token:
        source, rules = self.token_keys.get(name), self.listeners[name].token_rules
        if source is None or rules is None:
            raise TokenError("there are no keys")
        try:
            return check_token(text, source.current(), rules, self.node.now.wall_ms)
        except UnknownKeyError:
            source.renew()
            raise

    def log(self, line: str, now: Now) -> None:
        """Log a refused login, unless one was logged a moment ago."""
        if now.monotonic_ms < self._log_from_ms:
            self._unlogged += 1
            return
        others = f" ({self._unlogged} more since the last such line)" if self._unlogged else ""
        self._log_from_ms, self._unlogged = now.monotonic_ms + LOG_INTERVAL_MS, 0
        self.node.log_line(line + others)


class Authenticator:
    """Serves the frames of a connection while it may only log in.

    A session that has a limit ends at it: its client must log in again before, or with its next
    request, as the same user by the same mechanism (KIP-368).
    """

    def __init__(self, common: Authentication, listener: SaslListener, connection: Any) -> None:
        self._common = common
        self._listener = listener
        self._connection = connection
        self._counts = common.counts[connection.listener_name]
        self._mechanism = ""
        self._exchange: Exchange | None = None
        #: Whether the client sends bare tokens, as after SaslHandshake 0.
        self._is_bare = False
        #: Whether it has logged in before.
        self._is_renewal = False
        #: Whether a refusal is counted and logged, and only the client's last word is missing.
        self._is_refused = False
        #: Whether the last login was by a delegation token.
        self.is_by_token = False
        self._session: SessionEnd | None = None
        self._lifetime_ms = 0
        self._max_frame: int = connection.max_frame
        self._max_receive = min(listener.max_receive_size, MAX_RECEIVE)
        self._shut()
        node = common.node
        node.wait(LoginDeadline(self, connection), node.now.monotonic_ms + LOGIN_MS)

    def _shut(self) -> None:
        """Serve nothing but a login from now on."""
        connection = self._connection
        connection.authenticator = connection.gate = self
        connection.max_frame = self._max_receive
        connection.request_templates = None

    def frame(self, pending: PendingResponse, buffer: Buffer, pos: int, end: int, now: Now) -> None:
        """Serve an encoded request, as `Node.frame` does."""
        node = self._common.node
        if self._connection.gate is None:  # it has just logged in
            node.frame(pending, buffer, pos, end, now)
            return
        node.needs_poll = True
        pending.received_ms = now.monotonic_ms
        if self._is_bare:
            self._bare_token(pending, bytes(buffer[pos:end]), now)
            return
        head = read_request_head(buffer, pos, end)
        expected = (
            (ApiKey.SASL_HANDSHAKE, ApiKey.API_VERSIONS)
            if self._exchange is None
            else (ApiKey.SASL_AUTHENTICATE,)
        )
        if self._is_over and self._exchange is None and head.api_key != ApiKey.SASL_HANDSHAKE:
            self._end(pending, now)
        elif head.api_key not in expected:
            self._refuse(pending, self._out_of_place(pending, head), NOT_LOGGED_IN, now)
        elif head.api_key == ApiKey.API_VERSIONS:
            node.frame(pending, buffer, pos, end, now)
        else:
            pending.correlation_id, pending.client_id = head.correlation_id, head.client_id
            pending.version, pending.api = head.version, APIS[head.api_key]
            if not pending.api.first <= head.version <= pending.api.last:
                raise ProtocolError(f"{pending.api.name} version {head.version} is not served")
            node.counts.count_request(head.api_key, head.version)
            request: Any = codec.decode_request(
                pending.api.request(), head.version, buffer, head.body, end
            )
            self.serve(pending, request, now)

    def _out_of_place(
        self, pending: PendingResponse, head: RequestHead
    ) -> ApiVersionsResponse | None:
        """The response to ApiVersions in the midst of a login.

        Some clients go on with it after a refused token. Other requests get none: most of their
        responses could only say that there is nothing.
        """
        if head.api_key != ApiKey.API_VERSIONS or self._exchange is None:
            return None
        api = APIS[head.api_key]
        pending.correlation_id, pending.client_id = head.correlation_id, head.client_id
        pending.version = head.version if head.version <= api.last else api.first
        pending.api = api
        return ApiVersionsResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE, api_keys=())

    def serve(
        self,
        pending: PendingResponse,
        request: SaslHandshakeRequest | SaslAuthenticateRequest,
        now: Now,
    ) -> None:
        if isinstance(request, SaslHandshakeRequest):
            self._handshake(pending, request, now)
        else:
            self._authenticate(pending, bytes(request.auth_bytes), now)

    def takes(self, request: SaslHandshakeRequest | SaslAuthenticateRequest) -> bool:
        """Whether it serves a request that has passed the gate: one of a renewal.

        The host may have received it together with an earlier one.
        """
        is_handshake = isinstance(request, SaslHandshakeRequest)
        return self._session is not None and is_handshake is (self._exchange is None)

    def renew(
        self,
        pending: PendingResponse,
        request: SaslHandshakeRequest | SaslAuthenticateRequest,
        now: Now,
    ) -> None:
        """Serve a request of a renewal; nothing else is served before it is complete."""
        if self._connection.gate is None:
            self._shut()
        self.serve(pending, request, now)

    @property
    def _is_over(self) -> bool:
        return self._session is not None and self._session.is_over

    def _handshake(self, pending: PendingResponse, request: SaslHandshakeRequest, now: Now) -> None:
        response = SaslHandshakeResponse(error_code=0, mechanisms=self._listener.mechanisms)
        if request.mechanism not in self._listener.mechanisms:
            response.error_code = ErrorCode.UNSUPPORTED_SASL_MECHANISM
            self._refuse(pending, response, f"no mechanism {printable(request.mechanism)!r}", now)
            return
        if self._is_renewal and request.mechanism != self._mechanism:
            self._refuse(pending, None, "it changes the mechanism of its session", now)
            return
        self._mechanism = request.mechanism
        self._exchange = self._common.exchange(request.mechanism, self._connection.listener_name)
        next(self._exchange)
        self._is_bare = pending.version == 0
        pending.respond(response)

    def _authenticate(self, pending: PendingResponse, token: bytes, now: Now) -> None:
        try:
            answer = self._next(token, now)
        except LoginRefusedError as refused:
            text = refused.answer or (
                "Authentication failed during authentication due to invalid credentials with SASL "
                f"mechanism {self._mechanism}"
            )
            response = SaslAuthenticateResponse(
                error_code=ErrorCode.SASL_AUTHENTICATION_FAILED, error_message=text, auth_bytes=b""
            )
            self._refuse(pending, response, str(refused), now, user=refused.user)
            return
        is_done = self._exchange is None
        pending.respond(
            SaslAuthenticateResponse(
                error_code=ErrorCode.NONE,
                error_message="",
                auth_bytes=answer,
                session_lifetime_ms=self._lifetime_ms if is_done else 0,
            )
        )

    def _bare_token(self, pending: PendingResponse, token: bytes, now: Now) -> None:
        """A token without a header (SaslHandshake 0): its answer has none, and a refusal none."""
        try:
            answer = self._next(token, now)
        except LoginRefusedError as refused:
            self._refuse(pending, None, str(refused), now, user=refused.user)
            return
        pending.pieces = [len(answer).to_bytes(4, "big"), answer]
        self._connection.ready(pending)

    def _next(self, token: bytes, now: Now) -> bytes:
        """The answer to a token; the last one ends the exchange."""
        assert self._exchange is not None
        try:
            answer = self._exchange.send(token)
        except StopIteration as ended:
            accepted = ended.value
        else:
            if isinstance(answer, RefusingToken):
                self._note_refusal(answer.why, now)
            return answer
        principal = f"User:{accepted.user}"
        if self._is_renewal and principal != self._connection.principal:
            raise LoginRefusedError(
                "it changes the user of its session",
                answer="Cannot change principals during re-authentication",
                user=accepted.user,
            )
        self.is_by_token = accepted.is_by_token
        self._accept(principal, accepted.expires_ms, now)
        last: bytes = accepted.last
        return last

    def _accept(self, principal: str, expires_ms: int | None, now: Now) -> None:
        """The client has proved who it is: the node serves its requests."""
        connection, counts = self._connection, self._counts
        if self._is_renewal:
            counts.renewed += 1
        else:
            counts.successful += 1
        self._exchange, self._is_renewal = None, True
        connection.principal = principal
        connection.gate, connection.max_frame = None, self._max_frame
        lifetime_ms = self._listener.max_reauth_ms[self._mechanism]
        if expires_ms is not None:
            # 0 would be a session without end; a token may have expired within the clock skew.
            remaining_ms = max(expires_ms - now.wall_ms, 1)
            lifetime_ms = min(lifetime_ms, remaining_ms) if lifetime_ms > 0 else remaining_ms
        self._lifetime_ms = lifetime_ms
        if lifetime_ms > 0:
            if self._session is not None:
                self._session.is_over = True
            self._session = SessionEnd(self, connection)
            self._common.node.wait(self._session, now.monotonic_ms + lifetime_ms)
        self._is_bare = False

    def session_ends(self) -> None:
        self._shut()

    @property
    def has_logged_in(self) -> bool:
        return self._is_renewal

    def login_is_overdue(self, now: Now) -> None:
        """Close the connection of a client that takes too long."""
        if not self._is_refused:
            self._counts.failed += 1
        why = f"its client has not logged in within {LOGIN_MS // 1000} s"
        self._common.log(f"closed the connection from {self._connection.peer}: {why}", now)
        self._connection.fail(ConnectionAbortedError(why))

    def _end(self, pending: PendingResponse, now: Now) -> None:
        """Close a connection that goes on after the end of its session."""
        connection = self._connection
        self._counts.expired += 1
        self._common.log(f"closed the connection from {connection.peer}: its session is over", now)
        connection.mute()
        pending.respond_nothing()
        connection.close_after_responses()

    def _refuse(
        self, pending: PendingResponse, response: Any, why: str, now: Now, *, user: str = ""
    ) -> None:
        """Respond after a while, and close the connection; nothing else is read from it."""
        if not self._is_refused:
            self._note_refusal(why, now, user=user)
        connection = self._connection
        connection.mute()
        refusal = DelayedRefusal(connection, pending, response)
        pending.waiter = refusal
        self._common.node.wait(refusal, now.monotonic_ms + self._listener.failure_delay_ms)

    def _note_refusal(self, why: str, now: Now, *, user: str = "") -> None:
        """Count and log a refused login, once."""
        self._is_refused = True
        if self._is_renewal:
            self._counts.failed_renewals += 1
        else:
            self._counts.failed += 1
        connection = self._connection
        name = f" of {printable(user)}" if user else ""
        by = f" by {self._mechanism}" if self._mechanism else ""
        self._common.log(
            f"refused a login{name}{by} from {connection.peer} on "
            f"{connection.listener_name}: {why}",
            now,
        )


class LoginDeadline:
    """The end of the time that a client has for its login."""

    pending = None

    def __init__(self, authenticator: Authenticator, connection: Any) -> None:
        self._authenticator = authenticator
        self._connection = connection

    @property
    def done(self) -> bool:
        return self._authenticator.has_logged_in or self._connection.closed

    def expire(self, now: Now) -> None:
        if not self.done:
            self._authenticator.login_is_overdue(now)


class SessionEnd:
    """The end of a session, unless it is renewed before."""

    pending = None

    def __init__(self, authenticator: Authenticator, connection: Any) -> None:
        self._authenticator = authenticator
        self._connection = connection
        #: Whether it is over, or another session has taken its place.
        self.is_over = False

    @property
    def done(self) -> bool:
        return self.is_over or self._connection.closed

    def expire(self, now: Now) -> None:  # noqa: ARG002 - interface of delayed operations
        if not self.done:
            self.is_over = True
            self._authenticator.session_ends()


class DelayedRefusal:
    """The late response to a refused login (`connection.failed.authentication.delay.ms`)."""

    def __init__(self, connection: Any, pending: PendingResponse, response: Any) -> None:
        self._connection = connection
        self.pending = pending
        self._response = response
        self.done = False

    def cancel(self) -> None:
        """The connection is closed."""
        self.done = True

    def expire(self, now: Now) -> None:  # noqa: ARG002 - interface of delayed operations
        if self.done:
            return
        self.done = True
        if self._response is None:
            self.pending.respond_nothing()
        else:
            self.pending.respond(self._response)
        self._connection.close_after_responses()
