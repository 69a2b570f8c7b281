"""Key stores: what is read, and what is refused in one sentence that names the key."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization as form
from cryptography.hazmat.primitives.serialization import pkcs12

from kraftlog.config.tls import client_settings
from kraftlog.errors import ConfigError
from kraftlog.server.loop import read_clock
from kraftlog.tls.certificates import parse_certificate
from kraftlog.tls.contexts import client_context, server_context
from kraftlog.tls.stores import der_of, read_store
from tests.certificates import Certificates

if TYPE_CHECKING:
    from collections.abc import Mapping

PASSWORD = "secret-1"


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    certificates = Certificates(tmp_path_factory.mktemp("certificates"), "other")
    certificates.issue("expired", days=-1)
    folder = certificates.folder
    own = Path(certificates.file("127.0.0.1"))
    key, end, chain = own.read_text().partition("-----END EC PRIVATE KEY-----\n")
    other = Path(certificates.file("other")).read_text().partition(end)
    (folder / "mismatch.pem").write_text(other[0] + end + chain)
    (folder / "no-key.pem").write_text(chain)
    (folder / "no-certificate.pem").write_text(key + end)
    (folder / "text.pem").write_text("nothing of PEM")
    (folder / "store.jks").write_bytes(b"\xfe\xed\xfe\xed\0\0\0\2\0\0")
    private: Any = form.load_pem_private_key((key + end).encode(), None)
    encrypted = private.private_bytes(
        form.Encoding.PEM,
        form.PrivateFormat.PKCS8,
        form.BestAvailableEncryption(PASSWORD.encode()),
    )
    (folder / "encrypted.pem").write_text(encrypted.decode() + chain)
    own_certificate, *others = x509.load_pem_x509_certificates(chain.encode())
    (folder / "store.p12").write_bytes(
        pkcs12.serialize_key_and_certificates(
            b"own",
            private,
            own_certificate,
            others,
            form.BestAvailableEncryption(PASSWORD.encode()),
        )
    )
    return certificates


def own_store(certificates: Certificates, name: str, **more: str) -> Mapping[str, str]:
    texts = {"ssl.keystore.location": str(certificates.folder / name)}
    return texts | {key.replace("_", "."): value for key, value in more.items()}


def load(texts: Mapping[str, str], now_s: float | None = None) -> str:
    """The name in the certificate of a server with these settings."""
    _, certificate = server_context(client_settings(texts), now_s or read_clock().wall_ms / 1000)
    return certificate.subject.partition(",")[0]


@pytest.mark.parametrize(
    ("name", "more"),
    [
        ("127.0.0.1.pem", {}),
        ("127.0.0.1.pem", {"ssl_keystore_type": "PEM"}),
        ("encrypted.pem", {"ssl_key_password": PASSWORD}),
        ("store.p12", {"ssl_keystore_password": PASSWORD}),
        ("store.p12", {"ssl_keystore_password": PASSWORD, "ssl_keystore_type": "PKCS12"}),
        ("store.p12", {"ssl_keystore_password": PASSWORD, "ssl_keystore_type": "JKS"}),
    ],
)
def test_key_stores_are_read(certificates: Certificates, name: str, more: dict[str, str]) -> None:
    assert load(own_store(certificates, name, **more)) == "CN=127.0.0.1"


def test_the_key_may_stand_in_the_settings(certificates: Certificates) -> None:
    """In one line each, as in a file of properties."""
    text = Path(certificates.file("127.0.0.1")).read_text()
    key, end, chain = text.partition("-----END EC PRIVATE KEY-----\n")
    texts = {
        "ssl.keystore.key": (key + end).replace("\n", "\\n"),
        "ssl.keystore.certificate.chain": chain.replace("\n", "\\n"),
        "ssl.truststore.certificates": Path(certificates.file("ca")).read_text(),
        "ssl.client.auth": "required",
    }
    assert load(texts) == "CN=127.0.0.1"
    client_context(client_settings(texts))


@pytest.mark.parametrize(
    ("name", "more", "message"),
    [
        ("missing.pem", {}, "No such file or directory"),
        ("expired.pem", {}, "the certificate of CN=expired,.* expired on 20.* UTC"),
        ("mismatch.pem", {}, "the key is not that of the first certificate"),
        ("no-key.pem", {}, "it has no private key"),
        ("no-certificate.pem", {}, "it has no certificate"),
        ("text.pem", {}, "it has no certificate"),
        ("store.jks", {}, r"Java's key stores \(JKS\) can't be read: convert it"),
        ("encrypted.pem", {}, "ssl.key.password does not decrypt the key"),
        (
            "encrypted.pem",
            {"ssl_key_password": "secret-2"},
            "ssl.key.password does not decrypt the key",
        ),
        ("store.p12", {}, "it can't be read as PKCS#12, or ssl.keystore.password is wrong"),
        (
            "store.p12",
            {"ssl_keystore_password": "secret-2"},
            "it can't be read as PKCS#12, or ssl.keystore.password is wrong",
        ),
        (
            "store.p12",
            {"ssl_keystore_type": "PEM"},
            "it is a PKCS12 file, not ssl.keystore.type=PEM",
        ),
        (
            "127.0.0.1.pem",
            {"ssl_keystore_type": "PKCS12"},
            "it is no PKCS12 file, not ssl.keystore.type=PKCS12",
        ),
        (
            "127.0.0.1.pem",
            {"ssl_cipher_suites": "NONE-SUCH"},
            "OpenSSL has none of these suites",
        ),
    ],
)
def test_key_stores_that_cannot_be_used_are_refused(
    certificates: Certificates, name: str, more: dict[str, str], message: str
) -> None:
    with pytest.raises(
        ConfigError, match=rf"^ssl\.(keystore\.location|cipher).*: {message}"
    ) as error:
        load(own_store(certificates, name, **more))
    assert "secret" not in str(error.value)
    assert "PRIVATE KEY" not in str(error.value)


def test_a_certificate_of_the_future_is_refused(certificates: Certificates) -> None:
    with pytest.raises(ConfigError, match=r"is not valid before 20.* UTC"):
        load(own_store(certificates, "127.0.0.1.pem"), 1e9)


def test_a_listener_needs_a_certificate() -> None:
    with pytest.raises(ConfigError, match=r"^ssl\.keystore\.location is not set: a listener with"):
        load({})


def test_trust_stores_are_read(certificates: Certificates) -> None:
    authority = x509.load_pem_x509_certificate(Path(certificates.file("ca")).read_bytes())
    trusted = certificates.folder / "trust.p12"
    trusted.write_bytes(
        pkcs12.serialize_java_truststore(
            [pkcs12.PKCS12Certificate(authority, b"ca")],
            form.BestAvailableEncryption(PASSWORD.encode()),
        )
    )
    for location, password in ((str(trusted), PASSWORD), (certificates.file("ca"), "")):
        settings = client_settings(
            {"ssl.truststore.location": location, "ssl.truststore.password": password}
        )
        assert len(client_context(settings).get_ca_certs()) == 1


NAMES = (
    (x509.NameOID.COUNTRY_NAME, "DE"),
    (x509.NameOID.ORGANIZATION_NAME, 'A, "B" & C+D'),
    (x509.NameOID.EMAIL_ADDRESS, "a@b"),
    (x509.NameOID.COMMON_NAME, " Jürgen #1 "),
)


def test_names_are_those_of_java(tmp_path: Path) -> None:
    """As X500Principal.getName: the last part first, other types than those of RFC 2253 in hex."""
    expected = 'CN=\\ Jürgen \\#1\\ ,1.2.840.113549.1.9.1=#1603614062,O=A\\, \\"B\\" & C\\+D,C=DE'
    assert parse_certificate(certificate_of(NAMES)).subject == expected


def certificate_of(names: tuple[tuple[x509.ObjectIdentifier, str], ...]) -> bytes:
    import datetime

    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(oid, text) for oid, text in names])
    day = datetime.datetime(2049, 12, 31, tzinfo=datetime.UTC)
    made = (
        x509.CertificateBuilder(name, name, key.public_key(), 1)
        .not_valid_before(day)
        .not_valid_after(day + datetime.timedelta(days=2))
        .sign(key, hashes.SHA256())
    )
    return made.public_bytes(form.Encoding.DER)


def test_times_of_both_centuries_are_read() -> None:
    found = parse_certificate(certificate_of(NAMES))
    assert (found.not_before_s, found.not_after_s) == (2524521600, 2524694400)


def test_malformed_certificates_raise_value_errors(certificates: Certificates) -> None:
    settings = client_settings(own_store(certificates, "127.0.0.1.pem"))
    store = read_store(settings, "ssl.keystore")
    assert store is not None
    der = der_of(store.certificates[0])
    for size in range(0, len(der), 7):
        with pytest.raises(ValueError, match=r"malformed|unpack|digit|match"):
            parse_certificate(der[:size])


def test_no_module_of_tls_is_loaded_without_it() -> None:
    """A node without TLS starts as fast, and as small, as before."""
    program = (
        "import sys, kraftlog.server.start, kraftlog.cli.start\n"
        "print([name for name in sys.modules if name == 'ssl' or name.startswith('kraftlog.tls')])"
    )
    import sys

    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    assert done.stdout.strip() == b"[]"
