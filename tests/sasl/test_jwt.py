"""Tokens of OAUTHBEARER: who is let in, and everything that is not."""

from __future__ import annotations

import hashlib
import hmac
import json
from contextlib import suppress
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization as form
from hypothesis import given
from hypothesis import strategies as st

from kraftlog.errors import ConfigError
from kraftlog.sasl import accept, initiate
from kraftlog.sasl.accept import INVALID_TOKEN, Accepted, LoginRefusedError, RefusingToken
from kraftlog.sasl.jwt import Token, TokenError, TokenRules, UnknownKeyError, check_token, read_jwks
from tests import tokens
from tests.tokens import (
    ALGORITHMS,
    AUDIENCE,
    ISSUER,
    USER,
    claims,
    encoded,
    jwk,
    jwks,
    now_s,
    token,
)

RULES = TokenRules(frozenset({AUDIENCE}), ISSUER, 30, "scope", "sub")
KEYS = read_jwks(jwks(*[jwk(kind) for kind in ("RSA", "ES256", "ES384", "ES512")]))
NOW = now_s()


def check(text: str, rules: TokenRules = RULES, keys: Any = KEYS) -> Token:
    return check_token(text, keys, rules, NOW * 1000)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_each_algorithm_of_public_keys_is_accepted(algorithm: str) -> None:
    text = token(algorithm=algorithm)
    assert check(text).user == USER
    other = token(algorithm=algorithm, index=1)
    for wrong in (other, text[:-8] + "AAAAAAAA", text.replace(".", ".e", 1)):
        with pytest.raises(TokenError):
            check(wrong)


@pytest.mark.parametrize(
    "said",
    [
        claims(aud=[AUDIENCE, "other"]),
        claims(exp=NOW - 10, iat=NOW - 600),
        claims(nbf=NOW + 10),
        claims(exp=NOW + 600.5),
        claims(iat=NOW + 600, exp=NOW + 900),
        claims(scope="one two"),
        claims(scope=["one", "two"]),
        claims(sub=" alice "),
    ],
)
def test_what_kafka_accepts_is_accepted(said: dict[str, Any]) -> None:
    assert check(token(said)).user == USER


@pytest.mark.parametrize(
    ("said", "why"),
    [
        (claims(exp=NOW - 40, iat=NOW - 600), "has expired"),
        (claims(exp=NOW - 10), "ends before it begins"),
        (claims(exp=NOW + 5, nbf=NOW + 20), "ends before it begins"),
        (claims(exp=None), "no exp"),
        (claims(iat=None), "no exp or no iat"),
        (claims(exp=True), "exp is malformed"),
        (claims(exp="9999999999"), "exp is malformed"),
        (claims(exp=1e300), "exp is malformed"),
        (claims(exp=-1), "exp is malformed"),
        (claims(nbf=NOW + 60), "not valid yet"),
        (claims(iss="https://other.example"), "another issuer"),
        (claims(iss=None), "another issuer"),
        (claims(iss=[ISSUER]), "another issuer"),
        (claims(aud="other"), "another audience"),
        (claims(aud=None), "another audience"),
        (claims(aud={AUDIENCE: 1}), "aud is malformed"),
        (claims(sub=None), "has no sub"),
        (claims(sub=""), "has no sub"),
        (claims(sub="  "), "has no sub"),
        (claims(sub=["alice"]), "has no sub"),
        (claims(scope=["one", "one"]), "scope is malformed"),
        (claims(scope=[""]), "scope is malformed"),
        (claims(scope=[1]), "scope is malformed"),
    ],
)
def test_claims_that_kafka_refuses_are_refused(said: dict[str, Any], why: str) -> None:
    with pytest.raises(TokenError, match=why):
        check(token(said))


def hmac_with_the_public_key() -> str:
    """The attack of those who find a public key taken for a secret one."""
    public = tokens.private_key().public_key()
    secret = public.public_bytes(form.Encoding.PEM, form.PublicFormat.SubjectPublicKeyInfo)
    head = encoded(json.dumps({"alg": "HS256", "kid": "RSA"}).encode())
    signed = f"{head}.{encoded(json.dumps(claims()).encode())}"
    return f"{signed}.{encoded(hmac.digest(secret, signed.encode(), hashlib.sha256))}"


