"""The server's side of SASL: the examples of the RFCs, clients that cheat, and any bytes at all."""

from __future__ import annotations

from base64 import b64decode, b64encode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kraftlog.sasl import accept, initiate
from kraftlog.sasl.accept import Accepted, LoginRefusedError
from kraftlog.sasl.scram import ScramKeys, keys_of, salted_password

#: RFC 7677, section 3.
SALT = b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
CLIENT_NONCE, NONCE = "rOprNGfwEbeRWgbNEkqO", "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
CLIENT_FIRST = f"n,,n=user,r={CLIENT_NONCE}".encode()
SERVER_FIRST = f"r={CLIENT_NONCE}{NONCE},s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096".encode()
CLIENT_FINAL = (
    f"c=biws,r={CLIENT_NONCE}{NONCE},p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
).encode()
SERVER_FINAL = b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="
MECHANISMS = ("SCRAM-SHA-256", "SCRAM-SHA-512")


def keys(mechanism: str, password: str, iterations: int = 4096) -> ScramKeys:
    salted = salted_password(mechanism, password, SALT, iterations)
    return keys_of(mechanism, salted, SALT, iterations)


USERS = {"user": keys("SCRAM-SHA-256", "pencil")}


def scram(mechanism: str = "SCRAM-SHA-256", user: str | None = None) -> accept.Exchange:
    users = USERS if user is None else {user: keys(mechanism, "p=,ß")}
    exchange = accept.scram(mechanism, users.get, NONCE, b"secret")
    next(exchange)
    return exchange


def plain() -> accept.Exchange:
    exchange = accept.plain({"alice": "wonder", "böb": "päss"})
    next(exchange)
    return exchange


def outcome(exchange: accept.Exchange, message: bytes) -> Accepted:
    with pytest.raises(StopIteration) as ended:
        exchange.send(message)
    accepted = ended.value.value
    assert isinstance(accepted, Accepted)
    return accepted


def test_scram_sha_256_is_the_exchange_of_rfc_7677() -> None:
    exchange = scram()
    assert exchange.send(CLIENT_FIRST) == SERVER_FIRST
    assert outcome(exchange, CLIENT_FINAL) == Accepted("user", SERVER_FINAL)


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("user", ["alice", "a=b,c", "=2C", "ßé"])
def test_both_sides_of_scram_agree(mechanism: str, user: str) -> None:
    server = scram(mechanism, user)
    client = initiate.scram(mechanism, user, "p=,ß", "abc")
    accepted = outcome(server, client.send(server.send(next(client))))
    assert accepted.user == user
    with pytest.raises(StopIteration):
        client.send(accepted.last)


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"\xff,,n=user,r=a",
        b"n,,n=user",
        b"y,,n=user,r=a",
        b"p=tls-unique,,n=user,r=a",
        b"n,,m=x,n=user,r=a",
        b"n,,n=,r=a",
        b"n,,n=us=er,r=a",
        b"n,,n=user,r=",
        b"n,,n=user,r=a b",
        b"n,,n=user,x=a",
        b"n,a=root,n=user,r=a",
        b"n,root,n=user,r=a",
    ],
)
def test_malformed_first_messages_of_scram_are_refused(message: bytes) -> None:
    with pytest.raises(LoginRefusedError):
        scram().send(message)


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"\xff",
        CLIENT_FINAL.replace(b"c=biws", b"c=eSws"),  # it says y,, now
        CLIENT_FINAL.replace(b"r=rO", b"r=xO"),
        CLIENT_FINAL.replace(NONCE.encode(), b""),
        CLIENT_FINAL.replace(b"p=dH", b"p=eH"),
        CLIENT_FINAL.replace(b"p=dH", b"p=!!"),
        CLIENT_FINAL.partition(b",p=")[0],
        CLIENT_FINAL.partition(b",p=")[0] + b",p=",
        CLIENT_FINAL.partition(b",p=")[0] + b",p=" + b64encode(bytes(64)),
    ],
)
def test_final_messages_without_the_proof_are_refused(message: bytes) -> None:
    exchange = scram()
    exchange.send(CLIENT_FIRST)
    with pytest.raises(LoginRefusedError) as refused:
        exchange.send(message)
    assert refused.value.answer is None


