"""Tokens of OAUTHBEARER: a JWT is signed by a key of a JWKS, and says whose it is and how long.

The rules are those of Kafka's `BrokerJwtValidator`. Only signatures of public keys are accepted:
whoever can read a JWKS must not be able to sign with what is in it, as with HMAC or `alg: none`.
No error quotes a token.
"""

from __future__ import annotations

from kraftlog.errors import ConfigError, KraftlogError
from kraftlog.value import TYPE_CHECKING, Value

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

#: Type of key by the first letters of an algorithm.
_KEY_TYPES = {"RS": "RSA", "PS": "RSA", "ES": "EC"}
_CURVES = {"P-256": ("SECP256R1", 32), "P-384": ("SECP384R1", 48), "P-521": ("SECP521R1", 66)}
_CURVE_OF = {"ES256": "P-256", "ES384": "P-384", "ES512": "P-521"}
ALGORITHMS = tuple([f"{kind}{bits}" for kind in _KEY_TYPES for bits in (256, 384, 512)])
#: Shorter keys of RSA are not safe, and longer ones keep the node busy before a login.
_RSA_BITS = range(2048, 8193)
#: A token is checked with no more keys than these.
_MAX_KEYS_TRIED = 4
MAX_JWKS_BYTES = 1 << 20
#: The latest time that a claim may say, in seconds: the year 9999.
_MAX_TIME_S = 253_402_300_799


class TokenError(KraftlogError):
    """A token is not accepted, and why."""


class UnknownKeyError(TokenError):
    """No key fits the token: the JWKS may be an old one."""


class Jwk(Value):
    """A public key of a JWKS; `algorithm` is empty if it may be used with any."""

    id: str | None
    #: RSA, or the name of a curve
    type: str
    algorithm: str
    #: Returns whether a signature is right: (algorithm, signature, signed bytes)
    verify: Callable[[str, bytes, bytes], bool]


class TokenRules(Value):
    """What a token must say; without an audience or an issuer, any will do."""

    audiences: frozenset[str]
    issuer: str | None
    skew_s: int
    scope_claim: str
    sub_claim: str


class Token(Value):
    """An accepted token."""

    user: str
    expires_ms: int


# Tokens -------------------------------------------------------------------------------------------


def check_token(text: str, keys: Sequence[Jwk], rules: TokenRules, now_ms: int) -> Token:
    """Whose token it is; raises TokenError."""
    parts = text.split(".")
    if len(parts) != 3:
        raise TokenError("it is no JWT of three parts")
    header = _json_object(_decoded(parts[0]), "header")
    if "crit" in header:
        raise TokenError("its header has critical extensions")
    algorithm = header.get("alg")
    if algorithm not in ALGORITHMS:
        raise TokenError("its algorithm is not one of public keys")
    _check_signature(header, algorithm, keys, parts)
    return _check_claims(_json_object(_decoded(parts[1]), "payload"), rules, now_ms)


def _check_signature(
    header: Mapping[str, Any], algorithm: str, keys: Sequence[Jwk], parts: Sequence[str]
) -> None:
    wanted = header.get("kid")
    kind = _CURVE_OF.get(algorithm, "RSA")
    fitting = [
        key
        for key in keys
        if key.type == kind
        and key.algorithm in {"", algorithm}
        and (wanted is None or key.id == wanted)
    ]
    if not fitting:
        raise UnknownKeyError("no key of the JWKS fits it")
    signature = _decoded(parts[2])
    signed = f"{parts[0]}.{parts[1]}".encode()
    tried = fitting[:_MAX_KEYS_TRIED]
    if not any(key.verify(algorithm, signature, signed) for key in tried):
        raise TokenError("its signature is wrong")


def _check_claims(claims: Mapping[str, Any], rules: TokenRules, now_ms: int) -> Token:
    now_s = now_ms // 1000
    expires_s, not_before_s = _time(claims, "exp"), _time(claims, "nbf")
    issued_s = _time(claims, "iat")
    if expires_s is None or issued_s is None:
        raise TokenError("it has no exp or no iat")
    if expires_s < max(issued_s, not_before_s or 0):
        raise TokenError("it ends before it begins")
    if now_s - rules.skew_s >= expires_s:
        raise TokenError("it has expired")
    if not_before_s is not None and now_s + rules.skew_s < not_before_s:
        raise TokenError("it is not valid yet")
    if rules.issuer is not None and claims.get("iss") != rules.issuer:
        raise TokenError("it is of another issuer")
    if rules.audiences and rules.audiences.isdisjoint(_texts(claims.get("aud"), "aud")):
        raise TokenError("it is for another audience")
    scopes = [scope.strip() for scope in _texts(claims.get(rules.scope_claim), rules.scope_claim)]
    if "" in scopes or len({*scopes}) < len(scopes):
        raise TokenError(f"its {rules.scope_claim} is malformed")
    user = claims.get(rules.sub_claim)
    if not isinstance(user, str) or not user.strip():
        raise TokenError(f"it has no {rules.sub_claim}")
    return Token(user.strip(), expires_s * 1000)


