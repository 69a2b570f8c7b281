"""Inputs that fuzzing has found, and those from which it starts, are refused as they should be."""

from __future__ import annotations

import os

import pytest
from cryptography.hazmat.primitives.serialization import Encoding

from tests.sasl.any_input import NAMES, SEPARATOR, assert_refused
from tests.tokens import jwk, jwks, token

CORPUS = os.path.join(os.path.dirname(__file__), "corpus")
_FIRST = b"n,,n=alice,r=abc"
_FINAL = b"c=biws,r=abcfyko+d2lbbFgONRv9qkxdawL,p=v0X8v3Bz2T0CJGbJQyF0X+HI4Ts="


def _certificate() -> bytes:
    import trustme

    pem = trustme.CA(organization_name="a, b", organization_unit_name="é").cert_pem.bytes()
    from cryptography.x509 import load_pem_x509_certificate

    return load_pem_x509_certificate(pem).public_bytes(Encoding.DER)


#: Who reads it, and what is nearly right.
EXAMPLES = [
    ("plain", b"\0alice\0wrong"),
    ("SCRAM-SHA-256", SEPARATOR.join((_FIRST, _FINAL))),
    ("SCRAM-SHA-512", SEPARATOR.join((b"n,a=alice,n=alice,r=abc,x=y", _FINAL))),
    ("oauthbearer", f"n,a=alice,\x01auth=Bearer {token(index=1)}\x01k=v\x01\x01".encode()),
    ("jwt", token(index=1).encode()),
    ("jwks", jwks(jwk("RSA"), jwk("ES512"))),
    ("jaas", b'a.B required username="a\\"b" password=\'c\' x=1;'),
    ("certificate", _certificate()),
]


@pytest.mark.parametrize("number", range(len(EXAMPLES)), ids=[name for name, _ in EXAMPLES])
def test_what_is_nearly_right_is_refused(number: int) -> None:
    name, data = EXAMPLES[number]
    assert_refused(bytes([NAMES.index(name)]) + data)


@pytest.mark.parametrize("name", sorted(os.listdir(CORPUS)))
def test_inputs_of_the_fuzzer_are_refused(name: str) -> None:
    with open(os.path.join(CORPUS, name), "rb") as file:
        assert_refused(file.read())
