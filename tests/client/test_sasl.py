"""SASL mechanisms: the examples of their specifications, and brokers that cheat."""

from __future__ import annotations

from base64 import b64decode, b64encode
from hashlib import pbkdf2_hmac

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kraftlog.errors import AuthenticationError
from kraftlog.sasl import initiate as sasl

#: RFC 7677, section 3.
NONCE = "rOprNGfwEbeRWgbNEkqO"
SERVER_FIRST = (
    b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
)
CLIENT_FINAL = (
    b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,"
    b"p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
)
SERVER_FINAL = b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="


def started(username: str = "user", password: str = "pencil") -> sasl.Exchange:
    exchange = sasl.scram("SCRAM-SHA-256", username, password, NONCE)
    next(exchange)
    return exchange


def test_scram_sha_256_is_the_exchange_of_rfc_7677() -> None:
    exchange = sasl.scram("SCRAM-SHA-256", "user", "pencil", NONCE)
    assert next(exchange) == b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
    assert exchange.send(SERVER_FIRST) == CLIENT_FINAL
    with pytest.raises(StopIteration):
        exchange.send(SERVER_FINAL)


def test_a_broker_that_does_not_know_the_password_is_refused() -> None:
    exchange = started()
    exchange.send(SERVER_FIRST)
    with pytest.raises(AuthenticationError, match="does not know the user's password"):
        exchange.send(SERVER_FINAL.replace(b"6", b"7"))


@pytest.mark.parametrize(
    ("message", "why"),
    [
        (b"", "malformed"),
        (b"r=x", "malformed"),
        (b"\xff", "malformed"),
        (SERVER_FIRST.replace(b"i=4096", b"i=many"), "malformed"),
        (SERVER_FIRST.replace(b"s=W22Z", b"s=!!"), "malformed"),
        (SERVER_FIRST.replace(b"r=rO", b"r=xO"), "not an answer"),
        (SERVER_FIRST.replace(b"%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0", b""), "not an answer"),
        (b"m=ext," + SERVER_FIRST, "not an answer"),
        (SERVER_FIRST.replace(b"4096", b"4095"), "asks for 4095 iterations"),
        (SERVER_FIRST.replace(b"4096", b"1000001"), "asks for 1000001 iterations"),
    ],
)
def test_wrong_first_messages_of_scram_are_refused(message: bytes, why: str) -> None:
    with pytest.raises(AuthenticationError, match=why):
        started().send(message)


@given(st.binary(max_size=60))
def test_garbage_never_raises_another_error(message: bytes) -> None:
    with pytest.raises(AuthenticationError):
        started().send(message)


def test_names_are_escaped() -> None:
    exchange = sasl.scram("SCRAM-SHA-512", "a=b,c", "p", "n0")
    assert next(exchange) == b"n,,n=a=3Db=2Cc,r=n0"


def test_scram_sha_512_proves_the_password() -> None:
    """The proof, as the server checks it from its stored key."""
    import hashlib
    import hmac

    exchange = sasl.scram("SCRAM-SHA-512", "u", "pässword", "n0")
    client_first = next(exchange)[3:]
    server_first = b"r=n0more,s=" + b64encode(b"salt") + b",i=4096"
    final = exchange.send(server_first)
    without_proof, _, proof = final.rpartition(b",p=")
    salted = pbkdf2_hmac("sha512", "pässword".encode(), b"salt", 4096)
    client_key = hmac.digest(salted, b"Client Key", "sha512")
    signed = b",".join((client_first, server_first, without_proof))
    signature = hmac.digest(hashlib.sha512(client_key).digest(), signed, "sha512")
    assert bytes(a ^ b for a, b in zip(b64decode(proof), signature, strict=True)) == client_key


def test_plain_has_no_authorisation_id() -> None:
    assert next(sasl.plain("ü", "p")) == b"\0\xc3\xbc\0p"


def test_oauthbearer_acknowledges_a_refusal_with_one_byte() -> None:
    exchange = sasl.oauthbearer(lambda: "t0ken", {"cluster": "c1"})
    assert next(exchange) == b"n,,\x01auth=Bearer t0ken\x01cluster=c1\x01\x01"
    assert exchange.send(b'{"status":"invalid_token"}') == b"\x01"
    accepted = sasl.oauthbearer(lambda: "t0ken", {})
    next(accepted)
    with pytest.raises(StopIteration):
        accepted.send(b"")
