"""The server's side of SASL: PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 and OAUTHBEARER.

An exchange is a generator: it gets what the client sends, yields what to send, and returns the
user's name with the last message for the client. It raises `LoginRefusedError` as soon as the
client cannot be who it says; what the client gets never depends on whether there is such a user.
"""

from __future__ import annotations

from kraftlog.errors import KraftlogError
from kraftlog.sasl import scram as rules
from kraftlog.sasl.delegation_tokens import TOKEN_AUTH
from kraftlog.sasl.jwt import TokenError
from kraftlog.sasl.scram import ScramKeys
from kraftlog.value import TYPE_CHECKING, Value

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping

    from kraftlog.sasl.delegation_tokens import TokenCredential
    from kraftlog.sasl.jwt import Token
    from kraftlog.sasl.scram import ScramCredential

    Exchange = Generator[bytes, bytes, "Accepted"]

PLAIN = "PLAIN"
OAUTHBEARER = "OAUTHBEARER"
#: The mechanisms of a listener, and those by which nodes log in at each other.
MECHANISMS = (PLAIN, *rules.NUMBERS, OAUTHBEARER)
NODE_MECHANISMS = MECHANISMS[:-1]
_OTHER_USER = (
    "Authentication failed: Client requested an authorization id that is different from username"
)


class LoginRefusedError(KraftlogError):
    """A login is refused.

    The text is for the operator. `answer` is for the client; None: what Kafka says to all of them.
    """

    def __init__(self, why: str, *, answer: str | None = None, user: str = "") -> None:
        super().__init__(why)
        self.answer = answer
        #: The user, if there is one of this name. Others are not shown: some people type their
        #: password there.
        self.user = user


class Accepted(Value):
    """A user who has proved to be who they are, and the last message for the client."""

    user: str
    last: bytes
    #: When the credential expires; None: never.
    expires_ms: int | None = None
    #: Whether it is a delegation token.
    is_by_token: bool = False


class RefusingToken(bytes):
    """A token by which the server refuses a login, and lets the client have the last word."""

    #: For the operator.
    why = ""


def plain(users: Mapping[str, str]) -> Exchange:
    """RFC 4616: an authorization id, which is empty or the name, then name and password."""
    import hmac

    message = yield b""
    try:
        parts = message.decode().split("\0")
    except UnicodeDecodeError:
        raise LoginRefusedError("its PLAIN message is no UTF-8") from None
    if len(parts) != 3:
        why = f"Invalid SASL/PLAIN response: expected 3 tokens, got {min(len(parts), 4)}"
        raise LoginRefusedError(why, answer=why)
    authorization, user, password = parts
    for text, what in ((user, "username"), (password, "password")):
        if not text:
            why = f"Authentication failed: {what} not specified"
            raise LoginRefusedError(f"its PLAIN message has no {what}", answer=why)
    expected = users.get(user)
    # The comparison takes as long for an unknown user as for a wrong password.
    is_right = hmac.compare_digest(password.encode(), (expected or "").encode())
    if expected is None or not is_right:
        raise LoginRefusedError(
            "unknown user" if expected is None else "wrong password",
            answer="Authentication failed: Invalid username or password",
            user="" if expected is None else user,
        )
    if authorization not in {"", user}:
        raise LoginRefusedError("it asks to act for another user", answer=_OTHER_USER, user=user)
    return Accepted(user, b"")


def scram(
    mechanism: str,
    credential_of: Callable[[str], ScramCredential | None],
    nonce: str,
    secret: bytes,
    token_of: Callable[[str, bytes], TokenCredential | None] = lambda _, __: None,
) -> Exchange:
    """RFC 5802. `nonce` is random; `secret` makes up the salts of users who do not exist.

    `token_of` returns what logs in by a delegation token, from its id and the salt for it: the one
    that is made up if there is no such token, so that a client cannot tell them apart.
    """
    import hmac
    from base64 import b64decode, b64encode

    gs2, bare, user, client_nonce, is_by_token = _client_first((yield b""))
    made_up = _no_credential(mechanism, secret, user)
    expires_ms = None
    found: ScramCredential | None
    if is_by_token:
        token = token_of(user, made_up.salt)
        found = None
        if token is not None:
            found, user, expires_ms = token.keys, token.user, token.expires_ms
    else:
        found = credential_of(user)
    known = user if found is not None else ""
    credential = found if found is not None else made_up
    both = client_nonce + nonce
    salt = b64encode(credential.salt).decode()
    server_first = f"r={both},s={salt},i={credential.iterations}"
    final = yield server_first.encode()
    without_proof, _, proof_text = final.rpartition(b",p=")
    fields = without_proof.decode("ascii", "replace").split(",")
    if fields[:2] != [f"c={b64encode(gs2.encode()).decode()}", f"r={both}"]:
        raise LoginRefusedError(
            "its SCRAM message is malformed, or of another exchange", user=known
        )
    try:
        proof = b64decode(proof_text, validate=True)
    except ValueError:
        proof = b""
    if len(proof) != rules.digest_size(mechanism):
        raise LoginRefusedError("its SCRAM proof is malformed", user=known)
    signed = b",".join((bare.encode(), server_first.encode(), without_proof))
    signature = rules.keyed(mechanism, credential.stored_key, signed)
    client_key = rules.xor(proof, signature)
    is_right = hmac.compare_digest(rules.digest(mechanism, client_key), credential.stored_key)
    if found is None or not is_right:
        unknown = "unknown token" if is_by_token else "unknown user"
        raise LoginRefusedError(unknown if found is None else "wrong password", user=known)
    verifier = rules.keyed(mechanism, credential.server_key, signed)
    return Accepted(user, b"v=" + b64encode(verifier), expires_ms, is_by_token)