def unsecured(alg: str, signature: str) -> str:
    parts: list[dict[str, Any]] = [{"alg": alg, "kid": "RSA"}, claims()]
    return ".".join([*[encoded(json.dumps(part).encode()) for part in parts], signature])


#: Named by their numbers, as keys differ from run to run.
NOT_SIGNED = [
    (hmac_with_the_public_key(), "not one of public keys"),
    (unsecured("none", ""), "not one of public keys"),
    (unsecured("None", "AA"), "not one of public keys"),
    (unsecured("RS256", ""), "malformed"),
    (token(header={"crit": ["exp"], "exp": 1}), "critical"),
    (token(header={"alg": ["RS256"]}), "not one of public keys|unhashable"),
    ("", "three parts"),
    ("a.b", "three parts"),
    ("a.b.c.d", "three parts"),
    ("!.b.c", "malformed"),
    (f"{encoded(b'[]')}.a.b", "header is no object"),
    (f"{encoded(b'[' * 40_000)}.a.b", "header is no JSON"),
    (f"{encoded(b'9' * 40_000)}.a.b", "header is no JSON"),
    (f"{encoded(b'NaN')}.a.b", "header is no JSON"),
    (f"{encoded(bytes([255]))}.a.b", "header is no JSON"),
]


@pytest.mark.parametrize(
    ("text", "why"),
    NOT_SIGNED,
    ids=range(len(NOT_SIGNED)),
)
def test_tokens_without_a_signature_of_a_key_are_refused(text: str, why: str) -> None:
    with pytest.raises(TokenError, match=why) as refused:
        check(text)
    assert not text or text not in str(refused.value)


def test_an_algorithm_needs_a_key_of_its_own_type() -> None:
    """A key may also be for one algorithm alone, and an EC key is of one curve."""
    for header in ({"kid": "ES256"}, {"kid": "unknown"}):
        with pytest.raises(UnknownKeyError):
            check(token(header=header))
    only = read_jwks(jwks(jwk("RSA", alg="PS256")))
    assert check(token(algorithm="PS256"), keys=only).user == USER
    with pytest.raises(UnknownKeyError):
        check(token(), keys=only)
    with pytest.raises(UnknownKeyError):
        check(token(), keys=())


def test_two_keys_of_one_id_are_both_tried() -> None:
    both = read_jwks(jwks(jwk(index=1), jwk(index=0)))
    for text in (token(index=0), token(index=1), token(header={"kid": None})):
        assert check(text, keys=both).user == USER
    with pytest.raises(TokenError):
        check(token(index=2), keys=both)


def test_rules_may_leave_audience_and_issuer_open() -> None:
    rules = TokenRules(frozenset(), None, 0, "scp", "upn")
    assert check(token(claims(aud=None, iss=None, upn="bob", scope=[1])), rules).user == "bob"
    with pytest.raises(TokenError, match="expired"):
        check(token(claims(upn="bob", exp=NOW, iat=0)), rules)


#: Named by their numbers, as keys differ from run to run.
NO_JWKS = [
    (b"", "no JWKS"),
    (b"[]", "no JWKS"),
    (b'{"keys": {}}', "no list"),
    (b'{"keys": ["a"]}', "no list"),
    (b'{"keys": []}', "no public key"),
    (jwks(jwk(use="enc")), "no public key"),
    (jwks(jwk(key_ops=["sign"])), "no public key"),
    (jwks(jwk(alg="HS256")), "no public key"),
    (jwks({"kty": "oct", "k": "c2VjcmV0"}), "no public key"),
    (jwks(jwk() | {"n": 5}), "malformed"),
    (jwks(jwk() | {"n": "AQAB"}), "malformed|bits"),
    (jwks(jwk("ES256") | {"x": encoded(bytes(32))}), "malformed"),
    (b"x" * ((1 << 20) + 1), "more than"),
]


