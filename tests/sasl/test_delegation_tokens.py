"""Logins by delegation tokens, both sides of SCRAM; HMACs as Kafka computes them."""

from __future__ import annotations

import pytest

from kraftlog.errors import AuthenticationError
from kraftlog.sasl import accept, initiate
from kraftlog.sasl.accept import Accepted, LoginRefusedError
from kraftlog.sasl.delegation_tokens import (
    TokenCredential,
    hmac_of,
    is_expired,
    password_of,
    token_keys,
    user_of,
)
from kraftlog.sasl.scram import MIN_ITERATIONS, ScramKeys, keys_of, salted_password

SECRET, TOKEN = "a secret", "FS4sBRIgQEKmg4wZD0CMoQ"
#: By `Mac.getInstance("HmacSHA512")` of Java, in base 64.
PASSWORD = (
    "fbJbOVRHOcucZ1O7Z1g5zDlfcgcNekdVwoTCEOLqCOP8VNVtackAtWhTBuGVEpR6fNXINDPSUM+aG3BaUXcexA=="
)
MECHANISMS = ("SCRAM-SHA-256", "SCRAM-SHA-512")
EXPIRES_MS = 1234


def server(mechanism: str = MECHANISMS[0], *, users: tuple[str, ...] = ()) -> accept.Exchange:
    """A node with one token, and with users whose password is that of the token, too."""

    def token_of(token_id: str, salt: bytes) -> TokenCredential | None:
        if token_id != TOKEN:
            return None
        return TokenCredential("alice", token_keys(mechanism, SECRET, TOKEN, salt), EXPIRES_MS)

    def credential_of(user: str) -> ScramKeys | None:
        if user not in users:
            return None
        salted = salted_password(mechanism, PASSWORD, b"salt", MIN_ITERATIONS)
        return keys_of(mechanism, salted, b"salt", MIN_ITERATIONS)

    exchange = accept.scram(mechanism, credential_of, "nonce", b"made up", token_of)
    next(exchange)
    return exchange


def log_in(
    exchange: accept.Exchange,
    user: str = TOKEN,
    password: str = PASSWORD,
    mechanism: str = MECHANISMS[0],
    *,
    by_token: bool = True,
) -> Accepted:
    client = initiate.scram(mechanism, user, password, "abc", by_token=by_token)
    first = exchange.send(next(client))
    with pytest.raises(StopIteration) as ended:
        exchange.send(client.send(first))
    accepted = ended.value.value
    assert isinstance(accepted, Accepted)
    with pytest.raises(StopIteration):
        client.send(accepted.last)
    return accepted


def test_the_hmac_is_that_of_java() -> None:
    assert password_of(hmac_of(SECRET, TOKEN)) == PASSWORD


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_token_logs_in_as_its_owner(mechanism: str) -> None:
    accepted = log_in(server(mechanism), mechanism=mechanism)
    assert (accepted.user, accepted.expires_ms, accepted.is_by_token) == ("alice", EXPIRES_MS, True)


def test_a_user_of_the_same_name_is_not_the_token() -> None:
    accepted = log_in(server(users=(TOKEN,)), by_token=False)
    assert (accepted.user, accepted.expires_ms, accepted.is_by_token) == (TOKEN, None, False)


@pytest.mark.parametrize(
    ("user", "password", "by_token", "why"),
    [
        pytest.param(TOKEN, "wrong", True, "wrong password", id="password"),
        pytest.param("bob", PASSWORD, True, "unknown token", id="user-as-token"),
        pytest.param("nobody", PASSWORD, True, "unknown token", id="unknown"),
        pytest.param(TOKEN, PASSWORD, False, "unknown user", id="token-as-user"),
    ],
)
def test_others_are_refused(user: str, password: str, why: str, *, by_token: bool) -> None:
    with pytest.raises(LoginRefusedError) as refused:
        log_in(server(users=("bob",)), user, password, by_token=by_token)
    assert str(refused.value) == why
    assert refused.value.answer is None
    # The log names the owner, never what somebody may have typed.
    assert refused.value.user == ("alice" if user == TOKEN and by_token else "")


@pytest.mark.parametrize(
    ("extension", "is_by_token"),
    [
        (",tokenauth=true", True),
        (",tokenauth=True", True),
        (",a=b,tokenauth=true,c=d", True),
        ("", False),
        (",tokenauth=false", False),
        (",tokenauth", False),
        (",tokenauth=1", False),
        (",xtokenauth=true", False),
    ],
)
def test_only_the_extension_makes_a_name_a_token(extension: str, *, is_by_token: bool) -> None:
    known = server().send(f"n,,n={TOKEN},r=abc{extension}".encode())
    other = server().send(f"n,,n=other,r=abc{extension}".encode())
    assert known.partition(b",s=")[2] != other.partition(b",s=")[2]
    exchange = server()
    exchange.send(f"n,,n={TOKEN},r=abc{extension}".encode())
    with pytest.raises(LoginRefusedError) as refused:
        exchange.send(b"c=biws,r=abcnonce,p=" + b"A" * 43 + b"=")
    assert str(refused.value) == ("wrong password" if is_by_token else "unknown user")


def test_an_authorization_id_must_be_the_token() -> None:
    server().send(f"n,a={TOKEN},n={TOKEN},r=abc,tokenauth=true".encode())
    with pytest.raises(LoginRefusedError, match="another user"):
        server().send(f"n,a=alice,n={TOKEN},r=abc,tokenauth=true".encode())


def test_the_client_refuses_a_broker_without_the_hmac() -> None:
    exchange = initiate.scram("SCRAM-SHA-256", "id", "password", "nonce", by_token=True)
    assert next(exchange) == b"n,,n=id,r=nonce,tokenauth=true"
    exchange.send(b"r=nonce2,s=c2FsdA==,i=4096")
    with pytest.raises(AuthenticationError):
        exchange.send(b"v=AAAA")


def test_nothing_shows_a_secret() -> None:
    keys = token_keys("SCRAM-SHA-256", SECRET, TOKEN, b"salt")
    assert repr(TokenCredential("alice", keys, 1)) == "TokenCredential(alice)"


def test_a_token_is_good_in_the_millisecond_of_its_end() -> None:
    assert [is_expired(5, now_ms) for now_ms in (4, 5, 6)] == [False, False, True]


@pytest.mark.parametrize(
    ("principal", "user"), [("User:a:b", "a:b"), ("Group:a", None), ("a", None), ("User:", "")]
)
def test_only_users_own_tokens_that_log_in(principal: str, user: str | None) -> None:
    assert user_of(principal) == user
