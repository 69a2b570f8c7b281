"""The client's side of SASL: PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 and OAUTHBEARER.

An exchange is a generator: it yields what to send, gets what the broker sends, and ends once the
broker has proved whatever the mechanism has it prove. It raises `AuthenticationError` for a broker
that does not; refusals of the broker are the connection's to report.
"""

from __future__ import annotations

from kraftlog.errors import AuthenticationError
from kraftlog.sasl import scram as rules
from kraftlog.sasl.delegation_tokens import TOKEN_AUTH
from kraftlog.sasl.scram import MIN_ITERATIONS
from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    Exchange = Generator[bytes, bytes, None]

#: A login is renewed, with its connection, after this share of the time that the broker grants it.
LOGIN_SHARE = 0.85
#: The most iterations that are accepted: more keep the client busy for as long as a false broker
#: wants.
MAX_ITERATIONS = 1_000_000


def plain(username: str, password: str) -> Exchange:
    yield f"\0{username}\0{password}".encode()


def oauthbearer(token: Callable[[], str], extensions: dict[str, str]) -> Exchange:
    pairs = "".join(f"{key}={value}\x01" for key, value in extensions.items())
    reason = yield f"n,,\x01auth=Bearer {token()}\x01{pairs}\x01".encode()
    if reason:  # the broker says why it refuses the token, and then waits for this
        yield b"\x01"


def scram(
    mechanism: str,
    username: str,
    password: str,
    nonce: str,
    max_iterations: int = MAX_ITERATIONS,
    *,
    by_token: bool = False,
) -> Exchange:
    """RFC 5802, without channel binding. `nonce` is random.

    `by_token`: the user's name is the id of a delegation token, and the password its HMAC.
    """
    import hmac
    from base64 import b64encode

    client_first = f"n={rules.escaped(username)},r={nonce}"
    if by_token:
        client_first += f",{TOKEN_AUTH}=true"
    server_first = yield f"n,,{client_first}".encode()
    server_nonce, salt, iterations = _server_first(server_first, nonce, max_iterations)
    salted = rules.salted_password(mechanism, password, salt, iterations)
    client_final = f"c={b64encode(b'n,,').decode()},r={server_nonce}"
    signed = b",".join((client_first.encode(), server_first, client_final.encode()))
    key = rules.client_key(mechanism, salted)
    proof = rules.xor(key, rules.keyed(mechanism, rules.digest(mechanism, key), signed))
    server_final = yield f"{client_final},p={b64encode(proof).decode()}".encode()
    expected = rules.keyed(mechanism, rules.server_key(mechanism, salted), signed)
    if not hmac.compare_digest(server_final, b"v=" + b64encode(expected)):
        raise AuthenticationError(
            "it does not know the user's password itself, so it is no broker of ours"
        )


def _server_first(message: bytes, nonce: str, max_iterations: int) -> tuple[str, bytes, int]:
    """The nonce of both sides, the salt and the number of iterations."""
    from base64 import b64decode

    try:
        fields = dict(part.split("=", 1) for part in message.decode().split(","))
        server_nonce = fields["r"]
        salt, iterations = b64decode(fields["s"], validate=True), int(fields["i"])
    except (ValueError, KeyError):
        raise AuthenticationError("its SCRAM message is malformed") from None
    if "m" in fields or not server_nonce.startswith(nonce) or server_nonce == nonce or not salt:
        raise AuthenticationError("its SCRAM message is not an answer to this client's")
    if not MIN_ITERATIONS <= iterations <= max_iterations:
        raise AuthenticationError(
            f"it asks for {iterations} iterations of SCRAM, and {MIN_ITERATIONS} to "
            f"{max_iterations} are accepted"
        )
    return server_nonce, salt, iterations