def test_an_authorization_id_may_only_be_the_user() -> None:
    server, other = scram(), scram()
    assert server.send(CLIENT_FIRST.replace(b"n,,", b"n,a=user,")) == SERVER_FIRST
    with pytest.raises(LoginRefusedError) as refused:
        other.send(CLIENT_FIRST.replace(b"n,,", b"n,a=root,"))
    assert "different from username" in (refused.value.answer or "")


def test_an_unknown_user_and_a_wrong_password_look_alike() -> None:
    """The same messages, with a salt that is each time the same."""
    first = CLIENT_FIRST.replace(b"user", b"nobody")
    answers = [scram().send(first) for _ in range(2)]
    assert answers[0] == answers[1] != scram().send(first.replace(b"nobody", b"noone"))
    assert answers[0].endswith(b",i=4096")
    refusals = []
    for name in (b"user", b"nobody"):
        exchange = scram()
        exchange.send(CLIENT_FIRST.replace(b"user", name))
        with pytest.raises(LoginRefusedError) as refused:
            exchange.send(CLIENT_FINAL.replace(b"p=dH", b"p=eH"))
        refusals.append(refused.value)
    assert [each.answer for each in refusals] == [None, None]
    assert [each.user for each in refusals] == ["user", ""]


@pytest.mark.parametrize("message", ["\0alice\0wonder", "alice\0alice\0wonder", "\0böb\0päss"])
def test_plain_accepts_the_right_password(message: str) -> None:
    user = message.split("\0")[1]
    assert outcome(plain(), message.encode()) == Accepted(user, b"")


TOKENS = "Invalid SASL/PLAIN response: expected 3 tokens, got "
WRONG = "Authentication failed: Invalid username or password"


@pytest.mark.parametrize(
    ("message", "answer"),
    [
        (b"", f"{TOKENS}1"),
        (b"\xff\0\0", None),
        (b"alice\0wonder", f"{TOKENS}2"),
        (b"\0alice\0wonder\0", f"{TOKENS}4"),
        (b"\0" * 9, f"{TOKENS}4"),
        (b"\0\0wonder", "Authentication failed: username not specified"),
        (b"\0alice\0", "Authentication failed: password not specified"),
        (b"\0alice\0Wonder", WRONG),
        (b"\0bob\0wonder", WRONG),
        (b"\0Alice\0wonder", WRONG),
        (
            b"root\0alice\0wonder",
            accept._OTHER_USER,
        ),
        # The password is compared first, so that this says nothing of it.
        (b"root\0alice\0wrong", WRONG),
    ],
)
def test_plain_refuses_everything_else(message: bytes, answer: str | None) -> None:
    with pytest.raises(LoginRefusedError) as refused:
        plain().send(message)
    assert refused.value.answer == answer
    assert "wonder" not in str(refused.value)


@given(st.lists(st.binary(max_size=200) | st.text(max_size=80).map(str.encode), max_size=4))
def test_any_bytes_are_refused_in_order(messages: list[bytes]) -> None:
    for exchange in (plain(), scram()):
        for message in messages:
            try:
                exchange.send(message)
            except LoginRefusedError:
                break


@given(st.integers(0, len(CLIENT_FINAL) - 3), st.integers(1, 255))
def test_no_changed_byte_of_a_final_message_is_accepted(position: int, change: int) -> None:
    exchange = scram()
    exchange.send(CLIENT_FIRST)
    changed = bytearray(CLIENT_FINAL)
    changed[position] ^= change
    with pytest.raises(LoginRefusedError):
        exchange.send(bytes(changed))