def _time(claims: Mapping[str, Any], name: str) -> int | None:
    value = claims.get(name)
    if value is None:
        return None
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not is_number or not 0 <= value <= _MAX_TIME_S:
        raise TokenError(f"its {name} is malformed")
    return int(value)


def _texts(value: object, name: str) -> list[str]:
    """A claim that has one text, or several."""
    if value is None:
        return []
    values = value if isinstance(value, list) else [value]
    texts = [text for text in values if isinstance(text, str)]
    if len(texts) < len(values):
        raise TokenError(f"its {name} is malformed")
    return texts


def _decoded(text: str) -> bytes:
    """Base64url without padding; Python itself would skip other characters."""
    from base64 import urlsafe_b64decode

    if not text.replace("-", "a").replace("_", "a").isalnum() or not text.isascii():
        raise TokenError("it is malformed")
    try:
        return urlsafe_b64decode(text + "=" * (-len(text) % 4))
    except ValueError:
        raise TokenError("it is malformed") from None


def _json_object(data: bytes, what: str) -> dict[str, Any]:
    import json

    try:
        value = json.loads(data.decode(), parse_constant=_no_constant)
    except (ValueError, RecursionError):
        raise TokenError(f"its {what} is no JSON") from None
    if not isinstance(value, dict):
        raise TokenError(f"its {what} is no object")
    return value


def _no_constant(name: str) -> None:
    raise ValueError(name)


# Keys ---------------------------------------------------------------------------------------------


def read_jwks(data: bytes) -> tuple[Jwk, ...]:
    """The keys of a JWKS (RFC 7517) with which tokens are signed; ConfigError if it is none.

    Keys of other types and uses are left out, as other programs may need them.
    """
    if len(data) > MAX_JWKS_BYTES:
        raise ConfigError(f"it has more than {MAX_JWKS_BYTES} bytes")
    try:
        listed = _json_object(data, "text").get("keys")
    except TokenError as error:
        raise ConfigError(f"it is no JWKS: {error}") from None
    if not isinstance(listed, list) or not all(isinstance(each, dict) for each in listed):
        raise ConfigError("it is no JWKS: it has no list of keys")
    keys = [key for each in listed if (key := _key(each)) is not None]
    if not keys:
        raise ConfigError("it has no public key of RSA or a curve of NIST that signs")
    return tuple(keys)


def _key(jwk: Mapping[str, Any]) -> Jwk | None:
    operations = jwk.get("key_ops")
    if jwk.get("use", "sig") != "sig" or (isinstance(operations, list) and not operations):
        return None
    if isinstance(operations, list) and "verify" not in operations:
        return None
    algorithm = jwk.get("alg", "")
    if algorithm and algorithm not in ALGORITHMS:
        return None
    name = jwk.get("kid")
    name = name if isinstance(name, str) else None
    try:
        if jwk.get("kty") == "RSA":
            return Jwk(name, "RSA", algorithm, _rsa(jwk))
        if jwk.get("kty") == "EC" and jwk.get("crv") in _CURVES:
            return Jwk(name, jwk["crv"], algorithm, _ec(jwk))
    except (TokenError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise ConfigError(f"a key of the JWKS is malformed: {type(error).__name__}") from None
    return None


def _number(text: str) -> int:
    return int.from_bytes(_decoded(text), "big")


def _rsa(jwk: Mapping[str, Any]) -> Callable[[str, bytes, bytes], bool]:
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import padding, rsa

    key = rsa.RSAPublicNumbers(_number(jwk["e"]), _number(jwk["n"])).public_key()
    if key.key_size not in _RSA_BITS:
        raise ConfigError(
            f"a key of RSA has {key.key_size} bits; expected {_RSA_BITS[0]} to {_RSA_BITS[-1]}"
        )

    def verify(algorithm: str, signature: bytes, signed: bytes) -> bool:
        digest = getattr(hashes, f"SHA{algorithm[2:]}")()
        pad: padding.AsymmetricPadding = padding.PKCS1v15()
        if algorithm.startswith("PS"):
            pad = padding.PSS(padding.MGF1(digest), digest.digest_size)
        try:
            key.verify(signature, signed, pad, digest)
        except InvalidSignature:
            return False
        return True

    return verify


def _ec(jwk: Mapping[str, Any]) -> Callable[[str, bytes, bytes], bool]:
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature

    curve, size = _CURVES[jwk["crv"]]
    numbers = ec.EllipticCurvePublicNumbers(
        _number(jwk["x"]), _number(jwk["y"]), getattr(ec, curve)()
    )
    key = numbers.public_key()  # it refuses points that are not on the curve

    def verify(algorithm: str, signature: bytes, signed: bytes) -> bool:
        if len(signature) != 2 * size:
            return False
        r, s = (int.from_bytes(half, "big") for half in (signature[:size], signature[size:]))
        digest = getattr(hashes, f"SHA{algorithm[2:]}")()
        try:
            key.verify(encode_dss_signature(r, s), signed, ec.ECDSA(digest))
        except InvalidSignature:
            return False
        return True

    return verify
