"""Tokens of OAUTHBEARER for tests: keys made for each run, and what is signed with them."""

from __future__ import annotations

import datetime
import functools
import json
from base64 import urlsafe_b64encode
from typing import Any

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature

ISSUER, AUDIENCE, USER = "https://issuer.example", "kraftlog", "alice"
CURVES: dict[str, Any] = {"ES256": ec.SECP256R1, "ES384": ec.SECP384R1, "ES512": ec.SECP521R1}
NAMES = {"ES256": "P-256", "ES384": "P-384", "ES512": "P-521"}
ALGORITHMS = [f"{kind}{bits}" for kind in ("RS", "PS", "ES") for bits in (256, 384, 512)]


def encoded(data: bytes) -> str:
    return urlsafe_b64encode(data).rstrip(b"=").decode()


def number(value: int) -> str:
    return encoded(value.to_bytes((value.bit_length() + 7) // 8, "big"))


@functools.cache
def private_key(kind: str = "RSA", index: int = 0, bits: int = 2048) -> Any:
    """A key of RSA, or of the curve of an algorithm; others with another index."""
    if kind == "RSA":
        return rsa.generate_private_key(65537, bits)
    return ec.generate_private_key(CURVES[kind]())


def key_kind(algorithm: str) -> str:
    return algorithm if algorithm in CURVES else "RSA"


def jwk(kind: str = "RSA", name: str | None = None, index: int = 0, **more: Any) -> dict[str, Any]:
    """The public half of a key."""
    public = private_key(kind, index).public_key().public_numbers()
    named = {"kid": name or kind} | more
    if kind == "RSA":
        return {"kty": "RSA", "n": number(public.n), "e": number(public.e), **named}
    size = (CURVES[kind]().key_size + 7) // 8
    point = {side: encoded(getattr(public, side).to_bytes(size, "big")) for side in "xy"}
    return {"kty": "EC", "crv": NAMES[kind], **point, **named}


def jwks(*keys: dict[str, Any]) -> bytes:
    return json.dumps({"keys": [*keys]}).encode()


def now_s() -> int:
    return int(datetime.datetime.now(datetime.UTC).timestamp())


def claims(**changed: Any) -> dict[str, Any]:
    """What a good token says now; None takes a claim away."""
    now = now_s()
    good = {"iss": ISSUER, "aud": AUDIENCE, "sub": USER, "iat": now, "exp": now + 600}
    return {name: value for name, value in (good | changed).items() if value is not None}


def signature(algorithm: str, key: Any, signed: bytes) -> bytes:
    digest = getattr(hashes, f"SHA{algorithm[2:]}")()
    if algorithm in CURVES:
        r, s = decode_dss_signature(key.sign(signed, ec.ECDSA(digest)))
        size = (key.key_size + 7) // 8
        return bytes(r.to_bytes(size, "big") + s.to_bytes(size, "big"))
    pad: padding.AsymmetricPadding = padding.PKCS1v15()
    if algorithm.startswith("PS"):
        pad = padding.PSS(padding.MGF1(digest), digest.digest_size)
    return bytes(key.sign(signed, pad, digest))


def token(
    said: dict[str, Any] | None = None,
    algorithm: str = "RS256",
    header: dict[str, Any] | None = None,
    index: int = 0,
) -> str:
    """A signed token; `index` is the key's."""
    kind = key_kind(algorithm)
    head = {"alg": algorithm, "kid": kind} | (header or {})
    head = {name: value for name, value in head.items() if value is not None}
    parts = [head, claims() if said is None else said]
    signed = ".".join([encoded(json.dumps(part).encode()) for part in parts])
    return f"{signed}.{encoded(signature(algorithm, private_key(kind, index), signed.encode()))}"