@pytest.mark.parametrize(
    ("data", "why"),
    NO_JWKS,
    ids=range(len(NO_JWKS)),
)
def test_jwks_that_cannot_be_used_are_refused(data: bytes, why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        read_jwks(data)


def test_short_keys_of_rsa_are_refused() -> None:
    public = tokens.private_key(bits=1024).public_key().public_numbers()
    short = {"kty": "RSA", "n": tokens.number(public.n), "e": tokens.number(public.e)}
    with pytest.raises(ConfigError, match="1024 bits"):
        read_jwks(jwks(short))


# The exchange -------------------------------------------------------------------------------------


def exchange() -> accept.Exchange:
    started = accept.oauthbearer(check)
    next(started)
    return started


def test_both_sides_agree_on_a_good_token() -> None:
    text, server = token(), exchange()
    first = next(initiate.oauthbearer(lambda: text, {"traceId": "1 2"}))
    with pytest.raises(StopIteration) as ended:
        server.send(first)
    assert ended.value.value == Accepted(USER, b"", check(text).expires_ms)


@pytest.mark.parametrize("last", [b"\x01", b"", b"n,,\x01auth=Bearer x\x01\x01"])
def test_a_refused_token_has_the_exchange_of_rfc_7628(last: bytes) -> None:
    """Whatever comes then, the connection ends: no second token is tried."""
    server = exchange()
    answer = server.send(f"n,,\x01auth=Bearer {token(index=1)}\x01\x01".encode())
    assert isinstance(answer, RefusingToken)
    assert (answer, answer.why) == (INVALID_TOKEN.encode(), "invalid token: its signature is wrong")
    with pytest.raises(LoginRefusedError) as refused:
        server.send(last)
    assert refused.value.answer == INVALID_TOKEN


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"\xff",
        b"\x01",
        b"y,,\x01auth=Bearer a.b.c\x01\x01",
        b"p=x,,\x01auth=Bearer a.b.c\x01\x01",
        b"n,,\x01auth=Bearer a.b.c\x01",
        b"n,,\x01auth=Basic a.b.c\x01\x01",
        b"n,,\x01auth=Bearer a b\x01\x01",
        b"n,,\x01host=x\x01\x01",
        b"n,,\x01auth=Bearer a.b.c\x01auth=Bearer a.b.c\x01\x01",
        b"n,,\x01auth=Bearer a.b.c\x01k\xc3\xa9y=1\x01\x01",
        b"n,a=,\x01auth=Bearer a.b.c\x01\x01",
    ],
)
def test_malformed_first_messages_are_refused(message: bytes) -> None:
    with pytest.raises(LoginRefusedError) as refused:
        exchange().send(message)
    assert refused.value.answer is None


def test_an_authorization_id_may_only_be_the_tokens_user() -> None:
    own = f"n,a={USER},\x01auth=bearer  {token()}\x01host=x\x01port=1\x01\x01".encode()
    with pytest.raises(StopIteration):
        exchange().send(own)
    with pytest.raises(LoginRefusedError, match="another user"):
        exchange().send(own.replace(b"a=alice", b"a=root"))


@given(message=st.binary(max_size=300), prefix=st.sampled_from([b"", b"n,,\x01auth=Bearer "]))
def test_any_bytes_at_all_are_refused(message: bytes, prefix: bytes) -> None:
    for text in (prefix + message, prefix + message + b"\x01\x01"):
        with suppress(LoginRefusedError):
            assert isinstance(exchange().send(text), RefusingToken)


@given(data=st.data())
def test_no_changed_token_is_accepted(data: st.DataObject) -> None:
    text = CHANGED
    position = data.draw(st.integers(0, len(text) - 1))
    changed = text[:position] + data.draw(st.characters(codec="ascii")) + text[position + 1 :]
    try:
        accepted = check(changed)
    except TokenError:
        return
    # The unused last bits of base64url may differ.
    assert accepted == check(text)
    assert changed[:-1] == text[:-1]


@given(header=st.binary(max_size=60), payload=st.binary(max_size=60), signature=st.binary())
def test_any_parts_at_all_are_refused(header: bytes, payload: bytes, signature: bytes) -> None:
    with pytest.raises(TokenError):
        check(".".join([encoded(part) for part in (header, payload, signature)]))


CHANGED = token(claims(exp=NOW + 86_400))