#: RFC 7628, 3.1, as Kafka reads it: the header, then pairs of a key and a value.
_FIRST_OF_BEARER = (
    r"n,(?:a=(?P<user>(?:[\x01-\x2b\x2d-\x3c\x3e-\x7f]|=2C|=3D)+))?,\x01"
    r"(?P<pairs>(?:[A-Za-z]+=[\x21-\x7e \t\r\n]+\x01)*)\x01"
)
_BEARER = r"(?i:bearer) +([-_~+/.a-zA-Z0-9]+=*)"
#: What RFC 7628, 3.2.2, has a server say of a token; nothing about the reason.
INVALID_TOKEN = '{"status":"invalid_token"}'  # noqa: S105 - no password


def oauthbearer(check: Callable[[str], Token]) -> Exchange:
    """RFC 7628. `check` returns whose token it is, or raises TokenError."""
    authorization, text = _bearer_first((yield b""))
    try:
        token = check(text)
    except TokenError as error:
        refusing = RefusingToken(INVALID_TOKEN.encode())
        refusing.why = f"invalid token: {error}"
        yield refusing
        # Whatever the client says now, it may not try another token on this connection.
        raise LoginRefusedError(refusing.why, answer=INVALID_TOKEN) from None
    if authorization not in {"", token.user}:
        raise LoginRefusedError("it asks to act for another user", answer=_OTHER_USER)
    return Accepted(token.user, b"", token.expires_ms)


def _bearer_first(message: bytes) -> tuple[str, str]:
    """The authorization id, and the token; extensions are read and left alone, as by Kafka."""
    import re

    refused = LoginRefusedError("its OAUTHBEARER message is malformed")
    try:
        found = re.fullmatch(_FIRST_OF_BEARER, message.decode())
    except UnicodeDecodeError:
        raise refused from None
    if found is None:
        raise refused
    pairs = [pair.partition("=") for pair in found["pairs"].split("\x01")[:-1]]
    credentials = [value for key, _, value in pairs if key == "auth"]
    bearer = re.fullmatch(_BEARER, credentials[0]) if len(credentials) == 1 else None
    if bearer is None:
        raise refused
    return found["user"] or "", bearer[1]


def _client_first(message: bytes) -> tuple[str, str, str, str, bool]:
    """The GS2 header, the rest; in it the user's name, the client's nonce, whether by a token."""
    try:
        parts = message.decode().split(",")
    except UnicodeDecodeError:
        raise LoginRefusedError("its SCRAM message is no UTF-8") from None
    if len(parts) < 4:
        raise LoginRefusedError("its SCRAM message is malformed")
    flag, authorization, name, nonce = parts[:4]
    if flag != "n":  # Kafka has no channel binding, and takes `y` for an error, too
        raise LoginRefusedError("it asks for channel binding")
    user = rules.unescaped(name[2:]) if name.startswith("n=") else None
    if not user or not nonce.startswith("r=") or not _is_nonce(nonce[2:]):
        raise LoginRefusedError("its SCRAM message is malformed")
    if authorization:
        other = rules.unescaped(authorization[2:]) if authorization.startswith("a=") else None
        if other != user:
            raise LoginRefusedError("it asks to act for another user", answer=_OTHER_USER)
    extensions = dict(part.partition("=")[::2] for part in parts[4:])
    is_by_token = extensions.get(TOKEN_AUTH, "").lower() == "true"
    return f"{flag},{authorization},", ",".join(parts[2:]), user, nonce[2:], is_by_token


def _is_nonce(text: str) -> bool:
    return bool(text) and text.isascii() and text.isprintable() and " " not in text


def _no_credential(mechanism: str, secret: bytes, user: str) -> ScramKeys:
    """Keys that no password has, each time the same: a client cannot tell them from a user's."""
    size = rules.digest_size(mechanism)
    made_up = rules.keyed("SCRAM-SHA-512", secret, f"{mechanism} {user}".encode())
    return ScramKeys(
        made_up[: rules.SALT_BYTES], rules.MIN_ITERATIONS, made_up[:size], made_up[:size]
    )
